"""The value of exploration: known answers, the same run once, former versions apart, and a figure that shows all."""

import math

import numpy as np
import pytest

from optimist.reporting.figures.improvement import draw_improvement
from optimist.reporting.improvement import ALL, improvement_rows
from optimist.reporting.style import told_by

PAIRS = {"RND": (("acb", "rnd"), ("acb-noveld", "rnd-noveld")), "no bonus": (("acb", "none"),)}


def runs(task, learner, scores, *, study="s", counts=True):
    shown = {"study": study, "task": task, "learner": learner, "steps": 10, "unique_states": 3, "return": 0.0}
    return [shown | {"seed": seed, "score": score, "counts": counts} for seed, score in enumerate(scores)]


def chance(ours, theirs):
    """P(improvement) by two loops: obviously right and slow."""
    return np.mean([[1.0 if x > y else 0.5 if x == y else 0.0 for y in theirs] for x in ours])


def test_the_chance_is_that_of_loops_and_tasks_weigh_the_same():
    first, second = ((3.0, 5.0, 5.0), (5.0, 1.0)), ((1.0,), (2.0, 2.0, 2.0))
    rows = improvement_rows(
        [
            *runs("a", "acb", first[0]),
            *runs("a", "rnd", first[1]),
            *runs("b", "acb", second[0]),
            *runs("b", "rnd", second[1]),
        ],
        PAIRS,
    )
    whole, a, b = rows
    assert (a["task"], a["improvement"], a["runs"], a["rival_runs"]) == ("a", pytest.approx(chance(*first)), 3, 2)
    assert (b["improvement"], b["low"], b["high"]) == (0.0, 0.0, 0.0)
    assert (whole["task"], whole["tasks"], whole["runs"]) == (ALL, 2, 4)
    assert whole["improvement"] == pytest.approx((chance(*first) + chance(*second)) / 2)
    assert whole["low"] <= whole["improvement"] <= whole["high"]


def test_what_says_nothing_is_left_out():
    silent = [*runs("a", "acb", (0.0, 0.0)), *runs("a", "rnd", (0.0,))]  # nobody scores
    alone = runs("b", "acb", (1.0,))  # no rival
    unknown = [*runs("c", "acb", (1.0, math.nan)), *runs("c", "rnd", (0.5, ""))]
    (whole, only) = improvement_rows([*silent, *alone, *unknown], PAIRS)
    assert (only["task"], only["runs"], only["rival_runs"]) == ("c", 1, 1)
    assert whole["tasks"] == 1
    assert improvement_rows(silent, PAIRS) == []
    few = [*runs("d", "acb", (1.0, 2.0, 3.0)), *runs("d", "rnd", (0.0, 0.5))]
    assert improvement_rows(few, PAIRS, least=2)[1]["task"] == "d"
    assert improvement_rows(few, PAIRS, least=3) == []


def test_a_task_that_two_studies_share_counts_once_even_if_its_runs_end_elsewhere():
    mine = [*runs("sea", "acb", (1.0, 2.0)), *runs("sea", "rnd", (0.0, 0.0))]
    longer = [*runs("N = 20", "acb", (0.0, 0.0), study="t"), *runs("N = 20", "rnd", (5.0, 6.0), study="t")]
    both = [run | {"world": "DeepSea-20"} for run in (*mine, *longer)]
    whole, one = improvement_rows(both, PAIRS)
    assert (whole["tasks"], one["task"], one["improvement"]) == (1, "sea", 1.0)
    other = [run | {"world": run["study"]} for run in (*mine, *longer)]
    assert improvement_rows(other, PAIRS)[0]["tasks"] == 2
    former = [run | {"counts": run["study"] == "t"} for run in both]  # one that counts is not hidden
    assert [row["task"] for row in improvement_rows(former, PAIRS)] == [ALL, "N = 20"]
    lonely = [run for run in both if run["study"] == "t" or run["learner"] == "acb"]  # nor by one without a rival
    assert [row["task"] for row in improvement_rows(lonely, PAIRS)] == [ALL, "N = 20"]


def test_a_run_that_two_studies_show_counts_once_and_the_first_pair_of_a_task_is_taken():
    shown = [*runs("a", "acb", (1.0, 2.0)), *runs("a", "rnd", (0.0, 0.0))]
    again = [{**run, "study": "other"} for run in shown]
    assert improvement_rows([*shown, *again], PAIRS) == improvement_rows(shown, PAIRS)
    gains = [*runs("a", "acb-noveld", (0.0,)), *runs("a", "rnd-noveld", (9.0,))]
    assert improvement_rows([*shown, *gains], PAIRS)[1]["improvement"] == 1.0
    assert improvement_rows(gains, PAIRS)[1]["improvement"] == 0.0


def test_former_versions_have_their_lines_and_are_not_in_the_sum(tmp_path):
    now = [*runs("a", "acb", (1.0,)), *runs("a", "rnd", (0.0,)), *runs("a", "none", (0.0,))]
    before = [*runs("b", "acb", (0.0,), counts=False), *runs("b", "rnd", (1.0,), counts=False)]
    rows = improvement_rows([*now, *before], PAIRS)
    assert [(row["rival"], row["task"], row["counts"], row["improvement"]) for row in rows] == [
        ("RND", ALL, 1, 1.0), ("RND", "a", 1, 1.0), ("RND", "b", 0, 0.0), 
        ("no bonus", ALL, 1, 1.0), ("no bonus", "a", 1, 1.0),
    ]  # fmt: skip
    draw_improvement(rows, tmp_path / "value.png")
    kind, caption = told_by(tmp_path / "value.png")
    assert kind == "chart"
    assert "Gray: played by a former version" in caption
    assert [row["task"] for row in improvement_rows(before, PAIRS)] == ["b"]  # nothing of today, so no sum
