"""The exact elliptical bonus against explicit inverses, whitened and not, in batches of any size."""

import pytest
import torch
from torch import nn

import oracles
from optimist.bonuses import Elliptical, EllipticalConfig, Transitions, make
from optimist.bonuses.features import Dense

RAW = {"statistics": "none", "form": "square"}
"""The plain quadratic form of the features as they are."""


class Identity:
    """A feature map that reads the observation itself."""

    def __init__(self, size):
        self.network = nn.Identity()
        self.shapes = (torch.Size([size]),)
        self.layers = (("observations", size),)

    def __call__(self, observations):
        return Dense(observations)


def rollout(observations):
    ended = torch.zeros(observations.shape[:2], dtype=torch.bool)
    return Transitions(torch.zeros_like(observations), ended.long(), observations, ended, ended)


def gaussian(*shape, seed):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def test_the_bonus_is_the_quadratic_form_of_the_explicit_inverse():
    bonus = Elliptical(Identity(6), (6,), config=EllipticalConfig(ridge=0.3, **RAW))
    first, second, held_out = gaussian(7, 3, 6, seed=0), 5 * gaussian(2, 3, 6, seed=1) + 4, gaussian(4, 3, 6, seed=2)
    cold = bonus.compute(rollout(held_out))
    torch.testing.assert_close(cold, held_out.square().sum(-1) / 0.3, rtol=1e-6, atol=0)
    bonus.update(rollout(first))
    bonus.update(rollout(second))
    past = torch.cat([first.flatten(0, 1), second.flatten(0, 1)])
    expected = oracles.elliptical_bonuses(past, held_out.flatten(0, 1), 0.3).view(4, 3).float()
    torch.testing.assert_close(bonus.compute(rollout(held_out)), expected, rtol=1e-5, atol=1e-9)


def test_whitening_is_that_of_all_features_by_the_statistics_of_today():
    bonus = Elliptical(Identity(5), (5,), config=EllipticalConfig(ridge=1.0, epsilon=1e-5, form="width"))
    scales = torch.tensor([1e-6, 1e-2, 1.0, 10.0, 0.0])
    rollouts = [gaussian(6, 2, 5, seed=k) * scales + k for k in range(3)]
    for x in rollouts:
        bonus.update(rollout(x))
    past = torch.cat([x.flatten(0, 1) for x in rollouts]).double()
    held_out = gaussian(3, 2, 5, seed=9) * scales + 1
    variance = past.var(0, correction=0)
    scale = (variance + 1e-5 * variance.mean()).sqrt()

    def white(x):
        return (x.double() - past.mean(0)) / scale

    expected = oracles.elliptical_bonuses(white(past), white(held_out.flatten(0, 1)), 1.0).view(3, 2).float()
    torch.testing.assert_close(bonus.compute(rollout(held_out)), expected.sqrt(), rtol=1e-5, atol=1e-9)


def test_a_repeated_state_falls_as_one_over_n_and_an_orthogonal_one_keeps_its_bonus():
    bonus = Elliptical(Identity(3), (3,), config=EllipticalConfig(ridge=2.0, **RAW))
    seen, unseen = torch.tensor([[[1.0, 0, 0]]]), torch.tensor([[[0, 1.0, 0]]])
    for n in range(1, 6):
        bonus.update(rollout(seen))
        assert bonus.compute(rollout(seen)).item() == pytest.approx(1 / (2 + n))
        assert bonus.compute(rollout(unseen)).item() == pytest.approx(1 / 2)


def test_the_order_and_the_batching_of_experience_do_not_matter():
    x = gaussian(12, 4, 5, seed=0)
    whole, parts = Elliptical(Identity(5), (5,)), Elliptical(Identity(5), (5,))
    whole.update(rollout(x))
    for part in x.flip(0).split(3):
        parts.update(rollout(part))
    torch.testing.assert_close(whole.compute(rollout(x)), parts.compute(rollout(x)), rtol=1e-6, atol=0)


def test_features_that_are_not_finite_change_nothing():
    class Broken(Identity):
        def __call__(self, observations):
            return Dense(observations / observations)

    bonus = Elliptical(Broken(2), (2,))
    x = torch.ones(2000, 1, 2)
    x[1999] = 0  # the last chunk is bad: the ones before it must not have been kept
    with pytest.raises(ValueError, match="features must be finite"):
        bonus.update(rollout(x))
    assert bonus.state_dict()["moments"]["count"] == bonus.state_dict()["scale"]["count"] == 0
    assert bool((bonus.state_dict()["moments"]["scatter"] == 0).all())


