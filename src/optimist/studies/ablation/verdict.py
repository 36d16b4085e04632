"""How the ablation is judged: each choice by the states that ACB visits with it and without."""

from collections.abc import Sequence
from dataclasses import replace

from optimist.reporting.tables import Row
from optimist.studies.ablation.settings import CHOICES
from optimist.studies.training_rows import conditions, values_of
from optimist.studies.training_verdicts import judge_more
from optimist.studies.verdicts import Verdict


def judge(rows: Sequence[Row]) -> list[Verdict]:
    """A verdict for each choice: whether ACB as it ships visits more states."""
    result: list[Verdict] = []
    for task, learner in conditions(rows):
        if learner not in CHOICES:
            continue
        shipped = values_of(rows, task, "acb", "unique_states")
        claim = f"DeepSea, {task}: ACB visits more states than with {learner} ({CHOICES[learner].deviation})"
        verdict = judge_more(claim, shipped, values_of(rows, task, learner, "unique_states"))
        steps = max(row["steps"] for row in rows if row["task"] == task)
        result.append(replace(verdict, budget=f"{steps:,} steps a run"))
    return result
