"""How Figure 4 is judged: the largest ensemble against the smallest, in the reward met and in its spread."""

from collections.abc import Sequence

from optimist.reporting.tables import Row
from optimist.studies.figure4.settings import size_of
from optimist.studies.game_verdicts import judge_steadier
from optimist.studies.games import known
from optimist.studies.training_verdicts import judge_more
from optimist.studies.verdicts import Verdict


def judge(rows: Sequence[Row]) -> list[Verdict]:
    """On every game, whether more reward is met, and whether seeds differ less."""
    sizes = sorted({row["learner"] for row in rows}, key=size_of)
    small, large = sizes[0], sizes[-1]
    result: list[Verdict] = []
    for game in dict.fromkeys(row["task"] for row in rows):
        few, many = known(rows, game, small, "return"), known(rows, game, large, "return")
        who = f"{game}, bonuses alone: {size_of(large)} regressors"
        result.append(judge_more(f"{who} meet more reward than {size_of(small)}", many, few))
        result.append(judge_steadier(f"{who} vary less from seed to seed than {size_of(small)}", many, few))
    return result
