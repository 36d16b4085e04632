"""The ACB bonus as an object: pure compute, complete state, clear errors, and the laws of a confidence bonus."""

import dataclasses
import math

import pytest
import torch
from torch import nn

from optimist.bonuses.acb.bonus import ACB
from optimist.bonuses.acb.config import DEFAULT, Auto, Exact
from optimist.bonuses.acb.minibatches import minibatch_rows
from optimist.bonuses.protocol import Transitions
from oracles import elliptical_bonuses

CONFIGURATIONS = {
    "default": {},
    "exact": {"solver": "exact", "ridge": 1.0, "sketch_size": 4},
    "gradient rmsprop batch": {
        "features": "gradient",
        "solver": "rmsprop",
        "statistics": "batch",
        "affine": True,
        "targets": "fresh",
        "epochs": 2,
    },
    "penultimate unscaled max": {"features": "penultimate", "statistics": "none", "aggregate": "max"},
    "narrowest": {"solver": "proximal", "averaging": "narrowest"},
    "streaming": {"solver": "streaming", "rank": 40},
    "last-layer exponential": {
        "features": "last-layer",
        "solver": "proximal",
        "averaging": "exponential",
        "minibatches": 3,
    },
}


def policy(seed=0):
    network = nn.Sequential(nn.Linear(5, 12), nn.ReLU(), nn.Linear(12, 8), nn.ReLU(), nn.Linear(8, 3))
    generator = torch.Generator().manual_seed(seed)
    for parameter in network.parameters():
        nn.init.normal_(parameter, std=0.5, generator=generator)
    return network


def transitions_of(successors, observations=None):
    steps, environments = successors.shape[:2]
    never = torch.zeros(steps, environments, dtype=torch.bool)
    actions = torch.zeros(steps, environments, dtype=torch.int64)
    return Transitions(successors if observations is None else observations, actions, successors, never, never)


def rollout(seed, steps=16, environments=4):
    generator = torch.Generator().manual_seed(seed)
    return transitions_of(*(torch.randn(steps, environments, 5, generator=generator) for _ in range(2)))


def make(name="default", seed=0, **overrides):
    return ACB(policy(), torch.zeros(1, 5), seed=seed, **{"ensemble_size": 16, **CONFIGURATIONS[name], **overrides})


def same(a, b):
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(same(a[key], b[key]) for key in a)
    return torch.equal(a, b) if isinstance(a, torch.Tensor) else a == b


@pytest.mark.parametrize("name", CONFIGURATIONS)
def test_compute_changes_nothing(name):
    bonus = make(name)
    bonus.update(rollout(0))
    before, world = bonus.state_dict(), torch.get_rng_state()
    first, second = bonus.compute(rollout(1)), bonus.compute(rollout(1))
    assert first.shape == (16, 4)
    assert torch.equal(first, second)
    assert same(before, bonus.state_dict())
    assert torch.equal(world, torch.get_rng_state())


@pytest.mark.parametrize("name", CONFIGURATIONS)
def test_the_state_goes_on_bit_exactly(name):
    one, other = make(name), make(name, seed=5)
    one.update(rollout(0))
    other.load_state_dict(one.state_dict())
    assert same(one.state_dict(), other.state_dict())
    for seed in (1, 2):
        assert one.update(rollout(seed)) == other.update(rollout(seed))
    assert torch.equal(one.compute(rollout(3)), other.compute(rollout(3)))
    assert same(one.state_dict(), other.state_dict())


def test_sizing_at_first_use_gives_the_same_bonus():
    early, late = make(), ACB(policy(), seed=0, ensemble_size=16)
    assert torch.equal(early.compute(rollout(0)), late.compute(rollout(0)))
    fresh = ACB(policy(), seed=1, ensemble_size=16)
    early.update(rollout(0))
    fresh.load_state_dict(early.state_dict())  # a state brings the layout along
    assert torch.equal(early.compute(rollout(1)), fresh.compute(rollout(1)))


