"""``optimist study``: one list of names, and runs that one study leaves to another."""

import io
import tomllib
from pathlib import Path

import pytest
from rich.console import Console

from optimist.cli.study import StudyCommand, run_study
from optimist.studies.registry import STUDIES, find_study
from optimist.studies.training.runs import FINISHED
from optimist.studies.training.tasks import SMALL_ROLLOUTS, Added, Task, TrainingSettings

ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize("name", STUDIES)
def test_every_name_is_a_study_with_three_scales(name):
    assert set(find_study(name).scales) == {"smoke", "laptop", "paper"}


def test_the_import_rule_of_what_studies_share_names_every_study():
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    (rule,) = [rule for rule in contracts if rule["name"] == "what studies share never imports a study"]
    assert set(rule["forbidden_modules"]) == {f"optimist.studies.{module}" for module in STUDIES.values()}
    modules = [path.relative_to(ROOT / "src").with_suffix("") for path in (ROOT / "src/optimist/studies").rglob("*.py")]
    everything = {".".join(module.parts) for module in modules if module.name != "__init__"}
    assert set(rule["source_modules"]) == everything - set(rule["forbidden_modules"])


def test_a_study_that_does_not_exist_gets_a_suggestion(tmp_path):
    with pytest.raises(ValueError, match=r"there is no study 'deepsee': did you mean 'deepsea'\?"):
        run_study(StudyCommand("deepsee", out=tmp_path / "out"), screen())
    assert not list(tmp_path.iterdir())


def screen():
    return Console(file=io.StringIO(), width=200)


@pytest.fixture
def tiny(monkeypatch):
    """Figures 5 and 6 on a small sea under the name of a game."""
    changes = SMALL_ROLLOUTS | {"steps": 8, "extrinsic.weight": 0.0, "width": 8}
    settings = TrainingSettings((Task("Breakout", "DeepSea-4", 32, ("acb", "count"), changes),), (0, 1))
    for name in ("figure5", "figure6"):
        monkeypatch.setitem(find_study(name).scales, "smoke", settings)


@pytest.mark.usefixtures("tiny")
def test_figure6_takes_the_runs_of_figure5(tmp_path):
    five, six = tmp_path / "five", tmp_path / "six"
    run_study(StudyCommand("figure5", "smoke", workers=1, out=five), screen())
    ends = {path: path.stat().st_mtime_ns for path in five.glob(f"runs/*/{FINISHED}")}
    assert len(ends) == 4
    shown = screen()
    run_study(StudyCommand("figure6", "smoke", workers=1, out=six, runs=five), shown)
    assert {path: path.stat().st_mtime_ns for path in five.glob(f"runs/*/{FINISHED}")} == ends
    expected = {"runs.csv", "summary.csv", "unique_states_curves.csv", "aggregate.csv", "profile.csv"}
    expected |= {"verdicts.csv", "record.json", "unique_states.png", "aggregate.png"}
    assert {path.name for path in six.iterdir()} == expected
    assert "not enough data" in shown.file.getvalue()
    run_study(StudyCommand("figure6", "smoke", workers=1, out=six, runs=five), screen())  # its own folder: goes on
    with pytest.raises(FileExistsError, match="in use"):
        run_study(StudyCommand("figure6", "smoke", workers=1, out=six), screen())


def test_a_study_without_training_runs_takes_none(tmp_path):
    with pytest.raises(ValueError, match=r"figure2 is no study of training runs, got --runs"):
        run_study(StudyCommand("figure2", "smoke", out=tmp_path / "out", runs=tmp_path), screen())
    assert not (tmp_path / "out").exists()


def test_too_few_workers_are_refused_before_anything_is_made(tmp_path):
    for name, workers in (("figure2", 0), ("deepsea", -1)):
        with pytest.raises(ValueError, match=f"--workers must be at least .* for {name}, got {workers}"):
            run_study(StudyCommand(name, "smoke", out=tmp_path / "out", workers=workers), screen())
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("deepsea", {"seeds": (1, 1)}, "--seeds must be different whole numbers, at least 0, got 1 1"),
        ("deepsea", {"seeds": (-1,)}, "--seeds must be different whole numbers, at least 0, got -1"),
        ("linear-bandits", {"seeds": (1, 2)}, "--seeds must be at most 1 for this study, got 1 2"),
        ("figure2", {"bonus": ("rnd",)}, "figure2 is no study of training runs, got --bonus rnd"),
        ("deepsea", {"bonus": ("rndd",)}, r"there is no bonus 'rndd': did you mean 'rnd'\?"),
        ("deepsea", {"bonus": ("nowhere:made",)}, "there is no module 'nowhere'"),
        ("deepsea", {"bonus": ("rnd",)}, "adds a learner 'rnd', and reward-free, N = 5 has one of that name already"),
        ("deepsea", {"bonus": ("e3b", "e3b")}, "adds a learner 'e3b', and .* has one of that name already"),
        ("deepsea", {"bonus": ("my=acb,ridge",)}, "must be written key=value, got 'ridge'"),
        ("deepsea", {"bonus": ("my=acb,ensemble_sizee=3",)}, "ensemble_sizee"),
        ("deepsea", {"bonus": ("",)}, "a bonus is one name or a product of two different ones"),
    ],
)
def test_options_that_cannot_be_are_told_before_anything_is_made(name, options, message, tmp_path):
    with pytest.raises(ValueError, match=message):
        run_study(StudyCommand(name, "smoke", out=tmp_path / "out", **options), screen())
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("e3b", Added("e3b", "e3b")),
        ("acb * e3b", Added("acb * e3b", "acb * e3b")),
        ("wide=acb,ensemble_size=512, ridge=2", Added("wide", "acb", ("ensemble_size=512", "ridge=2"))),
        ("own_bonuses:counting", Added("counting", "own_bonuses:counting")),
        ("mine = own_bonuses:counting", Added("mine", "own_bonuses:counting")),
        ("acb*own_bonuses:counting", Added("acb*counting", "acb*own_bonuses:counting")),
    ],
)
def test_an_added_learner_is_a_label_a_bonus_and_options(text, expected):
    assert Added.parse(text) == expected


def test_seeds_are_those_of_the_runs_whatever_the_study():
    assert {job.config.seed for job in find_study("deepsea").scales["smoke"].with_seeds([7, 8]).jobs()} == {7, 8}
    assert find_study("figure1").scales["paper"].with_seeds([7]).training.seeds == (7,)
    assert find_study("linear-bandits").scales["paper"].with_seeds([7]).seed == 7
    assert find_study("fidelity").scales["paper"].with_seeds([7]).ground.seed == 7
    two = find_study("figure2").scales["paper"].with_seeds([7, 8])
    assert (two.selection_seed, two.report_seed) == (7, 8)
    one = find_study("figure2").scales["paper"].with_seeds([7])
    assert one.report_seed == 7 != one.selection_seed
