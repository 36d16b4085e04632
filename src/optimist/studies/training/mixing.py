"""What each part of the balanced mix of task and bonus is worth: ACB with one of them taken back.

Measured and drawn as `classic` is, whose tasks these are.
"""

from collections.abc import Mapping
from typing import Any

from optimist.studies.study import Study, Tables, Verdict
from optimist.studies.training.classic import figures, judge_no_harm, measure, solved, task
from optimist.studies.training.rows import conditions, judge_failures, values_of
from optimist.studies.training.tasks import REPORTED_SEEDS, Task, TrainingSettings, smoke, with_variants
from optimist.studies.training.verdicts import decided

# ---- Settings --------------------------------------------------------------------------------------------------------

PARTS: Mapping[str, dict[str, Any]] = {
    "mixing=rnd": {"mixing": "rnd"},
    "costs in full": {"balance.costs_alone": 1.0},
    "bonus wanes beside costs": {"balance.bonus_beside_costs": 0.3},
    "bonus in full beside gains": {"balance.bonus_beside_gains": 1.0},
    "bonus in full when solved": {"balance.bonus_when_solved": 1.0, "balance.bonus_beside_progress": 1.0},
    "raw observations": {"normalize_observations": False},
}
"""By the name of the learner: the fields that take a part back. ``acb`` stands beside them as it ships."""
TASKS: Mapping[str, int] = {
    "MountainCar-v0": 150_000,
    "MountainCarContinuous-v0": 100_000,
    "CartPole-v1": 200_000,
    "FrozenLake-12x12": 150_000,
    "DeepSea-30": 300_000,
}
"""A cost per step, a cost per action, dense gains, a gain at the end, and one at the end of costs. Steps of a run."""


def variants(of: Task) -> Task:
    """ACB on a task as it ships, and with every part taken back."""
    return with_variants(of, "acb", {"acb": {}} | dict(PARTS))


SCALES = {
    "smoke": smoke(variants(task("MountainCar-v0", 256))),
    "laptop": TrainingSettings(
        tuple(variants(task(env, steps)) for env, steps in TASKS.items()), seeds=REPORTED_SEEDS[:3]
    ),
    "paper": TrainingSettings(tuple(variants(task(env, 2 * steps)) for env, steps in TASKS.items())),
}

# ---- Verdict ---------------------------------------------------------------------------------------------------------


def judge(tables: Tables) -> list[Verdict]:
    """For each part and task: whether ACB without it solves fewer seeds, or is clearly slower."""
    rows = tables["runs"]
    result: list[Verdict] = []
    for name, learner in conditions(rows):
        if learner == "acb":
            continue
        ours, theirs = (values_of(rows, name, one, "solved_at") for one in ("acb", learner))
        slower = judge_no_harm(f"{name}: ACB does worse with {learner}", theirs, ours, rows, name)
        fewer = solved(theirs) / max(1, len(theirs)) < solved(ours) / max(1, len(ours))
        worse = fewer or slower.judgement == "does not hold"
        seeds = min(len(ours), len(theirs))
        measured = f"{solved(theirs)} of {len(theirs)} seeds solved it, as it ships {solved(ours)} of {len(ours)}"
        judgement = decided(holds=worse, fails=not worse, seeds=seeds)
        result.append(Verdict(slower.claim, f"{measured}; {slower.measured}", judgement, seeds))
    return result + judge_failures(tables, len(rows))


STUDY = Study(SCALES, measure, judge, figures, trains=True)
