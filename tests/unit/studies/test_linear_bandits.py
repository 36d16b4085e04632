"""The verdicts of the study of linear bandits on made-up regrets whose answer is known."""

import numpy as np
import pytest

from optimist.studies.bandits import linear_bandits
from optimist.studies.bandits.comparison import LINEUP
from optimist.studies.bandits.linear_bandits import PUBLISHED, SCALES


def row(policy, mean, se=1.0, d=5):
    return {"problem": "fixed", "d": d, "policy": policy, "mean": mean, "se": se, "q95": 2 * mean}


def curves(policy, exponent, d=5):
    rounds = np.arange(100, 10_001, 100)
    return [{"problem": "fixed", "d": d, "policy": policy, "round": t, "mean": t**exponent} for t in rounds.tolist()]


@pytest.mark.parametrize(
    ("means", "error", "judgement"),
    [
        ((100, 100), 1.0, "holds"),
        ((200, 100), 1.0, "does not hold"),
        ((149, 100), 1.0, "not enough data"),
        ((100, 100), 40.0, "not enough data"),
    ],
)
def test_a_ratio_is_judged_by_its_uncertainty(means, error, judgement):
    rows = [row("a", means[0], error), row("b", means[1], error)]
    assert linear_bandits.judge_ratio("claim", rows, "a", "b").judgement == judgement


def test_one_uncertain_problem_leaves_the_claim_open():
    rows = [row("a", 50), row("b", 100), row("a", 100, 30, d=9), row("b", 100, 30, d=9)]
    assert linear_bandits.judge_ratio("claim", rows, "a", "b").judgement == "not enough data"


@pytest.mark.parametrize(("exponent", "judgement"), [(0.5, "holds"), (1.0, "not enough data")])
def test_the_conjecture_also_asks_for_sublinear_growth(exponent, judgement):
    rows = [row("acb", 100), row("acb-rerandomized", 100)]
    found = linear_bandits.judge_incremental(rows, curves("acb", exponent))
    assert found.judgement == judgement
    assert f"T^{exponent:.2f}" in found.measured


def test_published_numbers_belong_to_policies_and_dimensions_that_are_played():
    names = {name for name, _ in PUBLISHED} - {"linreboot"}
    assert names <= set(LINEUP)
    assert {d for _, d in PUBLISHED} == set(SCALES["paper"].dimensions)
    assert (SCALES["paper"].horizon, SCALES["paper"].n_actions, SCALES["paper"].trials) == (10_000, 100, 100)


@pytest.mark.parametrize(("mean", "judgement"), [(40, "holds"), (99, "not enough data"), (140, "does not hold")])
def test_forgetting_is_judged_by_the_regret_that_it_saves(mean, judgement):
    rows = [row("acb-decay", mean), row("acb", 100)]
    assert linear_bandits.judge_gain("claim", rows, "acb-decay", "acb").judgement == judgement
