"""How Figure 1 is judged: the bonus must drop where an episode ends, in agents trained from several seeds."""

import math
from collections.abc import Sequence

from optimist.reporting.tables import Row
from optimist.studies.atari.settings import REFERENCE_FRAMES, SKIP
from optimist.studies.training_verdicts import judge_above
from optimist.studies.verdicts import Verdict


def judge(rows: Sequence[Row]) -> list[Verdict]:
    """For every game, the drop as a share of the bonus before an end: its interval over agents must lie above 0.

    Agents none of whose episodes ended do not count. Rows: task, trained_steps, ends, fell, share.
    """
    result: list[Verdict] = []
    for task in dict.fromkeys(row["task"] for row in rows):
        agents = [row for row in rows if row["task"] == task and math.isfinite(row["share"])]
        steps = max(row["trained_steps"] for row in rows if row["task"] == task)
        claim = f"{task}, reward-free, {steps:,} steps: when an episode ends and the game is reset, ACB's bonus drops"
        fell, ends = sum(row["fell"] for row in agents), sum(row["ends"] for row in agents)
        verdict = judge_above(claim, [row["share"] for row in agents], 0.0)
        measured = f"drop as a share of the bonus before: {verdict.measured}; it fell at {fell} of {ends} ends"
        budget = f"{steps * SKIP:,} frames, {steps * SKIP / REFERENCE_FRAMES:.2g} of RND's {REFERENCE_FRAMES:.0e}"
        result.append(Verdict(claim, measured, verdict.judgement, verdict.seeds, budget))
    return result
