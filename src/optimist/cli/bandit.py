"""``optimist bandit``: policies side by side on a problem, or on data of the user's own."""

import os
import time
from collections.abc import Callable
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Literal, cast

from rich.console import Console

from optimist.bandits import (
    ChangingActions,
    DriftingActions,
    FixedActions,
    LabeledData,
    MultiArmed,
    Noise,
    Problem,
    read_data,
)
from optimist.bandits.evaluation import Logs
from optimist.bandits.reading import Form
from optimist.checks import require_count, require_counts, require_fields, require_seed
from optimist.cli.console import command_line, print_line, print_paths, print_table, progress_bar
from optimist.cli.outputs import output_folder
from optimist.config import suggestion
from optimist.memory import require_memory
from optimist.reporting.figures.bandits import draw_comparison, draw_estimates
from optimist.reporting.tables import write_csv, write_record
from optimist.studies.bandits.comparison import LINEUP, STEADY, WITHOUT_MATRIX, Budget, compare, curve, summary
from optimist.studies.bandits.logged import LOGGED, judge
from optimist.studies.executors import local

FEW_SAMPLES = 100
"""Below so many effective samples a normal interval says little."""


@dataclass(frozen=True)
class BanditCommand:
    """Compare policies on a problem: a table, a regret figure, a CSV."""

    problem: Literal["fixed", "changing", "drifting", "multi-armed", "digits", "mnist"] = "fixed"
    """What is played: fixed actions, new actions every round, the paper's 50 arms, or labeled data."""
    data: Path | None = None
    """Data of your own instead: logs, judged off-policy, or labeled rows (CSV, Parquet, VW's text, dsjson)."""
    data_format: Form = "auto"
    """The format of the data; auto goes by the end of the file's name."""
    policies: tuple[str, ...] = STEADY
    """Who plays."""
    n_actions: int = 50
    """Actions per round (fixed, changing)."""
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
    """Other trials, on which each policy's beta is selected; 0 takes one unit of noise untried."""
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

    def __post_init__(self) -> None:
        require_counts(self, "n_actions", "n_features", "horizon", "trials")
        require_counts(self, "selection_trials", least=0)
        require_fields(self, "noise", least=0)
        require_seed(self.seed)
        require_count("problem_seed", self.problem_seed, least=0)
        if self.workers is not None:
            require_count("workers", self.workers)
        unknown = [name for name in self.policies if name not in LINEUP]
        if unknown:
            raise ValueError(f"unknown policies {', '.join(unknown)}: {suggestion(unknown[0], LINEUP)}")
        if not self.policies or len(set(self.policies)) < len(self.policies):
            raise ValueError(f"policies must name at least one policy and none twice, got {' '.join(self.policies)!r}")


def run_bandit(command: BanditCommand, screen: Console) -> None:
    """``optimist bandit``."""
    found = None if command.data is None else read_data(command.data, command.data_format)
    with output_folder(command.out, may_overwrite=command.overwrite) as folder:
        if found is not None and isinstance(found.data, Logs):
            _judge(command, found.data, found.skipped, folder, screen)
        else:
            problem = make_problem(command) if found is None else cast(LabeledData, found.data)
            _compare(command, problem, folder, screen)
    print_paths(screen, folder)


def _judge(command: BanditCommand, logs: Logs, skipped: int, folder: Path, screen: Console) -> None:
    """Logged data: every policy by replay and off-policy."""
    start = time.perf_counter()
    with progress_bar(screen) as progress, local(command.workers) as executor:
        rows = judge(logs, command.policies, command.seed, executor, progress)
    write_csv(folder / "estimates.csv", rows)
    name = cast(Path, command.data).name
    title = f"{name}: {len(logs):,} decisions" + (f" ({skipped:,} without a reward left out)" if skipped else "")
    draw_estimates(rows, title, folder / "estimates.png")
    write_record(folder / "record.json", command_line(), _plain(command), time.perf_counter() - start)
    methods = list(dict.fromkeys(row["method"] for row in rows[1:]))
    cells = [(LOGGED, "", *[f"{rows[0]['value']:.4g} ± {rows[0]['standard_error']:.2g}"] * len(methods))]
    for policy in dict.fromkeys(row["policy"] for row in rows[1:]):
        mine = {row["method"]: row for row in rows if row["policy"] == policy}
        beta = mine[methods[0]]["beta_over_noise"]
        told = [f"{mine[m]['value']:.4g} ± {mine[m]['standard_error']:.2g}" for m in methods]
        cells.append((policy, "" if beta != beta else f"{beta:g}", *("-" if "nan" in cell else cell for cell in told)))
    print_table(screen, f"{title}; reward per decision", ("policy", "beta / spread", *methods), cells)
    if min(row["effective_samples"] for row in rows) < FEW_SAMPLES:
        words = f"Some estimates rest on fewer than {FEW_SAMPLES} decisions (effective_samples in estimates.csv)"
        print_line(screen, f"{words}: the intervals of these are not to be trusted.")


