"""Montezuma's Revenge with bonus and reward, ACB and RND: the raw score, and the rooms that were entered."""

from collections.abc import Mapping, Sequence
from functools import partial

from optimist.reporting.figures.learning_curves import draw_learning_curves
from optimist.reporting.tables import Row
from optimist.studies.atari.comparison import budget
from optimist.studies.atari.games import FULL_STEPS, JOINT, JOINT_STEPS, LAPTOP_NUMBERS, games, known, smoke_games
from optimist.studies.study import Draw, Measurement, Session, Study, Tables, Verdict
from optimist.studies.training.rows import curves, judge_failures, run_row, summary, trained
from optimist.studies.training.tasks import REPORTED_SEEDS, TrainingSettings
from optimist.studies.training.verdicts import differ, fewest, judge_more, number

# ---- What ------------------------------------------------------------------------------------------------------------


def measure(settings: TrainingSettings, session: Session) -> Measurement:
    """One row per run, score and rooms by learner, and their curves."""
    runs, failed = trained(settings.jobs(), session)
    rows = [run_row(run, measure="return_mean", aim=1.0) for run in runs]
    tables = {
        "runs": rows,
        "summary": [row for column in COLUMNS for row in summary(rows, column, {})],
        "return_curves": curves(runs, "return_mean"),
        "rooms_curves": curves(runs, "unique_places"),
        "cells_curves": curves(runs, "unique_cells"),
    }
    return Measurement(tables | failed)


def figures(tables: Tables) -> Mapping[str, Draw]:
    """Score, rooms and coarse cells along the steps."""
    labels = {"return": "raw return, last 100 episodes", "rooms": "rooms entered", "cells": "unique coarse frames"}
    return {name: partial(draw_learning_curves, tables[f"{name}_curves"], label, []) for name, label in labels.items()}


# ---- Settings --------------------------------------------------------------------------------------------------------

COLUMNS = {"return": "scores more", "unique_places": "enters more rooms", "unique_cells": "visits more coarse frames"}
"""What is compared. The room is byte 3 of the console's memory, which EnvPool gives: 24 rooms a level."""
GAME = "MontezumaRevenge-v5"
LEARNERS = ("acb", "rnd", "none")

SCALES = {
    "smoke": smoke_games(GAME, learners=LEARNERS, **JOINT),
    # The first key is then a matter of luck.
    "laptop": TrainingSettings(games((GAME,), JOINT_STEPS, LEARNERS, **JOINT | LAPTOP_NUMBERS), REPORTED_SEEDS[:3]),
    "paper": TrainingSettings(games((GAME,), FULL_STEPS, LEARNERS, **JOINT)),
}
"""RND's own numbers and weights at paper scale: there RND reports 8,152 after 2e9 frames, PPO alone 2,497."""

# ---- Verdict ---------------------------------------------------------------------------------------------------------


def judge(tables: Tables) -> list[Verdict]:
    """Whether RND does better than ACB, as the paper says, by score, rooms and coarse frames; at this budget."""
    rows = tables["runs"]
    return [judge_one(rows, column, words) for column, words in COLUMNS.items()] + judge_failures(tables, len(rows))


def judge_one(rows: Sequence[Row], column: str, words: str) -> Verdict:
    """RND against ACB by one column; where nobody has scored yet, nothing is said."""
    (game,) = dict.fromkeys(row["task"] for row in rows)
    claim = f"{game}, bonus and reward: RND {words} than ACB"
    rnd, acb = known(rows, game, "rnd", column), known(rows, game, "acb", column)
    if rnd and acb and not differ(rnd, acb):
        return Verdict(claim, f"all runs have {number(acb[0])}", "not enough data", fewest(rnd, acb), budget(rows))
    verdict = judge_more(claim, rnd, acb)
    return Verdict(claim, verdict.measured, verdict.judgement, verdict.seeds, budget(rows))


STUDY = Study(SCALES, measure, judge, figures, trains=True)
