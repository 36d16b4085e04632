"""What every bonus must hold, whichever it is: add a builder to ``BUILDERS`` and it is tested."""

import dataclasses
import random

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

from optimist.bonuses import (
    ACB,
    E3B,
    ICM,
    RND,
    Discrete,
    DiscreteActions,
    Elliptical,
    EpisodicCount,
    EpisodicCountConfig,
    HashCount,
    HashCountConfig,
    ICMConfig,
    InverseDynamics,
    InverseDynamicsConfig,
    NoveltyGain,
    Product,
    RNDConfig,
    Sum,
    Transitions,
    features,
)

ACTIONS = DiscreteActions(3)
SHAPES = {
    "vector": (5,),
    "image": (4, 36, 36),
    "discrete": Discrete(12),
    "dict": {"image": (4, 36, 36), "speed": (2,), "room": Discrete(4)},
}
T, N = 5, 3


class Policy(nn.Module):
    """Logits of a small policy over everything observed, images through a convolution, drawn from a seed."""

    def __init__(self, shape, seed):
        super().__init__()
        self.parts = shape if isinstance(shape, dict) else {"whole": shape}
        widths = [torch.Size(part).numel() if isinstance(part, tuple) else part.n for part in self.parts.values()]
        with torch.random.fork_rng(devices=[]):  # the constructors draw from the global generator
            self.convolution = nn.Conv2d(4, 2, 8, stride=4)
            self.hidden = nn.Linear(sum(128 if width > 1000 else width for width in widths), 12)
            self.actor = nn.Linear(12, 3)
        generator = torch.Generator().manual_seed(seed)
        for parameter in self.parameters():
            nn.init.normal_(parameter, std=0.1, generator=generator)

    def forward(self, observations):
        given = observations if isinstance(observations, dict) else {"whole": observations}
        rows = [self.read(part, given[name]).flatten(1) for name, part in self.parts.items()]
        return self.actor(torch.tanh(self.hidden(torch.cat(rows, dim=1))))

    def read(self, part, x):
        if isinstance(part, Discrete):
            return nn.functional.one_hot(x, part.n).float()
        return torch.relu(self.convolution(x.float() / 255)) if len(part) == 3 else x


def example_of(shape):
    """One observation of zeros with the chosen keys alone."""
    zeros = {
        name: torch.zeros(1, dtype=torch.int64) if isinstance(part, Discrete) else torch.zeros(1, *part)
        for name, part in (shape if isinstance(shape, dict) else {"whole": shape}).items()
    }
    return zeros if isinstance(shape, dict) else zeros["whole"]


def acb(**settings):
    """ACB on one and the same policy whatever the seed, so that the seed is seen to matter by itself."""
    return lambda shape, seed: ACB(Policy(shape, 0), example_of(shape), seed=seed, ensemble_size=8, **settings)


def elliptical(shape, seed):
    return Elliptical(features.make("penultimate", Policy(shape, seed), example_of(shape), seed=seed), shape)


def e3b(shape, seed):
    config = InverseDynamicsConfig(n_features=6, epochs=2, minibatches=2)
    return E3B(InverseDynamics(shape, ACTIONS, seed=seed, config=config))


def rnd(shape, seed):
    return RND(shape, seed=seed, config=RNDConfig(n_features=8, epochs=2, minibatches=2))


