"""docs/training.md: every snippet runs, every command parses, and its table of columns is that of a real run."""

import csv
import re
import shlex
import sys
from pathlib import Path

import pytest
import torch

from optimist.cli.commands import parse
from optimist.cli.resume import ResumeCommand
from optimist.cli.train import TrainCommand
from optimist.config import leaves
from optimist.training.config import TrainConfig
from optimist.training.presets import defaults_for

PAGE = Path(__file__).parents[2] / "docs" / "training.md"
TEXT = PAGE.read_text(encoding="utf-8")
COMMANDS = re.findall(r"^(?:PYTHONPATH=\. )?optimist ((?:train|resume) .*)$", TEXT, re.M)


@pytest.fixture(scope="module")
def played(tmp_path_factory):
    """The folder in which the snippets ran, in order and in one namespace; ``# name.py`` on top saves one as a file."""
    folder, threads = tmp_path_factory.mktemp("docs"), torch.get_num_threads()
    snippets = [(match.start(1), match[1]) for match in re.finditer(r"^```python\n(.*?)^```$", TEXT, re.M | re.S)]
    assert len(snippets) == TEXT.count("```python") >= 3
    namespace = {"__name__": "docs"}
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.syspath_prepend(folder)
        for start, code in snippets:
            if file := re.match(r"# (\w+)\.py\n", code):
                (folder / f"{file[1]}.py").write_text(code, encoding="utf-8")
                patch.setitem(sys.modules, file[1], None)  # so that the module goes when the patch does
                del sys.modules[file[1]]
            else:
                # Blank lines before the code, so that an error names the line of the page.
                exec(compile("\n" * TEXT.count("\n", 0, start) + code, str(PAGE), "exec"), namespace)
    torch.set_num_threads(threads)
    return folder


def test_the_table_of_columns_is_that_of_a_run(played):
    with (played / "runs/corridor/metrics.csv").open() as file:
        columns = csv.DictReader(file).fieldnames
    table = TEXT.partition("| column of `metrics.csv`")[2].partition("\n\n")[0]
    told = [name for row in table.splitlines()[2:] for name in re.findall(r"`([\w/.]+)`", row.split("|")[1])]
    plain = [name for name in columns if "/" not in name]
    of_images = ["unique_cells"]  # which this run has none of
    assert [name for name in told if "/" not in name and name not in of_images] == plain
    assert [name for name in told if "/" in name] == ["bonus/...", "evaluation/...", "seconds/..."]
    of_greedy = re.findall(r"`(evaluation/\w+)`", TEXT.partition("## Evaluation")[2].partition("\n## ")[0])
    of_both = [name.replace("greedy", kind) for name in of_greedy for kind in ("greedy", "sampled")]
    assert {name for name in columns if name.startswith("evaluation/")} == set(of_both)
    for name in set(columns) - set(of_both):
        assert "/" not in name or f"`{name}`" in table or f"`{name.removeprefix('seconds/')}`" in table, name


def test_the_folder_is_as_told(played):
    table = TEXT.partition("| file | what |")[2].partition("\n\n")[0]
    told = {name.rstrip("/") for name in re.findall(r"^\| `([\w.]+/?)`", table, re.M)}
    assert told - {"curves.png"} == {path.name for path in (played / "runs/corridor").iterdir()}
    kept = sorted(path.name for path in (played / "runs/corridor/checkpoints").iterdir())
    assert [name.partition("-")[0] for name in kept] == ["best.safetensors", "step", "step"]


@pytest.mark.parametrize("line", COMMANDS)
def test_every_command_parses(line):
    arguments = shlex.split(line, comments=True)
    command = parse(arguments).command
    assert isinstance(command, TrainCommand if arguments[0] == "train" else ResumeCommand)


def test_fields_and_files_exist():
    assert len(COMMANDS) >= 7
    names = set(leaves(TrainConfig()))
    assert (
        set(re.findall(r"^\*\*`(\w+)`\*\*", TEXT, re.M))
        == {"mixing", "normalize_observations", "value_scale_rate", "learning_rate_schedule", "target_kl"}
        <= names
    )
    assert {"checkpoint_every", "unique_states_limit", "threads"} <= names & set(re.findall(r"`(\w+)`", TEXT))
    for flag in re.findall(r"`(?:optimist train .*)?--([a-z.-]+)[ `]", TEXT):
        assert flag.replace("-", "_") in names | {"help"}, flag
    for path in re.findall(r"`(optimist/[\w/]+\.py)`", TEXT):
        assert (PAGE.parents[1] / "src" / path).is_file(), path


def test_the_default_is_the_papers():
    told = {"n_envs": 128, "steps": 128, "epochs": 4, "entropy_weight": 0.001, "learning_rate": 1e-4}  # A.2
    told |= {"extrinsic.discount": 0.999, "intrinsic.discount": 0.99, "activation": "leaky-relu"}  # A.2
    rnd = {"minibatches": 4, "clip": 0.1, "gae_lambda": 0.95, "extrinsic.weight": 2.0, "intrinsic.weight": 1.0}
    rnd |= {"value_weight": 0.5, "normalize_advantages": False, "max_gradient_norm": 0.0, "warm_up_steps": 50 * 128}
    rnd |= {"extrinsic.episodic": True, "intrinsic.episodic": False, "value_scale_rate": 0.0, "clip_rewards": True}
    config = defaults_for("Breakout-v5")
    assert config == TrainConfig()
    assert leaves(config) | told | rnd == leaves(config)