def test_seeds_matter_and_are_all_that_matters():
    assert torch.equal(make(seed=1).compute(rollout(0)), make(seed=1).compute(rollout(0)))
    assert not torch.equal(make(seed=1).compute(rollout(0)), make(seed=2).compute(rollout(0)))


def test_a_diverged_policy_raises_and_changes_nothing():
    network = policy()
    bonus = ACB(network, torch.zeros(1, 5), ensemble_size=4)
    bonus.update(rollout(0))
    before = bonus.state_dict()
    with torch.no_grad():
        network[0].weight[0, 0] = math.inf
    with pytest.raises(ValueError, match=r"the policy's '0\.weight' is not finite"):
        bonus.update(rollout(1))
    assert same(before, bonus.state_dict())


class Words(nn.Module):
    """A policy that looks its observation up in a table."""

    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(7, 4)
        self.actor = nn.Linear(4, 3)

    def forward(self, observations):
        return self.actor(self.table(observations))


class Reader(nn.Module):
    """A policy that reads two keys of a Dict."""

    def __init__(self):
        super().__init__()
        self.actor = nn.Linear(5, 3)

    def forward(self, observations):
        return self.actor(torch.cat([observations["place"], observations["speed"]], 1))


@pytest.mark.parametrize("sized", [True, False], ids=["sized", "unsized"])
def test_an_index_beyond_the_network_is_refused_and_changes_nothing(sized):
    bonus = ACB(Words(), torch.zeros(1, dtype=torch.int64) if sized else None, ensemble_size=4, fraction=1.0)
    before = bonus.state_dict()
    words = torch.zeros(40, 2, dtype=torch.int64)
    words[-1, -1] = 7
    for call in (bonus.update, bonus.compute):
        with pytest.raises(ValueError, match=r"the policy network could not read observations .* IndexError"):
            call(transitions_of(words))
    assert same(before, bonus.state_dict())


@pytest.mark.parametrize("name", ["default", "gradient rmsprop batch"])
def test_an_observation_too_large_for_the_network_is_refused_and_changes_nothing(name):
    bonus = make(name, fraction=1.0, minibatch_size=4)
    bonus.update(rollout(0))
    before = bonus.state_dict()
    successors = rollout(1).next_observations.clone()
    successors[-1, -1] = 3e38
    with pytest.raises(ValueError, match=r"(features|outputs) must be finite, got NaN"):
        bonus.update(transitions_of(successors))
    assert same(before, bonus.state_dict())


@pytest.mark.parametrize("sized", [True, False], ids=["sized", "unsized"])
def test_a_missing_key_is_no_bare_key_error(sized):
    example = {"place": torch.zeros(1, 2), "speed": torch.zeros(1, 3)} if sized else None
    bonus = ACB(Reader(), example, ensemble_size=4)
    message = r"a mapping with the keys \['place', 'speed'\]" if sized else "could not read observations .*'speed'"
    lone = {"place": torch.zeros(4, 2, 2)}
    never = torch.zeros(4, 2, dtype=torch.bool)
    for call in (bonus.update, bonus.compute):
        with pytest.raises(ValueError, match=message):
            call(Transitions(lone, never.long(), lone, never, never))


def test_sizing_at_first_use_is_no_change_by_compute():
    bonus = ACB(policy(), seed=0, ensemble_size=16)
    before = bonus.state_dict()
    first = bonus.compute(rollout(0))
    assert torch.equal(first, bonus.compute(rollout(0)))
    assert same(before, bonus.state_dict())
    bonus.load_state_dict(ACB(policy(), seed=1, ensemble_size=16).state_dict())
    assert not torch.equal(first, bonus.compute(rollout(0)))


class Counted(nn.Module):
    """A policy with dropout that counts its own uses; a copy counts for itself."""

    def __init__(self):
        super().__init__()
        self.uses = 0
        self.layers = nn.Sequential(nn.Linear(5, 8), nn.Dropout(), nn.Linear(8, 3))

    def forward(self, observations):
        self.uses += 1
        return self.layers(observations)


