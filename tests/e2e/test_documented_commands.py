"""Every command that README and docs show runs: nobody documents one that does not.

A command is a line in a fenced block, or a code span, that begins with ``make``, or with ``optimist`` and a subcommand.
An explanation after two spaces or ``#`` is not part of it; ``a|b`` is a choice, of which each is tried; a word in
capitals stands for something (``PLACEHOLDERS``). ``optimist`` runs as installed, in a folder of its own, with the
numbers of ``SMALL`` in place of its own; what is then the same runs once. Folders that it reads, or ``a/*``, are copies
of one tiny run; for ``claims`` and ``results``, of a committed study. Studies are only parsed: each must be among those
that a test called ``..._at_smoke_scale...`` runs.
"""

import ast
import functools
import itertools
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from optimist.cli.commands import parse
from optimist.studies.registry import STUDIES

ROOT = Path(__file__).parents[2]
OPTIMIST = Path(sys.executable).with_name("optimist")
PAGES = [ROOT / "README.md", ROOT / "results/README.md", *sorted((ROOT / "docs").rglob("*.md"))]
PLACEHOLDERS = {"ID": "DeepSea-6", "DIR": "run", "FOLDER": "run"}
CAPITALS = r"\b[A-Z]{2,}\b(?!=)"
TRAIN = (
    "--total-steps 32 --n-envs 4 --steps 8 --minibatches 2 --epochs 1 --warm-up-steps 8 "
    "--checkpoint-every 32 --threads 1 --device cpu --out run"
)
SMALL = {
    "train": TRAIN,
    "resume": "--total-steps 64",
    "bandit": "--horizon 20 --trials 2 --selection-trials 1 --workers 1 --out run",
    "play": "--steps 40 --games 1",
    "report": "--out page.html",
    "claims": "",
    "results": "--no-figures",
    "theory": "",
}
READERS = ("resume", "play", "report", "claims", "results")
"""The commands whose first words are folders that they read."""


def commands_of(text):
    """The commands of a page, without explanations, and with continued lines joined."""
    text = re.sub(r"\s*\\\n\s*", " ", text)
    blocks = re.findall(r"^```\w*\n(.*?)^```$", text, re.M | re.S)
    lines = [line for block in blocks for line in block.splitlines()]
    spans = re.findall(r"`([^`\n]+)`", re.sub(r"^```.*?^```$", "", text, flags=re.M | re.S))
    for line in lines + spans:
        # `optimist train` alone is a name. More than one space after a subcommand only aligns what follows.
        if found := re.match(r"((?:\w+=\S+ )*)(optimist [a-z]+|make) +(\S.*?)(?:\s{2,}.*|\s+#.*)?$", line):
            yield f"{found[1]}{found[2]} {found[3]}"


def choices(command):
    """Every command that ``command`` stands for: one for each choice written ``a|b``."""
    words = [[shlex.quote(choice) for choice in word.split("|")] for word in shlex.split(command)]
    return [" ".join(chosen) for chosen in itertools.product(*words)]


def documented():
    """The pages by the command."""
    pages = {}
    for page in PAGES:
        for command in commands_of(page.read_text(encoding="utf-8")):
            for choice in choices(command):
                pages.setdefault(choice, []).append(page)
    return pages


def words_of(command):
    """The words of a command, placeholders replaced: variables that it sets, its subcommand, its arguments."""
    words = [
        re.sub(CAPITALS, lambda name: PLACEHOLDERS.get(name[0], name[0]), word.removesuffix("..."))
        for word in shlex.split(command)
    ]
    start = words.index("optimist")
    return words[:start], words[start + 1], words[start + 2 :]


def made_small(command):
    """The words of the command that is run in place of ``command``."""
    variables, name, arguments = words_of(command)
    if name in READERS:
        folders = len(list(itertools.takewhile(lambda word: not word.startswith("-"), arguments)))
        arguments = [f"run-{k}" for k in range(folders)] + arguments[folders:]
    rule, own, rest = shlex.split(SMALL.get(name, "")), [], iter(arguments)
    for word in rest:
        if word.startswith("-") and word in rule:
            next(rest, None)  # the value that the rule replaces
        else:
            own.append(word)
    return (*variables, name, *own, *rule)


PAGES_BY_COMMAND = documented()
MAKE = [command for command in PAGES_BY_COMMAND if command.startswith("make ")]
OURS = [command for command in PAGES_BY_COMMAND if command not in MAKE]
RUN = {made_small(command): command for command in OURS if words_of(command)[1] != "study"}


