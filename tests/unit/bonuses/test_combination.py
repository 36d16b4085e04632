"""Product and sum of two bonuses: the arithmetic, and both learn together or not at all."""

import dataclasses

import pytest
import torch
from torch import nn

from optimist.bonuses import (
    ACB,
    ICM,
    RND,
    Discrete,
    DiscreteActions,
    EpisodicCount,
    EpisodicCountConfig,
    HashCount,
    ICMConfig,
    NoveltyGain,
    NoveltyGainConfig,
    Product,
    RNDConfig,
    Sum,
    Transitions,
)

SMALL = RNDConfig(n_features=4)


def rollout(observations):
    ended = torch.zeros(observations.shape[:2], dtype=torch.bool)
    return Transitions(torch.zeros_like(observations), ended.long(), observations, ended, ended)


def pair():
    return RND((3,), seed=0, config=SMALL), HashCount((3,), seed=1)


def test_product_and_sum_are_those_of_the_parts():
    first, second = pair()
    x = rollout(torch.randn(4, 2, 3, generator=torch.Generator().manual_seed(0)))
    a, b = first.compute(x), second.compute(x)
    torch.testing.assert_close(Product(first, second).compute(x), a * b)
    torch.testing.assert_close(Sum(first, second).compute(x), a + b)
    torch.testing.assert_close(Sum(first, second, weights=(2.0, 0.5)).compute(x), 2 * a + 0.5 * b)


@pytest.mark.parametrize("combined", [Product, Sum])
def test_the_parts_are_the_bonuses_given_in_their_order(combined):
    first, second = pair()
    assert combined(first, second).parts == (first, second)


def test_both_are_updated_and_their_metrics_named_apart():
    first, second = pair()
    x = rollout(torch.randn(4, 2, 3, generator=torch.Generator().manual_seed(0)))
    metrics = Product(first, second).update(x)
    alone = pair()
    expected = {f"first/{k}": v for k, v in alone[0].update(x).items()}
    expected |= {f"second/{k}": v for k, v in alone[1].update(x).items()}
    assert metrics == expected
    assert torch.equal(first.compute(x), alone[0].compute(x))
    assert torch.equal(second.compute(x), alone[1].compute(x))


def policy():
    network = nn.Linear(3, 2)
    nn.init.ones_(network.weight)
    return network


def same(a, b):
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(same(a[key], b[key]) for key in a)
    return torch.equal(a, b) if isinstance(a, torch.Tensor) else a == b


def with_a_bad_last_action():
    x = rollout(torch.randn(4, 2, 3, generator=torch.Generator().manual_seed(0)))
    actions = x.actions.clone()
    actions[-1, -1] = 2
    return dataclasses.replace(x, actions=actions)


SECONDS = {
    "another shape": (lambda: HashCount(Discrete(5), seed=0), r"must have shape \(T, N\), got \(T, N, 3\)"),
    "a bad last action": (
        lambda: ICM((3,), DiscreteActions(2), seed=0, config=ICMConfig(n_features=4)),
        "actions must",
    ),
    "a network of other size": (lambda: ACB(nn.Linear(4, 2), seed=0), "could not read observations"),
}


@pytest.mark.parametrize("combine", [Product, Sum])
@pytest.mark.parametrize(("second", "message"), SECONDS.values(), ids=SECONDS)
@pytest.mark.parametrize("learned", [False, True], ids=["new", "learned"])
def test_what_the_second_refuses_neither_learns(combine, second, message, learned):
    firsts = RND((3,), seed=0, config=SMALL), HashCount((3,), seed=1), ACB(policy(), seed=0, ensemble_size=4)
    for first in firsts:
        combined = combine(first, second())
        if learned:
            first.update(rollout(torch.ones(2, 2, 3)))
        before = combined.state_dict()
        with pytest.raises(ValueError, match=message):
            combined.update(with_a_bad_last_action())
        assert same(before, combined.state_dict())


def test_what_the_first_refuses_the_second_never_sees():
    combined = Product(HashCount(Discrete(5), seed=0), RND((3,), seed=0, config=SMALL))
    before = combined.state_dict()
    with pytest.raises(ValueError, match=r"must have shape \(T, N\), got \(T, N, 3\)"):
        combined.update(rollout(torch.zeros(4, 2, 3)))
    assert same(before, combined.state_dict())


def test_a_state_of_which_one_part_is_refused_loads_neither():
    first, second = pair()
    combined = Sum(first, second)
    weights = first.state_dict()["predictor"]
    other = Sum(RND((3,), seed=7, config=SMALL), HashCount(Discrete(5), seed=0)).state_dict()
    with pytest.raises(ValueError, match=r"state\['code'\] must have the entries"):
        combined.load_state_dict(other)
    assert all(torch.equal(first.state_dict()["predictor"][name], value) for name, value in weights.items())


@pytest.mark.parametrize("combine", [Product, Sum])
def test_both_are_warmed_up_or_neither(combine):
    x = rollout(torch.randn(4, 2, 3, generator=torch.Generator().manual_seed(0)))
    firsts = [RND((3,), seed=seed, config=SMALL) for seed in (0, 1)]
    combine(*firsts).warm_up(x)
    assert all(first.state_dict()["observations"]["whole"]["count"] == 8 for first in firsts)
    other = combine(RND((3,), seed=0, config=SMALL), RND((4,), seed=0, config=SMALL))
    before = other.state_dict()
    with pytest.raises(ValueError, match="must have shape"):
        other.warm_up(x)
    assert same(before, other.state_dict())


