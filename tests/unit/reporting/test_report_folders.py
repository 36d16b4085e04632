"""What a report reads: runs and studies once each, and what is broken becomes a note that loses nobody else."""

import json

import pytest

from optimist.reporting.report.folders import read_folders
from report_folders import write_run, write_study


def test_runs_and_studies_are_read_once_each(tmp_path):
    study = write_study(tmp_path / "study")
    inner = write_run(study / "runs" / "a", seed=1)
    outer = write_run(tmp_path / "b", seed=2)
    contents = read_folders([study, outer, inner, study, outer])
    assert [run.folder for run in contents.runs] == [inner, outer]
    assert [run.config.seed for run in contents.runs] == [1, 2]
    assert [found.folder for found in contents.studies] == [study]
    assert contents.problems == []
    assert contents.studies[0].tables["regret"][1] == {"policy": "greedy", "mean": "80"}
    assert contents.runs[0].metrics["unique_states"].tolist() == [1.25, 2.5, 3.75, 5.0, 6.25, 7.5, 8.75, 10.0]


def test_a_truncated_file_is_read_up_to_the_damage(tmp_path):
    run, study = write_run(tmp_path / "run"), write_study(tmp_path / "study")
    for path in (run / "metrics.csv", study / "verdicts.csv"):
        path.write_text(path.read_text()[:-8])
    contents = read_folders([run, study])
    assert contents.runs[0].step == 3500
    assert len(contents.studies[0].tables["verdicts"]) == 3  # the last one is cut within its last cell
    (note,) = contents.problems
    assert note.folder == run
    assert note.message == "metrics.csv is damaged in line 9: it has 7 of 8 cells; it was read up to there"


@pytest.mark.parametrize(
    ("cell", "damaged", "message"),
    [
        ("1500,", "15x0,", "its step is '15x0'"),
        ("1500,", ",", "its step is ''"),
        (",250,", ",25x,", "could not convert string to float: '25x'"),
    ],
)
def test_a_cell_that_is_no_number_ends_a_run_too(cell, damaged, message, tmp_path):
    path = write_run(tmp_path / "run") / "metrics.csv"
    lines = path.read_text().splitlines()
    assert cell in lines[3]
    lines[3] = lines[3].replace(cell, damaged, 1)
    path.write_text("\n".join(lines))
    contents = read_folders([tmp_path / "run"])
    assert contents.runs[0].step == 1000
    assert f"damaged in line 4: {message}" in contents.problems[0].message


@pytest.mark.parametrize(
    ("file", "text", "message"),
    [
        ("metrics.csv", None, "No such file"),
        ("metrics.csv", "", "metrics.csv has no column 'step'"),
        ("metrics.csv", "step,unique_states\n", "metrics.csv has no row yet"),
        ("config.json", None, "config.json is missing"),
        ("config.json", "{", "is not the configuration of a run"),
        ("config.json", json.dumps({"env": "DeepSea-6", "of_version": 7}), "unknown entries: of_version"),
    ],
)
def test_a_broken_run_is_a_note_and_the_others_stay(file, text, message, tmp_path):
    broken, whole = write_run(tmp_path / "broken"), write_run(tmp_path / "whole")
    if text is None:
        (broken / file).unlink()
    else:
        (broken / file).write_text(text)
    contents = read_folders([broken, whole])
    assert [run.folder for run in contents.runs] == [whole]
    assert [note.folder for note in contents.problems] == [broken]
    assert message in contents.problems[0].message
    assert contents.problems[0].is_broken


def test_a_failed_run_is_a_note_with_its_traceback(tmp_path):
    failed = tmp_path / "study" / "runs" / "failed"
    failed.mkdir(parents=True)
    (failed / "error.txt").write_text("Traceback (most recent call last):\nValueError: no room\n")
    contents = read_folders([tmp_path / "study"])
    failure = next(note for note in contents.problems if note.folder == failed)
    assert failure.message == "the run failed: ValueError: no room"
    assert failure.details.startswith("Traceback")


def test_a_copy_of_a_run_does_not_count_twice(tmp_path):
    first, copy, other = (write_run(tmp_path / name, seed=seed) for name, seed in (("a", 1), ("b", 1), ("c", 2)))
    contents = read_folders([first, copy, other])
    assert [run.folder for run in contents.runs] == [first, other]
    assert [(note.folder, note.message) for note in contents.problems] == [
        (copy, f"left out: the configuration and the seed are those of {first}")
    ]


def test_a_study_without_its_record_is_not_finished(tmp_path):
    write_run(tmp_path / "study" / "runs" / "a")
    contents = read_folders([tmp_path / "study"])
    assert len(contents.runs) == 1
    assert "not finished" in contents.problems[0].message
    (tmp_path / "study" / "record.json").write_text("{")
    assert "record.json could not be read" in read_folders([tmp_path / "study"]).problems[0].message


def test_what_is_neither_is_passed_over_among_others(tmp_path):
    run = write_run(tmp_path / "run")
    (tmp_path / "README.md").write_text("what this is")
    (tmp_path / "notes").mkdir()
    contents = read_folders([tmp_path / "README.md", tmp_path / "notes", run])
    assert [found.folder for found in contents.runs] == [run]
    assert [(note.folder.name, note.is_broken) for note in contents.problems] == [
        ("README.md", False),
        ("notes", False),
    ]
    assert all("passed over" in note.message for note in contents.problems)


def test_what_is_neither_is_an_error_that_says_what_was_expected(tmp_path):
    write_run(tmp_path / "several" / "a")
    (tmp_path / "empty").mkdir()
    for folder, message in (
        (tmp_path / "nowhere", "there is no folder"),
        (tmp_path / "empty", "is neither a run .* nor a study"),
        (tmp_path / "several", r"it holds 1 of them: write  optimist report .*several/\*"),
    ):
        with pytest.raises(ValueError, match=message):
            read_folders([folder])
    with pytest.raises(ValueError, match="at least one folder"):
        read_folders([])


@pytest.mark.parametrize(
    ("changes", "success", "finished"),
    [
        ({"steps": 4000}, None, True),
        ({"steps": 3500}, None, False),
        ({"steps": 3500, "stop_at_success": 0.5}, 0.5, True),
        ({"steps": 3500, "stop_at_success": 0.5}, 0.4, False),
        ({"steps": 500, "stop_at_success": 0.5}, 1.0, False),  # 83 episodes: a run does not end before 100
    ],
)
def test_a_run_is_finished_after_all_steps_or_with_success(changes, success, finished, tmp_path):
    (run,) = read_folders([write_run(tmp_path / "run", **changes)]).runs
    if success is not None:
        run.metrics["success_rate"][-1] = success
    assert run.is_finished == finished
