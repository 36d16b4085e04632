"""The problems: what they deal, and what they refuse."""

import numpy as np
import pytest

from optimist.bandits import ChangingActions, FixedActions, LabelledData, MultiArmed, Noise
from optimist.bandits.streams import make_streams

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


@pytest.mark.parametrize(("load", "rows", "d"), [(LabelledData.digits, 1_797, 64), (LabelledData.mnist, 5_000, 784)])
def test_labelled_data_never_writes_its_blocks_out(load, rows, d):
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
        LabelledData(np.ones((3, 2)), [0.5, 1.0, 2.0])
    with pytest.raises(ValueError, match="kind of the noise"):
        Noise(0.1, "cauchy")
    with pytest.raises(ValueError, match="scale of the noise"):
        Noise(-0.1)
