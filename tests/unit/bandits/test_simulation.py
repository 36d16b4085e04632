"""The simulation against a plain loop over policies in use, and the compiled loop against the general one."""

import numpy as np
import pytest
from lineup_cases import VARIANTS, make

from optimist import bandits
from optimist.bandits import (
    ACB,
    ChangingActions,
    DriftingActions,
    FixedActions,
    LabeledData,
    MultiArmed,
    Noise,
    simulate,
    simulation,
)
from optimist.bandits.compiled.streams import make_streams
from optimist.seeding import split

PROBLEMS = {
    "fixed": FixedActions.random(6, 4, instances=2, seed=1),
    "changing": ChangingActions(5, 4, 0.2, seed=1),
    "drifting": DriftingActions(5, 4, 0.2, period=20, seed=1),
    "multi-armed": MultiArmed([0.1, 0.9, 0.4], Noise(0.2, "uniform")),
    "labeled": LabeledData(np.random.default_rng(0).normal(size=(20, 4)), np.arange(20) % 3),
}


def plain_loop(policy, problem, horizon, trial, seed):
    """One trial by ``predict`` and ``partial_fit``, as a user would write it. -> cumulative regret."""
    learner = policy.spawn(make_streams(split(seed, "policy"), [trial]))
    streams = make_streams(split(seed, "problem"), [trial])
    total = 0.0
    for t in range(horizon):
        x, means = problem.deal([trial], streams, t)
        action = learner.predict(x[0])
        mean = means[0, action]
        reward = problem.noise.rewards(np.array([mean]), streams)[0]
        arm = None if problem.n_arms is None else action
        learner.partial_fit(x[0, action % x.shape[1]], reward, arm)
        total += means[0].max() - mean
    return total


@pytest.mark.parametrize("name", VARIANTS)
@pytest.mark.parametrize("kind", PROBLEMS)
def test_simulate_is_the_loop_a_user_would_write(name, kind):
    problem = PROBLEMS[kind]
    policy = make(name, n_features=problem.n_features, n_arms=problem.n_arms)
    result = simulate(policy, problem, horizon=25, trials=3, seed=4)
    expected = [plain_loop(policy, problem, 25, trial, 4) for trial in range(3)]
    np.testing.assert_allclose(result.final, expected, rtol=1e-9)


@pytest.mark.parametrize(
    "solver",
    [
        {"solver": "exact"},
        {"solver": "sgd", "averaging": "uniform", "learning_rate": 0.5},
        {"solver": "sgd", "averaging": "uniform", "learning_rate": 0.5, "is_implicit": False},
    ],
    ids=["exact", "implicit", "explicit"],
)
def test_the_compiled_multi_armed_loop_plays_the_same_actions(solver, monkeypatch):
    policy, problem = ACB(50, ensemble_size=8, beta=0.2, ridge=0.3, **solver), MultiArmed.paper()
    compiled = simulate(policy, problem, horizon=400, trials=5, seed=1)
    monkeypatch.setattr(simulation, "compiled_regret", lambda *_: None)
    general = simulate(policy, problem, horizon=400, trials=5, seed=1)
    np.testing.assert_allclose(compiled.regret, general.regret, atol=1e-9)
    assert compiled.final.max() > 0


@pytest.mark.parametrize("policy", [ACB(3), ACB(3, history="rerandomized")], ids=["compiled", "general"])
def test_results_do_not_depend_on_threads_or_on_the_other_trials(policy):
    problem = MultiArmed([0.2, 0.5, 0.9])
    one, two, five = (simulate(policy, problem, horizon=60, trials=5, seed=2, threads=n).regret for n in (1, 2, 5))
    np.testing.assert_array_equal(one, two)
    np.testing.assert_array_equal(one, five)
    np.testing.assert_array_equal(one[:3], simulate(policy, problem, horizon=60, trials=3, seed=2).regret)


def test_seeds_of_run_and_problem_are_two():
    policy = ACB(4)
    a = FixedActions.random(6, 4, seed=1)
    runs = [simulate(policy, a, horizon=40, trials=2, seed=seed).regret for seed in (0, 0, 1)]
    np.testing.assert_array_equal(runs[0], runs[1])
    assert (runs[0] != runs[2]).any()
    assert (FixedActions.random(6, 4, seed=1).X == a.X).all()
    assert (FixedActions.random(6, 4, seed=2).X != a.X).any()
    assert (ChangingActions(6, 4, seed=1).theta != ChangingActions(6, 4, seed=2).theta).any()


def test_one_hot_features_are_arms_of_their_own():
    problem = MultiArmed([0.2, 0.5, 0.9])
    whole, arms = bandits.LinUCB(3), bandits.LinUCB(1, n_arms=3)
    runs = [simulate(policy, problem, horizon=50, trials=3, seed=0).regret for policy in (whole, arms)]
    np.testing.assert_array_equal(*runs)
    with pytest.raises(ValueError, match="make it with the sizes of the problem"):
        simulate(ACB(4), problem, horizon=5, trials=1, seed=0)


def test_rounds_end_at_the_horizon_and_progress_is_told():
    told = []
    result = simulate(
        ACB(4, aggregate="rms"),
        FixedActions.random(3, 4, seed=0),
        horizon=37,
        trials=2,
        seed=0,
        points=5,
        progress=lambda done, total: told.append((done, total)),
    )
    assert result.rounds.tolist() == [7, 15, 22, 30, 37]
    assert result.regret.shape == (2, 5)
    assert told[-1] == (37, 37)
    assert (np.diff(result.regret, axis=1) >= 0).all()
