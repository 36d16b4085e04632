"""Words to commands: suggestions, former spellings, global options, help."""

import os
import shutil
import sys
from importlib import import_module
from pathlib import Path

import pytest

import optimist
from optimist.cli.bonus_help import field_docstrings, tree
from optimist.cli.commands import COMMANDS, execute, parse
from optimist.cli.former import modernized
from optimist.training.config import TrainConfig
from optimist.training.presets import defaults_for, folder_name

RESULTS = Path(__file__).parents[3] / "results"


@pytest.fixture
def run(capsys, tmp_path, monkeypatch):
    """Runs a command line in an empty folder: its exit code, stdout and stderr."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))

    def run(*words):
        code = execute([str(word) for word in words])
        shown = capsys.readouterr()
        return code, shown.out, shown.err

    return run


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_a_module_and_says_of_itself_what_the_overview_says(name):
    module = import_module(f"optimist.cli.{name}")
    summary = " ".join(getattr(module, f"{name.title()}Command").__doc__.split())
    assert summary.startswith(COMMANDS[name].rstrip("."))
    assert callable(getattr(module, f"run_{name}"))


def test_version_and_help(run):
    assert run("--version")[:2] == (0, f"optimist {optimist.__version__}\n")
    code, shown, _ = run("--help")
    assert code == 0
    assert all(name in shown for name in COMMANDS)
    assert "130 Ctrl-C, 143 SIGTERM" in shown
    code, shown, _ = run()
    assert code == 2
    assert "usage: optimist COMMAND" in shown


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        (("trian",), "did you mean 'train'?"),
        (("theory", "--horizn", "3"), "--horizon"),
        (("bandit", "--policies", "linubc"), "did you mean 'linucb'?"),
        (("study", "figur2"), "figure2"),
        (("train", "--env", "DeepSee-6", "--bonus", "count"), "DeepSea-"),
        (("train", "--env", "DeepSea-6", "--bonus", "conut"), "did you mean 'count'?"),
    ],
)
def test_what_is_misspelt_is_suggested(words, hint, run):
    code, _, told = run(*words)
    assert code == 2
    assert hint in told
    assert "Traceback" not in told


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("bandit", "--workers", "-3"), "workers must be a whole number >= 1, got -3"),
        (("bandit", "--seed", "-1"), "seed must be a non-negative integer, got -1"),
        (("bandit", "--trials", "0"), "trials must be a whole number >= 1, got 0"),
        (("bandit", "--policies"), "policies"),
        (("bandit", "--n-features", "100000"), "GiB"),
        (("train", "--env", "DeepSea-4", "--steps", "0"), "steps must be a whole number >= 1, got 0"),
        (("train", "--env", "DeepSea-4", "--device", "gpu"), "the device 'gpu' cannot be used here"),
        (("train", "--env", "DeepSea-4", "--device", "meta"), "the device 'meta' cannot be used here"),
        (
            ("train", "--env", "DeepSea-4", "--bonus-options", "ensemble_size=abc"),
            "ensemble_size must be a whole number",
        ),
        (("study", "figure2", "--workers", "-3"), "workers must be at least 1"),
        (("study", "figure2", "--retries", "-1"), "--retries must be a whole number >= 0"),
        (("study", "figure2", "--ray-address", "head:1"), "--ray-address goes with --executor ray"),
        (("study", "figure2", "--executor-options", "a=1"), "--executor-options goes with --executor ray or slurm"),
        (("study", "figure2", "--executor", "ray", "--executor-options", "a"), "must be written key=value"),
        (("study", "fidelity", "--executor", "ray"), "fidelity is measured in this process"),
        (("resume", "nowhere", "--total-steps", "0"), "total_steps must be a whole number >= 1"),
        (("play", "nowhere", "--games", "0"), "games must be a whole number >= 1"),
    ],
)
def test_options_are_checked_before_anything_is_made(words, message, run, tmp_path):
    code, _, told = run(*words)
    assert code == 2
    assert message in told
    assert "Traceback" not in told
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("command", ["train", "bandit", "play", "claims", "study"])
@pytest.mark.parametrize("out", ["pipe", "file", "file/below", "loop", "loop/below"])
def test_an_output_that_cannot_be_a_folder_is_refused(command, out, run, tmp_path):
    (tmp_path / "file").write_text("mine")
    (tmp_path / "loop").symlink_to("loop")
    os.mkfifo(tmp_path / "pipe")  # it stands for devices, which a test must not risk
    first = {"train": ("--env", "DeepSea-4"), "play": (".",), "claims": (".",), "study": ("figure2",)}
    code, _, told = run(command, *first.get(command, ()), "--out", out)
    assert code in (1, 2)
    assert out.partition("/below")[0] in told
    assert "Traceback" not in told
    assert {path.name for path in tmp_path.iterdir()} == {"file", "loop", "pipe"}
    assert (tmp_path / "file").read_text() == "mine"
    assert (tmp_path / "pipe").is_fifo()


def test_debug_works_before_and_after_the_command(run):
    for words in (("--debug", "theory", "--delta", 2), ("theory", "--delta", 2, "--debug")):
        code, _, told = run(*words)
        assert code == 2
        assert told.startswith("Traceback")
        assert told.endswith("delta must be in (0, 1), got 2.0: it is the probability that a bound fails\n")


def test_former_spellings_mean_the_same_and_are_told_once_each(capsys):
    former = "--environments 4 --extrinsic-weight=0.5 --intrinsic_discount 0.9 --no-extrinsic-episodic"
    config = parse(["train", "--env", "DeepSea-4", *former.split()]).command.settings
    assert (config.n_envs, config.extrinsic.weight, config.intrinsic.discount) == (4, 0.5, 0.9)
    assert not config.extrinsic.episodic
    told = capsys.readouterr().err.splitlines()
    assert len(told) == 4
    assert told[0] == "optimist: --environments is now --n-envs; the former spelling will go"


def test_an_option_whose_unit_changed_is_refused(capsys):
    with pytest.raises(SystemExit):
        modernized("train", ["--intrinsic-memory", "10"])
    assert "times n_envs times steps" in capsys.readouterr().err
    assert modernized("theory", ["--environments", "--out=--environments"]) == [
        "--environments",
        "--out=--environments",
    ]


def test_the_help_of_a_bonus_shows_its_settings_and_those_of_every_solver(run):
    code, shown, _ = run("train", "--env", "DeepSea-4", "--bonus", "acb", "--help")
    assert code == 0
    text = " ".join(shown.split())
    for expected in ("ensemble_size = 128", "M, the number of regressors.", "solver=exact", "solver=rmsprop",
                     "learning_rate = 0.01", "--bonus-options key=value"):  # fmt: skip
        assert expected in text
    assert "--n-envs INT" in text
    assert "(default: 32)" in text  # of DeepSea


def test_the_help_of_a_gain_shows_its_own_settings_and_those_of_the_bonus_inside(run):
    bonus = "novelty-gain(rnd)*episodic-count"
    code, shown, _ = run("train", "--env", "DeepSea-4", "--bonus", bonus, "--help")
    assert code == 0
    text = " ".join(shown.split())
    for expected in ("alpha = 0.5", "n_features = ", "form = inverse-root", "novelty-gain(rnd).key=value"):
        assert expected in text


def test_a_tree_has_every_field_with_its_meaning():
    lines = "\n".join(tree(TrainConfig, 200))
    for name, meaning in field_docstrings(TrainConfig).items():
        assert f"{name} = " in lines
        assert meaning in lines


def test_the_name_of_a_folder_is_one_name():
    config = defaults_for("my.module:make")
    assert folder_name(config) == "my.module-make-acb-0"
    odd = TrainConfig(env="../../etc/x y\n", bonus="acb * e3b", seed=1)
    assert "/" not in folder_name(odd)
    assert folder_name(odd).endswith("acb-times-e3b-1")


def test_a_page_that_is_not_ours_is_not_replaced(run, tmp_path):
    (tmp_path / "mine/study").mkdir(parents=True)
    shutil.copy(RESULTS / "figure2/verdicts.csv", tmp_path / "mine/study/verdicts.csv")
    (tmp_path / "mine/README.md").write_text("my notes")
    code, _, told = run("results", "mine", "--no-figures")
    assert code == 2
    assert "was not written by optimist results" in told
    assert {path.name for path in (tmp_path / "mine").iterdir()} == {"study", "README.md"}
    assert (tmp_path / "mine/README.md").read_text() == "my notes"
