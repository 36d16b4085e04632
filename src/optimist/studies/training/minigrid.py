"""Levels of MiniGrid, new in every episode or one per run: the success rate at the end."""

import math
from collections.abc import Mapping
from functools import partial
from typing import Any

from optimist.reporting.figures.learning_curves import draw_learning_curves
from optimist.studies.study import Draw, Measurement, Session, Study, Tables, Verdict
from optimist.studies.training.rows import conditions, curves, judge_failures, run_row, summary, trained, values_of
from optimist.studies.training.tasks import Task, TrainingSettings, smoke
from optimist.studies.training.verdicts import judge_above, judge_majority

# ---- What ------------------------------------------------------------------------------------------------------------


def measure(settings: TrainingSettings, session: Session) -> Measurement:
    """One row per run, the final success rate by learner, the curves of success and of unique observations."""
    runs, failed = trained(settings.jobs(), session)
    rows = [run_row(run, measure="success_rate", aim=AIM) for run in runs]
    tables = {
        "runs": rows,
        "summary": summary(rows, "success_rate", PUBLISHED),
        "success_curves": curves(runs, "success_rate"),
        "unique_states_curves": curves(runs, "unique_states"),
    }
    return Measurement(tables | failed)


def figures(tables: Tables) -> Mapping[str, Draw]:
    """Success and unique observations along the steps."""
    success, states = tables["success_curves"], tables["unique_states_curves"]
    words = (success, "success rate, last 100 episodes", tables["summary"])
    return {
        "success": partial(draw_learning_curves, *words, is_share=True),
        "unique_states": partial(draw_learning_curves, states, "unique observations", []),
    }


# ---- Settings --------------------------------------------------------------------------------------------------------

DOOR_KEY, MULTI_ROOM, ONE_LEVEL = "DoorKey-8x8", "MultiRoom-N4-S5", "MultiRoom-N4-S5, one level"
ROOMS = "MiniGrid-MultiRoom-N4-S5-v0"
AIM = 0.9
"""The share of the last 100 episodes that must reach the goal: then a level is solved."""
PUBLISHED = {(DOOR_KEY, "re3"): 0.95, (DOOR_KEY, "icm"): 0.83, (DOOR_KEY, "rnd"): 0.82, (MULTI_ROOM, "none"): 0.0}
"""Success on DoorKey-8x8 at 1M steps, tuned, second-hand; MultiRoom-N4-S5: PPO at 10M steps, SB3's zoo."""

EPISODIC = ("acb*episodic-count", "episodic-count")
"""What a life-long bonus lacks where levels change: the product, and its episodic factor alone."""

ONE_CORE = {"env_options": ("num_threads=1",)}
"""Runs are trained side by side, so EnvPool must not take all cores for each."""


EXACT = {
    "count": {"bonus_options": ("code=exact",)},
    "episodic-count": {"bonus_options": ("code=exact",)},
    "acb*episodic-count": {"bonus_options": ("episodic-count.code=exact",)},
}
"""Views are small grids of codes: counted as they are, not by similarity."""


def own(learners: tuple[str, ...]) -> dict[str, dict[str, Any]]:
    """The fields of those learners that count."""
    return {learner: EXACT[learner] for learner in learners if learner in EXACT}


def door_key(steps: int, learners: tuple[str, ...] = ("acb", "rnd", "icm", "none")) -> Task:
    """A key, a door and a goal, another layout every episode."""
    return Task(DOOR_KEY, "MiniGrid-DoorKey-8x8-v0", steps, learners, ONE_CORE, own(learners))


def multi_room(steps: int, learners: tuple[str, ...] = ("acb", *EPISODIC, "rnd", "none")) -> Task:
    """Rooms behind closed doors, another layout every episode: until it is solved.

    MultiRoom-N4-S5-v0 has six rooms in spite of its name. The levels are Farama's: most of EnvPool's cannot be solved
    (`optimist.training.environments.names.GYMNASIUM_FIRST`).
    """
    return Task(MULTI_ROOM, ROOMS, steps, learners, {"stop_at_success": AIM}, own(learners))


def one_level(steps: int, learners: tuple[str, ...] = ("acb", "rnd", "count", "none")) -> Task:
    """The same rooms with one layout per run, the same in every episode, as a life-long bonus needs; until solved."""
    fields = {"env_options": ("level={seed}",), "stop_at_success": AIM}
    return Task(ONE_LEVEL, ROOMS, steps, learners, fields, own(learners))


SCALES = {
    "smoke": smoke(
        door_key(256, ("acb", "none")), multi_room(512, ("acb*episodic-count", "none")), one_level(512, ("acb",))
    ),
    "laptop": TrainingSettings((one_level(250_000), door_key(1_000_000), multi_room(300_000))),
    "paper": TrainingSettings((one_level(1_000_000), door_key(1_000_000), multi_room(10_000_000))),
}

# ---- Verdict ---------------------------------------------------------------------------------------------------------


def judge(tables: Tables) -> list[Verdict]:
    """ACB against each published rate on DoorKey-8x8; for every learner of MultiRoom whether it is solved."""
    rows = tables["runs"]
    acb = values_of(rows, DOOR_KEY, "acb", "success_rate")
    result = [
        judge_above(f"{DOOR_KEY}: ACB succeeds as often as the published {learner}", acb, share)
        for (task, learner), share in PUBLISHED.items()
        if task == DOOR_KEY
    ]
    for task, learner in conditions([row for row in rows if row["task"] != DOOR_KEY]):
        solved = [not math.isnan(step) for step in values_of(rows, task, learner, "solved_at")]
        if learner == "none":
            result.append(judge_majority(f"{task}: not solved without a bonus", [not one for one in solved]))
        else:
            result.append(judge_majority(f"{task}: solved with {learner}", solved))
    return result + judge_failures(tables, len(rows))


STUDY = Study(SCALES, measure, judge, figures, trains=True)