@pytest.mark.parametrize("features", ["sketch", "gradient", "last-layer", "penultimate"])
def test_the_users_own_network_is_never_run_nor_touched(features):
    network = Counted()
    before = {name: value.clone() for name, value in network.state_dict().items()}
    bonus = ACB(network, torch.zeros(1, 5), features=features, ensemble_size=4)
    bonus.update(rollout(0))
    bonus.compute(rollout(1))
    assert network.uses == 0
    assert same(before, network.state_dict())
    assert all(module.training and not module._forward_hooks for module in network.modules())
    assert all(parameter.requires_grad and parameter.grad is None for parameter in network.parameters())


class Erratic(nn.Module):
    """A policy that, at its k-th use from now, raises or returns NaN."""

    def __init__(self):
        super().__init__()
        self.fails_in, self.raises = -1, True
        self.layers = nn.Sequential(nn.Linear(5, 8), nn.Tanh(), nn.Linear(8, 3))

    def forward(self, observations):
        self.fails_in -= 1
        if self.fails_in == 0 and self.raises:
            raise ZeroDivisionError("a bug of the user's")
        return self.layers(observations) * (float("nan") if self.fails_in == 0 else 1.0)


@pytest.mark.parametrize("raises", [True, False], ids=["raises", "nan"])
@pytest.mark.parametrize("solver", ["exact", "streaming", "proximal", "rmsprop"])
@pytest.mark.parametrize("features", ["gradient", "sketch"])
@pytest.mark.parametrize("fitted", [True, False], ids=["fitted", "first"])
def test_a_policy_that_fails_in_mid_stream_leaves_everything_as_it_was(features, solver, raises, fitted):
    torch.manual_seed(0)
    bonus = ACB(Erratic(), features=features, solver=solver, ensemble_size=4, minibatch_size=8)
    if fitted:
        bonus.update(rollout(0))
    before, network = bonus.state_dict(), bonus._auxiliary.network
    failed = 0
    for fails_in in range(1, 80):
        network.fails_in, network.raises = fails_in, raises
        try:
            bonus.update(rollout(1))
        except (ZeroDivisionError, ValueError):
            failed += 1
            assert same(before, bonus.state_dict()), fails_in
        if network.fails_in > 0:  # not that many uses in an update: all were tried
            break
        bonus.load_state_dict(before)
    assert failed >= (8 if features == "gradient" else 1)  # gradients are read minibatch by minibatch, eight of them


def test_a_changed_policy_is_refused_before_anything_is_learned():
    network = policy()
    bonus = ACB(network, torch.zeros(1, 5), ensemble_size=4)
    before = bonus.state_dict()
    network[4] = nn.Linear(8, 4)
    with pytest.raises(ValueError, match=r"the policy must have the same tensors as the copy, got 4\.bias"):
        bonus.update(rollout(0))
    assert same(before, bonus.state_dict())


def test_an_example_that_is_none_is_refused_on_loading():
    bonus = make()
    before = bonus.state_dict()
    for example in ({"tensor": 3}, {"dict": {"a": 3}}, {"": torch.zeros(1, 5)}):
        with pytest.raises(ValueError, match=r"state\['example'\] must be"):
            bonus.load_state_dict({**before, "example": example})
    assert same(before, bonus.state_dict())


def test_a_foreign_state_is_refused_and_changes_nothing():
    bonus, other = make(), make("exact")
    before = bonus.state_dict()
    for state in (other.state_dict(), {"weights": torch.zeros(1)}):
        with pytest.raises(ValueError, match="must"):
            bonus.load_state_dict(state)
    assert same(before, bonus.state_dict())


def test_an_unknown_option_suggests_a_near_one():
    with pytest.raises(ValueError, match="ACBConfig has no setting 'ensemble_sise': did you mean 'ensemble_size'"):
        ACB(policy(), ensemble_sise=3)


def test_options_are_fields_of_the_configuration():
    bonus = ACB(policy(), config=DEFAULT, ridge=7.0, form="square")
    assert bonus.config == dataclasses.replace(DEFAULT, solver=Auto(ridge=7.0), form="square")
    assert ACB(policy(), solver="exact", ridge=0.01).config == dataclasses.replace(DEFAULT, solver=Exact(ridge=0.01))


