"""``optimist bandit``: policies side by side on a problem."""

import time
from collections.abc import Callable
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Literal

from rich.console import Console
from rich.table import Table

from optimist.bandits import ChangingActions, FixedActions, LabelledData, MultiArmed, Noise, Problem
from optimist.cli.console import command_line, print_paths, progress_bar
from optimist.reporting.regret import draw_comparison
from optimist.reporting.tables import prepare_folder, write_csv, write_record
from optimist.studies.comparison import Budget, compare, curve, summary
from optimist.studies.lineup import LINEUP
from optimist.studies.workers import Pool


@dataclass(frozen=True)
class BanditCommand:
    """Compare policies on a problem: a table, a regret figure, a CSV."""

    problem: Literal["fixed", "changing", "multi-armed", "digits", "mnist"] = "fixed"
    """What is played: fixed actions, new actions every round, the paper's 50 arms, or labelled data."""
    policies: tuple[str, ...] = tuple(LINEUP)
    """Who plays."""
    n_actions: int = 50
    """Actions a round (fixed, changing)."""
    n_features: int = 10
    """Features of an action (fixed, changing)."""
    noise: float = 0.3
    """Standard deviation of the rewards (fixed, changing, multi-armed)."""
    noise_kind: Literal["gaussian", "uniform", "rademacher"] = "gaussian"
    """The law of the noise."""
    horizon: int = 1_000
    """Rounds."""
    trials: int = 50
    """Independent trials that are reported."""
    selection_trials: int = 20
    """Other trials, on which each policy's width is selected; 0 takes the width 1 untried."""
    seed: int = 0
    """The seed of the run."""
    problem_seed: int = 0
    """The seed of the problem."""
    workers: int | None = None
    """Cores to use; all of them if not given."""
    out: Path = Path("runs/bandit")
    """The folder of the results."""
    overwrite: bool = False
    """Write into the folder even if it is in use."""


def run_bandit(command: BanditCommand, screen: Console) -> None:
    """``optimist bandit``."""
    unknown = [name for name in command.policies if name not in LINEUP]
    if unknown:
        raise ValueError(f"unknown policies {', '.join(unknown)}: choose from {', '.join(LINEUP)}")
    problem = make_problem(command)
    folder = prepare_folder(command.out, command.overwrite)
    budget = Budget(command.horizon, command.trials, command.selection_trials, command.seed)
    start = time.perf_counter()
    with progress_bar(screen) as progress, Pool(command.workers) as pool:
        entries = compare(problem, problem, command.policies, budget, pool, progress)
    rows, curves = [summary(entry) for entry in entries], [row for entry in entries for row in curve(entry)]
    write_csv(folder / "regret.csv", rows)
    write_csv(folder / "curves.csv", curves)
    title = f"{command.problem}: {problem.n_actions} actions, {command.trials} trials"
    draw_comparison(curves, title, folder / "regret.png")
    write_record(folder / "record.json", command_line(), _plain(command), time.perf_counter() - start)
    table = Table("policy", "width", "regret", "95 % quantile", "µs a round", title=title)
    for row in rows:
        width = "" if row["width"] != row["width"] else f"{row['width']:g}"
        table.add_row(
            row["policy"],
            width,
            f"{row['mean']:.1f} ± {row['se']:.1f}",
            f"{row['q95']:.1f}",
            f"{row['microseconds']:.1f}",
        )
    screen.print(table)
    print_paths(screen, folder)


def make_problem(command: BanditCommand) -> Problem:
    """The problem that the command names."""
    noise = Noise(command.noise, command.noise_kind)
    makers: dict[str, Callable[[], Problem]] = {
        "multi-armed": lambda: MultiArmed(MultiArmed.paper().means, noise),
        "fixed": lambda: FixedActions.random(
            command.n_actions, command.n_features, noise=noise, seed=command.problem_seed
        ),
        "changing": lambda: ChangingActions(command.n_actions, command.n_features, noise, seed=command.problem_seed),
        "digits": LabelledData.digits,
        "mnist": LabelledData.mnist,
    }
    return makers[command.problem]()


def _plain(command: BanditCommand) -> dict[str, object]:
    return {f.name: str(v) if isinstance(v := getattr(command, f.name), Path) else v for f in fields(command)}
