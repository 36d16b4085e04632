"""Thousands of command lines that nobody should type: none ends in a traceback, hangs, or leaves a file unannounced.

Lines are drawn from the grammar of the commands (the fields of their dataclasses): bad values, missing paths, odd
names, huge and negative numbers, options twice, misspelt or without a value. Most are refused at once. Those that
happen to be right are kept tiny: what sets the length of the work is drawn from small or wrong values only.
"""

import dataclasses
import os
import random
import shutil
import signal
import stat
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from typing import Literal, get_args, get_origin, get_type_hints

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from optimist.cli import main
from optimist.cli.commands import COMMANDS

OPTIMIST = Path(sys.executable).with_name("optimist")
RESULTS = Path(__file__).parents[2] / "results"
CODES = {0, 1, 2}
SECONDS = 60
"""After so many seconds a line hangs."""
TINY = {
    "train": "--env DeepSea-2 --bonus count --total-steps 8 --n-envs 2 --steps 4 --minibatches 1 --epochs 1 --width 4 "
    "--warm-up-steps 0 --threads 1 --device cpu",
    "resume": "",
    "bandit": "--policies greedy --horizon 3 --trials 2 --selection-trials 0 --workers 1 --n-actions 3 --n-features 2",
    "theory": "",
    "study": "--scale smoke --workers 0",
    "claims": "",
    "play": "--steps 3",
    "report": "",
    "results": "",
}
"""What every line begins with, so that one which is right ends soon."""
BUDGETS = {
    "total-steps", "n-envs", "steps", "minibatches", "epochs", "width", "warm-up-steps", "threads", "horizon", "trials",
    "selection-trials", "workers", "n-actions", "n-features", "games", "scale", "policies", "env", "bonus", "problem",
    "device", "network", "seeds", "stop-at-success",
}  # fmt: skip
"""Options whose right values could mean long work: only wrong and small ones are drawn."""
WRONG = (
    "", " ", "abc", "-1", "-99999999999999999999", "1e400", "nan", "-inf", "0x10", "1,5", "½", "日本", "[red]x[/]",
    "--", "-", "=", "a=b", "\n", "'", "{}", "None", "..", "x" * 300, "%s%n", "\x1b[31m", "\udc80",
)  # fmt: skip
ODD_PATHS = (
    "file.txt", "file.txt/below", "used", "loop", "loop/below", "pipe", "missing/deep/er", "/proc/nope",
    "whole", "whole", "", " ", ".", "..", "\n", "ü☃", "[bold]", "-", "x" * 300, "a\0b", "~", "run", "empty",
)  # fmt: skip
NUMBERS = ("0", "1", "2", "-1", "0.5", "-0.5", "1e-300", "1e300", "nan", "inf", "9" * 30, "1_000", "+1", "True")
NAMES = (
    "acb", "acbb", "none", "acb*", "*", "acb*acb", "acb * count", "os:path", "nowhere:f", ":", "a:b:c", "DeepSea-0",
    "DeepSea--1", "DeepSea-999999999", "DeepSea-3", "CartPole-v1", "gymnasium:", "envpool:x", "smoke", "figure2",
    "figure99", "auto", "gpu", "cuda", "cuda:99", "meta", "mlp", "greedy", "acb-sgd", "fixed",
)  # fmt: skip
HARMLESS = {int: ("1", "2", "3"), float: ("0.5", "0.25"), str: ("mlp", "count", "relu"), Path: ("fresh", "fresh/er")}
"""Values that are right for most options of a type, so that some lines get as far as the work."""


def options_of(kind, prefix=""):
    """(option, type) of every field that a command has, nested ones with a dot, flags in both forms."""
    for field, hint in get_type_hints(kind).items():
        name = field.replace("_", "-")
        if dataclasses.is_dataclass(hint):
            yield from options_of(hint, "" if name == "settings" else f"{prefix}{name}.")
        elif hint is bool:
            yield from ((f"{prefix}{name}", bool), (f"{prefix}no-{name}", bool))
        else:
            yield f"{prefix}{name}", hint


def values_for(name, hint):
    if name.split(".")[-1] in BUDGETS:
        return st.sampled_from([*WRONG, "0", "-3", "2.5", *NAMES])
    pool = [*WRONG, *NUMBERS, *NAMES]
    if Path in (hint, *get_args(hint)):
        pool = [*ODD_PATHS, "fresh", "fresh/er"]
    elif get_origin(hint) is Literal:
        pool += get_args(hint)
    return st.sampled_from(pool)


