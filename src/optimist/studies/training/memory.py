"""A task that needs a memory: what was seen at the start says where to go at the end. A GRU beside a plain policy."""

import math
from collections.abc import Mapping
from functools import partial

from optimist.reporting.figures.learning_curves import draw_learning_curves
from optimist.studies.study import Draw, Measurement, Session, Study, Tables, Verdict
from optimist.studies.training.rows import curves, judge_failures, run_row, summary, trained, values_of
from optimist.studies.training.tasks import Task, TrainingSettings, smoke
from optimist.studies.training.verdicts import judge_majority, judge_more

# ---- What ------------------------------------------------------------------------------------------------------------


def measure(settings: TrainingSettings, session: Session) -> Measurement:
    """One row per run, the final success rate by learner, and its curves."""
    runs, failed = trained(settings.jobs(), session)
    rows = [run_row(run, measure="success_rate", aim=AIM) for run in runs]
    tables = {"runs": rows, "summary": summary(rows, "success_rate", {}), "curves": curves(runs, "success_rate")}
    return Measurement(tables | failed)


def figures(tables: Tables) -> Mapping[str, Draw]:
    """The success rate along the steps."""
    words = (tables["curves"], "success rate, last 100 episodes", tables["summary"])
    return {"success": partial(draw_learning_curves, *words, is_share=True)}


# ---- Settings --------------------------------------------------------------------------------------------------------

FAR, NEAR = "MemoryS7, 7 x 7 in sight", "MemoryS7, 3 x 3 in sight"
TASKS = (NEAR, FAR)
"""MiniGrid's own sight is 7 x 7. With it the object at the start can be seen from the end of the corridor, and the way
an agent turns there can stand for what it saw: a policy without a memory may learn that. With 3 x 3 it cannot."""
GRU, PLAIN = "GRU", "feed-forward"
LEARNERS = (GRU, PLAIN)
AIM = 0.9
"""The share of the last 100 episodes that must end at the right object; who guesses is right one time in two."""


MANY = {"n_envs": 64, "steps": 64}


def memory(name: str, steps: int, changes: Mapping[str, object] = MANY) -> Task:
    """An object is seen at the start; at the end of a corridor the same one is right, the other ends the episode.

    A learner is a policy here. Both have no bonus, since random play meets the reward, and the defaults of MiniGrid but
    for more environments: the minibatches of a GRU are whole ones, and two of sixteen say little. Tuned on seed 0.
    """
    own = {GRU: {"bonus": "none", "recurrent": True}, PLAIN: {"bonus": "none"}}
    env, option = {  # EnvPool's MiniGrid has a sight of 7 x 7 only
        NEAR: ("gymnasium:MiniGrid-MemoryS7-v0", "agent_view_size=3"),
        FAR: ("MiniGrid-MemoryS7-v0", "num_threads=1"),
    }[name]
    return Task(name, env, steps, LEARNERS, {"stop_at_success": AIM, "env_options": (option,), **changes}, own)


SCALES = {
    "smoke": smoke(*(memory(name, 256, {}) for name in TASKS)),
    "laptop": TrainingSettings((memory(FAR, 1_000_000),)),  # NEAR was not learned in a million steps on seed 0
    "paper": TrainingSettings(tuple(memory(name, 5_000_000) for name in TASKS)),
}

# ---- Verdict ---------------------------------------------------------------------------------------------------------


def judge(tables: Tables) -> list[Verdict]:
    """Whether the GRU solves it, whether a policy without a memory does not, and whether the first is better."""
    rows, verdicts = tables["runs"], list[Verdict]()
    for task in [task for task in TASKS if any(row["task"] == task for row in rows)]:
        solved = {who: [not math.isnan(x) for x in values_of(rows, task, who, "solved_at")] for who in LEARNERS}
        success = {who: values_of(rows, task, who, "success_rate") for who in LEARNERS}
        verdicts += [
            judge_majority(f"{task}: solved with a GRU", solved[GRU]),
            judge_majority(f"{task}: not solved without a memory", [not one for one in solved[PLAIN]]),
            judge_more(f"{task}: a GRU succeeds more often than a policy without", success[GRU], success[PLAIN]),
        ]
    return [*verdicts, *judge_failures(tables, len(rows))]


STUDY = Study(SCALES, measure, judge, figures, trains=True)
