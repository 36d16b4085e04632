"""``optimist study``: one list of names, and runs that one study leaves to another."""

import io
from importlib import import_module

import pytest
from rich.console import Console

from optimist.cli.study import STUDIES, StudyCommand, run_study
from optimist.studies.training_runs import FINISHED
from optimist.studies.training_tasks import SMALL_ROLLOUTS, Task, TrainingSettings


@pytest.mark.parametrize("name", STUDIES)
def test_every_name_is_a_study_with_three_scales(name):
    package = f"optimist.studies.{name.replace('-', '_')}"
    assert set(import_module(f"{package}.settings").SCALES) == {"smoke", "laptop", "paper"}
    assert callable(import_module(f"{package}.study").run)


def screen():
    return Console(file=io.StringIO(), width=200)


@pytest.fixture
def tiny(monkeypatch):
    """Figures 5 and 6 on a small sea under the name of a game."""
    changes = SMALL_ROLLOUTS | {"steps": 8, "extrinsic_weight": 0.0, "width": 8}
    settings = TrainingSettings((Task("Breakout", "DeepSea-4", 32, ("acb", "count"), changes),), (0, 1))
    for name in ("figure5", "figure6"):
        monkeypatch.setitem(import_module(f"optimist.studies.{name}.settings").SCALES, "smoke", settings)


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
