"""Hard levels of MiniGrid, new in every episode, with the budgets of NovelD and DEIR: does the life-long part add?"""

import math
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from optimist.reporting.figures.learning_curves import draw_learning_curves
from optimist.reporting.statistics import Scores
from optimist.reporting.tables import Row
from optimist.studies.study import Draw, Measurement, Session, Study, Tables, Verdict
from optimist.studies.training.rows import (
    bootstrap_generator,
    conditions,
    curves,
    judge_failures,
    run_row,
    summary,
    trained,
    values_of,
)
from optimist.studies.training.tasks import Task, TrainingSettings, smoke
from optimist.studies.training.verdicts import judge_majority, judge_more, judge_overall

# ---- What ------------------------------------------------------------------------------------------------------------


def measure(settings: TrainingSettings, session: Session) -> Measurement:
    """One row per run, the steps to success by learner, and the curves of success."""
    runs, failed = trained(settings.jobs(), session)
    rows = [run_row(run, measure="success_rate", aim=AIM) for run in runs]
    tables = {
        "runs": rows,
        "summary": summary(rows, "solved_at", {}) + summary(rows, "success_rate", {}),
        "curves": curves(runs, "success_rate"),
    }
    return Measurement(tables | failed)


def figures(tables: Tables) -> Mapping[str, Draw]:
    """The success rate along the steps."""
    return {
        "success": partial(draw_learning_curves, tables["curves"], "success rate, last 100 episodes", [], is_share=True)
    }


# ---- Settings --------------------------------------------------------------------------------------------------------

AIM = 0.9
"""The share of the last 100 episodes that must reach the goal; the run then ends."""
COUNT = "episodic-count"
PRODUCT, ACB_GAIN, RND_GAIN = f"acb*{COUNT}", "acb-noveld", "rnd-noveld"
LEARNERS = (PRODUCT, ACB_GAIN, RND_GAIN, "e3b", COUNT, "none")


def noveld(bonus: str) -> dict[str, Any]:
    """The gain of ``bonus`` along a step, paid at the first visit of an episode: NovelD with another novelty."""
    return {
        "bonus": f"novelty-gain({bonus})*{COUNT}",
        "bonus_options": (f"{COUNT}.form=first-visit", f"{COUNT}.code=exact"),
    }


OWN: dict[str, dict[str, Any]] = {
    PRODUCT: {"bonus_options": (f"{COUNT}.code=exact",)},
    ACB_GAIN: noveld("acb"),
    RND_GAIN: noveld("rnd"),
    COUNT: {"bonus_options": ("code=exact",)},
}
"""Views are small grids of codes: counted as they are, not by similarity."""

ONE_CORE = ("num_threads=1",)
"""Runs are trained side by side, so EnvPool must not take all cores for each."""
BUDGETS: Mapping[str, tuple[int, int]] = {
    "DoorKey-16x16": (2_000_000, 2_000_000),
    "MultiRoom-N6": (2_000_000, 2_000_000),
    "KeyCorridorS4R3": (2_000_000, 5_000_000),
    "KeyCorridorS6R3": (5_000_000, 5_000_000),
    "ObstructedMaze-2Dlh": (2_000_000, 5_000_000),
    "LockedRoom": (2_000_000, 5_000_000),
}
"""Steps of a run at laptop and at paper scale. The latter are those of the public scripts of NovelD and DEIR: 2M for
DoorKey-16x16 and MultiRoom-N6, 5M for KeyCorridorS6R3, here for the others too (SB3's zoo: ObstructedMaze-2Dlh and
LockedRoom unsolved by PPO after 10M). Steps in a second of a processor on DoorKey-16x16: ACB 9,000, RND 6,400, E3B
6,800, counts alone 13,700, none 14,700; on MultiRoom-N6 (Farama's) half as many. A run that solves nothing takes 2 to
13 minutes."""


def level(name: str, steps: int, learners: tuple[str, ...] = LEARNERS) -> Task:
    """A level until it is solved. MultiRoom is Farama's, for many of EnvPool's cannot be solved: it has no threads."""
    fields: dict[str, Any] = {"stop_at_success": AIM}
    if not name.startswith("MultiRoom"):
        fields |= {"env_options": ONE_CORE}
    own = {learner: OWN[learner] for learner in learners if learner in OWN}
    return Task(name, f"MiniGrid-{name}-v0", steps, learners, fields, own)


SCALES = {
    "smoke": smoke(level("DoorKey-16x16", 256, (PRODUCT, ACB_GAIN, COUNT)), level("MultiRoom-N6", 256, (RND_GAIN,))),
    "laptop": TrainingSettings(tuple(level(name, steps) for name, (steps, _) in BUDGETS.items())),
    "paper": TrainingSettings(tuple(level(name, steps) for name, (_, steps) in BUDGETS.items())),
}
"""Nothing is tuned by level: all runs have the defaults of MiniGrid's family (`optimist.training.presets.GRID`)."""

# ---- Verdict ---------------------------------------------------------------------------------------------------------

QUESTIONS = (
    (PRODUCT, COUNT, "ACB x episodic count learns more than episodic count alone"),
    (ACB_GAIN, COUNT, "ACB in NovelD's form learns more than episodic count alone"),
    (ACB_GAIN, RND_GAIN, "in NovelD's form ACB learns more than RND"),
)
"""Ours, theirs, and what is claimed of each level and of all: the question is whether the life-long part adds."""


def judge(tables: Tables) -> list[Verdict]:
    """What solves each level; then, by the mean success rate along the steps, whether the life-long part adds."""
    rows = tables["runs"]
    result: list[Verdict] = []
    for task, learner in conditions(rows):
        solved = [not math.isnan(step) for step in values_of(rows, task, learner, "solved_at")]
        if learner == "none":
            result.append(judge_majority(f"{task}: not solved without a bonus", [not one for one in solved]))
        else:
            result.append(judge_majority(f"{task}: solved with {learner}", solved))
    for ours, theirs, words in QUESTIONS:
        both = levels_of(rows, ours, theirs)
        result += [judge_more(f"{name}: {words}", *learned(rows, name, ours, theirs)) for name in both]
        scores = [learned(rows, name, ours, theirs) for name in both]
        sides: list[Scores] = [[np.array(pair[side]) for pair in scores] for side in (0, 1)]
        result.append(judge_overall(f"all levels: {words}", *sides, rng=bootstrap_generator()))
    return result + judge_failures(tables, len(rows))


def levels_of(rows: Sequence[Row], *learners: str) -> list[str]:
    """The levels that all of ``learners`` have played."""
    played = set(conditions(rows))
    return [
        task
        for task in dict.fromkeys(task for task, _ in conditions(rows))
        if {(task, one) for one in learners} <= played
    ]


def learned(rows: Sequence[Row], task: str, ours: str, theirs: str) -> tuple[list[float], list[float]]:
    """The mean success rates along the runs of both learners; 0 for a run in which no hundred episodes ended."""
    sides = [[0.0 if math.isnan(x) else x for x in values_of(rows, task, one, "area")] for one in (ours, theirs)]
    return sides[0], sides[1]


STUDY = Study(SCALES, measure, judge, figures, trains=True)