@st.composite
def lines(draw):
    """The words of a command line: a command, what keeps it tiny, and a few options or stray words."""
    command = draw(st.sampled_from([*("bandit", "train") * 2, *COMMANDS, *COMMANDS, "trian", "", "--no", "-h"]))
    words = [command]
    if draw(st.integers(0, 19)) == 0:
        words.insert(draw(st.integers(0, 1)), draw(st.sampled_from(["--debug", "--version", "--help", "-h"])))
    if command not in COMMANDS:
        return words + draw(st.lists(st.sampled_from([*WRONG, *ODD_PATHS, "--out"]), max_size=3))
    kind = getattr(import_module(f"optimist.cli.{command}"), f"{command.title()}Command")
    words += TINY[command].split()
    if command in ("resume", "play", "report", "claims", "results"):
        words += draw(st.lists(st.sampled_from(ODD_PATHS), max_size=2 if command in ("report", "claims") else 1))
    if command == "study":
        words += draw(st.lists(st.sampled_from([*WRONG, "figure1", "figure22", "deepsea"]), max_size=1))
    known = list(options_of(kind))
    for _ in range(draw(st.integers(0, 3))):
        name, hint = draw(st.sampled_from(known))
        shape = draw(st.sampled_from(["right"] * 4 + ["equals", "misspelt", "no value", "stray"]))
        simple = next((one for one in HARMLESS if one in (hint, *get_args(hint))), None)
        harmless = simple is not None and draw(st.integers(0, 3)) == 0
        value = draw(st.sampled_from(HARMLESS[simple]) if harmless else values_for(name, hint))
        words += {
            "right": [f"--{name}"] if hint is bool else [f"--{name}", value],
            "equals": [f"--{name}={value}"],
            "misspelt": [f"--{name[:-1]}", value],
            "no value": [f"--{name}"],
            "stray": [value],
        }[shape]
    return words


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A folder with everything that a path should not be, which is the current one."""
    folder = tmp_path_factory.mktemp("hostile")
    (folder / "file.txt").write_text("mine")
    (folder / "used").mkdir()
    (folder / "used/notes.txt").write_text("mine")
    (folder / "empty").mkdir()
    (folder / "run").mkdir()
    (folder / "run/config.json").write_text('{"env": 3, "bonus": "acb"}')
    (folder / "loop").symlink_to("loop")
    os.mkfifo(folder / "pipe")  # it stands for devices too, which a test must not risk
    shutil.copytree(RESULTS / "figure2", folder / "whole")
    before, handlers = Path.cwd(), [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    os.chdir(folder)
    yield folder
    os.chdir(before)
    for number, handler in zip((signal.SIGINT, signal.SIGTERM), handlers, strict=True):
        signal.signal(number, handler)


def contents(folder):
    """Every path under ``folder`` that is not a mere folder of the fixture, with the size of files."""
    return {
        path: (path.stat().st_size, path.stat().st_mtime_ns) if path.is_file() else None for path in folder.rglob("*")
    }


def check(words, code, printed, before, folder):
    assert code in CODES, (words, code, printed)
    if "--debug" not in words:
        assert "Traceback" not in printed, (words, printed)
    assert "bug of optimist" not in printed, (words, printed)
    assert "__tyro" not in printed, (words, printed)
    after = contents(folder)
    assert (folder / "file.txt").read_text() == (folder / "used/notes.txt").read_text() == "mine", words
    assert stat.S_ISFIFO((folder / "pipe").lstat().st_mode), words
    assert not before.keys() - after.keys(), (words, "deleted", before.keys() - after.keys())
    new = sorted(path for path in after if path not in before or after[path] != before[path])
    plain = "".join(printed.split())
    for path in new:
        announced = [path, *path.parents][: len(path.relative_to(folder).parts)]
        told = [str(one) for one in announced] + [str(one.relative_to(folder)) for one in announced]
        assert any("".join(name.split()) in plain for name in told), (words, "not announced", path, printed)
    for path in sorted((path for path in new if path not in before), reverse=True):
        path.rmdir() if path.is_dir() and not path.is_symlink() else path.unlink()


def hangs(number, frame):
    raise RuntimeError(f"a line hangs for {SECONDS} s")


def many(examples):
    """The settings of a test on so many lines, the same at every call."""
    return settings(
        max_examples=examples, deadline=None, derandomize=True, database=None, phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )  # fmt: skip


@many(500)
@given(words=lines())
def test_no_line_ends_in_a_traceback_hangs_or_leaves_a_file_unannounced(words, place, capfd):
    try_line(words, place, capfd)


@pytest.mark.campaign
@many(5000)
@given(words=lines())
def test_none_of_thousands_does(words, place, capfd):
    try_line(words, place, capfd)


def try_line(words, place, capfd):
    """Type the line in this process, and check how it ends."""
    before = contents(place)
    argv, sys.argv = sys.argv, ["optimist", *words]
    alarm = signal.signal(signal.SIGALRM, hangs)
    signal.alarm(SECONDS)
    try:
        with pytest.raises(SystemExit) as left:
            main()
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, alarm)
        sys.argv = argv
    shown = capfd.readouterr()
    check(words, left.value.code, shown.out + shown.err, before, place)


@pytest.mark.parametrize("seed", range(12))
def test_neither_does_one_in_a_process_of_its_own(seed, place):
    words = [word for word in drawn(seed) if "\0" not in word]
    before = contents(place)
    done = subprocess.run(
        [OPTIMIST, *words], capture_output=True, text=True, errors="replace", check=False, timeout=SECONDS, cwd=place
    )
    check(words, done.returncode, done.stdout + done.stderr, before, place)


def drawn(seed):
    """A command line that is a function of ``seed``."""
    chance = random.Random(seed)
    command = sorted(COMMANDS)[seed % len(COMMANDS)]
    kind = getattr(import_module(f"optimist.cli.{command}"), f"{command.title()}Command")
    name, _ = chance.choice([option for option in options_of(kind) if option[1] is not bool])
    value = chance.choice([word for word in (*WRONG, *ODD_PATHS) if "\0" not in word])
    return [command, *TINY[command].split(), *chance.sample(["run", "used", "file.txt"], 1), f"--{name}", value]
