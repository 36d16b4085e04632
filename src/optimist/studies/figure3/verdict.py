"""How Figure 3 is judged: states visited with gradient features against those with penultimate ones."""

from collections.abc import Sequence

from optimist.reporting.tables import Row
from optimist.studies.game_study import generator
from optimist.studies.game_verdicts import judge_overall
from optimist.studies.games import known, scores_by_learner
from optimist.studies.training_verdicts import judge_more
from optimist.studies.verdicts import Verdict


def judge(rows: Sequence[Row]) -> list[Verdict]:
    """On every game, then over all games."""
    result = [
        judge_more(
            f"{game}, bonuses alone: ACB visits more states with gradient than with penultimate features",
            known(rows, game, "acb", "unique_states"),
            known(rows, game, "acb-penultimate", "unique_states"),
        )
        for game in dict.fromkeys(row["task"] for row in rows)
    ]
    scores = scores_by_learner(rows, "unique_states")
    gradient, penultimate = scores.get("acb", []), scores.get("acb-penultimate", [])
    claim = "all games, bonuses alone: gradient features explore at least as well as penultimate ones"
    return [*result, judge_overall(claim, gradient, penultimate, rng=generator())]
