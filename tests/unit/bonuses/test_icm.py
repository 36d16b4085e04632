"""ICM and the inverse-dynamics embedding: the losses by formula, every kind of action, and what is learned."""

import math

import pytest
import torch
from torch.nn import functional

from optimist.bonuses import (
    ICM,
    ContinuousActions,
    DiscreteActions,
    ICMConfig,
    InverseDynamics,
    InverseDynamicsConfig,
    MultiDiscreteActions,
    Transitions,
)

SMALL = ICMConfig(n_features=16, learning_rate=3e-3)


def rollout(observations, actions, successors):
    ended = torch.zeros(actions.shape[:2], dtype=torch.bool)
    return Transitions(observations, actions, successors, ended, ended)


def grid_walk(seed, kind, steps=20, environments=16):
    """Steps on a line or plane that the action alone decides: s' = s + direction(a)."""
    generator = torch.Generator().manual_seed(seed)
    s = torch.randn(steps, environments, 2, generator=generator)
    if kind == "discrete":
        a = torch.randint(0, 4, (steps, environments), generator=generator)
        move = torch.tensor([[1.0, 0], [-1, 0], [0, 1], [0, -1]])[a]
    elif kind == "multi-discrete":
        a = torch.randint(0, 2, (steps, environments, 2), generator=generator)
        move = 2.0 * a - 1
    else:
        move = a = torch.randn(steps, environments, 2, generator=generator)
    return rollout(s, a, s + move)


SPACES = {
    "discrete": DiscreteActions(4),
    "multi-discrete": MultiDiscreteActions((2, 2)),
    "continuous": ContinuousActions(2),
}


def test_the_bonus_is_the_forward_error_in_the_features_of_the_encoder():
    bonus = ICM((2,), DiscreteActions(4), seed=0, config=SMALL)
    transitions = grid_walk(0, "discrete")
    bonus.update(transitions)
    forward = bonus.state_dict()["forward"]
    phi, successor = bonus.embed(transitions.observations), bonus.embed(transitions.next_observations)
    one_hot = functional.one_hot(transitions.actions.flatten(), 4).float()
    hidden = functional.linear(torch.cat([phi, one_hot], 1), forward["0.weight"], forward["0.bias"])
    predicted = functional.linear(functional.leaky_relu(hidden), forward["2.weight"], forward["2.bias"])
    expected = (predicted - successor).square().mean(1).view(20, 16)
    torch.testing.assert_close(bonus.compute(transitions), expected, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("kind", SPACES)
def test_the_action_is_learned_and_the_bonus_falls(kind):
    bonus = ICM((2,), SPACES[kind], seed=0, config=SMALL)
    unseen = grid_walk(99, kind)

    def unexplained():
        return bonus.compute(unseen).mean() / bonus.embed(unseen.next_observations).var(0).mean()

    before = unexplained()
    first = bonus.update(grid_walk(0, kind))
    for seed in range(1, 15):
        last = bonus.update(grid_walk(seed, kind))
    assert last["inverse_loss"] < 0.2 * first["inverse_loss"]
    assert last["forward_loss"] < 0.5 * first["forward_loss"]
    assert unexplained() < 0.2 * before


def test_the_action_matters_to_the_bonus():
    bonus = ICM((2,), DiscreteActions(4), seed=0, config=SMALL)
    transitions = grid_walk(0, "discrete")
    other = rollout(transitions.observations, (transitions.actions + 1) % 4, transitions.next_observations)
    assert not torch.allclose(bonus.compute(transitions), bonus.compute(other))


def test_losses_of_actions_are_their_formulas():
    logits = torch.tensor([[0.0, math.log(3), 0.0, 0.0, math.log(2)]])
    discrete = DiscreteActions(5).loss(logits, torch.tensor([1]))
    multi = MultiDiscreteActions((2, 3)).loss(logits, torch.tensor([[1, 2]]))
    continuous = ContinuousActions(2).loss(torch.tensor([[1.0, 2.0]]), torch.tensor([[0.0, 4.0]]))
    assert discrete.item() == pytest.approx(-math.log(3 / 8))
    assert multi.item() == pytest.approx(-math.log(3 / 4) - math.log(2 / 4))
    assert continuous.item() == pytest.approx(2.5)
    assert MultiDiscreteActions((2, 3)).encode(torch.tensor([[1, 2]])).tolist() == [[0, 1, 0, 0, 1]]


@pytest.mark.parametrize(
    ("space", "actions", "message"),
    [
        (DiscreteActions(3), torch.zeros(2, 2, 1, dtype=torch.int64), r"shape \(T, N\), got \(2, 2, 1\)"),
        (DiscreteActions(3), torch.full((2, 2), 3), "must lie below 3"),
        (DiscreteActions(3), torch.zeros(2, 2), "must be integers"),
        (MultiDiscreteActions((2, 3)), torch.tensor([[[2, 0]]]), r"must lie below \[2, 3\]"),
        (ContinuousActions(2), torch.zeros(2, 2, 3), r"shape \(T, N, 2\), got \(2, 2, 3\)"),
    ],
)
def test_wrong_actions_say_what_was_expected(space, actions, message):
    with pytest.raises(ValueError, match=message):
        space.rows_of(actions)


def test_wrong_actions_change_nothing():
    bonus = ICM((2,), DiscreteActions(4), seed=0, config=SMALL)
    bad = rollout(torch.zeros(2, 3, 2), torch.full((2, 3), 4), torch.zeros(2, 3, 2))
    with pytest.raises(ValueError, match="actions must lie below 4"):
        bonus.update(bad)
    assert bonus.state_dict()["observations"]["whole"]["count"] == 0


def test_the_encoder_of_images_sees_all_frames():
    bonus = ICM((4, 36, 36), DiscreteActions(2), seed=0, config=ICMConfig(n_features=8))
    generator = torch.Generator().manual_seed(0)
    image = torch.rand(1, 2, 4, 36, 36, generator=generator)
    older = image.clone()
    older[:, :, 0] = 0
    assert not torch.allclose(bonus.embed(image), bonus.embed(older))


def test_the_inverse_dynamics_embedding_ignores_what_the_agent_does_not_control():
    # A second pair of coordinates is noise: telling the action needs only the first, so after training the embedding
    # must answer more to the controlled pair than to the noise, although both have unit variance.
    embedding = InverseDynamics(
        (4,), DiscreteActions(4), seed=0, config=InverseDynamicsConfig(n_features=8, learning_rate=3e-3)
    )

    def noisy(seed):
        clean = grid_walk(seed, "discrete")
        generator = torch.Generator().manual_seed(1000 + seed)
        noise = torch.randn(2, 20, 16, 2, generator=generator)
        before = torch.cat([clean.observations, noise[0]], -1)
        return rollout(before, clean.actions, torch.cat([clean.next_observations, noise[1]], -1))

    def answer(columns):
        x = noisy(99).observations
        moved = x.clone()
        moved[..., columns] += 1.0
        return (embedding.embed(moved) - embedding.embed(x)).square().mean()

    for seed in range(25):
        embedding.update(noisy(seed))
    assert answer([0, 1]) > 2 * answer([2, 3])
