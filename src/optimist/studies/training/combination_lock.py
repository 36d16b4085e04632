"""The combination lock under every bonus: the success rate at the end."""

from collections.abc import Mapping
from functools import partial
from typing import Any

from optimist.reporting.figures.learning_curves import draw_learning_curves
from optimist.studies.study import FURTHER_SEEDS, Draw, Measurement, Session, Study, Tables, Verdict
from optimist.studies.training.rows import curves, judge_failures, run_row, summary, trained, values_of
from optimist.studies.training.tasks import REPORTED_SEEDS, Task, TrainingSettings, smoke
from optimist.studies.training.verdicts import judge_above, judge_more

# ---- What ------------------------------------------------------------------------------------------------------------


def measure(settings: TrainingSettings, session: Session) -> Measurement:
    """One row per run, the final success rate by learner, and its curves."""
    runs, failed = trained(settings.jobs(), session)
    rows = [run_row(run, measure="success_rate", aim=AIM) for run in runs]
    tables = {"runs": rows, "summary": summary(rows, "success_rate", PUBLISHED), "curves": curves(runs, "success_rate")}
    return Measurement(tables | failed)


def figures(tables: Tables) -> Mapping[str, Draw]:
    """The success rate along the steps."""
    words = (tables["curves"], "success rate, last 100 episodes", tables["summary"])
    return {"success": partial(draw_learning_curves, *words, is_share=True)}


# ---- Settings --------------------------------------------------------------------------------------------------------

UNTUNED = "acb-defaults"
LEARNERS = ("acb", "rnd", "count", "none", UNTUNED)
AIM = 0.9
"""The share of the last 100 episodes that must open the richer lock."""
SOLVED = 0.95
"""The share at which a run ends: PC-PG's."""
WEIGHTS = {"acb": 1 / 300, "rnd": 1 / 900, "count": 1 / 300, "none": 1 / 300}
"""The weight of a step's cost beside the bonus, whatever the horizon. Of ACB and of RND it is the best of the settings
that were tried with both on seeds 0 and 1 of horizon 11 (docs/experiment_log.md, session 14); counts have ACB's."""


def lock_name(horizon: int) -> str:
    """The name of the task."""
    return f"lock, horizon {horizon}"


def lock(horizon: int, steps: int) -> Task:
    """The pair of locks with ``horizon`` steps per episode, other ones for every seed, as in PC-PG's runs.

    Every right step costs: with as much weight on rewards as on bonuses learners soon avoid the locks, or settle in the
    poorer one. So costs weigh little, in RND's mix: the balanced one takes the bonus away where half of the episodes
    meet a gain, which the poorer lock is enough for. And the entropy has three times the usual weight: a code that
    leads to a state which the other chain has shown already is, we suppose, found by the policy's own chance alone.
    `UNTUNED` is ACB without any of this.
    """
    fields = {"env_options": (f"horizon={horizon}", "problem_seed={seed}"), "stop_at_success": SOLVED}
    own: dict[str, dict[str, Any]] = {
        learner: {"mixing": "rnd", "extrinsic.weight": (horizon - 2) * weight, "entropy_weight": 0.03}
        for learner, weight in WEIGHTS.items()
    }
    return Task(lock_name(horizon), "CombinationLock", steps, LEARNERS, fields, own | {UNTUNED: {"bonus": "acb"}})


PUBLISHED = {(lock_name(11), "elliptical"): 0.95, (lock_name(11), "rnd"): 0.5, (lock_name(11), "none"): 0.0}
"""Success of PC-PG's elliptical bonus (at least), of PPO + RND (about) and of PPO, in its repository."""

SCALES = {
    "smoke": smoke(lock(4, 256)),
    "laptop": TrainingSettings((lock(6, 300_000), lock(11, 1_000_000)), (*REPORTED_SEEDS, *FURTHER_SEEDS)),
    "paper": TrainingSettings((lock(6, 1_000_000), lock(11, 2_000_000), lock(16, 5_000_000))),
}

# ---- Verdict ---------------------------------------------------------------------------------------------------------


def judge(tables: Tables) -> list[Verdict]:
    """ACB's final success against the published ones, and against RND's and that of no bonus here, for every lock."""
    rows = tables["runs"]
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
            for learner in ("rnd", "none", UNTUNED)
        ]
    return result + judge_failures(tables, len(rows))


STUDY = Study(SCALES, measure, judge, figures, trains=True)
