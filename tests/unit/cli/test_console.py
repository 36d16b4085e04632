"""Numbers on the screen are never cut, whatever its width, and shares are shares."""

import io
import math

import pytest
from rich.console import Console

from optimist.cli.console import print_table, progress_bar
from optimist.cli.running import line

ROWS = [("acb [bold]", "1,234,567.5 ± 0.1", "0.000123456"), ("linucb", "9.0 ± 0.1", "12.5")]


def screen(width):
    return Console(file=io.StringIO(), width=width)


@pytest.mark.parametrize("width", [20, 40, 80, 200])
def test_a_table_shows_every_number_whole(width):
    shown = screen(width)
    print_table(shown, "A title with [brackets]", ("policy", "regret", "µs per\nround"), ROWS)
    text = shown.file.getvalue()
    assert all(cell in text for row in ROWS for cell in row)
    assert "A title with [brackets]" in text
    assert "…" not in text


def test_prose_goes_on_in_the_next_line_and_numbers_stay_whole():
    shown = screen(60)
    claim = "a claim that is much longer than any number could ever be, and so is wrapped"
    print_table(shown, "", ("claim", "measured"), [(claim, "123456789.25")])
    text = shown.file.getvalue()
    assert "123456789.25" in text
    assert max(map(len, text.splitlines())) <= 60
    assert all(word.strip(",") in text for word in claim.split())


def test_more_steps_than_planned_are_100_percent_and_no_steps_are_too():
    for done, total in ((2048, 1), (0, 0)):
        shown = screen(80)
        with progress_bar(shown) as progress:
            progress(done, total, "label [x]")
        assert shown.file.getvalue() == "100 %  label [x]\n"


def test_a_line_leaves_out_what_is_not_known():
    metrics = {
        "success_rate": math.nan, "return_mean": math.nan, "episodes": 0.0, "unique_states": 12.0, "bonus_mean": 0.5,
        "seconds/bonus": 1.5, "episodes_cut": 0.0, "episodes_unfinished": 0.0,
    }  # fmt: skip
    assert line(metrics, None) == "first rollout 1.5 s, no episode yet, 12 states, bonus 0.5"
    known = metrics | {"success_rate": 0.25, "return_mean": 3.0, "episodes": 4.0}
    assert line(known, 1000.0) == "1,000 steps/s, return 3, success 25%, 12 states, bonus 0.5"
    assert line(known | {"bonus_mean": 0.0}, 1000.0) == "1,000 steps/s, return 3, success 25%, 12 states"  # no bonus


def test_a_line_says_how_many_episodes_are_unfinished_and_how_many_were_cut():
    metrics = {
        "success_rate": 1 / 512, "return_mean": -38.8, "episodes": 1.0, "unique_states": 12.0, "bonus_mean": 0.5,
        "episodes_cut": 1024.0, "episodes_unfinished": 511.0,
    }  # fmt: skip
    told = "9 steps/s, return -38.8, success 0%, 511 unfinished, 1,024 cut, 12 states, bonus 0.5"
    assert line(metrics, 9.0) == told