BUILDERS = {
    "acb": acb(),
    "acb exact": acb(solver="exact", sketch_size=4),
    "acb last-layer": acb(features="last-layer"),
    "acb gradient": acb(features="gradient", solver="proximal", minibatch_size=4),
    "acb rmsprop": acb(features="gradient", solver="rmsprop", pull=0.1, minibatch_size=4),
    "rnd": rnd,
    "icm": lambda shape, seed: ICM(shape, ACTIONS, seed=seed, config=ICMConfig(n_features=8, epochs=2, minibatches=2)),
    "elliptical": elliptical,
    "e3b": e3b,
    "count": lambda shape, seed: HashCount(shape, seed=seed, config=HashCountConfig(code="simhash", bits=6)),
    "episodic count": lambda shape, seed: EpisodicCount(
        shape, seed=seed, config=EpisodicCountConfig(code="simhash", bits=3)
    ),
    "product": lambda shape, seed: Product(rnd(shape, seed), HashCount(shape, seed=seed)),
    "novelty gain": lambda shape, seed: NoveltyGain(rnd(shape, seed)),
    "noveld": lambda shape, seed: Product(
        NoveltyGain(acb()(shape, seed)), EpisodicCount(shape, seed=seed, config=EpisodicCountConfig(form="first-visit"))
    ),
    "sum": lambda shape, seed: Sum(e3b(shape, seed), HashCount(shape, seed=seed), weights=(1.0, 2.0)),
}
every_bonus = pytest.mark.parametrize("build", BUILDERS.values(), ids=BUILDERS.keys())
every_shape = pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES.keys())


def observed(parts, steps, environments, seed, dtype=torch.uint8):
    generator = torch.Generator().manual_seed(seed)
    made = {}
    for name, part in parts.items():
        if isinstance(part, Discrete):
            made[name] = torch.randint(0, part.n, (steps, environments), generator=generator)
        elif len(part) == 3:
            image = torch.randint(0, 256, (steps, environments, *part), generator=generator)
            made[name] = image.to(dtype)
        else:
            made[name] = torch.randn(steps, environments, *part, generator=generator)
    return made


def rollout(shape, seed, steps=T, environments=N, dtype=torch.uint8):
    """T steps of N environments in which some episodes end; a Dict has a key besides the chosen ones."""
    parts = shape if isinstance(shape, dict) else {"whole": shape}
    before, after = (observed(parts, steps, environments, 2 * seed + k, dtype) for k in (0, 1))
    if isinstance(shape, dict):
        before["clock"] = after["clock"] = torch.zeros(steps, environments)
    else:
        before, after = before["whole"], after["whole"]
    generator = torch.Generator().manual_seed(seed)
    actions = torch.randint(0, 3, (steps, environments), generator=generator)
    terminated, truncated = torch.rand(2, steps, environments, generator=generator) < 0.2
    return Transitions(before, actions, after, terminated, truncated)


def same(a, b):
    if isinstance(a, dict):
        return isinstance(b, dict) and a.keys() == b.keys() and all(same(a[k], b[k]) for k in a)
    return torch.equal(a, b) if isinstance(a, torch.Tensor) else type(a) is type(b) and a == b


def plain(state):
    """Whether a state can be stored without pickle: tensors, numbers, strings and dicts of these with string keys."""
    if isinstance(state, dict):
        return all(isinstance(key, str) and key and plain(value) for key, value in state.items())
    return isinstance(state, torch.Tensor | int | float | str)


def changed(transitions, **changes):
    return dataclasses.replace(transitions, **changes)


def each(observations, function):
    if isinstance(observations, dict):
        return {name: function(value) for name, value in observations.items()}
    return function(observations)


@every_bonus
@every_shape
def test_compute_gives_one_answer_and_moves_nothing(build, shape):
    bonus = build(shape, 0)
    bonus.update(rollout(shape, 0))
    transitions = rollout(shape, 1)
    kept = each(transitions.next_observations, torch.clone)
    before = bonus.state_dict()
    first = bonus.compute(transitions)
    assert torch.equal(first, bonus.compute(transitions))
    assert same(before, bonus.state_dict())
    assert same(kept, transitions.next_observations)
    assert first.shape == (T, N)
    assert first.dtype == torch.float32
    assert bool((torch.isfinite(first) & (first >= 0)).all())
    assert not first.requires_grad


