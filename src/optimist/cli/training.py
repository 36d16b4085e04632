"""``optimist train`` and ``optimist resume``: one run, in one folder."""

import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

import tyro
from rich.console import Console

from optimist.cli.console import print_paths, progress_bar
from optimist.reporting.learning_curves import draw_run
from optimist.reporting.tables import require_unused
from optimist.training.config import TrainConfig
from optimist.training.presets import defaults_for

Tell = Callable[[int, int, Mapping[str, float]], None]


@dataclass(frozen=True)
class TrainCommand:
    """Train an agent with an exploration bonus. `optimist train --env ID --help` shows that environment's defaults."""

    config: tyro.conf.OmitArgPrefixes[TrainConfig] = field(default_factory=lambda: named_defaults(sys.argv[1:]))
    out: Path | None = None
    """The folder of the run; runs/ENV-BONUS-SEED if not given."""


@dataclass(frozen=True)
class ResumeCommand:
    """Go on with a run from its newest checkpoint."""

    folder: Annotated[Path, tyro.conf.Positional]
    """The folder of the run."""
    total_steps: int | None = None
    """Another end than the run was started with."""


def named_defaults(arguments: list[str]) -> TrainConfig:
    """The defaults of the family of environments that ``--env`` names among ``arguments``."""
    for k, argument in enumerate(arguments):
        if argument == "--env" and k + 1 < len(arguments):
            return defaults_for(arguments[k + 1])
        if argument.startswith("--env="):
            return defaults_for(argument.removeprefix("--env="))
    return TrainConfig()


def run_train(command: TrainCommand, screen: Console) -> None:
    """``optimist train``."""
    config = command.config
    name = f"{config.env}-{config.bonus}-{config.seed}".replace(":", "-").replace("/", "-").replace("*", "-times-")
    folder = command.out or Path("runs") / name
    require_unused(folder, f"choose another with --out, or go on with  optimist resume {folder}")
    from optimist.training import runs  # PyTorch, which the other commands do not need

    _play(lambda tell: runs.train(config, folder, tell=tell), folder, screen)


def run_resume(command: ResumeCommand, screen: Console) -> None:
    """``optimist resume``."""
    from optimist.training import runs

    _play(lambda tell: runs.resume(command.folder, total_steps=command.total_steps, tell=tell), command.folder, screen)


def _play(run: Callable[[Tell], None], folder: Path, screen: Console) -> None:
    """Play a run to its end, or until it is asked to stop, and show what there is."""
    from optimist.training.runs import Interrupted

    try:
        with training_line(screen) as tell:
            run(tell)
    except Interrupted as stopped:
        screen.print(f"optimist: {stopped}", markup=False, highlight=False, soft_wrap=True)
        return
    draw_run(folder / "metrics.csv", folder / "curves.png")
    print_paths(screen, folder)


@contextmanager
def training_line(screen: Console) -> Iterator[Tell]:
    """Yields the function that moves the live line of a run: steps, speed, return, unique states, bonus, time left."""
    started: list[tuple[float, int]] = []
    with progress_bar(screen) as progress:

        def tell(step: int, total: int, metrics: Mapping[str, float]) -> None:
            now = time.perf_counter()
            seconds = sum(value for name, value in metrics.items() if name.startswith("seconds/"))
            if not started:
                started.append((now, step))
            since, first = started[0]
            speed = (step - first) / (now - since) if step > first else float("nan")
            success = metrics["success_rate"]
            parts = [
                f"{speed:,.0f} steps/s" if speed == speed else f"first rollout {seconds:.1f} s",
                f"return {metrics['return_mean']:.3g}" if metrics["episodes"] else "no episode yet",
                f"success {success:.0%}" if success == success else "",
                f"{metrics['unique_states']:,.0f} states",
                f"bonus {metrics['bonus_mean']:.2g}",
            ]
            progress(step, total, ", ".join(part for part in parts if part))

        yield tell
