"""The numbers of a report against slow loops: curves over seeds, their bands, and how runs ended."""

import math

import numpy as np
import pytest
from scipy.stats import trim_mean

from optimist.reporting.report.folders import Run
from optimist.reporting.report.measures import POINTS, band, curve, estimate, is_share, thinned
from report_folders import SEA


def run(steps, values, **changes):
    metrics = {"step": np.array(steps, float), "unique_states": np.array(values, float)}
    from dataclasses import replace

    return Run("nowhere", replace(SEA, **changes), metrics)


def test_a_curve_is_the_interquartile_mean_of_the_runs_that_came_so_far():
    finished = run([1000, 2000, 3000, 4000], [1, 2, 3, 4])
    solved = run([1000, 2000], [10, 20], total_steps=2000)  # keeps its last value
    stopped = run([1000, 2000, 3000], [100, math.nan, 300])  # counts as far as it came
    found = curve([finished, solved, stopped], "unique_states")
    assert found.steps.tolist() == [1000, 2000, 3000, 4000]
    assert found.count.tolist() == [3, 2, 3, 2]
    assert found.center.tolist() == pytest.approx([37, 11, 323 / 3, 12])
    assert (found.low <= found.center).all()
    assert (found.center <= found.high).all()
    assert (found.low[0], found.high[0]) == (1, 100)


def test_a_measure_that_no_run_has_makes_no_curve():
    assert curve([run([1, 2], [math.nan, math.nan])], "unique_states") is None
    assert curve([run([1, 2], [1, 2])], "success_rate") is None


def test_an_evaluation_holds_until_the_next_one():
    evaluated = run([1000, 2000, 3000, 4000], [0, 0, 0, 0])
    evaluated.metrics["evaluation/greedy_return"] = np.array([math.nan, 5.0, math.nan, 7.0])
    found = curve([evaluated], "evaluation/greedy_return")
    assert found.steps.tolist() == [2000, 3000, 4000]
    assert found.center.tolist() == [5, 5, 7]
    assert curve([run([1000, 4000], [0, 0])], "evaluation/greedy_return") is None
    assert is_share("evaluation/sampled_success")
    assert is_share("success_rate")
    assert not is_share("evaluation/sampled_return")


def test_curves_are_thin_and_keep_their_ends():
    steps = np.arange(1.0, 50_001.0)
    kept = thinned(steps)
    assert len(kept) == POINTS
    assert (kept[0], kept[-1]) == (1, 50_000)
    assert np.diff(kept).max() <= 50_000 / (POINTS - 1) + 1
    assert thinned(steps[:3]).tolist() == [1, 2, 3]


def test_a_band_is_the_bootstrap_of_whole_runs():
    rng = np.random.default_rng(0)
    table = rng.normal(size=(3, 8))
    center, low, high = band(table)
    assert center == pytest.approx(trim_mean(table, 0.25, axis=1))
    draws = [trim_mean(table[:, rng.integers(8, size=8)], 0.25, axis=1) for _ in range(20_000)]
    slow = np.quantile(draws, [0.025, 0.975], axis=0)
    # A 2.5 % quantile of 1,000 draws has the rank 25 ± 5; the draws' deviation is about 0.4 and their density there
    # 0.15 a unit, so its own deviation is about 0.4 * 0.005 / 0.06 = 0.035. Five of them.
    assert np.abs([low, high] - slow).max() < 0.18


def test_an_estimate_leaves_out_what_is_missing():
    found = estimate([3.0, math.nan, 1.0, 2.0, 90.0])
    assert found.values == (3.0, 1.0, 2.0, 90.0)
    assert found.center == 2.5
    assert 1 <= found.low < found.center < found.high <= 90
    assert estimate([3.0, math.nan, 1.0, 2.0, 90.0]) == found
    alone = estimate([7.0])
    assert alone.center == 7
    assert math.isnan(alone.low)
    assert estimate([math.nan]).values == ()
