"""Figure 1: agents trained on the bonus of ACB alone, watched at play: where the bonus is large, and where it drops."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Self

from optimist.reporting.play.drop import drop_at_ends
from optimist.reporting.play.film_strip import draw_film_strip
from optimist.reporting.play.frames import pictures
from optimist.reporting.play.periphery import periphery_of
from optimist.reporting.tables import Row
from optimist.studies.atari.games import FULL_STEPS, LAPTOP_NUMBERS, frames, games, smoke_games
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
    """How much the bonus of one agent drops at the ends of episodes, and how its bonuses are ordered."""
    drop, periphery = drop_at_ends(seen.games), periphery_of(seen.games)
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
        "new": periphery.new,
        "new_above_familiar": periphery.chance,
        "starts": periphery.starts,
        "above_start": periphery.above_start,
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


LAPTOP_STEPS = 100_000
"""400,000 frames, a fifth of the study atari's: where a bonus is large is asked of the states that an agent meets, and
it need not play well for that."""
SHORT = ("num_threads=1", "max_episode_steps=20")  # so that episodes end within seconds
SMOKE = smoke_games(*GAMES, learners=LEARNERS, env_options=SHORT)

SCALES = {
    "smoke": Figure1Settings(replace(SMOKE, seeds=REPORTED_SEEDS[:1]), steps=45, environments=1),
    "laptop": Figure1Settings(
        TrainingSettings(games(GAMES, LAPTOP_STEPS, LEARNERS, **LAPTOP_NUMBERS)),
        steps=1000,
        environments=4,
    ),
    "paper": Figure1Settings(TrainingSettings(games(GAMES, FULL_STEPS, LEARNERS)), steps=1000, environments=8),
}

# ---- Verdict ---------------------------------------------------------------------------------------------------------

CLAIMS = {
    "share": (
        "when an episode ends and the game is reset, ACB's bonus drops",
        "drop as a share of the bonus before: {}; it fell at {fell} of {ends} ends",
        0.0,
    ),
    "new_above_familiar": (
        "ACB's bonus is larger on the periphery, for screens not seen in training, than for familiar ones",
        "chance that it is: {}; {new} steps to new screens",
        0.5,
    ),
    "above_start": (
        "ACB's bonus is smaller at the start of an episode than at other moments",
        "share of the bonuses above one at a start: {}; {starts} starts",
        0.5,
    ),
}
"""By column: what is claimed, how the measurement is told, and what the mean over agents must not lie below."""
COUNTS = ("fell", "ends", "new", "starts")


def judge(tables: Tables) -> list[Verdict]:
    """Three verdicts per game, each by the interval over its agents: the drop, the periphery, the start.

    Agents that have nothing to compare, for instance because none of their episodes ended, do not count.
    """
    rows = tables["drops"]
    result: list[Verdict] = []
    for task in dict.fromkeys(row["task"] for row in rows):
        mine = [row for row in rows if row["task"] == task]
        steps = max(row["trained_steps"] for row in mine)
        where = f"{task}, reward-free, {steps:,} steps"
        for column, (claim, measured, least) in CLAIMS.items():
            agents = [row for row in mine if math.isfinite(row.get(column, math.nan))]
            verdict = judge_above(f"{where}: {claim}", [row[column] for row in agents], least)
            sums = {name: sum(row[name] for row in agents) for name in COUNTS if all(name in row for row in agents)}
            words = measured.format(verdict.measured, **sums)
            result.append(Verdict(verdict.claim, words, verdict.judgement, verdict.seeds, frames(steps)))
    return result + judge_failures(tables, len(rows))


STUDY = Study(SCALES, measure, judge, figures, trains=True)
