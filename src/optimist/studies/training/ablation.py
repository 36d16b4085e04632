"""ACB without reward, as it ships and with one choice taken back: how many states are visited."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from optimist.reporting.figures.comparisons import draw_choices
from optimist.reporting.tables import Row
from optimist.studies.atari.games import SHORT_RUNS, games
from optimist.studies.study import Draw, Measurement, Session, Study, Tables, Verdict
from optimist.studies.training.deepsea import reward_free
from optimist.studies.training.minigrid import ROOMS
from optimist.studies.training.rows import (
    bootstrapped,
    conditions,
    curves,
    judge_failures,
    run_row,
    standard_error,
    trained,
    values_of,
)
from optimist.studies.training.tasks import Task, TrainingSettings, smoke, with_variants
from optimist.studies.training.verdicts import judge_more

# ---- What ------------------------------------------------------------------------------------------------------------


def measure(settings: TrainingSettings, session: Session) -> Measurement:
    """One row per run and one per choice, and the curves of states."""
    runs, failed = trained(settings.jobs(), session)
    rows = [run_row(run, measure="unique_states", aim=1.0) for run in runs]
    states = curves(runs, "unique_states")
    return Measurement({"runs": rows, "ablation": choices(rows), "unique_states_curves": states} | failed)


def choices(rows: Sequence[Row]) -> list[Row]:
    """States visited by the end and on average over the steps, with the bootstrap's interval of the former.

    No resample leaves the range of the values, so neither does the interval: there are only so many states.
    """
    result: list[Row] = []
    for task, learner in conditions(rows):
        states = values_of(rows, task, learner, "unique_states")
        low, high = bootstrapped(states)
        result.append(
            {
                "task": task,
                "learner": learner,
                "deviation": CHOICES[learner].deviation if learner in CHOICES else "",
                "seeds": len(states),
                "mean": float(np.mean(states)),
                "se": standard_error(states),
                "low": low,
                "high": high,
                "lowest": min(states),
                "highest": max(states),
                "mean_over_steps": float(np.mean(values_of(rows, task, learner, "area"))),
                "seconds": float(np.mean(values_of(rows, task, learner, "seconds"))),
            }
        )
    return result


def figures(tables: Tables) -> Mapping[str, Draw]:
    """One figure per task, one line per choice; of a sea, the states on and below its diagonal are drawn as a wall."""
    result: dict[str, Draw] = {}
    for task in dict.fromkeys(row["task"] for row in tables["runs"]):
        rows = [row for row in tables["runs"] if row["task"] == task]
        sea_of = re.search(r"(?:DeepSea-|N = )(\d+)$", task)
        most = int(sea_of[1]) * (int(sea_of[1]) + 1) // 2 if sea_of else None
        name = "ablation" if not result else re.sub(r"\W+", "_", f"ablation_{task.lower()}")
        measured = f"unique states, {task}" + ("" if "reward-free" in task else ", reward-free")
        words = (rows, "unique_states", measured)
        result[name] = partial(draw_choices, *words, reference="acb", most=most)
    return result


# ---- Settings --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Choice:
    """What was chosen otherwise, where docs/deviations.md says so, and the fields that take it back."""

    deviation: str
    fields: dict[str, Any]


def bonus(deviation: str, *options: str) -> Choice:
    """A choice that is made by options of the bonus."""
    return Choice(deviation, {"bonus_options": options})


CHOICES = {
    "aggregate=max": bonus("D5", "aggregate=max"),
    "form=square": bonus("D5", "form=square"),
    "form=width": bonus("D5", "form=width"),
    "solver=proximal": bonus("D3", "solver=proximal", "ridge=1000"),  # the ridge that suits it best
    "solver=rmsprop": bonus("D3", "solver=rmsprop"),
    "solver=rmsprop, statistics=batch": bonus("D3, D6", "solver=rmsprop", "statistics=batch"),
    "ridge=1000": bonus("D3", "ridge=1000"),
    "statistics=batch": bonus("D6", "statistics=batch"),
    "absolute epsilon": bonus("D6", "epsilon=1e-5", "epsilon_form=absolute", "floor=all"),
    "feature_loss=argmax": bonus("D9", "feature_loss=argmax"),
    "floor=all": bonus("D6", "floor=all"),
    "feature_loss=argmax, floor=all": bonus("D6, D9", "feature_loss=argmax", "floor=all"),
    # Too large for the exact solver: the proximal one, with the ridge and the batches that suit it.
    "features=gradient": bonus("D9", "features=gradient", "solver=proximal", "ridge=1000", "minibatch_size=128"),
    "features=last-layer": bonus("D9", "features=last-layer"),
    "features=penultimate": bonus("D9", "features=penultimate"),
    # The two tricks of section 5 that the paper says seem to help: without them.
    "auxiliary_rate=1": bonus("D4", "auxiliary_rate=1.0"),  # features of the policy itself, no tail average
    "statistics=none": bonus("D6", "statistics=none"),
    "train_on=observations": bonus("D2", "train_on=observations"),
    "mixing=rnd": Choice("P1", {"mixing": "rnd"}),
    "value_scale_rate=0": Choice("P2", {"value_scale_rate": 0.0}),
    "preset=paper": bonus("D2", "preset=paper"),
    "preset=released": bonus("D2", "preset=released"),
}
"""By the name of the learner; ``acb`` stands beside them as it ships."""


def variants(task: Task) -> Task:
    """ACB in ``task`` as it ships, and with every choice taken back."""
    return with_variants(task, "acb", {"acb": {}} | {name: choice.fields for name, choice in CHOICES.items()})


LOTTERY = ("feature_loss=argmax", "floor=all", "feature_loss=argmax, floor=all")
"""The paper's features, whose label and floor are a matter of luck, together and one by one: judged on every task."""