@pytest.mark.parametrize("weights", [(1.0, -1.0), (float("nan"), 1.0), (1.0,), (float("inf"), 0.0)])
def test_bad_weights_are_refused(weights):
    with pytest.raises(ValueError, match="weights must be two finite numbers >= 0"):
        Sum(*pair(), weights=weights)


def walk(seed, *, ends=0.2, invalid=0.0, steps=12, environments=3):
    """Environments that go on from where they came to, begin anew after an end, and at times only reset."""
    generator = torch.Generator().manual_seed(seed)
    before, after = torch.empty(2, steps, environments, 3)
    ended, valid = torch.zeros(2, steps, environments, dtype=torch.bool)
    state = torch.randn(environments, 3, generator=generator)
    for t in range(steps):
        before[t], after[t] = state, torch.randn(environments, 3, generator=generator)
        valid[t] = torch.rand(environments, generator=generator) >= invalid
        ended[t] = (torch.rand(environments, generator=generator) < ends) & valid[t]
        first = torch.randn(environments, 3, generator=generator)
        state = torch.where(ended[t][:, None], first, after[t])
    return Transitions(before, ended.long(), after, ended, torch.zeros_like(ended), valid)


def gain_by_loops(bonus, transitions, alpha):
    """``max(b(s') - alpha b(s), 0)`` with both bonuses asked for every single step: obviously right and slow."""
    result = torch.zeros(transitions.ended.shape)
    for t in range(transitions.steps):
        for n in range(transitions.n_envs):
            if not transitions.valid[t, n]:
                continue
            step = dataclasses.replace(
                transitions.mapped(lambda part, t=t, n=n: part[t : t + 1, n : n + 1]), valid=None
            )
            after = bonus.compute(step)
            before = bonus.compute(dataclasses.replace(step, next_observations=step.observations))
            result[t, n] = max(float(after - alpha * before), 0.0)
    return result


@pytest.mark.parametrize("invalid", [0.0, 0.3])
@pytest.mark.parametrize("alpha", [0.0, 0.5, 1.0])
@pytest.mark.parametrize(
    "build",
    [lambda: RND((3,), seed=0, config=SMALL), lambda: ACB(policy(), seed=0, ensemble_size=4)],
    ids=["rnd", "acb"],
)
def test_a_gain_is_what_loops_over_single_steps_give(build, alpha, invalid):
    bonus = build()
    bonus.update(walk(0))
    transitions = walk(1, invalid=invalid)
    gain = NoveltyGain(bonus, config=NoveltyGainConfig(alpha=alpha)).compute(transitions)
    torch.testing.assert_close(gain, gain_by_loops(bonus, transitions, alpha), rtol=1e-4, atol=1e-5)
    assert 0 < float((gain > 0).float().mean()) <= 1


class Counted(RND):
    """RND that counts the states which it is asked for."""

    asked = 0

    def compute(self, transitions):
        self.asked += transitions.ended.numel()
        return super().compute(transitions)


def test_states_that_a_step_led_to_are_scored_once():
    bonus = Counted((3,), seed=0, config=SMALL)
    NoveltyGain(bonus).compute(walk(0, ends=0.0))
    assert bonus.asked == 12 * 3 + 3  # every next state, and the first ones


def test_noveld_pays_the_gain_at_the_first_visit_of_an_episode():
    key, door = torch.eye(3)[0], torch.eye(3)[1]
    after = torch.stack([key, door, key, key])[:, None]
    before = torch.stack([torch.zeros(3), key, door, key])[:, None]
    ended = torch.tensor([[False], [False], [True], [False]])
    steps = Transitions(before, ended.long(), after, ended, torch.zeros_like(ended))
    gain = NoveltyGain(RND((3,), seed=0, config=SMALL))
    first_visit = EpisodicCount((3,), config=EpisodicCountConfig(code="exact", form="first-visit"))
    paid, gained = Product(gain, first_visit).compute(steps), gain.compute(steps)
    assert torch.equal(paid, gained * torch.tensor([[1.0], [1.0], [0.0], [1.0]]))
    assert gained[2] > 0 or gained[1] > 0


@pytest.mark.parametrize(
    ("inner", "trait"),
    [
        (lambda: HashCount((3,), seed=0), "depends_on_order"),
        (lambda: EpisodicCount((3,)), "depends_on_order and is_episodic"),
        (lambda: ICM((3,), DiscreteActions(2), config=ICMConfig(n_features=4)), "reads_actions"),
        (lambda: NoveltyGain(RND((3,), config=SMALL)), "reads_actions"),
    ],
    ids=["count", "episodic count", "icm", "gain"],
)
def test_a_gain_of_what_does_not_score_states_by_themselves_is_refused(inner, trait):
    with pytest.raises(ValueError, match=f"scores each state by itself, got .* with {trait}: choose acb, rnd"):
        NoveltyGain(inner())


@pytest.mark.parametrize("alpha", [-0.1, float("nan"), float("inf")])
def test_a_bad_alpha_is_refused(alpha):
    with pytest.raises(ValueError, match="alpha must"):
        NoveltyGainConfig(alpha=alpha)
