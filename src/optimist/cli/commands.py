"""From the words of a command line to a command that runs: one table of commands, global options, suggestions."""

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Any

import tyro
from rich.console import Console

from optimist.cli import errors
from optimist.cli.console import make_screen
from optimist.cli.former import modernized
from optimist.cli.signals import raised_signals
from optimist.config import suggestion

COMMANDS = {
    "train": "Train an agent with an exploration bonus.",
    "resume": "Go on with a run from its newest checkpoint.",
    "bandit": "Compare policies on a problem: a table, a regret figure, a CSV.",
    "theory": "The paper's parameters and bounds for your T, d, A, delta, sigma, W, B.",
    "study": "Reproduce a figure of the paper or run a benchmark study.",
    "claims": "Gather the verdicts of studies into one table: every claim of the paper, measured or not.",
    "results": "Redraw the figures of studies from their tables, and write README.md and claims.md.",
    "play": "Watch a trained agent: a film strip, a video and a page to scrub through.",
    "report": "Make one self-contained HTML page of runs and studies.",
}
"""The one list of commands. ``train`` is the module `optimist.cli.train`, with ``TrainCommand`` and ``run_train``."""
HELP, VERSION, DEBUG = ("-h", "--help"), "--version", "--debug"


@dataclass(frozen=True)
class Parsed:
    """A command that is ready to run."""

    command: Any
    run: Callable[[Any, Console], int | None]


def execute(arguments: Sequence[str]) -> int:
    """The exit code of the command that ``arguments`` write, after it ran and every error was told."""
    debug = DEBUG in arguments
    words = [word for word in arguments if word != DEBUG]
    make_current_folder_importable()
    try:
        with raised_signals():
            code = _run(words)
            sys.stdout.flush()
            return code
    except SystemExit as leaving:  # of tyro, after help or bad usage; of rich, when nobody reads
        return leaving.code if isinstance(leaving.code, int) else 0
    except BaseException as problem:
        return errors.explain(problem, words, debug=debug)


def _run(words: Sequence[str]) -> int:
    screen = make_screen()
    if not words or words[0] in HELP:
        screen.print(overview(), markup=False, highlight=False, soft_wrap=True)
        return 0 if words else errors.BAD_USAGE
    if words[0] == VERSION:
        screen.print(f"optimist {version('optimist')}", markup=False, highlight=False)
        return 0
    parsed = parse(words)
    return parsed.run(parsed.command, screen) or 0


def parse(words: Sequence[str]) -> Parsed:
    """The command that ``words`` write, subcommand first. Bad usage is told and raises ``SystemExit(2)``."""
    name, *options = words
    if name not in COMMANDS:
        errors.tell(f"there is no command {name!r}: {suggestion(name, COMMANDS)}. See  optimist --help")
        raise SystemExit(errors.BAD_USAGE)
    module = import_module(f"optimist.cli.{name}")
    options = modernized(name, options)
    default = module.defaults(options) if hasattr(module, "defaults") else None
    reader = _reader(getattr(module, f"{name.title()}Command"), default)
    try:
        command = tyro.cli(reader, args=options, prog=f"optimist {name}")
    except SystemExit as leaving:
        if not leaving.code and hasattr(module, "more_help"):
            module.more_help(options, make_screen())
        raise
    return Parsed(command, getattr(module, f"run_{name}"))


def _reader(kind: type, default: Any) -> Callable[..., Any]:
    """A function of one command, which tyro fills in: so an error of the command's own checks comes to us as it is."""

    def read(command: Any) -> Any:
        return command

    read.__doc__ = kind.__doc__
    read.__annotations__["command"] = Annotated[kind, tyro.conf.arg(name="")]
    if default is not None:
        read.__defaults__ = (default,)
    return read


def overview() -> str:
    """What ``optimist --help`` shows."""
    width = max(map(len, COMMANDS))
    lines = "\n".join(f"  {name:<{width}}  {summary}" for name, summary in COMMANDS.items())
    return (
        f"Exploration by optimism.\n\nusage: optimist COMMAND ...\n\n{lines}\n\n"
        "  optimist COMMAND --help   the options of a command\n"
        "  --version                 the version\n"
        "  --debug                   the traceback of every error\n\n"
        "Exit codes: 0 done, 1 failed, 2 bad usage, 130 Ctrl-C, 143 SIGTERM."
    )


def make_current_folder_importable() -> None:
    """As with ``python -m``: modules that a command line names are found in the current folder too."""
    try:
        here = str(Path.cwd())
    except FileNotFoundError:  # the folder was deleted
        return
    if here not in sys.path and "" not in sys.path:
        sys.path.insert(0, here)
