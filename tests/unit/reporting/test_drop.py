"""The drop of the bonus at the ends of episodes, on curves whose answer is known."""

import math

import numpy as np
import pytest

from optimist.reporting.play.drop import Drop, drop_at_ends
from played_games import game_of, saw_game


def test_before_and_after_are_means_within_their_episodes():
    game = game_of([9, 9, 1, 2, 3, 10, 20, 30, 5], ends=[4], truncated=[1, 7])
    drop = drop_at_ends([game], window=2)
    assert drop.before.tolist() == [9, 2.5, 25]  # 2 of [9 9], 2 of [1 2 3], 2 of [10 20 30]
    assert drop.after.tolist() == [1.5, 15, 5]  # the last episode has only one step
    wide = drop_at_ends([game], window=100)
    assert wide.before.tolist() == [9, 2, 20]  # never beyond the episode
    assert wide.after.tolist() == [2, 20, 5]


def test_an_end_with_nothing_after_it_is_not_counted_and_games_are_not_joined():
    drop = drop_at_ends([game_of([4, 4, 2], ends=[1]), game_of([8, 8], ends=[1])], window=1)
    assert (drop.before.tolist(), drop.after.tolist()) == ([4], [2])


def test_mean_share_and_error_are_over_ends():
    drop = Drop(np.array([4.0, 6.0, 8.0]), np.array([2.0, 2.0, 2.0]))
    assert (drop.ends, drop.mean) == (3, 4)
    assert drop.share == pytest.approx(4 / 6)
    assert drop.error == pytest.approx(2 / math.sqrt(3))
    assert str(drop) == "6 before an end, 2 after it: a drop of 4 ± 1.15 (67%); it fell at 3 of 3 ends"
    assert "a rise of 4 ± 1.15 (200%); it fell at 0 of 3 ends" in str(Drop(drop.after, drop.before))


@pytest.mark.parametrize(
    ("before", "after", "judgement"),
    [
        ([2.0, 2.1, 1.9, 2.0], [1.0, 1.0, 1.1, 1.0], "holds"),
        ([1.0, 1.0, 1.1, 1.0], [2.0, 2.1, 1.9, 2.0], "does not hold"),
        ([1.0, 3.0, 1.0, 3.0], [2.0, 2.0, 2.0, 2.1], "not enough data"),
        ([2.0, 2.1], [1.0, 1.0], "not enough data"),
        ([], [], "not enough data"),
        ([1.0, 1.0, 1.0], [1.0, 1.0, 1.0], "not enough data"),  # one episode, three times
        ([2.0, 2.0, 2.0, 2.0], [1.0, 1.0, 1.0, 1.0], "not enough data"),
        ([1.0, 2.0, 3.0], [1.0, 2.0, 3.0], "does not hold"),
    ],
)
def test_it_holds_only_where_the_interval_lies_above_0(before, after, judgement):
    assert Drop(np.array(before), np.array(after)).judgement == judgement


def test_a_game_without_an_end_says_so():
    drop = drop_at_ends([game_of([1, 2, 3])])
    assert math.isnan(drop.mean)
    assert math.isnan(drop.share)
    assert "no episode ended" in str(drop)


def test_a_bonus_that_rises_within_episodes_drops_at_their_ends():
    drop = drop_at_ends([saw_game()])
    assert drop.judgement == "holds"
    assert drop.mean == pytest.approx(np.linspace(1, 2, 25)[-10:].mean() - np.linspace(1, 2, 25)[:10].mean(), abs=1e-4)
