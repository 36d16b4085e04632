"""Trials split over workers are the trials of one call, bit for bit."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from optimist.bandits import ACB, ChangingActions, FixedActions, LinTS, MultiArmed, Simulation, simulate
from optimist.studies.bandits.comparison import Budget, compare
from optimist.studies.bandits.splitting import parts_of, simulate_all
from optimist.studies.executors import InProcess


class Crowd(InProcess):
    """This process, which says that it is five workers."""

    size = 5


@given(trials=st.integers(1, 50), count=st.integers(1, 60))
def test_parts_cover_all_trials_once_and_are_nearly_equal(trials, count):
    parts = parts_of(7, "plan", trials, count)
    covered = [trial for part in parts for trial in range(part.first_trial, part.first_trial + part.trials)]
    assert covered == list(range(trials))
    assert len(parts) == min(count, trials)
    assert max(part.trials for part in parts) - min(part.trials for part in parts) <= 1
    assert {(part.index, part.plan) for part in parts} == {(7, "plan")}


@pytest.mark.parametrize(
    ("policy", "problem"),
    [
        (ACB(50), MultiArmed.paper()),  # the compiled loop
        (ACB(4, history="rerandomized"), ChangingActions(6, 4, 0.3, seed=1)),
        (LinTS(3), FixedActions.random(5, 3, instances=4, seed=2)),
    ],
)
def test_trials_from_a_later_one_on_are_those_of_the_whole(policy, problem):
    whole = simulate(policy, problem, horizon=40, trials=7, seed=3)
    parts = [
        simulate(policy, problem, horizon=40, trials=n, first_trial=first, seed=3, threads=threads)
        for first, n, threads in ((0, 3, 1), (3, 1, 1), (4, 3, 2))
    ]
    np.testing.assert_array_equal(Simulation.joined(parts).regret, whole.regret)
    np.testing.assert_array_equal(Simulation.joined(parts).rounds, whole.rounds)


def test_every_worker_has_a_part_and_the_answers_come_in_the_order_of_the_plans():
    asked, told = [], []

    def play(plan, first_trial, trials):
        asked.append((plan, first_trial, trials))
        regret = np.array([[plan + trial / 100] for trial in range(first_trial, first_trial + trials)])
        return Simulation(np.array([1]), regret), 1.0

    played = simulate_all([10, 20], 7, play, Crowd(), retries=0, tell=lambda plan, _: told.append(plan))
    assert sorted(asked) == [(10, 0, 2), (10, 2, 2), (10, 4, 3), (20, 0, 2), (20, 2, 2), (20, 4, 3)]
    assert sorted(told) == [10, 20]
    for plan, (simulation, seconds) in zip((10, 20), played, strict=True):
        np.testing.assert_allclose(simulation.final, [plan + trial / 100 for trial in range(7)])
        assert seconds == 3.0


def test_a_comparison_does_not_depend_on_the_workers():
    problem = FixedActions.random(5, 3, seed=0)
    budget = Budget(horizon=30, trials=6, selection_trials=4, seed=1, betas=(0.3, 1.0))
    one, many = (
        compare(problem, problem, ("acb", "lints", "greedy"), budget, workers, lambda *_: None)
        for workers in (InProcess(), Crowd())
    )
    assert [(entry.policy, entry.beta) for entry in one] == [(entry.policy, entry.beta) for entry in many]
    for a, b in zip(one, many, strict=True):
        np.testing.assert_array_equal(a.simulation.regret, b.simulation.regret)
