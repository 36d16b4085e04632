"""How Atari is judged: unique states of ACB beside the others', with the share of the paper's kind of budget."""

from collections.abc import Sequence

from optimist.reporting.tables import Row
from optimist.studies.atari.settings import REFERENCE_FRAMES, SKIP
from optimist.studies.training_rows import values_of
from optimist.studies.training_verdicts import judge_more
from optimist.studies.verdicts import Verdict


def judge(rows: Sequence[Row]) -> list[Verdict]:
    """ACB against every other learner on every game. The claim is of this budget, not of the paper's."""
    result: list[Verdict] = []
    for task in dict.fromkeys(row["task"] for row in rows):
        steps = max(row["steps"] for row in rows if row["task"] == task)
        share = f"{steps * SKIP:,} frames, {steps * SKIP / REFERENCE_FRAMES:.2g} of RND's {REFERENCE_FRAMES:.0e}"
        acb = values_of(rows, task, "acb", "unique_states")
        for learner in dict.fromkeys(row["learner"] for row in rows if row["learner"] != "acb"):
            claim = f"{task}, reward-free, {steps:,} steps: ACB visits more states than {learner}"
            verdict = judge_more(claim, acb, values_of(rows, task, learner, "unique_states"))
            result.append(Verdict(claim, f"{verdict.measured} ({share})", verdict.judgement))
    return result
