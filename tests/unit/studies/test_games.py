"""Sets of games: units that they share, their aggregates, and verdicts whose answer is known."""

import math

import numpy as np
import pytest
from scipy import stats

from optimist.studies.atari.comparison import RETURN, STATES, aggregate, profile
from optimist.studies.atari.figure3 import judge as judge_figure3
from optimist.studies.atari.figure4 import judge as judge_figure4
from optimist.studies.atari.figure5 import judge as judge_figure5
from optimist.studies.atari.figure6 import judge as judge_figure6
from optimist.studies.atari.figure7 import judge as judge_figure7
from optimist.studies.atari.games import scores_by_learner
from optimist.studies.study import Verdict
from optimist.studies.training.verdicts import (
    judge_above,
    judge_more,
    judge_most,
    judge_overall,
    judge_some,
    judge_steadier,
)

LOW, HIGH = (1.0, 1.2, 0.9, 1.1, 1.0), (9.0, 9.1, 8.9, 9.2, 9.0)


def condition(task, learner, **columns):
    names, values = list(columns), zip(*columns.values(), strict=True)
    return [{"task": task, "learner": learner} | dict(zip(names, seed, strict=True)) for seed in values]


def games(column, **learners):
    """Rows of Breakout and Gravitar: a learner's values on both, a value a seed."""
    return [
        row
        for learner, values in learners.items()
        for game in ("Breakout", "Gravitar")
        for row in condition(game, learner.replace("_", "-"), **{column: values})
    ]


def judgements(verdicts):
    return [verdict.judgement for verdict in verdicts]


def test_returns_are_normalized_by_human_and_states_by_the_games_mean():
    rows = condition("Breakout", "acb", **{"return": (1.7, 30.5, math.nan), "unique_states": (10, 20, 30)})
    rows += condition("Breakout", "rnd", **{"return": (16.1,), "unique_states": (40,)})
    rows += condition("Gravitar", "acb", **{"return": (173.0,), "unique_states": (5,)})
    returns = scores_by_learner(rows, "return")
    assert returns["acb"][0] == pytest.approx(np.array([0.0, 1.0]))
    assert returns["rnd"][0] == pytest.approx(np.array([0.5]))
    assert [len(scores) for scores in returns.values()] == [1, 1]  # rnd has no Gravitar
    states = scores_by_learner(rows, "unique_states")
    assert states["acb"][0] == pytest.approx(np.array([0.4, 0.8, 1.2]))
    assert scores_by_learner(rows[4:] + condition("Pitfall", "rnd", **{"return": (0.0,)}), "return") == {}


def test_the_aggregate_has_interquartile_means_and_improvements_with_their_intervals():
    rows = games("unique_states", acb=HIGH, rnd=LOW)
    acb, rnd = aggregate(rows, STATES, "acb")
    assert (acb["games"], acb["runs"], acb["learner"]) == (2, 10, "acb")
    pooled = np.array(HIGH * 2) / np.mean(HIGH + LOW)
    assert acb["iqm"] == pytest.approx(stats.trim_mean(pooled, 0.25))
    assert acb["iqm_low"] < acb["iqm"] < acb["iqm_high"]
    assert math.isnan(acb["improvement"])
    assert (rnd["improvement"], rnd["improvement_low"], rnd["improvement_high"]) == (1, 1, 1)
    shares = [row["share"] for row in profile(rows, STATES) if row["learner"] == "rnd"]
    assert shares[0] == 1
    assert shares[-1] == 0
    assert shares == sorted(shares, reverse=True)
    assert aggregate([], RETURN, "acb") == profile([], RETURN) == []


@pytest.mark.parametrize(
    ("ours", "theirs", "count", "judgement"),
    [
        (HIGH, LOW, 2, "holds"),
        (LOW, HIGH, 2, "does not hold"),
        (LOW, LOW, 2, "not enough data"),
        (HIGH, LOW, 1, "not enough data"),  # a single game does not decide over all games
        (HIGH[:2], LOW[:2], 2, "not enough data"),
        ((0.0,) * 5, (0.0,) * 5, 2, "not enough data"),  # nobody scores
        ((), (), 0, "not enough data"),
    ],
)
def test_all_games_are_judged_by_the_probability_of_improvement(ours, theirs, count, judgement):
    sides = ([np.array(ours)] * count, [np.array(theirs)] * count)
    verdict = judge_overall("", *sides, rng=np.random.default_rng(0))
    assert verdict.judgement == judgement
    assert verdict.seeds == len(ours)


def test_to_win_one_game_and_lose_another_says_nothing_over_all():
    """Every resample has the probability 1/2: an interval without width, though there are only two games."""
    low, high = np.array(LOW[:3]), np.array(HIGH[:3])
    verdict = judge_overall("", [low, high], [high, low], rng=np.random.default_rng(0))
    assert "0.5 to 0.5" in verdict.measured
    assert verdict.judgement == "not enough data"