@every_bonus
@every_shape
def test_the_global_random_state_is_neither_read_nor_moved(build, shape):
    def run():
        bonus = build(shape, 0)
        metrics = bonus.update(rollout(shape, 0))
        return bonus.compute(rollout(shape, 1)), metrics

    torch.manual_seed(0)
    states = torch.get_rng_state(), np.random.get_state()[1].copy(), random.getstate()  # noqa: NPY002, the global one is meant
    first = run()
    assert torch.equal(states[0], torch.get_rng_state())
    assert (states[1] == np.random.get_state()[1]).all()  # noqa: NPY002, the global one is meant
    assert states[2] == random.getstate()
    torch.manual_seed(1)
    second = run()
    assert torch.equal(first[0], second[0])
    assert first[1] == second[1]


@every_bonus
@every_shape
def test_a_saved_state_continues_bit_exactly(build, shape):
    bonus, other = build(shape, 0), build(shape, 1)
    bonus.update(rollout(shape, 0))
    other.update(rollout(shape, 5))
    state = bonus.state_dict()
    assert plain(state)
    metrics = bonus.update(rollout(shape, 1))
    other.load_state_dict(state)
    assert other.update(rollout(shape, 1)) == metrics
    assert same(bonus.state_dict(), other.state_dict())
    assert torch.equal(bonus.compute(rollout(shape, 2)), other.compute(rollout(shape, 2)))


class FailingOperation(TorchDispatchMode):
    """Counts the products and sums that are made inside, and raises at one of them, as a machine out of memory would.

    Once it has raised it lets everything through: what undoes the failed update is not to fail as well.
    """

    COUNTED = ("mm", "addmm", "addmm_", "bmm", "convolution", "mul", "sub", "sum", "unique2", "_unique2")

    def __init__(self, fails_at=None):
        super().__init__()
        self.fails_at, self.made = fails_at, 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        if func._schema.name.removeprefix("aten::") in self.COUNTED:
            self.made += 1
            if self.made == self.fails_at:
                raise MemoryError("no memory for this")
        return func(*args, **(kwargs or {}))


