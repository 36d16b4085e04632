"""Thirteen tasks, one setting for all: does a bonus help where it should, and harm nowhere?

The setting was tuned on other seeds of these tasks but for `KEPT_OUT`, which nobody tuned for.
"""

import math
from collections.abc import Mapping, Sequence
from functools import partial
from statistics import mean
from typing import Any

import numpy as np

from optimist.reporting.figures.learning_curves import draw_learning_curves
from optimist.reporting.statistics import bootstrap_interval, probability_of_improvement
from optimist.reporting.tables import Row
from optimist.studies.study import Draw, Measurement, Session, Study, Tables, Verdict
from optimist.studies.training.rows import curves, judge_failures, run_row, summary, trained, values_of
from optimist.studies.training.tasks import Task, TrainingSettings, smoke
from optimist.studies.training.verdicts import decided, fewest, number

# ---- What ------------------------------------------------------------------------------------------------------------


def measure(settings: TrainingSettings, session: Session) -> Measurement:
    """One row per run, the steps to success by learner, and the curves of the success rate."""
    runs, failed = trained(settings.jobs(), session)
    rows = [run_row(run, measure="success_rate", aim=AIM) for run in runs]
    tables = {"runs": rows, "summary": summary(rows, "solved_at", {}), "curves": curves(runs, "success_rate")}
    return Measurement(tables | failed)


def figures(tables: Tables) -> Mapping[str, Draw]:
    """The success rate along the steps."""
    words = (tables["curves"], "success rate, last 100 episodes", tables["summary"])
    return {"success": partial(draw_learning_curves, *words, published_is="step", is_share=True)}


# ---- Settings --------------------------------------------------------------------------------------------------------

LEARNERS = ("acb", "rnd", "count", "none")
AIM = 0.95
"""The share of the last 100 episodes that must succeed; the run then ends."""
TASKS: Mapping[str, int] = {
    "MountainCar-v0": 300_000,
    "MountainCarContinuous-v0": 300_000,
    "Acrobot-v1": 200_000,
    "CartPole-v1": 200_000,
    "CartPoleSwingUp": 300_000,
    "DeepSea-20": 200_000,
    "FrozenLake-12x12": 250_000,
    "MiniGrid-Empty-16x16-v0": 200_000,
    "MiniGrid-KeyCorridorS3R1-v0": 300_000,
    "MiniGrid-DoorKey-8x8-v0": 400_000,
    "LunarLander-v3": 300_000,
    "MiniGrid-Unlock-v0": 200_000,
    "MiniGrid-LavaGapS7-v0": 200_000,
}
"""Steps of a run, by task. Every run has the defaults of its environment's family, and nothing else."""
KEPT_OUT = ("MiniGrid-KeyCorridorS3R1-v0", "MiniGrid-Unlock-v0", "MiniGrid-LavaGapS7-v0")
"""Tasks on which nothing was tried before the setting was fixed."""
COUNTED: dict[str, dict[str, Any]] = {"count": {"bonus_options": ("code=exact",)}}
"""Views of a grid are counted as they are."""
ONE_CORE: dict[str, Any] = {"env_options": ("num_threads=1",)}
"""Runs are trained side by side, so EnvPool must not take all cores for each."""


def task(env: str, steps: int) -> Task:
    """An environment until it is solved."""
    grid = env.startswith("MiniGrid")
    fields = {"stop_at_success": AIM} | (ONE_CORE if grid else {})
    return Task(env, env, steps, LEARNERS, fields, COUNTED if grid else {})


SCALES = {
    "smoke": smoke(task("MountainCar-v0", 256)),
    "laptop": TrainingSettings(tuple(task(env, steps) for env, steps in TASKS.items())),
    "paper": TrainingSettings(tuple(task(env, 4 * steps) for env, steps in TASKS.items())),
}

# ---- Verdict ---------------------------------------------------------------------------------------------------------

REQUIRED = ("MountainCar-v0", "MountainCarContinuous-v0")
ENOUGH = 0.8
"""The share of seeds on which these are to be solved."""
MOST_STEPS = 1.5
"""Times the steps of plain PPO, where that solves the task."""


def judge(tables: Tables) -> list[Verdict]:
    """Whether ACB solves what it must, and on each task that plain PPO solves, whether it is about as good."""
    rows = tables["runs"]
    result: list[Verdict] = []
    for name in dict.fromkeys(row["task"] for row in rows):
        steps = {learner: values_of(rows, name, learner, "solved_at") for learner in LEARNERS}
        if name in REQUIRED:
            result.append(judge_solved(f"{name}: ACB solves it on four of five seeds", steps["acb"]))
        if solved(steps["none"]) > len(steps["none"]) / 2:
            kept_out = " (kept out of tuning)" if name in KEPT_OUT else ""
            claim = f"{name}{kept_out}: ACB does no harm to PPO"
            result.append(judge_no_harm(claim, steps["acb"], steps["none"], rows, name))
    return result + judge_failures(tables, len(rows))


def solved(steps: Sequence[float]) -> int:
    """How many runs solved their task."""
    return sum(not math.isnan(step) for step in steps)


def judge_solved(claim: str, steps: Sequence[float]) -> Verdict:
    """Holds if so many seeds solved the task."""
    share = solved(steps) / max(1, len(steps))
    measured = f"{solved(steps)} of {len(steps)} seeds"
    return Verdict(claim, measured, decided(holds=share >= ENOUGH, fails=share < ENOUGH, seeds=len(steps)), len(steps))


def judge_no_harm(
    claim: str, ours: Sequence[float], theirs: Sequence[float], rows: Sequence[Row], name: str
) -> Verdict:
    """Does not hold if the probability of improvement is clearly below one half, or the mean steps exceed 1.5 times.

    A run that did not solve the task counts with all its steps.
    """
    limit = max(row["steps"] for row in rows if row["task"] == name)
    ours, theirs = ([limit if math.isnan(step) else step for step in steps] for steps in (ours, theirs))
    scores = [-np.asarray(ours)], [-np.asarray(theirs)]
    rng = np.random.default_rng(0)
    low, high = (float(bound) for bound in bootstrap_interval(probability_of_improvement, *scores, rng=rng))
    ratio = mean(ours) / mean(theirs)
    measured = (
        f"{number(ratio, 2)} times the steps, P(improvement) "
        f"{number(float(probability_of_improvement(*scores)), 2)}, interval {number(low, 2)} to {number(high, 2)}"
    )
    seeds = fewest(ours, theirs)
    harm = high < 0.5 or ratio > MOST_STEPS
    return Verdict(claim, measured, decided(holds=not harm, fails=harm, seeds=seeds), seeds)


STUDY = Study(SCALES, measure, judge, figures, trains=True)
