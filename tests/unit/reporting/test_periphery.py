"""Where the bonus is large: orders whose answer is known, and the chance of more against all pairs."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from optimist.reporting.play.periphery import chance_of_more, periphery_of
from played_games import game_of

FEW = arrays.arrays(np.float64, st.integers(1, 12), elements=st.integers(0, 5).map(float))


@given(FEW, FEW)
def test_the_chance_of_more_is_the_share_of_pairs(ours, theirs):
    pairs = [(a > b) + 0.5 * (a == b) for a in ours for b in theirs]
    assert chance_of_more(ours, theirs) == pytest.approx(np.mean(pairs))


def test_new_states_are_compared_with_familiar_ones_and_ends_with_nothing():
    game = game_of([1, 5, 9, 2, 6, 3], ends=[2], familiar=[True, False, False, True, False, True])
    found = periphery_of([game, game_of([4.0], familiar=[True])])
    assert (found.new, found.chance) == (2, 1.0)  # 5 and 6 against 1, 2, 3 and 4; the end at 9 is neither
    assert periphery_of([game_of([1, 5], familiar=[False, True])]).chance == 0


def test_starts_are_the_first_steps_of_every_episode():
    game = game_of([1, 5, 9, 2, 6, 3], ends=[2, 5])  # nothing comes after the last end
    found = periphery_of([game])
    assert found.starts == 2
    assert found.above_start == pytest.approx((5.5 + 4.5) / 12)  # above 1: five and itself by half; above 2: four


def test_without_anything_to_compare_nothing_is_said():
    found = periphery_of([game_of([1.0, 2.0])])
    assert math.isnan(found.chance)
    assert found.new == 0
    assert math.isnan(periphery_of([game_of([1.0, 2.0], familiar=[True, True])]).chance)
