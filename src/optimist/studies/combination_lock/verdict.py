"""How the combination lock is judged: ACB beside what was published, and beside RND played here."""

from collections.abc import Sequence

from optimist.reporting.tables import Row
from optimist.studies.combination_lock.settings import PUBLISHED
from optimist.studies.training_rows import values_of
from optimist.studies.training_verdicts import judge_above, judge_more
from optimist.studies.verdicts import Verdict


def judge(rows: Sequence[Row]) -> list[Verdict]:
    """ACB's final success against the published ones, and against RND's and none's here, for every lock."""
    result: list[Verdict] = []
    for task in dict.fromkeys(row["task"] for row in rows):
        acb = values_of(rows, task, "acb", "success_rate")
        result += [
            judge_above(f"{task}: ACB opens the richer lock as often as the published {learner}", acb, share)
            for (where, learner), share in PUBLISHED.items()
            if where == task and share > 0
        ]
        result += [
            judge_more(
                f"{task}: more often with ACB than with {learner}", acb, values_of(rows, task, learner, "success_rate")
            )
            for learner in ("rnd", "none")
        ]
    return result
