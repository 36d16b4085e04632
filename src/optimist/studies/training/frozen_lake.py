"""FrozenLake under every bonus: the steps until 99 of the last 100 episodes reach the goal."""

import math
from collections.abc import Mapping, Sequence
from functools import partial

from optimist.reporting.figures.learning_curves import draw_learning_curves
from optimist.studies.study import Draw, Measurement, Session, Study, Tables, Verdict
from optimist.studies.training.rows import curves, judge_failures, run_row, summary, trained, values_of
from optimist.studies.training.tasks import Task, TrainingSettings, smoke
from optimist.studies.training.verdicts import decided, interval, judge_majority, mean_and_error, number

# ---- What ------------------------------------------------------------------------------------------------------------


def measure(settings: TrainingSettings, session: Session) -> Measurement:
    """One row per run, the steps to success by learner, and the curves of the success rate."""
    runs, failed = trained(settings.jobs(), session)
    rows = [run_row(run, measure="success_rate", aim=AIM) for run in runs]
    tables = {"runs": rows, "summary": summary(rows, "solved_at", PUBLISHED), "curves": curves(runs, "success_rate")}
    return Measurement(tables | failed)


def figures(tables: Tables) -> Mapping[str, Draw]:
    """The success rate along the steps; published numbers are steps."""
    words = (tables["curves"], "success rate, last 100 episodes", tables["summary"])
    return {"success": partial(draw_learning_curves, *words, published_is="step", is_share=True)}


# ---- Settings --------------------------------------------------------------------------------------------------------

LEARNERS = ("acb", "rnd", "icm", "count", "none")
AIM = 0.99
"""The share of the last 100 episodes that must reach the goal."""
PUBLISHED = {("FrozenLake-8x8", "count"): 194_000.0, ("FrozenLake-12x12", "icm"): 786_000.0}
"""Steps of RLlib's PPO to 0.99 and to 1.0; without a bonus it never gets there."""


def lake(env: str, steps: int) -> Task:
    """A lake, until it is solved."""
    return Task(env, env, steps, LEARNERS, {"stop_at_success": AIM})


SCALES = {
    "smoke": smoke(lake("FrozenLake-8x8", 256)),
    "laptop": TrainingSettings((lake("FrozenLake-8x8", 400_000), lake("FrozenLake-12x12", 400_000))),
    "paper": TrainingSettings((lake("FrozenLake-8x8", 5_000_000), lake("FrozenLake-12x12", 5_000_000))),
}

# ---- Verdict ---------------------------------------------------------------------------------------------------------


def judge(tables: Tables) -> list[Verdict]:
    """Three verdicts per lake: ACB solves it, sooner than what was published, and without a bonus it is not solved."""
    rows = tables["runs"]
    result: list[Verdict] = []
    for task in dict.fromkeys(row["task"] for row in rows):
        acb = values_of(rows, task, "acb", "solved_at")
        without = values_of(rows, task, "none", "solved_at")
        result.append(judge_majority(f"{task}: solved with ACB", [not math.isnan(step) for step in acb]))
        result += [
            judge_sooner(f"{task}: solved sooner with ACB than by RLlib's PPO with {learner}", acb, steps)
            for (where, learner), steps in PUBLISHED.items()
            if where == task
        ]
        result.append(judge_majority(f"{task}: not solved without a bonus", [math.isnan(step) for step in without]))
    return result + judge_failures(tables, len(rows))


def judge_sooner(claim: str, steps: Sequence[float], published: float) -> Verdict:
    """Holds if all seeds solved it and the interval of the mean step lies below the published one."""
    solved = [step for step in steps if not math.isnan(step)]
    low, high = interval(solved)
    measured = (
        f"{len(solved)} of {len(steps)} seeds, at step {mean_and_error(solved)} against {number(published)}"
        if solved
        else f"0 of {len(steps)} seeds, against {number(published)}"
    )
    everyone = len(solved) == len(steps)
    fails = not solved or low > published
    return Verdict(claim, measured, decided(holds=everyone and high < published, fails=fails, seeds=len(steps)))


STUDY = Study(SCALES, measure, judge, figures, trains=True)