def test_a_bonus_shows_what_it_is_made_of():
    bonus = ACB(policy(), solver="exact", ensemble_size=4, sketch_size=2)
    unsized = "ACB(features='sketch', dimensions=None, ensemble_size=4, solver=Exact(ridge=1.0))"
    assert repr(bonus) == unsized
    bonus.update(rollout(0))
    assert repr(bonus) == unsized.replace("None", "12")  # three layers of 2 x 2 numbers


def test_the_bonus_is_that_of_the_successor():
    bonus = make()
    bonus.update(rollout(0))
    a, b = rollout(1), rollout(2)
    mixed = Transitions(b.observations, a.actions, a.next_observations, a.terminated, a.truncated)
    assert torch.equal(bonus.compute(a), bonus.compute(mixed))


def test_running_statistics_score_a_state_alone_as_among_others():
    bonus = make()
    bonus.update(rollout(0))
    together = bonus.compute(rollout(1))
    alone = bonus.compute(transitions_of(rollout(1).next_observations[3:4, 2:3]))
    torch.testing.assert_close(alone[0, 0], together[3, 2], rtol=1e-4, atol=0)


def test_batch_statistics_are_those_of_one_step_of_all_environments():
    bonus = make("gradient rmsprop batch")
    together = bonus.compute(rollout(1))
    step = bonus.compute(transitions_of(rollout(1).next_observations[3:4]))
    torch.testing.assert_close(step[0], together[3], rtol=1e-4, atol=0)
    with pytest.raises(ValueError, match="at least two states"):
        bonus.compute(transitions_of(rollout(1).next_observations[:, :1]))


@pytest.mark.parametrize("name", CONFIGURATIONS)
def test_a_step_that_is_not_valid_is_neither_paid_nor_learned(name):
    valid = torch.rand(16, 4, generator=torch.Generator().manual_seed(0)) < 0.7
    transitions = dataclasses.replace(rollout(1), valid=valid)
    bonus, other = make(name), make(name)
    for one in (bonus, other):
        one.update(rollout(0))
    everywhere = bonus.compute(rollout(1))
    assert torch.equal(bonus.compute(transitions)[~valid], torch.zeros(int((~valid).sum())))
    torch.testing.assert_close(bonus.compute(transitions)[valid], everywhere[valid], rtol=1e-4, atol=1e-6)
    # The valid states alone, as so many steps of one environment, teach the same.
    before, after = transitions.observations[valid], transitions.next_observations[valid]
    alone = transitions_of(after.unsqueeze(1), before.unsqueeze(1))
    assert bonus.update(transitions) == other.update(alone)
    assert same(bonus.state_dict(), other.state_dict())


def standardized_history(history, queries, epsilon=1e-3):
    """Both in the coordinates of the whole history, in float64."""
    history, queries = history.double(), queries.double()
    deviation = (history.var(0, correction=0) + epsilon * history.var(0, correction=0).mean()).sqrt()
    return (history - history.mean(0)) / deviation, (queries - history.mean(0)) / deviation


def sketches_of(bonus, states):
    return bonus._sizing.regression_for(states).features(states.flatten(0, 1)).dense()


def test_old_states_keep_the_exact_bonus_when_the_statistics_move():
    """Ten rollouts on three states, then one on all 55: in 0.1.0 the old states had 6 to 11 times the exact bonus."""
    network = nn.Sequential(nn.Linear(55, 32), nn.ReLU(), nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 2))
    generator = torch.Generator().manual_seed(3)
    for parameter in network.parameters():
        nn.init.normal_(parameter, std=0.3, generator=generator)
    states, members = torch.eye(55), 2000
    bonus = ACB(
        network, states[:1], sketch_size=8, ensemble_size=members, auxiliary_rate=0.0, form="width", floor="all"
    )
    visits = [torch.randint(3, (256,), generator=generator) for _ in range(10)]
    visits.append(torch.arange(256) % 55)
    for visited in visits:
        bonus.update(transitions_of(states[visited].unflatten(0, (64, 4))))
    features = sketches_of(bonus, states[:, None])
    history, queries = standardized_history(features[torch.cat(visits)], features)
    exact = elliptical_bonuses(history, queries, 1.0).sqrt()
    ratio = bonus.compute(transitions_of(states[:, None])).flatten() / exact
    # The rms of 2,000 exact draws has the relative sd 1 / sqrt(2 M) = 1.6 %: 5.5 sd, 55 states, 1 in 500,000.
    assert (ratio - 1).abs().max() < 5.5 / math.sqrt(2 * members)


