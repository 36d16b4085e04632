"""The page about the committed evidence: it says what the tables say, and figures can be drawn from these alone."""

import io
import json
import math
import shutil
from dataclasses import asdict
from pathlib import Path

import pytest
from rich.console import Console

import optimist
from optimist.cli.results import ResultsCommand, run_results
from optimist.reporting.improvement import ALL
from optimist.reporting.tables import write_csv
from optimist.studies.claims import StudyFolder, claim_rows, markdown
from optimist.studies.fidelity.fidelity import FidelitySettings
from optimist.studies.questions import QUESTIONS
from optimist.studies.registry import STUDIES, find_study
from optimist.studies.results import (
    exploration_value,
    judge_again,
    page,
    redraw,
    study_folders,
    with_scores,
    worlds_of,
)
from optimist.studies.study import read_csv, read_tables

RESULTS = Path(__file__).parents[3] / "results"
ANEW = "make it anew with  optimist results results --no-figures"


def screen():
    return Console(file=io.StringIO(), width=200)


def test_the_committed_page_and_claims_are_what_the_committed_tables_say(tmp_path):
    assert (RESULTS / "README.md").read_text() == page(RESULTS), ANEW
    rows = claim_rows(study_folders(RESULTS))
    assert (RESULTS / "claims.md").read_text() == markdown(rows), ANEW
    write_csv(tmp_path / "claims.csv", rows)
    assert (RESULTS / "claims.csv").read_text() == (tmp_path / "claims.csv").read_text(), ANEW


def test_every_study_answers_a_question_and_what_was_not_played_is_listed():
    shown = {exhibit.folder for question in QUESTIONS for exhibit in question.exhibits}
    assert set(STUDIES) == shown - {"benchmarks", "campaign", "soak"}
    text = page(RESULTS)
    for folder in study_folders(RESULTS):
        if (folder / "failures.csv").is_file():
            row = read_csv(folder / "failures.csv")[0]
            assert f"- {folder.name}, {row['task']}, {row['learner']}: " in text


def test_numbers_follow_their_tables(tmp_path):
    shutil.copytree(RESULTS / "frozen-lake", tmp_path / "frozen-lake", ignore=shutil.ignore_patterns("*.png"))
    before = page(tmp_path)
    path = tmp_path / "frozen-lake/summary.csv"
    rows = read_csv(path)
    assert (rows[0]["task"], rows[0]["learner"]) == ("FrozenLake-8x8", "acb")
    assert f"| FrozenLake-8x8 | 5 of 5, step {rows[0]['mean']:,.0f} |" in before
    assert "](frozen-lake/success.png)" not in before  # a picture that is not there is not shown
    write_csv(path, [{**rows[0], "known": 4, "mean": 7.0}, *rows[1:]])
    assert "| FrozenLake-8x8 | 4 of 5, step 7 |" in page(tmp_path)
    (tmp_path / "frozen-lake/note.md").write_text("Mind\nthis.\n")
    assert "\n> Mind\n> this.\n" in page(tmp_path)


@pytest.mark.parametrize("name", ["frozen-lake", "figure2", "classic"])
def test_verdicts_are_judged_again_from_the_tables_alone(name, tmp_path):
    folder = tmp_path / name
    shutil.copytree(RESULTS / name, folder, ignore=shutil.ignore_patterns("*.png"))
    (folder / "verdicts.csv").write_text("claim,measured,judgement\nanother,1,holds\n")
    assert judge_again(folder).read_text() == (RESULTS / name / "verdicts.csv").read_text(), ANEW


def test_the_value_of_exploration_counts_todays_runs_alone(tmp_path):
    shutil.copytree(RESULTS / "frozen-lake", tmp_path / "frozen-lake", ignore=shutil.ignore_patterns("*.png"))
    record = tmp_path / "frozen-lake/record.json"
    told = json.loads(record.read_text())
    for version, sums in (("0.0.1", 0), (optimist.__version__, 3)):
        record.write_text(json.dumps(told | {"version": version}))
        rows = exploration_value(tmp_path)
        assert sum(row["task"] == ALL for row in rows) == sums
        assert ("a former version played them: frozen-lake." in page(tmp_path)) == (sums == 0)


