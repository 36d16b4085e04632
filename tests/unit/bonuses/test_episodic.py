"""E3B against an inverse from scratch at every step, over rollouts that cut episodes anywhere."""

import dataclasses

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import oracles
from optimist.bonuses import (
    E3B,
    ICM,
    DiscreteActions,
    E3BConfig,
    FixedEmbedding,
    ICMConfig,
    InverseDynamics,
    InverseDynamicsConfig,
    Transitions,
)
from optimist.bonuses.e3b import episodic_bonuses


def identity(size):
    return FixedEmbedding(lambda observations: observations.flatten(0, 1), size)


def rollout(observations, terminated=None, truncated=None):
    never = torch.zeros(observations.shape[:2], dtype=torch.bool)
    return Transitions(
        torch.zeros_like(observations),
        never.long(),
        observations,
        never if terminated is None else terminated,
        never if truncated is None else truncated,
    )


@settings(max_examples=30, deadline=None)
@given(
    lengths=st.lists(st.integers(1, 5), min_size=1, max_size=4),
    environments=st.integers(1, 4),
    size=st.integers(1, 5),
    seed=st.integers(0, 2**32 - 1),
)
def test_the_bonus_is_that_of_an_inverse_from_scratch(lengths, environments, size, seed):
    generator = torch.Generator().manual_seed(seed)
    steps = sum(lengths)
    phi = torch.randn(steps, environments, size, generator=generator)
    terminated, truncated = torch.rand(2, steps, environments, generator=generator) < 0.15
    bonus = E3B(identity(size), config=E3BConfig(ridge=0.1))
    computed = []
    for x, over, cut in zip(phi.split(lengths), terminated.split(lengths), truncated.split(lengths), strict=True):
        transitions = rollout(x, over, cut)
        computed.append(bonus.compute(transitions))
        bonus.update(transitions)
    expected = oracles.episodic_elliptical_bonuses(phi, terminated | truncated, 0.1)
    torch.testing.assert_close(torch.cat(computed), expected.float(), rtol=1e-5, atol=1e-7)


def test_a_repeated_state_falls_as_one_over_n_until_its_episode_ends():
    ended = torch.zeros(6, 1, dtype=torch.bool)
    ended[3] = True
    phi = torch.ones(6, 1, 1)
    bonuses = E3B(identity(1), config=E3BConfig(ridge=0.5)).compute(rollout(phi, truncated=ended)).flatten()
    assert bonuses.tolist() == pytest.approx([1 / 0.5, 1 / 1.5, 1 / 2.5, 1 / 3.5, 1 / 0.5, 1 / 1.5])


def test_environments_do_not_see_one_another():
    generator = torch.Generator().manual_seed(0)
    phi = torch.randn(8, 3, 4, generator=generator)
    together = E3B(identity(4)).compute(rollout(phi))
    alone = torch.cat([E3B(identity(4)).compute(rollout(phi[:, n : n + 1])) for n in range(3)], dim=1)
    torch.testing.assert_close(together, alone, rtol=1e-6, atol=0)


def test_ten_thousand_rank_one_updates_do_not_drift():
    generator = torch.Generator().manual_seed(0)
    phi = torch.randn(10_000, 1, 8, generator=generator, dtype=torch.float64)
    inverses = torch.eye(8, dtype=torch.float64).unsqueeze(0) / 0.1
    episodic_bonuses(phi, torch.zeros(10_000, 1, dtype=torch.bool), inverses, inverses[0].clone())
    exact = torch.linalg.inv(0.1 * torch.eye(8, dtype=torch.float64) + phi[:, 0].T @ phi[:, 0])
    torch.testing.assert_close(inverses[0], exact, rtol=1e-9, atol=1e-13)
    assert torch.equal(inverses, inverses.mT)


def test_a_step_that_is_not_valid_neither_joins_nor_renews_the_covariance():
    generator = torch.Generator().manual_seed(0)
    phi = torch.randn(12, 3, 4, generator=generator)
    ended, valid = torch.rand(2, 12, 3, generator=generator) < torch.tensor([0.2, 0.7]).view(2, 1, 1)
    together = E3B(identity(4)).compute(dataclasses.replace(rollout(phi, ended), valid=valid))
    for n in range(3):
        x, over = phi[valid[:, n], n : n + 1], ended[valid[:, n], n : n + 1]
        alone = E3B(identity(4)).compute(rollout(x, over))
        torch.testing.assert_close(together[valid[:, n], n : n + 1], alone, rtol=1e-6, atol=0)
    assert not together[~valid].any()


def test_another_number_of_environments_is_refused():
    bonus = E3B(identity(2))
    bonus.update(rollout(torch.ones(2, 3, 2)))
    with pytest.raises(ValueError, match="3 environments as before, got 4"):
        bonus.compute(rollout(torch.ones(2, 4, 2)))


def test_a_wrong_embedding_says_what_was_expected():
    with pytest.raises(ValueError, match=r"rows of shape \(6, 5\), got shape \(6, 2\)"):
        E3B(identity(5)).compute(rollout(torch.ones(2, 3, 2)))


@pytest.mark.parametrize("kind", ["inverse dynamics", "icm"])
def test_learned_embeddings_are_trained_after_the_covariance_has_moved(kind):
    if kind == "icm":
        embedding = ICM((2,), DiscreteActions(2), seed=0, config=ICMConfig(n_features=4))
    else:
        embedding = InverseDynamics((2,), DiscreteActions(2), seed=0, config=InverseDynamicsConfig(n_features=4))
    bonus = E3B(embedding)
    x = torch.randn(5, 3, 2, generator=torch.Generator().manual_seed(0))
    phi = embedding.embed(x).double().view(5, 3, 4)
    metrics = bonus.update(rollout(x))
    expected = torch.linalg.inv(0.1 * torch.eye(4, dtype=torch.float64) + torch.einsum("tni,tnj->nij", phi, phi))
    torch.testing.assert_close(bonus.state_dict()["inverses"], expected, rtol=1e-5, atol=1e-7)
    assert metrics["inverse_loss"] > 0
    assert not torch.allclose(embedding.embed(x).double().view(5, 3, 4), phi)


def test_an_action_that_the_embedding_cannot_learn_from_changes_nothing():
    bonus = E3B(InverseDynamics((2,), DiscreteActions(2), seed=0, config=InverseDynamicsConfig(n_features=4)))
    x, never = torch.ones(1, 1, 2), torch.zeros(1, 1, dtype=torch.bool)
    with pytest.raises(ValueError, match="actions must lie below 2"):
        bonus.update(Transitions(x, torch.full((1, 1), 2), x, never, never))
    assert bonus.state_dict()["inverses"].shape == (0, 4, 4)
