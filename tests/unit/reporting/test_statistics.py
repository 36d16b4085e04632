"""rliable's statistics against scipy and slow loops. rliable itself does not import beside pandas 3."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from optimist.reporting import statistics as measure


@st.composite
def scores(draw, tasks=None, least=1):
    """One array a task, few different values, so that ties happen."""
    runs = draw(st.lists(st.integers(least, 6), min_size=1, max_size=4) if tasks is None else st.just(tasks))
    return [np.array(draw(st.lists(st.integers(-3, 3), min_size=n, max_size=n)), float) for n in runs]


@given(scores())
def test_the_interquartile_mean_is_scipys_trimmed_mean(tasks):
    expected = stats.trim_mean(np.concatenate(tasks), 0.25)
    assert measure.interquartile_mean(tasks) == pytest.approx(expected)


@given(scores(tasks=(2, 5, 3)), scores(tasks=(4, 3, 3)))
def test_the_probability_of_improvement_is_mann_whitneys_statistic_a_pair(ours, theirs):
    expected = [
        stats.mannwhitneyu(x, y, method="asymptotic").statistic / (len(x) * len(y)) if len(set(x) | set(y)) > 1 else 0.5
        for x, y in zip(ours, theirs, strict=True)
    ]
    assert measure.probability_of_improvement(ours, theirs) == pytest.approx(np.mean(expected))
    both = measure.probability_of_improvement(ours, theirs) + measure.probability_of_improvement(theirs, ours)
    assert both == pytest.approx(1)


@given(scores())
def test_the_performance_profile_and_the_mean_are_those_of_loops(tasks):
    thresholds = np.array([-1.5, 0.0, 2.0])
    expected = [np.mean([np.mean([run > bar for run in task]) for task in tasks]) for bar in thresholds]
    assert measure.performance_profile(tasks, thresholds) == pytest.approx(np.array(expected))
    assert measure.mean(tasks) == pytest.approx(np.mean([sum(task) / len(task) for task in tasks]))


@pytest.mark.parametrize("statistic", [measure.interquartile_mean, measure.mean])
def test_a_batch_of_resamples_is_the_statistic_of_each(statistic):
    batch = measure.resampled([np.arange(3.0), np.arange(5.0) ** 2], rng=np.random.default_rng(0))
    one_by_one = [statistic([task[i] for task in batch]) for i in range(100)]
    assert statistic(batch)[:100] == pytest.approx(np.array(one_by_one))


def test_resamples_keep_to_their_task():
    first, second = measure.resampled([np.array([1.0, 2.0, 3.0]), np.array([7.0])], rng=np.random.default_rng(0))
    assert first.shape == (measure.RESAMPLES, 3)
    assert set(np.unique(first)) == {1.0, 2.0, 3.0}
    assert (second == 7).all()


def test_the_interval_of_a_mean_is_that_of_scipys_bootstrap():
    values = np.random.default_rng(1).normal(size=12)
    low, high = measure.bootstrap_interval(measure.mean, [values], rng=np.random.default_rng(2))
    theirs = stats.bootstrap((values,), np.mean, method="percentile", n_resamples=10_000, rng=np.random.default_rng(3))
    expected = theirs.confidence_interval
    # The sd of a 2.5 % quantile of 10,000 normal resamples is 0.027 sd; of the difference of two 0.038: 5 sd is 0.19.
    error = 0.19 * values.std() / np.sqrt(12)
    assert low == pytest.approx(expected.low, abs=error)
    assert high == pytest.approx(expected.high, abs=error)


def test_the_interval_depends_on_the_generator_alone_and_has_the_statistics_shape():
    tasks = [np.arange(5.0), np.arange(4.0)]
    thresholds = np.linspace(0, 4, 7)

    def interval(seed):
        rng = np.random.default_rng(seed)
        return measure.bootstrap_interval(lambda s: measure.performance_profile(s, thresholds), tasks, rng=rng)

    assert [side.shape for side in interval(0)] == [(7,), (7,)]
    assert np.array_equal(interval(0), interval(0))
    assert not np.array_equal(
        measure.resampled(tasks, rng=np.random.default_rng(0))[0],
        measure.resampled(tasks, rng=np.random.default_rng(1))[0],
    )
    profile = measure.performance_profile(tasks, thresholds)
    low, high = interval(0)
    assert (low <= profile).all()
    assert (profile <= high).all()


@pytest.mark.parametrize("bad", [np.array([]), np.array([1.0, np.nan]), np.ones((2, 2))])
def test_scores_that_are_no_numbers_are_refused(bad):
    with pytest.raises(ValueError, match="one finite number a run"):
        measure.bootstrap_interval(measure.mean, [np.ones(3), bad], rng=np.random.default_rng(0))


def test_other_tasks_on_the_other_side_are_refused():
    with pytest.raises(ValueError, match="got 1 and 2"):
        measure.probability_of_improvement([np.ones(3)], [np.ones(3), np.ones(3)])