@pytest.mark.parametrize("name", ["default", "last-layer exponential", "gradient running"])
def test_the_first_rollout_is_read_by_its_own_statistics_on_the_scale_of_later_ones(name):
    """In 0.1.0 features were raw before the first update: with states of size 0.01 the first bonuses were nothing."""
    configuration = {"features": "gradient", "solver": "proximal"} if "gradient" in name else CONFIGURATIONS[name]
    bonus = ACB(policy(), torch.zeros(1, 5), **{"ensemble_size": 256, "form": "width"} | configuration)
    small = rollout(0).mapped(lambda part: part * 0.01 if part.is_floating_point() else part)
    before = bonus.state_dict()
    first = bonus.compute(small)
    assert same(before, bonus.state_dict())
    # Whitened by their own 64 states the features have a mean square of at most 1 per coordinate, prior variance 1:
    # the mean square of the bonus is the number of dimensions, less what the floor takes; of the exact solver, over the
    # 64 states, as it will be once they are learned.
    dimensions = bonus._sizing.dimensions / (64 if name == "default" else 1)
    assert 0.3 * dimensions < first.square().mean() < 1.5 * dimensions
    bonus.update(small)
    unseen = bonus.compute(rollout(1).mapped(lambda part: part * 0.01 if part.is_floating_point() else part))
    assert 0.05 < unseen.median() / first.median() < 20


def test_bounded_bonuses_are_1_for_the_unseen_and_fall_as_counts_do():
    """Whatever the dimensions: about 1 before the first update, and 1 / sqrt(n + 1) after n visits of few states."""
    bonus = ACB(policy(), torch.zeros(1, 5), sketch_size=16, ensemble_size=2000, auxiliary_rate=0.0)
    states = torch.randn(4, 5, generator=torch.Generator().manual_seed(0))
    assert bonus.compute(transitions_of(states[:, None])).min() > 0.9
    visits = torch.tensor([3, 10, 40, 160])
    bonus.update(transitions_of(states.repeat_interleave(visits, 0)[:, None]))
    new = torch.randn(1, 1, 5, generator=torch.Generator().manual_seed(1))
    assert bonus.compute(transitions_of(new)).item() > 0.9
    # Features are centered by their mean over visits, near which the state lies that has three quarters of them: it is
    # known better than by its own visits. For the others a count within the draws' 5.5 / sqrt(2 M) = 9 % and the mean.
    ratio = bonus.compute(transitions_of(states[:, None])).flatten() * (visits + 1).sqrt()
    assert ((ratio[:3] > 0.8) & (ratio[:3] < 1.1)).all()
    assert 0.3 < ratio[3] < 1.1


def test_a_single_state_before_the_first_update_has_the_bonus_of_a_new_one():
    bonus = make(ensemble_size=256, form="width")
    alone = bonus.compute(transitions_of(torch.full((1, 1, 5), 0.3)))
    same_all_along = bonus.compute(transitions_of(torch.full((8, 2, 5), 0.3))) * 16**0.5
    many = bonus.compute(rollout(0)) * 64**0.5
    assert 0.3 < alone.item() / many.median() < 3
    torch.testing.assert_close(same_all_along, alone.expand(8, 2), rtol=1e-4, atol=0)


