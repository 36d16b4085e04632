"""How MiniGrid is judged: DoorKey beside published success rates, and whether and by whom MultiRoom is solved."""

import math
from collections.abc import Sequence

from optimist.reporting.tables import Row
from optimist.studies.minigrid.settings import DOOR_KEY, PUBLISHED
from optimist.studies.training_rows import values_of
from optimist.studies.training_verdicts import judge_above, judge_majority
from optimist.studies.verdicts import Verdict


def judge(rows: Sequence[Row]) -> list[Verdict]:
    """ACB against each published rate on DoorKey-8x8; for every learner of MultiRoom whether it is solved."""
    acb = values_of(rows, DOOR_KEY, "acb", "success_rate")
    result = [
        judge_above(f"{DOOR_KEY}: ACB succeeds as often as the published {learner}", acb, share)
        for (task, learner), share in PUBLISHED.items()
        if task == DOOR_KEY
    ]
    for task, learner in dict.fromkeys((row["task"], row["learner"]) for row in rows if row["task"] != DOOR_KEY):
        solved = [not math.isnan(step) for step in values_of(rows, task, learner, "solved_at")]
        if learner == "none":
            unsolved = [not one for one in solved]
            result.append(judge_majority(f"{task}: not solved without a bonus", unsolved))
        else:
            result.append(judge_majority(f"{task}: solved with {learner}", solved))
    return result