def test_features_too_wide_for_a_matrix_are_refused():
    with pytest.raises(ValueError, match=r"9000 x 9000 matrix; use features='sketch'"):
        Elliptical(Identity(9000), (9000,))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"ridge": 0.0}, "ridge must be > 0"),
        ({"epsilon": 0.0}, "epsilon must be > 0"),
        ({"statistics": "batch"}, "statistics must be"),
        ({"form": "cube"}, "form must be"),
        ({"largest": 0}, "largest must be a whole number >= 1"),
    ],
)
def test_a_configuration_that_cannot_work_says_why(changes, message):
    with pytest.raises(ValueError, match=message):
        EllipticalConfig(**changes)


def test_a_bonus_shows_what_it_is_made_of():
    bonus = Elliptical(Identity(3), (3,), config=EllipticalConfig(ridge=2.0))
    bonus.update(rollout(gaussian(5, 2, 3, seed=0)))
    assert repr(bonus) == "Elliptical(features=Identity, dimensions=3, states=10, ridge=2.0, statistics='running')"


def test_a_state_of_another_sketch_is_refused_and_changes_nothing():
    def made(seed):
        network = nn.Sequential(nn.Linear(6, 40), nn.ReLU(), nn.Linear(40, 3))
        nn.init.constant_(network[0].weight, 0.1)  # the same network: only the sketch differs
        return make("elliptical", seed=seed, observation_shape=(6,), policy_network=network, sketch_size=4)

    states = rollout(gaussian(5, 2, 6, seed=3))
    first, other = made(1), made(2)
    first.update(states)
    before = other.compute(states)
    with pytest.raises(ValueError, match="seed 1, these are of seed 2"):
        other.load_state_dict(first.state_dict())
    assert torch.equal(other.compute(states), before)
    same = made(1)
    same.load_state_dict(first.state_dict())
    assert torch.equal(same.compute(states), first.compute(states))


def test_bounded_is_the_width_once_the_state_itself_is_counted():
    bonus = Elliptical(Identity(4), (4,), config=EllipticalConfig(ridge=0.5, statistics="none", form="bounded"))
    past, asked = gaussian(8, 2, 4, seed=0), gaussian(3, 2, 4, seed=1)
    bonus.update(rollout(past))
    expected = [
        oracles.elliptical_bonuses(torch.cat([past.flatten(0, 1), x[None]]), x[None], 0.5) for x in asked.flatten(0, 1)
    ]
    torch.testing.assert_close(
        bonus.compute(rollout(asked)), torch.cat(expected).sqrt().view(3, 2).float(), rtol=1e-5, atol=0
    )
    assert bonus.compute(rollout(torch.zeros(1, 1, 4))).item() == 0
    assert bonus.compute(rollout(1e9 * asked)).max() <= 1


@pytest.mark.parametrize("form", ["width", "square", "bounded"])
def test_it_is_what_acb_estimates(form):
    """The rms of many exact draws is the elliptical bonus, in the features of DEFAULT, also after statistics moved."""
    network = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 16), nn.ReLU(), nn.Linear(16, 3))
    generator = torch.Generator().manual_seed(0)
    for parameter in network.parameters():
        nn.init.normal_(parameter, std=0.4, generator=generator)
    members, task = 4000, {"observation_shape": (6,), "policy_network": network, "seed": 2, "form": form}
    exact, drawn = make("elliptical", **task), make("acb", **task, ensemble_size=members, auxiliary_rate=0.0)
    few = gaussian(3, 6, seed=4)
    narrow = [rollout(few[torch.arange(96) % 3].view(24, 4, 6) * (1 + k)) for k in range(2)]
    wide = rollout(5 * gaussian(24, 4, 6, seed=5) + 2)
    queries = rollout(3 * gaussian(10, 4, 6, seed=6))
    seen = narrow[0]
    for experience in (*narrow, wide):
        # The rms of M draws has the relative sd 1 / sqrt(2 M), its square twice that: 5.5 sd, some 500 values in all,
        # a false alarm in 50,000. Centered features of few states are nearly 0: below 1e-3 of the rest is rounding.
        for states in (queries, seen):
            ratio = drawn.compute(states) / exact.compute(states)
            assert (ratio - 1).abs().max() < 5.5 / (2 * members) ** 0.5 * (2 if form == "square" else 1)
        exact.update(experience)
        drawn.update(experience)
    assert (drawn.compute(seen) / exact.compute(seen) - 1).abs().max() < 5.5 / (2 * members) ** 0.5 * 2