@every_bonus
@every_shape
def test_an_update_that_fails_halfway_changes_nothing(build, shape):
    reference = build(shape, 0)
    reference.update(rollout(shape, 0))
    with FailingOperation() as counter:
        metrics = reference.update(rollout(shape, 1))
    assert counter.made > 0
    bonus = build(shape, 0)
    bonus.update(rollout(shape, 0))
    before = bonus.state_dict()
    for fails_at in sorted({1 + k * (counter.made - 1) // 6 for k in range(7)}):
        with pytest.raises(MemoryError), FailingOperation(fails_at):
            bonus.update(rollout(shape, 1))
        assert same(before, bonus.state_dict()), f"operation {fails_at} of {counter.made}"
    assert bonus.update(rollout(shape, 1)) == metrics
    assert same(reference.state_dict(), bonus.state_dict())


@every_bonus
def test_a_first_update_that_fails_halfway_changes_nothing(build):
    shape = SHAPES["vector"]
    other, made = build(shape, 0), build(shape, 0)
    with FailingOperation() as counter:
        other.update(rollout(shape, 0))
    before = made.state_dict()
    with pytest.raises(MemoryError), FailingOperation(counter.made // 2):
        made.update(rollout(shape, 0))
    assert same(before, made.state_dict())


@every_bonus
def test_a_state_from_before_the_first_update_continues_bit_exactly(build):
    shape = SHAPES["vector"]
    bonus, other = build(shape, 0), build(shape, 1)
    other.update(rollout(shape, 5))
    other.load_state_dict(bonus.state_dict())
    for seed in range(2):
        assert bonus.update(rollout(shape, seed)) == other.update(rollout(shape, seed))
    assert same(bonus.state_dict(), other.state_dict())


@every_bonus
def test_a_saved_state_does_not_change_with_the_bonus(build):
    shape = SHAPES["vector"]
    bonus = build(shape, 0)
    bonus.update(rollout(shape, 0))
    state = bonus.state_dict()
    expected = bonus.compute(rollout(shape, 9))
    for seed in range(1, 4):
        bonus.update(rollout(shape, seed))
    bonus.load_state_dict(state)
    assert torch.equal(bonus.compute(rollout(shape, 9)), expected)


@every_bonus
def test_a_foreign_state_is_refused_and_changes_nothing(build):
    shape = SHAPES["vector"]
    bonus = build(shape, 0)
    bonus.update(rollout(shape, 0))
    before = bonus.state_dict()
    truncated = dict(list(before.items())[1:])
    wider = build((6,), 0)
    wider.update(rollout((6,), 0))
    for foreign in ({}, truncated, wider.state_dict()):
        with pytest.raises(ValueError, match=r"must (have the entries|be)"):
            bonus.load_state_dict(foreign)
        assert same(before, bonus.state_dict())


@every_bonus
@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_observations_that_are_not_finite_raise_and_change_nothing(build, bad):
    shape = SHAPES["vector"]
    bonus = build(shape, 0)
    bonus.update(rollout(shape, 0))
    before = bonus.state_dict()
    values = torch.zeros(T, N, 5)
    values[-1, -1, -1] = bad
    with pytest.raises(ValueError, match="next_observations must be finite"):
        bonus.update(changed(rollout(shape, 1), next_observations=values))
    assert same(before, bonus.state_dict())


@every_bonus
@every_shape
def test_wrong_shapes_say_what_was_expected_and_change_nothing(build, shape):
    bonus = build(shape, 0)
    bonus.update(rollout(shape, 0))
    before = bonus.state_dict()
    good = rollout(shape, 1)
    wrong = changed(
        good,
        observations=each(good.observations, lambda x: x.unsqueeze(2)),
        next_observations=each(good.next_observations, lambda x: x.unsqueeze(2)),
    )
    for call in (bonus.compute, bonus.update):
        with pytest.raises(ValueError, match=r"must have shape \(T, N.*\), got \(T, N, 1.*\)"):
            call(wrong)
    assert same(before, bonus.state_dict())


@every_bonus
def test_a_bad_value_late_in_a_rollout_is_refused_and_changes_nothing(build):
    shape = SHAPES["discrete"]
    bonus = build(shape, 0)
    bonus.update(rollout(shape, 0))
    before = bonus.state_dict()
    bad = rollout(shape, 1).next_observations.clone()
    bad[1:] = shape.n  # all but the first step, so that a bonus which learns from a sample of the states meets it
    for call in (bonus.compute, bonus.update):
        with pytest.raises(ValueError, match=r"observations must lie in 0 .. 11|could not read observations"):
            call(changed(rollout(shape, 1), next_observations=bad))
    assert same(before, bonus.state_dict())


@every_bonus
def test_a_dict_without_a_chosen_key_is_refused(build):
    shape = SHAPES["dict"]
    bonus = build(shape, 0)
    good = rollout(shape, 1)
    without = each(good.next_observations, torch.clone)
    del without["speed"]
    with pytest.raises(ValueError, match="a mapping with the keys"):
        bonus.compute(changed(good, observations=without, next_observations=without))


@every_bonus
def test_only_the_chosen_keys_are_read(build):
    shape = SHAPES["dict"]
    bonus = build(shape, 0)
    good = rollout(shape, 1)
    other = {**good.next_observations, "clock": torch.ones(T, N)}
    assert torch.equal(bonus.compute(good), bonus.compute(changed(good, next_observations=other)))


@every_bonus
def test_another_seed_gives_another_bonus(build):
    shape = SHAPES["vector"]
    transitions = rollout(shape, 1)
    bonuses = []
    for seed in (0, 0, 1):
        bonus = build(shape, seed)
        bonus.update(rollout(shape, 0, steps=40))
        bonuses.append(bonus.compute(transitions))
    assert torch.equal(bonuses[0], bonuses[1])
    assert not torch.equal(bonuses[0], bonuses[2])


@every_bonus
@every_shape
def test_a_step_is_paid_for_its_own_successor_and_no_later_observation(build, shape):
    # The last step of an episode must be scored at its true final observation: what the next row of ``observations``
    # holds (after autoreset: the next episode's first) must not matter to it, nor anything else of later steps.
    bonus = build(shape, 0)
    bonus.update(rollout(shape, 0))
    good, other = rollout(shape, 1), rollout(shape, 2)
    step = 2
    never = torch.zeros(T, N, dtype=torch.bool)
    good = changed(good, terminated=never.index_fill(0, torch.tensor(step), True), truncated=never)

    def replaced(field):
        pairs = getattr(good, field), getattr(other, field)
        if not isinstance(pairs[0], dict):
            return torch.cat([pairs[0][: step + 1], pairs[1][step + 1 :]])
        return {name: torch.cat([x[: step + 1], pairs[1][name][step + 1 :]]) for name, x in pairs[0].items()}

    later = changed(
        good,
        observations=replaced("observations"),
        next_observations=replaced("next_observations"),
        actions=replaced("actions"),
    )
    torch.testing.assert_close(bonus.compute(later)[: step + 1], bonus.compute(good)[: step + 1], rtol=1e-5, atol=1e-7)

    def final(x, y):
        return torch.cat([x[:step], y[step : step + 1], x[step + 1 :]])

    successors, others = good.next_observations, other.next_observations
    if isinstance(successors, dict):
        moved = {name: final(x, others[name]) for name, x in successors.items()}
    else:
        moved = final(successors, others)
    assert not torch.equal(bonus.compute(changed(good, next_observations=moved))[step], bonus.compute(good)[step])


@every_bonus
@pytest.mark.parametrize("shape", [SHAPES["image"], SHAPES["dict"]], ids=["image", "dict"])
def test_bytes_and_floats_of_one_image_have_one_bonus(build, shape):
    bonus = build(shape, 0)
    bonus.update(rollout(shape, 0))
    as_bytes, as_floats = rollout(shape, 1), rollout(shape, 1, dtype=torch.float32)
    torch.testing.assert_close(bonus.compute(as_bytes), bonus.compute(as_floats), rtol=1e-5, atol=1e-7)


@every_bonus
def test_the_order_of_environments_does_not_matter(build):
    shape = SHAPES["vector"]
    bonus, mirrored = build(shape, 0), build(shape, 0)
    transitions = rollout(shape, 1)
    names = ("observations", "actions", "next_observations", "terminated", "truncated")
    flipped = Transitions(**{name: getattr(transitions, name).flip(1) for name in names})
    torch.testing.assert_close(mirrored.compute(flipped), bonus.compute(transitions).flip(1), rtol=1e-5, atol=1e-7)


@every_bonus
def test_update_changes_the_bonus_and_metrics_are_finite_numbers(build):
    shape = SHAPES["vector"]
    bonus = build(shape, 0)
    transitions = rollout(shape, 1)
    before = bonus.compute(transitions)
    metrics = bonus.update(transitions)
    assert not torch.equal(bonus.compute(transitions), before)
    assert metrics
    assert all(isinstance(value, float) and np.isfinite(value) for value in metrics.values())


def where(chosen, a, b):
    """``a`` where ``chosen`` (T, N), elsewhere ``b``."""
    if isinstance(a, dict):
        return {name: where(chosen, a[name], b[name]) for name in a}
    return torch.where(chosen.view(*chosen.shape, *[1] * (a.ndim - 2)), a, b)


def mixed(valid, a, b):
    """The transitions ``a``, at steps that are not valid those of ``b``."""
    names = ("observations", "actions", "next_observations", "terminated", "truncated")
    return Transitions(**{name: where(valid, getattr(a, name), getattr(b, name)) for name in names}, valid=valid)


def some_valid(seed):
    valid = torch.rand(T, N, generator=torch.Generator().manual_seed(seed)) < 0.7
    assert valid.any()
    assert not valid.all()
    return valid


@every_bonus
@every_shape
def test_what_a_step_that_is_not_valid_holds_changes_nothing(build, shape):
    bonus, other = build(shape, 0), build(shape, 0)
    for seed in range(3):
        valid = some_valid(seed)
        transitions = changed(rollout(shape, seed), valid=valid)
        garbage = mixed(valid, rollout(shape, seed), rollout(shape, seed + 10))
        rewards = bonus.compute(transitions)
        assert torch.equal(rewards, other.compute(garbage))
        assert not rewards[~valid].any()
        assert rewards[valid].any()
        for warmed, on in ((bonus, transitions), (other, garbage)):
            warmed.warm_up(on)
        assert same(bonus.state_dict(), other.state_dict())
        assert bonus.update(transitions) == other.update(garbage)
        assert same(bonus.state_dict(), other.state_dict())


@every_bonus
@every_shape
def test_steps_that_are_not_valid_are_as_good_as_not_there(build, shape):
    bonus, without = build(shape, 0), build(shape, 0)
    there = torch.tensor([0, 1, 3])
    valid = torch.zeros(T, N, dtype=torch.bool).index_fill(0, there, True)
    for seed in range(2):
        whole = rollout(shape, seed)
        names = ("observations", "actions", "next_observations", "terminated", "truncated")
        cut = Transitions(**{name: each(getattr(whole, name), lambda x: x[there]) for name in names})
        assert torch.equal(bonus.compute(changed(whole, valid=valid))[there], without.compute(cut))
        for warmed, on in ((bonus, changed(whole, valid=valid)), (without, cut)):
            warmed.warm_up(on)
        assert bonus.update(changed(whole, valid=valid)) == without.update(cut)
        assert same(bonus.state_dict(), without.state_dict())


@every_bonus
def test_the_valid_steps_may_be_all_or_none(build):
    shape = SHAPES["vector"]
    bonus, other = build(shape, 0), build(shape, 0)
    everywhere = torch.ones(T, N, dtype=torch.bool)
    for seed in range(2):
        transitions = rollout(shape, seed)
        assert torch.equal(bonus.compute(transitions), other.compute(changed(transitions, valid=everywhere)))
        assert bonus.update(transitions) == other.update(changed(transitions, valid=everywhere))
    before = bonus.state_dict()
    assert same(before, other.state_dict())
    nowhere = changed(rollout(shape, 2), valid=~everywhere)
    assert torch.equal(bonus.compute(nowhere), torch.zeros(T, N))
    bonus.warm_up(nowhere)
    assert bonus.update(nowhere) == {}
    assert same(before, bonus.state_dict())


WHITENED = {"rnd", "icm", "e3b", "product", "sum", "novelty gain"}


def different(a, b, name=""):
    """The last keys of the entries in which two states differ."""
    if isinstance(a, dict):
        return set().union(*(different(a[key], b[key], key) for key in a))
    return set() if same(a, b) else {name}


@pytest.mark.parametrize("name", BUILDERS)
def test_warming_up_takes_statistics_of_observations_in_and_nothing_else(name):
    shape = SHAPES["vector"]
    bonus = BUILDERS[name](shape, 0)
    before, rewards = bonus.state_dict(), bonus.compute(rollout(shape, 1))
    assert bonus.warm_up(rollout(shape, 0)) is None
    assert different(before, bonus.state_dict()) == ({"count", "mean", "scatter"} if name in WHITENED else set())
    assert torch.equal(rewards, bonus.compute(rollout(shape, 1))) == (name not in WHITENED)


@every_bonus
def test_a_caller_may_have_gradients_on_or_off(build):
    shape = SHAPES["vector"]
    answers = []
    for enabled in (True, False):
        bonus = build(shape, 0)
        with torch.set_grad_enabled(enabled):
            bonus.update(rollout(shape, 0))
            answers.append(bonus.compute(rollout(shape, 1)))
            assert torch.is_grad_enabled() == enabled
    assert torch.equal(*answers)
    assert not answers[0].requires_grad
