"""How FrozenLake is judged: ACB solves it, sooner than what was published, and no bonus does not."""

import math
from collections.abc import Sequence

from optimist.reporting.tables import Row
from optimist.studies.frozen_lake.settings import PUBLISHED
from optimist.studies.training_rows import values_of
from optimist.studies.training_verdicts import decided, interval, judge_majority, mean_and_error, number
from optimist.studies.verdicts import Verdict


def judge(rows: Sequence[Row]) -> list[Verdict]:
    """Three verdicts a lake."""
    result: list[Verdict] = []
    for task in dict.fromkeys(row["task"] for row in rows):
        acb = values_of(rows, task, "acb", "solved_at")
        without = values_of(rows, task, "none", "solved_at")
        result.append(judge_majority(f"{task}: solved with ACB", [not math.isnan(step) for step in acb]))
        result += [
            judge_sooner(f"{task}: solved sooner with ACB than by RLlib's PPO with {learner}", acb, steps)
            for (where, learner), steps in PUBLISHED.items()
            if where == task
        ]
        result.append(judge_majority(f"{task}: not solved without a bonus", [math.isnan(step) for step in without]))
    return result


def judge_sooner(claim: str, steps: Sequence[float], published: float) -> Verdict:
    """Holds if all seeds solved it and the interval of the mean step lies below the published one."""
    solved = [step for step in steps if not math.isnan(step)]
    low, high = interval(solved)
    measured = (
        f"{len(solved)} of {len(steps)} seeds, at step {mean_and_error(solved)} against {number(published)}"
        if solved
        else f"0 of {len(steps)} seeds, against {number(published)}"
    )
    everyone = len(solved) == len(steps)
    fails = not solved or low > published
    return Verdict(claim, measured, decided(holds=everyone and high < published, fails=fails, seeds=len(steps)))