def test_the_policy_is_followed_at_the_rate_alpha_and_never_written():
    network = policy()
    bonus = ACB(network, torch.zeros(1, 5), ensemble_size=4, auxiliary_rate=0.25)
    with torch.no_grad():
        for parameter in network.parameters():
            parameter += 1
    kept = [parameter.clone() for parameter in network.parameters()]
    before = bonus.state_dict()["auxiliary"]["average"]
    bonus.update(rollout(0))
    for name, average in bonus.state_dict()["auxiliary"]["average"].items():
        torch.testing.assert_close(average, before[name] + 0.25)
    assert all(torch.equal(a, b) for a, b in zip(kept, network.parameters(), strict=True))
    assert all(parameter.grad is None for parameter in network.parameters())


class Tabular(nn.Module):
    """Penultimate features that are the observation itself: one-hot states stay one-hot."""

    def __init__(self, states):
        super().__init__()
        self.head = nn.Linear(states, 2)
        nn.init.constant_(self.head.weight, 0.1)
        nn.init.zeros_(self.head.bias)

    def forward(self, observations):
        return self.head(observations)


def test_bonuses_fall_as_one_over_n_and_the_unseen_keeps_its_own():
    """State 0 is visited k times, state 1 never: members have the variances 1 / (1 + k) and 1 there."""
    states = torch.eye(3)
    bonus = ACB(
        Tabular(3),
        states[:1],
        features="penultimate",
        statistics="none",
        solver="exact",
        ridge=1.0,
        fraction=1.0,
        ensemble_size=4000,
        form="square",
    )
    query = transitions_of(states[None])
    first = bonus.compute(query)[0]
    visits = 0
    for steps in (1, 3, 12, 48, 192):
        bonus.update(transitions_of(states[0].expand(steps, 1, 3)))
        visits += steps
        seen, unseen, _ = bonus.compute(query)[0].tolist()
        # 4,000 Gaussian members: the sd of a sample variance is v sqrt(2/4000); 5 sd, 1 in 2 million, 5 checks.
        assert seen == pytest.approx(1 / (1 + visits), rel=5 * math.sqrt(2 / 4000))
        assert unseen == pytest.approx(first[1].item(), rel=1e-6)


def test_the_schedule_covers_what_it_should():
    generator = torch.Generator().manual_seed(0)
    config = make(solver="proximal", fraction=1.0, epochs=2, minibatch_size=10).config
    schedule = minibatch_rows(64, config, generator=generator)
    assert len(schedule) == 14
    assert max(len(rows) for rows in schedule) == 10
    for part in (schedule[:7], schedule[7:]):
        assert torch.cat(part).sort().values.tolist() == list(range(64))
    quarter = minibatch_rows(64, make(fraction=0.25, minibatch_size=10).config, generator=generator)
    assert [len(rows) for rows in quarter] == [8, 8]
    pairs = make(statistics="batch", minibatch_size=2).config
    assert all(len(rows) >= 2 for rows in minibatch_rows(9, pairs, generator=generator))


def test_dict_observations_and_other_network_outputs():
    class Composite(nn.Module):
        def __init__(self):
            super().__init__()
            self.trunk = nn.Linear(5, 6)
            self.actor = nn.Linear(6, 3)
            self.critic = nn.Linear(6, 1)

        def forward(self, observations):
            hidden = torch.tanh(self.trunk(torch.cat([observations["place"], observations["speed"]], 1)))
            return {"logits": self.actor(hidden), "value": self.critic(hidden)}

    def dictionary(seed):
        x = rollout(seed).next_observations
        never = torch.zeros(16, 4, dtype=torch.bool)
        parts = {"place": x[..., :2].contiguous(), "speed": x[..., 2:].contiguous()}
        return Transitions(parts, torch.zeros(16, 4, dtype=torch.int64), parts, never, never)

    bonus = ACB(Composite(), logits=lambda network, observations: network(observations)["logits"], ensemble_size=8)
    before = bonus.compute(dictionary(0))
    bonus.update(dictionary(0))
    after = bonus.compute(dictionary(0))
    assert after.shape == (16, 4)
    assert not torch.equal(before, after)
    copy = ACB(Composite(), logits=lambda network, observations: network(observations)["logits"], ensemble_size=8)
    copy.load_state_dict(bonus.state_dict())
    assert torch.equal(copy.compute(dictionary(1)), bonus.compute(dictionary(1)))
