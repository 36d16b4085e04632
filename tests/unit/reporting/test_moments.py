"""Peaks and drops of a curve."""

import numpy as np
import pytest

from optimist.reporting.play.moments import drops, peaks


def test_the_most_prominent_maxima_come_in_the_order_of_time():
    values = np.zeros(100)
    values[[10, 30, 50, 70, 90]] = [5, 1, 9, 3, 7]
    assert peaks(values, most=3).tolist() == [10, 50, 90]
    assert drops(-values, most=3).tolist() == [10, 50, 90]


def test_two_maxima_side_by_side_are_one():
    values = np.zeros(200)
    values[[50, 52, 150]] = [9, 8, 5]
    assert peaks(values, most=2).tolist() == [50, 150]


@pytest.mark.parametrize("values", [np.full(50, 2.0), np.zeros(1)])
def test_a_flat_curve_has_at_most_one_peak(values):
    assert len(peaks(values, most=4)) <= 1


def test_small_wiggles_are_none_and_borders_may_be():
    values = np.linspace(10, 0, 100) + 0.1 * (np.arange(100) % 2)
    assert peaks(values, most=10).tolist() in ([0], [1])
    assert drops(values, most=10).tolist() in ([98], [99])