@pytest.mark.parametrize("command", OURS)
def test_a_documented_command_parses_and_there_is_a_test_that_runs_it(command):
    _, name, arguments = words_of(command)
    unknown = {word for part in arguments for word in re.findall(CAPITALS, part)}
    assert not unknown, f"what does {unknown} stand for in {command}? Write it out, or say so in PLACEHOLDERS"
    if "--help" not in arguments:
        parsed = parse([name, *arguments]).command  # exits on a wrong flag
    assert parsed.name in studies_tested() if name == "study" else name in SMALL, f"no small rule for {command}"


@pytest.fixture(scope="module")
def tiny_run(tmp_path_factory):
    """The folder of a finished run."""
    folder = tmp_path_factory.mktemp("tiny")
    run(("train", "--env", "DeepSea-6", "--bonus", "count", "--width", "8", *shlex.split(TRAIN)), folder)
    return folder / "run"


@pytest.mark.parametrize("words", RUN, ids=RUN.get)
def test_a_documented_command_runs(words, tiny_run, tmp_path):
    command = RUN[words]
    name = words_of(command)[1]
    assert name in SMALL, f"{command} cannot be made small: give a rule in SMALL"
    if "--data" in words:
        shutil.copytree(ROOT / "examples/data", tmp_path / "examples/data")
    for folder in re.findall(r"\brun-\d\b", " ".join(words)):
        source = ROOT / "results/figure2" if name in ("claims", "results") else tiny_run
        shutil.copytree(source, tmp_path / folder / ("study" if name == "results" else ""))
    for page in PAGES_BY_COMMAND[command]:  # a snippet whose first line is `# name.py` is to be saved under that name
        for code in re.findall(r"^```python\n(# \w+\.py\n.*?)^```$", page.read_text(encoding="utf-8"), re.M | re.S):
            (tmp_path / code.split()[1]).write_text(code, encoding="utf-8")
    run(words, tmp_path)


def run(words, folder):
    variables = list(itertools.takewhile(lambda word: "=" in word, words))
    environment = os.environ | dict(variable.split("=", 1) for variable in variables)
    arguments = [OPTIMIST, *words[len(variables) :]]
    done = subprocess.run(
        arguments, capture_output=True, text=True, cwd=folder, env=environment, check=False, timeout=300
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_study_is_run_by_a_test():
    assert set(STUDIES) <= studies_tested()


@functools.cache
def studies_tested():
    """What the tests ``..._at_smoke_scale...`` name: in their code, and in the tables and imports that it reads."""
    found = set()
    for path in (ROOT / "tests").rglob("test_*.py"):
        body = ast.parse(path.read_text(encoding="utf-8")).body
        for test in body:
            if isinstance(test, ast.FunctionDef) and "_at_smoke_scale" in test.name:
                read = {node.id for node in ast.walk(test) if isinstance(node, ast.Name)}
                for node in (test, *(other for other in body if read & names_bound(other))):
                    found |= {part.value for part in ast.walk(node) if isinstance(part, ast.Constant)}
                    found |= set(node.module.split(".")) if isinstance(node, ast.ImportFrom) else set()
    return {str(value).replace("_", "-") for value in found}


def names_bound(node):
    """The names that a statement at the top of a module gives a value to."""
    match node:
        case ast.Assign(targets=[ast.Name(id=name)]) | ast.AugAssign(target=ast.Name(id=name)):
            return {name}
        case ast.ImportFrom(names=names):
            return {alias.asname or alias.name for alias in names}
    return set()


@pytest.mark.parametrize("command", MAKE)
def test_a_documented_target_is_in_the_makefile(command):
    targets = re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), re.M)
    assert set(command.split()[1:]) <= set(targets)


def test_commands_are_found_as_they_are_written():
    page = "A `make bench`, `optimist train`, `optimist play runs/a`.\n```\noptimist study  s --scale a|b   why\n"
    page += "X=. optimist train --env E \\\n  --seed 1  # why\nmake demo   # why\noptimist theory\n```\n"
    found = [choice for command in commands_of(page) for choice in choices(command)]
    assert found == [
        "optimist study s --scale a",
        "optimist study s --scale b",
        "X=. optimist train --env E --seed 1",
        "make demo",
        "make bench",
        "optimist play runs/a",
    ]
    assert made_small("optimist resume runs/a --total-steps 9") == ("resume", "run-0", "--total-steps", "64")
    assert len(RUN) >= 12
    assert len(MAKE) >= 2
