"""Figure 2's verdict on made-up regrets whose answer is known, and the selection on other trials."""

import numpy as np
import pytest

from optimist.studies.bandits import figure2
from optimist.studies.bandits.figure2 import GRID, SCALES
from optimist.studies.study import Session, carry_out


def regrets(*means, trials=100, spread=1.0):
    rng = np.random.default_rng(0)
    drawn = {2**i: mean + spread * rng.normal(size=trials) for i, mean in enumerate(means)}
    return {
        size: {"mean": x.mean(), "se": x.std(ddof=1) / np.sqrt(trials), "trials": trials} for size, x in drawn.items()
    }


@pytest.mark.parametrize(
    ("means", "judgement"),
    [
        ((50, 30, 20, 20, 35), "holds"),
        ((50, 30, 20, 10, 5), "holds"),
        ((10, 20, 30, 40, 50), "does not hold"),
        ((50, 60, 20, 20, 30), "does not hold"),
        ((20, 20, 20, 20, 20), "not enough data"),
    ],
)
def test_the_verdict(means, judgement):
    assert figure2.judge_line("exact", regrets(*means)).judgement == judgement


def test_the_verdict_is_careful_with_few_noisy_trials():
    assert figure2.judge_line("exact", regrets(50, 40, 45, trials=5, spread=60)).judgement == "not enough data"


def test_a_verdict_for_each_line():
    place = {"role": "selected", "protocol": "held-out"}
    regret = [
        place | {"panel": panel, "ensemble_size": size} | row
        for panel in ("exact", "sgd")
        for size, row in regrets(9, 1).items()
    ]
    regret += [row | {"role": "fixed rate", "learning_rate": 0.5} for row in regret[2:]]
    regret += [row | {"protocol": "paper", "mean": 1e9} for row in regret]
    verdicts = figure2.judge({"regret": regret})
    assert [v.claim.rsplit("(", 1)[1] for v in verdicts] == ["exact)", "sgd)", "sgd, learning rate 0.5)"] * 2
    assert [v.judgement for v in verdicts] == ["holds"] * 3 + ["does not hold"] * 3  # the largest is the best


@pytest.mark.parametrize(
    ("means", "judgement"), [((9, 1, 5), "holds"), ((9, 5, 1), "does not hold"), ((9, 1, 1.2), "not enough data")]
)
def test_too_large_an_ensemble_costs_regret_if_the_largest_is_worse_than_the_best(means, judgement):
    regret = {2**k: {"mean": mean, "se": 0.5, "trials": 9} for k, mean in enumerate(means)}
    assert figure2.judge_too_large("exact", regret).judgement == judgement


def test_the_scales_differ_only_in_numbers_and_the_grids_are_the_papers():
    assert SCALES["paper"].betas == SCALES["paper"].learning_rates == GRID == (0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 10.0)
    assert SCALES["paper"].ensemble_sizes == tuple(2**i for i in range(9))
    assert (SCALES["paper"].trials, SCALES["paper"].horizon) == (100, 10_000)
    assert {type(settings) for settings in SCALES.values()} == {type(SCALES["paper"])}


def test_what_is_reported_is_not_what_was_selected_on(tmp_path):
    told = []
    settings = SCALES["smoke"]
    session = Session(tmp_path, progress=lambda done, total, label: told.append((done, total)))
    outcome = carry_out(figure2.STUDY, settings, session)
    assert told[-1][0] == told[-1][1]
    assert [done for done, _ in told] == list(range(told[-1][1] + 1))
    main = [
        r for r in outcome.tables["regret"] if (r["panel"], r["ensemble_size"], r["role"]) == ("exact", 4, "selected")
    ]
    by_protocol = {row["protocol"]: row for row in main}
    assert by_protocol["held-out"]["mean"] != by_protocol["paper"]["mean"]
    grid = [r for r in outcome.tables["grid"] if (r["panel"], r["ensemble_size"], r["ridge"]) == ("exact", 4, 1.0)]
    assert by_protocol["held-out"]["beta"] == min(grid, key=lambda row: row["mean"])["beta"]
    assert by_protocol["paper"]["mean"] == min(row["mean"] for row in grid)