def _compare(command: BanditCommand, problem: Problem, folder: Path, screen: Console) -> None:
    require_room(command, problem)
    budget = Budget(command.horizon, command.trials, command.selection_trials, command.seed)
    start = time.perf_counter()
    with progress_bar(screen) as progress, local(command.workers) as executor:
        entries = compare(problem, problem, command.policies, budget, executor, progress)
    rows, curves = [summary(entry) for entry in entries], [row for entry in entries for row in curve(entry)]
    write_csv(folder / "regret.csv", rows)
    write_csv(folder / "curves.csv", curves)
    name = command.problem if command.data is None else command.data.name
    title = f"{name}: {problem.n_actions} actions, {command.trials} trials"
    draw_comparison(curves, title, folder / "regret.png")
    write_record(folder / "record.json", command_line(), _plain(command), time.perf_counter() - start)
    cells = [
        (
            row["policy"],
            "" if row["beta_over_noise"] != row["beta_over_noise"] else f"{row['beta_over_noise']:g}",
            f"{row['mean']:.1f} ± {row['se']:.1f}",
            f"{row['q95']:.1f}",
            f"{row['microseconds']:.1f}",
        )
        for row in rows
    ]
    print_table(screen, title, ("policy", "beta / noise", "regret", "95 % quantile", "µs per round"), cells)


def require_room(command: BanditCommand, problem: Problem) -> None:
    """An error if the policies, their trials side by side in every worker, cannot fit into this machine's memory."""
    workers = command.workers or os.cpu_count() or 1
    trials = max(command.trials, command.selection_trials)
    without = f"--policies {' '.join(WITHOUT_MATRIX)}, which keep no matrix, or "
    for name in command.policies:
        try:
            needed = workers * LINEUP[name](problem, 1.0).state_bytes(trials)
        except ValueError as refusal:  # one learner alone is too large
            raise ValueError(f"{name}: {refusal}; here: --policies {' '.join(WITHOUT_MATRIX)}") from None
        advice = "give " + ("" if name in WITHOUT_MATRIX else without) + "fewer --n-features, --trials or --workers"
        what = f"{name} with {problem.n_features:,} features, {trials:,} trials in each of {workers} workers,"
        require_memory(needed, what, advice)


def make_problem(command: BanditCommand) -> Problem:
    """The problem that the command names."""
    if command.problem in ("fixed", "changing", "drifting"):
        sets = 1 if command.problem == "fixed" else max(command.trials, command.selection_trials)
        needed = 4 * 8 * sets * command.n_actions * command.n_features  # the features, and what is computed from them
        require_memory(needed, "the table of actions", "give fewer --n-actions, --n-features or --trials")
    noise = Noise(command.noise, command.noise_kind)
    makers: dict[str, Callable[[], Problem]] = {
        "multi-armed": lambda: MultiArmed(MultiArmed.paper().means, noise),
        "fixed": lambda: FixedActions.random(
            command.n_actions, command.n_features, noise=noise, seed=command.problem_seed
        ),
        "changing": lambda: ChangingActions(command.n_actions, command.n_features, noise, seed=command.problem_seed),
        "drifting": lambda: DriftingActions(command.n_actions, command.n_features, noise, seed=command.problem_seed),
        "digits": LabeledData.digits,
        "mnist": LabeledData.mnist,
    }
    return makers[command.problem]()


def _plain(command: BanditCommand) -> dict[str, object]:
    return {f.name: str(v) if isinstance(v := getattr(command, f.name), Path) else v for f in fields(command)}
