"""The table of claims: gathered from folders new and old, nothing left out, nothing claimed without a measurement."""

import csv
import json

import pytest

import optimist
from optimist.reporting.tables import write_csv
from optimist.studies.claims import OURS, PAPER, budget_of, claim_rows, markdown, standing
from optimist.studies.registry import STUDIES
from optimist.studies.study import ALL_RUNS_FINISH, Outcome, Verdict, read_verdicts, verdict_row, write_outcome


def study(folder, name, settings, verdicts, **more):
    folder.mkdir()
    write_csv(folder / "verdicts.csv", [verdict_row(verdict) for verdict in verdicts])
    record = {"command": f"optimist study {name} --scale laptop", "settings": settings} | more
    (folder / "record.json").write_text(json.dumps(record))
    return folder


def test_every_claim_of_the_paper_has_a_row_in_its_order_and_ours_come_last(tmp_path):
    tasks = {"tasks": [{"total_steps": 2_000}, {"total_steps": 1_000}], "seeds": [1, 2, 3]}
    folders = [
        study(tmp_path / "mine", "deepsea", tasks, [Verdict("seas", "5", "holds"), Verdict("b", "6", "holds", 2, "x")]),
        study(tmp_path / "7", "figure7", tasks, [Verdict("joint", "1 to 2", "does not hold")]),
        tmp_path,  # no study
    ]
    rows = claim_rows(folders)
    assert list(dict.fromkeys(row["place"] for row in rows)) == [*(claim.place for claim in PAPER), OURS]
    (joint,) = [row for row in rows if row["place"] == "Figure 7"]
    assert (joint["claim"], joint["judgement"], joint["seeds"], joint["budget"]) == (
        "joint", "does not hold", "3", "1,000 to 2,000 steps per run",
    )  # fmt: skip
    assert [(row["seeds"], row["budget"]) for row in rows[-2:]] == [("3", "1,000 to 2,000 steps per run"), (2, "x")]
    others = [row for row in rows if row["place"] not in ("Figure 7", OURS)]
    assert {row["judgement"] for row in others} == {"not enough data"}
    assert "not measured: optimist study figure3" in {row["measured"] for row in others}


def test_verdicts_of_before_are_read(tmp_path):
    (tmp_path / "verdicts.csv").write_text('claim,measured,judgement\n"a, b",3,holds\n')
    assert read_verdicts(tmp_path / "verdicts.csv") == [Verdict("a, b", "3", "holds", None, "")]
    (tmp_path / "other.csv").write_text("a,b\n1,2\n")
    with pytest.raises(ValueError, match="has no verdicts"):
        read_verdicts(tmp_path / "other.csv")


def test_verdicts_come_back_as_they_were_written(tmp_path):
    verdicts = [Verdict("c", "m | 1", "not enough data", 4, "9 steps"), Verdict("d", "m", "holds")]
    study(tmp_path / "s", "atari", {}, verdicts)
    assert read_verdicts(tmp_path / "s/verdicts.csv") == verdicts


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"horizon": 100, "trials": 7, "selection_trials": 3}, ("7", "100 rounds per trial")),
        (
            {"horizon": 100, "trials": 7, "labeled_trials": 2, "labeled_horizon": 50},
            ("2 to 7", "50 to 100 rounds per trial"),
        ),
        ({"training": {"tasks": [{"total_steps": 5}], "seeds": [1]}, "steps": 9}, ("1", "5 steps per run")),
        ({"replicates": 2}, ("", "")),
    ],
)
def test_seeds_and_budget_are_read_in_the_settings(settings, expected):
    assert budget_of(settings) == expected


def test_the_markdown_has_the_papers_words_and_the_command(tmp_path):
    text = markdown(claim_rows([study(tmp_path / "s", "figure2", {}, [Verdict("increasing a | b", "3", "holds")])]))
    assert "## Figure 2: up to a point" in text
    assert "| increasing a \\| b | 3 |  |  | holds |" in text
    assert "Made by `optimist study figure2 --scale laptop`, version unknown." in text
    assert text.count("## ") == len(PAPER)


def test_verdicts_go_to_the_sentences_that_they_are_about_and_the_rest_is_ours(tmp_path):
    verdicts = [
        Verdict("ACB visits more states than with features=penultimate (D9)", "9", "holds"),
        Verdict("ACB visits more states than with statistics=none (D6)", "8", "does not hold"),
        Verdict("ACB visits more states than with ridge=1000 (D3)", "7", "not enough data"),
    ]
    rows = claim_rows([study(tmp_path / "s", "ablation", {}, verdicts, version=optimist.__version__)])
    found = {row["place"]: row["measured"] for row in rows if row["study"] == "ablation" and row["command"]}
    assert found == {"section 4": "9", "section 5": "8", OURS: "7"}
    holds, fails, is_open, ours = standing(rows)
    assert holds == "**What holds.** Gradients tend to perform better than the penultimate layer (section 4: 1 of 1)."
    assert fails == "**What does not.** Tail-averaged parameters and batch normalization help (section 5: 1 of 1)."
    assert "ACB does not perform as well as RND on Montezuma's Revenge (section 6: not measured)." in is_open
    assert "Of 1 verdicts on what the paper does not claim, 0 hold, 0 do not, 1 are open." in ours


def test_a_claim_with_verdicts_of_both_kinds_is_told_in_both_paragraphs(tmp_path):
    mixed = [
        Verdict(ALL_RUNS_FINISH, "9 of 9 failed", "does not hold"),
        Verdict("a", "1", "holds"),
        Verdict("b", "2", "does not hold"),
        Verdict("c", "3", "not enough data"),
    ]
    folder = study(tmp_path / "s", "figure7", {}, mixed, version=optimist.__version__)
    holds, fails, is_open, _ = standing(claim_rows([folder]))
    assert "(Figure 7: 1 of 3)" in holds
    assert "(Figure 7: 1 of 3)" in fails
    assert "Figure 7" not in is_open


def test_what_a_former_version_alone_has_measured_is_open(tmp_path):
    folder = study(tmp_path / "s", "figure7", {}, [Verdict("a", "1", "holds")], version="0.1.0")
    holds, fails, is_open, _ = standing(claim_rows([folder]))
    assert "Figure 7" not in holds + fails
    assert "(Figure 7: measured by version 0.1.0 alone)" in is_open


def test_every_sentence_of_the_paper_has_a_place_of_its_own_and_a_study_that_exists():
    assert len({claim.place for claim in PAPER}) == len(PAPER)
    assert {claim.study for claim in PAPER} - {""} <= set(STUDIES)


def test_folders_without_a_study_are_an_error(tmp_path):
    with pytest.raises(FileNotFoundError, match="no study among"):
        claim_rows([tmp_path])
    folder = study(tmp_path / "s", "figure2", {}, [Verdict("a", "3", "holds")])
    (folder / "record.json").write_text("[1, 2")
    with pytest.raises(ValueError, match=r"record\.json is not the record of a study"):
        claim_rows([folder])


def test_failed_runs_are_a_table_that_goes_when_none_fails(tmp_path):
    verdicts = [Verdict("a", "3", "holds")]
    failures = [{"run": "x", "error": "no, really"}]
    write_outcome(Outcome({"runs": [{"a": 1}], "failures": failures}, verdicts, {}), tmp_path)
    with (tmp_path / "failures.csv").open() as file:
        assert list(csv.DictReader(file)) == [{"run": "x", "error": "no, really"}]
    write_outcome(Outcome({"runs": [{"a": 1}]}, verdicts, {}), tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {"runs.csv", "verdicts.csv"}
