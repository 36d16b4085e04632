"""Agents trained on the bonus of ACB alone, watched at play: film strips, and the drop at the ends of episodes."""

from collections.abc import Callable
from functools import partial
from pathlib import Path

from optimist.reporting.drop import drop_at_ends
from optimist.reporting.film_strip import draw_film_strip
from optimist.reporting.frames import pictures
from optimist.reporting.tables import Row
from optimist.studies.figure1.settings import Figure1Settings
from optimist.studies.figure1.verdict import judge
from optimist.studies.outcome import Outcome, Progress
from optimist.studies.training_rows import failure_rows, failures, played
from optimist.studies.training_runs import Finished, play
from optimist.training.replay import Replay, replay


def run(settings: Figure1Settings, progress: Progress, workers: int | None, folder: Path) -> Outcome:
    """A row for each agent, the bonus along the game that is drawn, and a film strip for each game (its first seed)."""
    results = play(settings.training.jobs(), folder, workers=workers, progress=progress)
    watched = len(played(results))  # an error if no run finished
    rows: list[Row] = []
    curve: list[Row] = []
    figures: dict[str, Callable[[Path], None]] = {}
    for result in results:
        if not isinstance(result, Finished):
            continue
        progress(len(rows), watched, f"watching {result.job.name}")
        seen = watch(result, settings)
        rows.append(drop_row(result, seen))
        name = f"film_strip_{result.job.task.lower()}"
        if name not in figures:
            game = seen.games[0]
            title = f"{seen.env}, bonus {seen.bonus}, reward-free, trained for {seen.trained_steps:,} steps"
            figures[name] = partial(draw_film_strip, game, pictures(seen.observation_shape, game), title)
            ends = set(game.ends.tolist())
            curve += [
                {"task": result.job.task, "step": t, "bonus": float(value), "ended": int(t in ends)}
                for t, value in enumerate(game.bonuses)
            ]
    progress(watched, watched, f"{watched} agents watched")
    return Outcome(
        tables={"drops": rows, "bonus": curve},
        verdicts=judge(rows) + failures(results),
        failures=failure_rows(results),
        figures=figures,
    )


def watch(result: Finished, settings: Figure1Settings) -> Replay:
    """The run's agent at play."""
    seed = result.job.config.seed
    return replay(result.folder, steps=settings.steps, seed=seed, environments=settings.environments)


def drop_row(result: Finished, seen: Replay) -> Row:
    """How much the bonus of one agent drops at the ends of episodes."""
    drop = drop_at_ends(seen.games)
    return {
        "task": result.job.task,
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
