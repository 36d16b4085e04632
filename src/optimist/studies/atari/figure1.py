"""Figure 1: agents trained on the bonus of ACB alone, watched at play; the bonus drops where an episode ends."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Self

from optimist.reporting.play.drop import drop_at_ends
from optimist.reporting.play.film_strip import draw_film_strip
from optimist.reporting.play.frames import pictures
from optimist.reporting.tables import Row
from optimist.studies.atari.games import FULL_STEPS, LAPTOP_NUMBERS, LAPTOP_STEPS, frames, games, smoke_games
from optimist.studies.study import Draw, Measurement, Session, Study, Tables, Verdict
from optimist.studies.training.rows import failures, judge_failures, played
from optimist.studies.training.runs import Finished, Job, train_all
from optimist.studies.training.tasks import REPORTED_SEEDS, Added, TrainingSettings
from optimist.studies.training.verdicts import judge_above
from optimist.training.playback import Playback, play_back

# ---- What ------------------------------------------------------------------------------------------------------------


def measure(settings: "Figure1Settings", session: Session) -> Measurement:
    """One row per agent, the bonus along the game that is drawn, and a film strip for each game (its first seed)."""
    results = train_all(settings.jobs(), session)
    watched = len(played(results))  # an error if no run finished
    rows: list[Row] = []
    curve: list[Row] = []
    strips: dict[str, Draw] = {}
    for result in results:
        if not isinstance(result, Finished):
            continue
        session.progress(len(rows), watched, f"watching {result.job.name}")
        seen = watch(result, settings)
        rows.append(drop_row(result, seen))
        name = strip_name(result)
        if name not in strips:
            game = seen.games[0]
            title = f"{seen.env}, bonus {seen.bonus}, reward-free, trained for {seen.trained_steps:,} steps"
            strips[name] = partial(draw_film_strip, game, pictures(seen.observation_shape, game), title)
            ends = set(game.ends.tolist())
            curve += [
                {**who(result), "step": t, "bonus": float(value), "ended": int(t in ends)}
                for t, value in enumerate(game.bonuses)
            ]
    session.progress(watched, watched, f"{watched} agents watched")
    return Measurement({"drops": rows, "bonus": curve} | failures(results), strips)


def watch(result: Finished, settings: "Figure1Settings") -> Playback:
    """The run's agent at play."""
    seed = result.job.config.seed
    return play_back(result.folder, steps=settings.steps, seed=seed, n_envs=settings.environments)


def who(result: Finished) -> dict[str, str]:
    """The columns that name a run's task and learner."""
    return {"task": result.job.task, "learner": result.job.learner}


def strip_name(result: Finished) -> str:
    """The name of the film strip of a game; that of a learner which a user added has its name too."""
    words = [result.job.task] if result.job.learner in LEARNERS else [result.job.task, result.job.learner]
    return "_".join(["film_strip", *words]).lower()


def drop_row(result: Finished, seen: Playback) -> Row:
    """How much the bonus of one agent drops at the ends of episodes."""
    drop = drop_at_ends(seen.games)
    return who(result) | {
        "seed": result.job.config.seed,
        "trained_steps": seen.trained_steps,
        "ends": drop.ends,
        "before": float(drop.before.mean()) if drop.ends else float("nan"),
        "after": float(drop.after.mean()) if drop.ends else float("nan"),
        "drop": drop.mean,
        "se": drop.error,
        "share": drop.share,
        "fell": int((drop.after < drop.before).sum()),
    }


def figures(tables: Tables) -> Mapping[str, Draw]:
    """None from tables alone: film strips show frames."""
    return {}


# ---- Settings --------------------------------------------------------------------------------------------------------

GAMES = ("Breakout-v5", "Qbert-v5")
LEARNERS = ("acb",)


@dataclass(frozen=True)
class Figure1Settings:
    """The runs, and how each agent is watched afterwards: ``steps`` in each of ``environments``."""

    training: TrainingSettings
    steps: int
    environments: int

    @property
    def added(self) -> tuple[str, ...]:
        """Learners that a user added."""
        return self.training.added

    def jobs(self) -> list[Job]:
        """The runs."""
        return self.training.jobs()

    def with_seeds(self, seeds: Sequence[int]) -> Self:
        """The same agents from other seeds."""
        return replace(self, training=self.training.with_seeds(seeds))

    def with_learners(self, learners: Sequence[Added]) -> Self:
        """The same games with further learners."""
        return replace(self, training=self.training.with_learners(learners))


SHORT = ("num_threads=1", "max_episode_steps=20")  # so that episodes end within seconds
SMOKE = smoke_games(*GAMES, learners=LEARNERS, env_options=SHORT)

SCALES = {
    "smoke": Figure1Settings(replace(SMOKE, seeds=REPORTED_SEEDS[:1]), steps=45, environments=1),
    # The budget of the study atari at this scale: its runs of Breakout are these.
    "laptop": Figure1Settings(
        TrainingSettings(games(GAMES, LAPTOP_STEPS, LEARNERS, **LAPTOP_NUMBERS), REPORTED_SEEDS[:3]),
        steps=1000,
        environments=4,
    ),
    "paper": Figure1Settings(TrainingSettings(games(GAMES, FULL_STEPS, LEARNERS)), steps=1000, environments=8),
}

# ---- Verdict ---------------------------------------------------------------------------------------------------------


def judge(tables: Tables) -> list[Verdict]:
    """For every game, the drop as a share of the bonus before an end: its interval over agents must lie above 0.

    Agents none of whose episodes ended do not count. Rows: task, trained_steps, ends, fell, share.
    """
    rows = tables["drops"]
    result: list[Verdict] = []
    for task in dict.fromkeys(row["task"] for row in rows):
        agents = [row for row in rows if row["task"] == task and math.isfinite(row["share"])]
        steps = max(row["trained_steps"] for row in rows if row["task"] == task)
        claim = f"{task}, reward-free, {steps:,} steps: when an episode ends and the game is reset, ACB's bonus drops"
        fell, ends = sum(row["fell"] for row in agents), sum(row["ends"] for row in agents)
        verdict = judge_above(claim, [row["share"] for row in agents], 0.0)
        measured = f"drop as a share of the bonus before: {verdict.measured}; it fell at {fell} of {ends} ends"
        result.append(Verdict(claim, measured, verdict.judgement, verdict.seeds, frames(steps)))
    return result + judge_failures(tables, len(rows))


STUDY = Study(SCALES, measure, judge, figures, trains=True)
