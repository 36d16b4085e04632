"""What `train` and `resume` share: a run played to its end with a live line, and what is told when it stops."""

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console

from optimist.cli.console import print_line, print_paths, progress_bar
from optimist.cli.signals import Stopped

if TYPE_CHECKING:
    from optimist.ranks import Ranks
    from optimist.training.runs.callbacks import Callback, Moment


def run_to_end(run: "Callable[[Callback], object]", folder: Path, screen: Console, ranks: "Ranks") -> int:
    """Play a run to its end, or until it is asked to stop, and show what there is. Returns the exit code.

    Of several ranks the first alone shows anything.
    """
    from optimist.reporting.figures.learning_curves import draw_run
    from optimist.training.runs.run import Interrupted

    is_new = not (folder / "config.json").is_file()
    try:
        with training_line(screen) if ranks.is_first else nullcontext(lambda _: None) as show:
            run(show)
    except Interrupted as stopped:
        if ranks.is_first:
            print_line(screen, f"optimist: {stopped}")
        return 128 + stopped.signal_number
    except Stopped as stopped:
        if (folder / "config.json").is_file():
            stopped.args = (f"{stopped}; go on with  optimist resume {folder}",)
        raise
    except Exception as problem:
        if is_new and (folder / "config.json").is_file() and "optimist resume" not in str(problem):
            problem.add_note(f"Its folder is {folder}; go on with  optimist resume {folder}")
        raise
    if ranks.is_first:
        draw_run(folder / "metrics.csv", folder / "curves.png")
        print_paths(screen, folder)
    return 0


@contextmanager
def training_line(screen: Console) -> "Iterator[Callback]":
    """Yields the callback that moves the live line of a run: steps, speed, return, unique states, bonus, time left."""
    started: list[tuple[float, int]] = []
    with progress_bar(screen) as progress:

        def show(moment: "Moment") -> None:
            now, step = time.perf_counter(), moment.step
            if not started:
                started.append((now, step))
            since, first = started[0]
            speed = (step - first) / (now - since) if step > first else None
            progress(step, moment.total_steps, line(moment.metrics, speed))

        yield show


def line(metrics: Mapping[str, float], speed: float | None) -> str:
    """The metrics of a rollout in one line; what is not known yet is left out."""
    seconds = sum(value for name, value in metrics.items() if name.startswith("seconds/"))
    ended, unfinished, cut = (metrics[name] for name in ("episodes", "episodes_unfinished", "episodes_cut"))
    success = metrics["success_rate"]
    parts = [
        f"first rollout {seconds:.1f} s" if speed is None else f"{speed:,.0f} steps/s",
        f"return {metrics['return_mean']:.3g}" if ended else "no episode yet",
        f"success {success:.0%}" if success == success else "",
        f"greedy return {metrics['evaluation/greedy_return']:.3g}" if "evaluation/greedy_return" in metrics else "",
        f"{unfinished:,.0f} unfinished" if unfinished else "",  # among the episodes that the return is of
        f"{cut:,.0f} cut" if cut else "",
        f"{metrics['unique_states']:,.0f} states",
        f"bonus {metrics['bonus_mean']:.2g}" if metrics["bonus_mean"] else "",  # there may be none
    ]
    return ", ".join(part for part in parts if part)
