"""ACB without a matrix: does it explore as far as with one, and as exact counts do? DeepSea without reward."""

from dataclasses import replace
from functools import partial

from optimist.reporting.figures.learning_curves import draw_learning_curves
from optimist.studies.study import Draw, Measurement, Session, Study, Tables, Verdict
from optimist.studies.training.deepsea import reward_free
from optimist.studies.training.rows import conditions, curves, judge_failures, run_row, summary, trained, values_of
from optimist.studies.training.tasks import Task, TrainingSettings, smoke
from optimist.studies.training.verdicts import judge_at_least

# ---- What ------------------------------------------------------------------------------------------------------------


def measure(settings: TrainingSettings, session: Session) -> Measurement:
    """One row per run, unique states by learner, and their curves."""
    runs, failed = trained(settings.jobs(), session)
    rows = [run_row(run, measure="unique_states", aim=1.0) for run in runs]
    tables = {"runs": rows, "summary": summary(rows, "unique_states", {}), "curves": curves(runs, "unique_states")}
    return Measurement(tables | failed)


def figures(tables: Tables) -> dict[str, Draw]:
    """Unique states along the steps."""
    return {"unique_states": partial(draw_learning_curves, tables["curves"], "unique states", [])}


# ---- Settings --------------------------------------------------------------------------------------------------------

STREAMING = "acb-streaming"
STEPS = {30: 150_000, 50: 250_000, 80: 400_000}
"""Of a run, by the size of the sea; those of the study of DeepSea where it has that size."""


def sea(size: int, steps: int) -> Task:
    """The sea of ``size`` without its reward, for ACB with either solver and for counts."""
    own = {STREAMING: {"bonus": "acb", "bonus_options": ("solver=streaming",)}}
    return replace(reward_free(size, steps), learners=("acb", STREAMING, "count"), own=own)


LAPTOP = TrainingSettings(tuple(sea(size, steps) for size, steps in STEPS.items()))
SCALES = {
    "smoke": smoke(sea(5, 256)),
    "laptop": LAPTOP,
    "paper": TrainingSettings((*LAPTOP.tasks, sea(100, 600_000))),  # no paper has it: one size more
}

# ---- Verdict ---------------------------------------------------------------------------------------------------------


def judge(tables: Tables) -> list[Verdict]:
    """Per size: the streaming solver against the exact one, at the end and on the way, and either against counts."""
    rows = tables["runs"]
    result: list[Verdict] = []
    for task in dict.fromkeys(task for task, _ in conditions(rows)):
        acb, streaming, count = (values_of(rows, task, name, "unique_states") for name in ("acb", STREAMING, "count"))
        claim = f"DeepSea, {task}: ACB with the {{}} solver visits at least as many states as {{}}"
        result.append(judge_at_least(claim.format("streaming", "with the exact one"), streaming, acb))
        result.append(judge_at_least(claim.format("streaming", "counts"), streaming, count))
        result.append(judge_at_least(claim.format("exact", "counts"), acb, count))
        ours, theirs = (values_of(rows, task, name, "area") for name in (STREAMING, "acb"))
        means = claim.format("streaming", "with the exact one") + ", on average over the steps"
        result.append(judge_at_least(means, ours, theirs))
    return result + judge_failures(tables, len(rows))


STUDY = Study(SCALES, measure, judge, figures, trains=True)
