"""The command line: the only file that prints, parses or exits."""

import shlex
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, fields
from importlib import import_module
from pathlib import Path
from typing import Annotated, Literal

from optimist.bandits import ChangingActions, FixedActions, LabelledData, MultiArmed, Noise, Problem, theory

try:
    import tyro
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )
    from rich.table import Table

    from optimist.reporting.learning_curves import draw_run
    from optimist.reporting.regret import draw_comparison
    from optimist.reporting.tables import prepare_folder, require_unused, write_csv, write_record
    from optimist.studies.comparison import Budget, compare, curve, summary
    from optimist.studies.lineup import LINEUP
    from optimist.studies.outcome import Outcome
    from optimist.studies.workers import Pool
    from optimist.training.config import TrainConfig
    from optimist.training.presets import defaults_for
except ModuleNotFoundError as missing:
    sys.exit(f"optimist: the command line needs {missing.name}: install it with  pip install 'optimist[cli]'")

Tell = Callable[[int, int, Mapping[str, float]], None]
SYMBOLS = ("T", "d", "A", "delta", "sigma", "W", "B")
STUDIES = {
    "figure2": "optimist.studies.figure2",
    "linear-bandits": "optimist.studies.linear_bandits",
    "fidelity": "optimist.studies.fidelity",
    "deepsea": "optimist.studies.deepsea",
    "frozen-lake": "optimist.studies.frozen_lake",
    "combination-lock": "optimist.studies.combination_lock",
    "minigrid": "optimist.studies.minigrid",
    "atari": "optimist.studies.atari",
}


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


@dataclass(frozen=True)
class TheoryCommand:
    """The paper's parameters and bounds for your T, d, A, delta, sigma, W, B."""

    horizon: int = 10_000
    """T, the number of rounds."""
    n_features: int = 20
    """d."""
    n_actions: int = 100
    """A."""
    delta: float = 0.05
    """The probability that a bound fails."""
    sigma: float = 1.0
    """The sub-Gaussian scale of the noise."""
    theta_norm: float = 1.0
    """W, a bound on the norm of the true parameters."""
    feature_norm: float = 1.0
    """B, a bound on the norm of the features."""


@dataclass(frozen=True)
class StudyCommand:
    """Reproduce a figure of the paper or run a benchmark study."""

    name: Annotated[
        Literal[
            "figure2",
            "linear-bandits",
            "fidelity",
            "deepsea",
            "frozen-lake",
            "combination-lock",
            "minigrid",
            "atari",
        ],
        tyro.conf.Positional,
    ]
    """Which study."""
    scale: Literal["smoke", "laptop", "paper"] = "laptop"
    """Seconds, minutes, or the budget of the paper."""
    workers: int | None = None
    """Cores to use; all of them if not given."""
    out: Path | None = None
    """The folder of the results; runs/NAME-SCALE if not given."""
    overwrite: bool = False
    """Write into the folder even if it is in use. A study of training runs goes on where it stopped without this."""


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


Command = (
    Annotated[TrainCommand, tyro.conf.subcommand("train")]
    | Annotated[ResumeCommand, tyro.conf.subcommand("resume")]
    | Annotated[BanditCommand, tyro.conf.subcommand("bandit")]
    | Annotated[TheoryCommand, tyro.conf.subcommand("theory")]
    | Annotated[StudyCommand, tyro.conf.subcommand("study")]
)


def main() -> None:
    """Runs one command. Exit codes: 0 done, 1 failed, 2 bad usage."""
    command = tyro.cli(Command, prog="optimist", description="Exploration by optimism.")  # pyrefly: ignore
    screen = Console()
    try:
        match command:
            case TrainCommand():
                run_train(command, screen)
            case ResumeCommand():
                run_resume(command, screen)
            case BanditCommand():
                run_bandit(command, screen)
            case TheoryCommand():
                run_theory(command, screen)
            case StudyCommand():
                run_study(command, screen)
    except (ValueError, FileExistsError) as problem:
        _leave(screen, str(problem), 2)
    except ModuleNotFoundError as missing:
        _leave(screen, f"this needs {missing.name}: install it with  pip install 'optimist[all]'", 1)
    except (OSError, ArithmeticError) as problem:
        _leave(screen, str(problem), 1)
    except KeyboardInterrupt:
        _leave(screen, "interrupted", 1)


def _leave(screen: Console, message: str, code: int) -> None:
    Console(stderr=True).print(f"optimist: {message}", style="red", markup=False, highlight=False, soft_wrap=True)
    sys.exit(code)


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
    _print_paths(screen, folder)


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
    write_record(folder / "record.json", _command_line(), _plain(command), time.perf_counter() - start)
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
    _print_paths(screen, folder)


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