@pytest.mark.parametrize(
    ("words", "judgement"),
    [
        ("h h f", "holds"),
        ("h f", "does not hold"),  # one of two is not most
        ("h h ? ?", "not enough data"),
        ("f f ? h", "does not hold"),
        ("h ? ?", "not enough data"),
        ("", "not enough data"),
    ],
)
def test_most_games_is_more_than_half(words, judgement):
    meanings = {"h": "holds", "f": "does not hold", "?": "not enough data"}
    verdicts = {str(i): [Verdict("", "", meanings[word], 3)] for i, word in enumerate(words.split())}
    assert judge_most("", verdicts).judgement == judgement


def test_a_game_holds_only_if_all_its_verdicts_do():
    mixed = {"a": [Verdict("", "", "holds", 3), Verdict("", "", "does not hold", 3)]}
    assert judge_most("", mixed).judgement == "does not hold"


def test_some_game_is_found_at_the_level_of_all_of_them():
    assert judge_some("", {"a": (LOW, LOW), "b": (HIGH, LOW)}).judgement == "holds"
    assert judge_some("", {"a": (LOW, HIGH), "b": (LOW, HIGH)}).judgement == "does not hold"
    close = ((1.0, 1.1, 1.2, 1.3, 1.4), (0.8, 0.9, 1.0, 1.1, 1.2))  # p = 0.08 for two sides
    sure = ((1.0, 1.1, 1.2, 1.3, 1.4), (0.75, 0.85, 0.95, 1.05, 1.15))  # p = 0.04: enough for one game, not for ten
    assert judge_some("", {"a": close}).judgement == "not enough data"
    assert judge_some("", {"a": sure}).judgement == "holds"
    assert judge_some("", {str(i): sure if i == 0 else (LOW, LOW) for i in range(10)}).judgement == "not enough data"


def test_a_single_seed_has_no_interval_to_tell():
    assert judge_more("", (0.5,), (0.25,)).measured == "0.5 against 0.25, 1 seed"
    assert judge_more("", (0.5,), (1.0, 3.0)).measured == "0.5 against 2 ± 1, 1 and 2 seeds"
    assert judge_above("", (0.75,), 0.5).measured == "0.75, against 0.5; 1 seed"
    assert judge_above("", (), 0.5).measured == "nothing, against 0.5; 0 seeds"
    assert judge_more("", (1.0, 3.0), (1.0, 3.0)).measured.startswith("2 ± 1 against 2 ± 1, 2 seeds; difference -")


def test_the_ratio_of_variances_has_fishers_interval():
    rng = np.random.default_rng(0)
    calm, wild = rng.normal(size=8), 20 * rng.normal(size=8)
    assert judge_steadier("", calm, wild).judgement == "holds"
    assert judge_steadier("", wild, calm).judgement == "does not hold"
    assert judge_steadier("", calm, 1.3 * calm).judgement == "not enough data"
    assert judge_steadier("", (1.0, 2.0, 3.0), (5.0, 5.0, 5.0)).judgement == "not enough data"
    ratio = calm.var(ddof=1) / wild.var(ddof=1)
    quantile = stats.f.ppf(0.025, 7, 7)
    assert f"to {ratio / quantile:.3g}" in judge_steadier("", calm, wild).measured


def test_figures_are_judged_by_their_own_measure():
    states = games("unique_states", acb=HIGH, acb_penultimate=LOW)
    assert judgements(judge_figure3(states)) == ["holds"] * 3
    sizes = games("return", acb_8=LOW, acb=LOW, acb_512=HIGH)
    verdicts = judge_figure4(sizes)
    assert judgements(verdicts)[::2] == ["holds", "holds"]
    assert verdicts[0].claim == "Breakout, bonuses alone: 512 regressors meet more reward than 8"
    returns = games("return", acb=HIGH, rnd=LOW, icm=HIGH, random=LOW)
    verdicts = judge_figure5(returns)
    assert len(verdicts) == 2 * 3 + 2
    assert [v.judgement for v in verdicts if "untrained" in v.claim] == ["holds", "holds"]
    assert verdicts[-2].claim.endswith("RND's")
    assert judgements(verdicts[-2:]) == ["holds", "not enough data"]
    visited = games("unique_states", acb=LOW, rnd=LOW, icm=HIGH, random=LOW)
    verdicts = judge_figure6(visited)
    (most,) = [v for v in verdicts if "most games" in v.claim]
    assert most.judgement == "does not hold"
    assert not any("RANDOM" in v.claim for v in verdicts)
    assert judgements(judge_figure7(games("return", acb=HIGH, rnd=LOW))) == ["holds"] * 5


def test_games_in_which_nobody_scores_say_nothing():
    verdicts = judge_figure7(games("return", acb=(0.0,) * 5, rnd=(0.0,) * 5))
    assert judgements(verdicts) == ["not enough data"] * 3 + ["does not hold", "not enough data"]
    assert verdicts[0].measured == "all runs score 0"


def test_runs_without_a_score_are_not_judged():
    nothing = (math.nan,) * 5
    for judge in (judge_figure5, judge_figure7):
        verdicts = judge(games("return", acb=nothing, rnd=LOW, random=LOW))
        assert set(judgements(verdicts)) == {"not enough data"}
        assert not any("nan" in verdict.measured for verdict in verdicts)
