"""Figure 4: games without reward under ACB, with ensembles of several sizes: the score that comes with exploration."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from optimist.bonuses.acb.config import DEFAULT
from optimist.reporting.tables import Row
from optimist.studies.atari.comparison import RETURN, game_study
from optimist.studies.atari.games import EIGHT_GAMES, FULL_STEPS, GAMES, LAPTOP, games, known, smoke_games, visited
from optimist.studies.study import Verdict
from optimist.studies.training.tasks import Task, TrainingSettings, with_variants
from optimist.studies.training.verdicts import judge_more, judge_steadier

# ---- What ------------------------------------------------------------------------------------------------------------

MEASURE = RETURN
"""The raw score, by game and over all games; the largest ensemble stands beside the smaller ones."""

# ---- Settings --------------------------------------------------------------------------------------------------------

SIZES = (8, 32, 128, 512)
"""The text names none but 128."""


def learner_of(size: int) -> str:
    """The name of the learner with ``size`` regressors; plain ``acb`` for its default, whose runs others share."""
    return "acb" if size == DEFAULT.ensemble_size else f"acb-{size}"


def size_of(learner: str) -> int:
    """The number of regressors of a learner."""
    return DEFAULT.ensemble_size if learner == "acb" else int(learner.rpartition("-")[2])


def ensembles(*sizes: int) -> Mapping[str, Mapping[str, Any]]:
    """What makes a learner of each size out of ``acb``."""
    options = {size: (f"ensemble_size={size}",) for size in sizes if size != DEFAULT.ensemble_size}
    return {learner_of(size): {"bonus_options": options[size]} if size in options else {} for size in sizes}


def compared(sizes: Sequence[int], *tasks: Task) -> tuple[Task, ...]:
    """The tasks with ensembles of these sizes."""
    return tuple(with_variants(task, "acb", ensembles(*sizes)) for task in tasks)


SMOKE = smoke_games(GAMES[0])
SCALES = {
    "smoke": replace(SMOKE, tasks=compared((2, 128), *SMOKE.tasks)),
    # One game and three sizes; the runs of the middle one are those of the study ``atari``.
    "laptop": TrainingSettings(compared((8, 128, 512), LAPTOP.tasks[0]), LAPTOP.seeds),
    "paper": TrainingSettings(compared(SIZES, *games(EIGHT_GAMES, FULL_STEPS))),
}


def largest(settings: TrainingSettings) -> str:
    """The learner with the largest ensemble, which the others are held against."""
    return max((name for task in settings.tasks for name in task.learners if name not in settings.added), key=size_of)


# ---- Verdict ---------------------------------------------------------------------------------------------------------


def judge(rows: Sequence[Row]) -> list[Verdict]:
    """On every game, whether more reward is met, whether seeds differ less, and whether more is visited."""
    sizes = sorted({row["learner"] for row in rows}, key=size_of)
    small, large = sizes[0], sizes[-1]
    result: list[Verdict] = []
    for game in dict.fromkeys(row["task"] for row in rows):
        few, many = known(rows, game, small, "return"), known(rows, game, large, "return")
        who = f"{game}, bonuses alone: {size_of(large)} regressors"
        result.append(judge_more(f"{who} meet more reward than {size_of(small)}", many, few))
        result.append(judge_steadier(f"{who} vary less from seed to seed than {size_of(small)}", many, few))
        for column, words in visited(rows).items():
            seen = [known(rows, game, learner, column) for learner in (large, small)]
            result.append(judge_more(f"{who} visit more {words} than {size_of(small)}", *seen))
    return result


STUDY = game_study(SCALES, MEASURE, judge, reference=largest)