def run_theory(command: TheoryCommand, screen: Console) -> None:
    """``optimist theory``."""
    symbols = {f.name: getattr(command, f.name) for f in fields(command)}
    columns: dict[str, theory.ACBParameters] = {}
    for history, features in (
        ("rerandomized", command.n_features),
        ("incremental", command.n_actions),  # Proposition 2 is for multi-armed bandits: d = A
        ("lazy", command.n_features),
    ):
        columns[history] = theory.acb_parameters(**symbols | {"n_features": features, "history": history})
    title = ", ".join(f"{name} = {value:g}" for name, value in zip(SYMBOLS, symbols.values(), strict=True))
    table = Table(
        "", "re-randomized\nProposition 1", "incremental (d = A)\nProposition 2", "lazy\nTheorem 2", title=title
    )
    rows: dict[str, Callable[[theory.ACBParameters], float | int | None]] = {
        "ensemble size M, as stated": lambda p: p.ensemble_size,
        "M that the proof needs": lambda p: p.sufficient_ensemble_size,
        "beta": lambda p: p.beta,
        "lambda": lambda p: p.ridge,
        "gamma": lambda p: p.gamma,
        "max |z| of M at least (Lemma 1)": lambda p: theory.gaussian_maximum_lower(
            p.sufficient_ensemble_size, command.delta
        ),
        "max |z| of M at most (Lemma 1)": lambda p: theory.gaussian_maximum_upper(
            p.sufficient_ensemble_size, command.delta
        ),
        "regret at most": lambda p: p.regret_bound,
        "re-randomizations at most": lambda p: p.max_rerandomizations,
    }
    for name, value in rows.items():
        table.add_row(name, *(_number(value(parameters)) for parameters in columns.values()))
    screen.print(table)


def _number(value: float | int | None) -> str:
    if value is None:
        return ""
    return f"{value:,}" if isinstance(value, int) else f"{value:,.4g}"


def run_study(command: StudyCommand, screen: Console) -> None:
    """``optimist study``."""
    settings = import_module(f"{STUDIES[command.name]}.settings").SCALES[command.scale]
    run = import_module(f"{STUDIES[command.name]}.study").run
    path = command.out or Path("runs") / f"{command.name}-{command.scale}"
    folder = prepare_folder(path, command.overwrite or (path / "runs").is_dir())
    start = time.perf_counter()
    with progress_bar(screen) as progress:
        outcome: Outcome = run(settings, progress, command.workers, folder)
    seconds = time.perf_counter() - start
    for name, rows in outcome.tables.items():
        write_csv(folder / f"{name}.csv", rows)
    for name, draw in outcome.figures.items():
        draw(folder / f"{name}.png")
    verdicts = [{"claim": v.claim, "measured": v.measured, "judgement": v.judgement} for v in outcome.verdicts]
    write_csv(folder / "verdicts.csv", verdicts)
    write_record(folder / "record.json", _command_line(), settings, seconds)
    table = Table("claim", "measured", "verdict", title=f"{command.name}, scale {command.scale}, {seconds:.0f} s")
    for verdict in outcome.verdicts:
        table.add_row(verdict.claim, verdict.measured, verdict.judgement)
    screen.print(table)
    _print_paths(screen, folder)


@contextmanager
def progress_bar(screen: Console) -> Iterator[Callable[[int, int, str], None]]:
    """Yields the function that moves a live bar on a terminal; elsewhere a line is printed at every tenth."""
    if not screen.is_terminal:
        tenths = [-1]
        yield lambda done, total, label: _print_tenth(screen, tenths, done, total, label)
        return
    text, counts = TextColumn("{task.description}"), MofNCompleteColumn()
    with Progress(text, BarColumn(), counts, TimeElapsedColumn(), TimeRemainingColumn(), console=screen) as bar:
        task = bar.add_task("", total=None)
        yield lambda done, total, label: bar.update(task, completed=done, total=total, description=label)


def _print_tenth(screen: Console, tenths: list[int], done: int, total: int, label: str) -> None:
    if 10 * done // total > tenths[-1]:
        tenths.append(10 * done // total)
        screen.print(f"{10 * tenths[-1]:>3} %  {label}", markup=False, highlight=False)
        screen.file.flush()


def _print_paths(screen: Console, folder: Path) -> None:
    for path in sorted(folder.iterdir()):
        screen.print(f"  {path}", highlight=False, soft_wrap=True)


def _command_line() -> str:
    return shlex.join(["optimist", *sys.argv[1:]])


def _plain(command: BanditCommand) -> dict[str, object]:
    return {f.name: str(v) if isinstance(v := getattr(command, f.name), Path) else v for f in fields(command)}