def test_a_run_that_solves_its_task_sooner_is_better_and_one_that_never_does_is_worst():
    def row(task, solved_at, area):
        return {"task": task, "steps": 100, "solved_at": solved_at, "area": area}

    rows = [row("a", 40, 0.1), row("a", 60, 0.9), row("a", math.nan, 1.0), row("b", math.nan, 0.3), row("b", "", 0.2)]
    assert [score for _, score in with_scores(rows)] == [-40, -60, -200, 0.3, 0.2]


def test_rows_and_verdicts_of_a_former_default_are_not_shown_as_todays(tmp_path):
    folder = tmp_path / "fidelity"
    shutil.copytree(RESULTS / "fidelity", folder, ignore=shutil.ignore_patterns("*.png", "frontier.csv"))
    assert any(row["variant"] == "DEFAULT" for row in read_tables(folder)["fidelity"])
    record = json.loads((folder / "record.json").read_text())
    record["settings"]["default"] = asdict(FidelitySettings())["default"] | {"epsilon": 0.5}  # as a record has it
    (folder / "record.json").write_text(json.dumps(record))
    assert "DEFAULT" not in page(tmp_path)
    record["settings"]["default"]["epsilon"] = FidelitySettings().default["epsilon"]
    (folder / "record.json").write_text(json.dumps(record))
    assert "| random | sketch 16 | DEFAULT |" in page(tmp_path)
    assert "| random | sketch 16 | DEFAULT on 0.25 |" in page(tmp_path)
    assert "DEFAULT, M = 128, rms" in page(tmp_path)
    assert "moving frontiers" not in page(tmp_path)  # a table that is not there is not shown
    head = "environment,policy,variant,correlation,often,rarely,never"
    (folder / "frontier.csv").write_text(f"{head}\nDeepSea-30,trained,DEFAULT,0.9987,1,1.01,0.99\n")
    assert "| DeepSea-30 | trained | DEFAULT | 0.999 | 1.00 | 1.01 | 0.99 |" in page(tmp_path)


@pytest.mark.parametrize("name", [folder.name for folder in study_folders(RESULTS)])
def test_figures_can_be_drawn_from_the_committed_tables(name):
    drawn = find_study(name).figures(read_tables(RESULTS / name))
    committed = {path.stem for path in (RESULTS / name).glob("*.png") if not path.stem.startswith(("film", "map"))}
    assert set(drawn) == committed


def test_the_command_redraws_in_any_format_and_writes_the_page(tmp_path):
    shutil.copytree(RESULTS / "frozen-lake", tmp_path / "frozen-lake", ignore=shutil.ignore_patterns("*.png"))
    shown = screen()
    run_results(ResultsCommand(tmp_path, format="svg"), shown)
    assert (tmp_path / "frozen-lake/success.svg").read_text().startswith("<?xml")
    assert (tmp_path / "README.md").read_text() == page(tmp_path)
    assert "success.svg" in shown.file.getvalue()
    assert {"claims.csv", "claims.md"} <= {path.name for path in tmp_path.iterdir()}
    (pdf,) = redraw(tmp_path / "frozen-lake", "pdf")
    assert pdf.read_bytes()[:4] == b"%PDF"


def test_a_folder_without_studies_is_an_error_and_nothing_is_written(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"no study in .*: a study's folder has a verdicts\.csv"):
        run_results(ResultsCommand(tmp_path), screen())
    assert not list(tmp_path.iterdir())


def test_a_benchmark_is_shown_with_its_command_and_conditions_and_left_out_without_its_table(tmp_path):
    folder = tmp_path / "benchmarks"
    folder.mkdir()
    shutil.copy(RESULTS / "benchmarks/recommender.csv", folder)
    shutil.copy(RESULTS / "benchmarks/recommender.md", folder)
    text = page(tmp_path)
    assert "`python benchmarks/bench_recommender.py`; [conditions](benchmarks/recommender.md)." in text
    assert "| steady | vw --squarecb |" in text
    assert "bench_startup" not in text


def test_a_world_is_the_environment_and_its_options_whatever_the_budget():
    def settings(**changes):
        return {"tasks": [{"name": "t", "env": "DeepSea-20", "total_steps": len(changes), "changes": changes}]}

    def world(**changes):
        return worlds_of(StudyFolder("s", "", "", settings(**changes), ()))["t"]

    assert world() == world(stop_at_success=0.9) == world(env_options=["num_threads=1"])
    assert len({world(), world(**{"extrinsic.weight": 0.0}), world(env_options=["level=1"])}) == 3
