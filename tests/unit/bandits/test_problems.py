"""The problems: what they deal, and what they refuse."""

import numpy as np
import pytest

from optimist.bandits import (
    ACB,
    ChangingActions,
    DriftingActions,
    FixedActions,
    LabeledData,
    MultiArmed,
    Noise,
    simulate,
)
from optimist.bandits.compiled.streams import make_streams

STREAMS = make_streams(np.random.SeedSequence(0), range(4))


def test_the_papers_arms():
    problem = MultiArmed.paper()
    assert problem.n_actions == 50
    assert sorted(problem.means.tolist()) == [0.25] * 49 + [0.75]
    assert problem.noise == Noise(0.1, "gaussian")


def test_the_linreboot_problem_has_unit_norms_and_its_noise_variance():
    problem = FixedActions.random(100, 5, instances=3, seed=0)
    np.testing.assert_allclose(np.linalg.norm(problem.X, axis=-1), 1)
    np.testing.assert_allclose(np.linalg.norm(problem.theta, axis=-1), 1)
    assert (problem.X >= 0).all()
    assert problem.noise.scale**2 == pytest.approx(0.1)
    x, means = problem.deal(range(4), STREAMS.copy())
    np.testing.assert_array_equal(x[3], problem.X[0])  # trial 3 plays instance 3 mod 3
    np.testing.assert_allclose(means[1], problem.X[1] @ problem.theta[1])


def test_changing_actions_change_and_are_linear():
    problem, streams = ChangingActions(6, 3, seed=0), STREAMS.copy()
    first, second = problem.deal(range(4), streams), problem.deal(range(4), streams)
    assert (first.x != second.x).any()
    np.testing.assert_allclose(np.linalg.norm(first.x, axis=-1), 1)
    np.testing.assert_allclose(first.means, first.x @ problem.theta)


@pytest.mark.parametrize(("load", "rows", "d"), [(LabeledData.digits, 1_797, 64), (LabeledData.mnist, 5_000, 784)])
def test_labeled_data_never_writes_its_blocks_out(load, rows, d):
    problem = load()
    assert problem.contexts.shape == (rows, d)
    assert (problem.n_features, problem.n_arms, problem.n_actions) == (d, 10, 10)
    x, means = problem.deal(range(4), STREAMS.copy())
    assert x.shape == (4, 1, d)
    assert means.sum(axis=1).tolist() == [1, 1, 1, 1]


def test_bad_problems_are_refused():
    with pytest.raises(ValueError, match="means must be"):
        MultiArmed([[0.1, 0.2]])
    with pytest.raises(ValueError, match="theta"):
        FixedActions(np.ones((3, 2)), np.ones(3))
    with pytest.raises(ValueError, match="must be finite"):
        MultiArmed([0.1, np.nan])
    with pytest.raises(ValueError, match="labels"):
        LabeledData(np.ones((3, 2)), [0.5, 1.0, 2.0])
    with pytest.raises(ValueError, match="kind of the noise"):
        Noise(0.1, "cauchy")
    with pytest.raises(ValueError, match="scale of the noise"):
        Noise(-0.1)
    for labels in ([-1, 0, 1], [0, 1]):
        with pytest.raises(ValueError, match="whole numbers from 0 on"):
            LabeledData(np.ones((3, 2)), labels)
    for sizes in ((0, 3), (3, 0), (2.5, 3)):
        with pytest.raises(ValueError, match="must be a whole number >= 1"):
            FixedActions.random(*sizes)


def test_the_text_of_a_problem_names_its_sizes():
    assert repr(MultiArmed.paper()) == "<MultiArmed: 50 arms, n_features=1, Noise(scale=0.1, kind='gaussian')>"
    for problem in (FixedActions.random(6, 4), ChangingActions(6, 4), LabeledData(np.ones((3, 4)), [0, 1, 2])):
        assert "n_features=4" in repr(problem)
        assert type(problem).__name__ in repr(problem)


def test_a_seed_is_required_nowhere():
    assert (FixedActions.random(6, 4).X == FixedActions.random(6, 4, seed=0).X).all()
    assert (ChangingActions(6, 4).theta == ChangingActions(6, 4, seed=0).theta).all()


def test_theta_drifts_once_around_a_plane_of_the_problems_own():
    problem, other = (DriftingActions(3, 5, 0.1, period=100, seed=seed) for seed in (1, 2))
    path = np.stack([problem.theta(t) for t in range(201)])
    np.testing.assert_allclose(np.linalg.norm(path, axis=1), 1)
    np.testing.assert_allclose(path[0], -path[50], atol=1e-12)
    np.testing.assert_allclose(path[0], path[200], atol=1e-12)
    assert np.linalg.matrix_rank(path) == 2
    assert abs(path[0] @ other.theta(0)) < 1 - 1e-6
    x, means = problem.deal(range(4), STREAMS.copy(), 25)
    np.testing.assert_allclose(means, x @ path[25])
    with pytest.raises(ValueError, match="theta turns in a plane"):
        DriftingActions(3, 1)


def test_a_policy_that_forgets_follows_the_drift_and_one_that_does_not_is_lost():
    problem = DriftingActions(10, 3, 0.1, period=200, seed=0)
    for options in ({}, {"solver": "sgd"}):
        steady, fading = (
            simulate(ACB(3, beta=0.1, decay=decay, **options), problem, horizon=600, trials=4, seed=1).final
            for decay in (1.0, 0.95)
        )
        assert fading.max() < 0.5 * steady.min()  # measured: a quarter and less
