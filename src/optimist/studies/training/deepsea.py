"""DeepSea under every bonus, without reward and with it."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial

from optimist.reporting.figures.learning_curves import draw_learning_curves, draw_solved
from optimist.reporting.tables import Row
from optimist.studies.study import Draw, Measurement, Session, Study, Tables, Verdict
from optimist.studies.training.rows import conditions, curves, judge_failures, run_row, summary, trained, values_of
from optimist.studies.training.tasks import RANDOM, Task, TrainingSettings, smoke
from optimist.studies.training.verdicts import judge_at_least, judge_majority, judge_more

# ---- What ------------------------------------------------------------------------------------------------------------


def measure(settings: TrainingSettings, session: Session) -> Measurement:
    """One row per run, unique states and solved seas by learner, and their curves."""
    runs, failed = trained(settings.jobs(), session)
    free, paid = ([run for run in runs if is_free(run.job.task) is kind] for kind in (True, False))
    free_rows = [run_row(run, measure="unique_states", aim=AIM) for run in free]
    paid_rows = [run_row(run, measure="success_rate", aim=AIM) for run in paid]
    tables = {
        "runs": free_rows + paid_rows,
        "summary": summary(free_rows, "unique_states", PUBLISHED) + summary(paid_rows, "solved_at", {}),
        "solved": solved_share(paid_rows),
        "unique_states_curves": curves(free, "unique_states"),
        "success_curves": curves(paid, "success_rate"),
    }
    return Measurement({name: rows for name, rows in tables.items() if rows} | failed)


def solved_share(rows: Sequence[Row]) -> list[Row]:
    """The share of the seeds that solved each sea, by learner, and the mean step at which they did."""
    result: list[Row] = []
    for task, learner in conditions(rows):
        steps = values_of(rows, task, learner, "solved_at")
        solved = [step for step in steps if not math.isnan(step)]
        result.append(
            {
                "task": task,
                "learner": learner,
                "size": int(task.rpartition(" ")[2]),
                "seeds": len(steps),
                "solved": len(solved),
                "share": len(solved) / len(steps),
                "steps": sum(solved) / len(solved) if solved else math.nan,
            }
        )
    return result


def figures(tables: Tables) -> Mapping[str, Draw]:
    """The curves without reward, those with it, and the share of seas that are solved."""
    result: dict[str, Draw] = {}
    if free := tables.get("unique_states_curves"):
        result["unique_states"] = partial(draw_learning_curves, free, "unique states", tables["summary"])
    if paid := tables.get("success_curves"):
        result["success"] = partial(draw_learning_curves, paid, "success rate, last 100 episodes", [], is_share=True)
        result["solved"] = partial(draw_solved, tables["solved"])
    return result


# ---- Settings --------------------------------------------------------------------------------------------------------

BONUSES = ("acb", "rnd", "icm", "count")
EPISODES = 10_000
"""bsuite's budget with reward; an episode of DeepSea-N has N steps."""
AIM = 0.9
"""The share of the last 100 episodes that must find the treasure."""

FREE_STEPS = {30: 150_000, 40: 200_000, 50: 250_000}
"""Steps without reward, by size."""
PUBLISHED_STATES = {("acb", 30): 161, ("acb", 40): 242, ("acb", 50): 313,
                    ("rnd", 30): 313, ("rnd", 40): 427, ("rnd", 50): 588}  # fmt: skip
"""Unique states without reward: the VBE repository, whose ACB is a stripped one."""


def free_name(size: int) -> str:
    """The name of the task without reward."""
    return f"reward-free, N = {size}"


def is_free(task: str) -> bool:
    """Whether the task of this name is without reward."""
    return task.startswith("reward-free")


def reward_free(size: int, steps: int, contested: tuple[str, ...] = ()) -> Task:
    """The sea of ``size`` without its reward; the policy that does not learn stands for no bonus."""
    changes = {"extrinsic.weight": 0.0}
    return Task(free_name(size), f"DeepSea-{size}", steps, (*BONUSES, RANDOM), changes, contested=contested)


def with_reward(
    size: int,
    learners: tuple[str, ...] = (*BONUSES, "none"),
    contested: tuple[str, ...] = (),
    *,
    episodes: int = EPISODES,
) -> Task:
    """The sea of ``size`` with its reward, until it is solved."""
    fields = {"stop_at_success": AIM}
    return Task(f"reward, N = {size}", f"DeepSea-{size}", episodes * size, learners, fields, contested=contested)


PUBLISHED = {(free_name(size), learner): float(states) for (learner, size), states in PUBLISHED_STATES.items()}

FREE = tuple(reward_free(size, steps, ("acb", "count")) for size, steps in FREE_STEPS.items())
"""Five seeds left it undecided at every size whether ACB visits as many states as counts."""
PAID = (
    *map(with_reward, (10, 20)),
    with_reward(30, contested=("acb", "rnd", "count")),
    with_reward(50, ("acb", "count"), contested=("acb", "count")),
)
"""Five seeds left it undecided whether ACB solves the two largest seas."""
SCALES = {
    "smoke": smoke(reward_free(5, 256), with_reward(4, episodes=64)),
    "laptop": TrainingSettings((*FREE, *PAID)),
    "paper": TrainingSettings(FREE + tuple(with_reward(size) for size in range(10, 52, 2))),  # bsuite's sweep
}

# ---- Verdict ---------------------------------------------------------------------------------------------------------


def judge(tables: Tables) -> list[Verdict]:
    """Without reward, two verdicts per size: unique states against RND and counts. With it, what ACB solves."""
    rows = tables["runs"]
    free, paid = ([row for row in rows if is_free(row["task"]) is kind] for kind in (True, False))
    result: list[Verdict] = []
    for task in dict.fromkeys(row["task"] for row in free):
        acb, rnd, count = (values_of(free, task, learner, "unique_states") for learner in ("acb", "rnd", "count"))
        result.append(judge_more(f"DeepSea, {task}: ACB visits more states than RND", acb, rnd))
        result.append(judge_at_least(f"DeepSea, {task}: ACB visits at least as many states as counts", acb, count))
    for task in dict.fromkeys(row["task"] for row in paid):
        solved = [not math.isnan(step) for step in values_of(paid, task, "acb", "solved_at")]
        result.append(judge_majority(f"DeepSea, {task}: ACB solves it within {EPISODES:,} episodes", solved))
    if shares := solved_share(paid):
        result[-1] = replace(result[-1], measured=f"{result[-1].measured}; {largest_solved(shares)}")
    return result + judge_failures(tables, len(rows))


def largest_solved(shares: Sequence[Row]) -> str:
    """The largest N that more than half of the seeds solved, for every learner, in words."""
    best = {row["learner"]: 0 for row in shares}
    for row in shares:
        if row["share"] > 0.5:
            best[row["learner"]] = max(best[row["learner"]], row["size"])
    return "largest N solved by a majority: " + ", ".join(f"{learner} {size or '-'}" for learner, size in best.items())


STUDY = Study(SCALES, measure, judge, figures, trains=True)