def lottery(task: Task) -> Task:
    """ACB in ``task`` without reward as it ships, and with the choices of `LOTTERY` taken back."""
    fields = {"acb": {}} | {name: CHOICES[name].fields for name in LOTTERY}
    return with_variants(replace(task, changes=task.changes | {"extrinsic.weight": 0.0}), "acb", fields)


def sea(size: int, steps: int) -> Task:
    """DeepSea of ``size`` without reward, for so many steps."""
    return replace(reward_free(size, steps), name=f"DeepSea-{size}")


def rooms(steps: int) -> Task:
    """Rooms behind closed doors, one layout per run. MiniGrid's views repeat: unique ones are few."""
    return Task("MultiRoom, one level", ROOMS, steps, ("acb",), {"env_options": ("level={seed}",)})


(BREAKOUT,) = games(("Breakout-v5",), 8_192, ("acb",), **SHORT_RUNS)
LAPTOP = (variants(sea(30, 81_920)), lottery(sea(50, 122_880)), lottery(rooms(40_960)), lottery(BREAKOUT))
SCALES = {
    "smoke": smoke(variants(sea(4, 128)), lottery(sea(5, 128))),
    "laptop": TrainingSettings(LAPTOP),
    "paper": TrainingSettings((variants(sea(30, 150_000)), lottery(sea(50, 250_000)), *LAPTOP[2:])),
}

# ---- Verdict ---------------------------------------------------------------------------------------------------------


def judge(tables: Tables) -> list[Verdict]:
    """A verdict for each choice: whether ACB as it ships visits more states."""
    rows = tables["runs"]
    result: list[Verdict] = []
    for task, learner in conditions(rows):
        if learner not in CHOICES:
            continue
        shipped = values_of(rows, task, "acb", "unique_states")
        claim = f"{sea_named(task)}: ACB visits more states than with {learner} ({CHOICES[learner].deviation})"
        verdict = judge_more(claim, shipped, values_of(rows, task, learner, "unique_states"))
        steps = max(row["steps"] for row in rows if row["task"] == task)
        result.append(replace(verdict, budget=f"{steps:,} steps per run"))
    return result + judge_failures(tables, len(rows))


def sea_named(task: str) -> str:
    """A task in a claim; the tables of 0.1.0 call DeepSea's "reward-free, N = 30"."""
    return f"DeepSea, {task}" if task.startswith("reward-free") else f"{task}, reward-free"


STUDY = Study(SCALES, measure, judge, figures, trains=True)
