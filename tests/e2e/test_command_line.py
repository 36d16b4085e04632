"""The installed ``optimist`` command in a subprocess."""

import csv
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

OPTIMIST = Path(sys.executable).with_name("optimist")
RESULTS = Path(__file__).parents[2] / "results"


def optimist(*arguments, code=0):
    done = subprocess.run([OPTIMIST, *map(str, arguments)], capture_output=True, text=True, check=False, timeout=600)
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout if code == 0 else done.stderr + done.stdout


def rows(path):
    with path.open() as file:
        return list(csv.DictReader(file))


def test_theory_prints_the_papers_numbers():
    printed = optimist("theory", "--horizon", 10000, "--n-features", 20, "--n-actions", 100, "--delta", 0.05)
    for text in ("Proposition 1", "Proposition 2", "Theorem 2", "13", "17", "regret at most"):
        assert text in printed


def test_theory_notes_where_a_bound_is_vacuous_or_not_proved():
    short = optimist("theory", "--horizon", 10000, "--sigma", 0.3)
    assert "Note (rerandomized, incremental, lazy): lambda = 0.09 is below B^2" in short
    assert "Note (rerandomized, incremental, lazy): the regret bound is vacuous" in short
    assert "Note" not in optimist("theory", "--horizon", 10**12, "--delta", 0.01)


def test_theory_refuses_what_is_no_probability():
    assert "delta must be in (0, 1), got 2.0" in optimist("theory", "--delta", 2, code=2)


@pytest.mark.parametrize("problem", ["fixed", "changing", "multi-armed", "digits"])
def test_bandit_compares_policies(problem, tmp_path):
    out = tmp_path / "run"
    arguments = ("--horizon", 40, "--trials", 4, "--selection-trials", 2, "--problem", problem, "--out", out)
    printed = optimist("bandit", "--policies", "acb", "linucb", "greedy", *arguments)
    table = rows(out / "regret.csv")
    assert {row["policy"] for row in table} == {"acb", "linucb", "greedy"}
    assert all(row["policy"] in printed for row in table)
    assert [float(row["mean"]) for row in table] == sorted(float(row["mean"]) for row in table)
    assert (out / "regret.png").read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"
    assert "bandit" in json.loads((out / "record.json").read_text())["command"]
    assert "is in use" in optimist("bandit", *arguments, code=2)


def test_bandit_gives_the_same_file_for_the_same_seed_and_another_for_another(tmp_path):
    arguments = ("bandit", "--policies", "acb", "--horizon", 30, "--trials", 3, "--selection-trials", 0)
    for name, seed, workers in (("a", 1, 1), ("b", 1, 2), ("c", 2, 1)):
        optimist(*arguments, "--seed", seed, "--workers", workers, "--out", tmp_path / name)
    a, b, c = ((tmp_path / name / "curves.csv").read_bytes() for name in "abc")
    assert a == b
    assert a != c


@pytest.mark.parametrize("name", ["clicks.csv", "clicks.dsjson"])
def test_bandit_judges_policies_by_logs(name, tmp_path):
    sample = Path(__file__).parents[2] / "examples" / "data" / name
    out = tmp_path / "run"
    printed = optimist("bandit", "--data", sample, "--policies", "acb", "greedy", "--workers", 1, "--out", out)
    assert f"{name}: " in printed
    assert "doubly robust" in printed
    assert {path.name for path in out.iterdir()} == {"estimates.csv", "estimates.png", "record.json"}
    with (out / "estimates.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [row["policy"] for row in rows].count("acb") == 3
    assert rows[0]["policy"] == "logged"


def test_bandit_plays_labeled_rows_and_names_the_line_that_is_wrong(tmp_path):
    rows = "".join(f"{i % 7},{i % 3},{'a' if i % 7 > 3 else 'b'}\n" for i in range(40))
    good, bad = tmp_path / "good.csv", tmp_path / "bad.csv"
    good.write_text("x,y,label\n" + rows)
    bad.write_text("x,y,label\n" + rows.replace("5,2,", "5,oops,"))
    arguments = ("--policies", "acb", "--horizon", 20, "--trials", 2, "--selection-trials", 0, "--workers", 1)
    assert "good.csv: 2 actions" in optimist("bandit", "--data", good, *arguments, "--out", tmp_path / "run")
    assert "bad.csv, line 7: y must be a finite number, got 'oops'" in optimist(
        "bandit", "--data", bad, *arguments, "--out", tmp_path / "other", code=2
    )
    assert not (tmp_path / "other").exists()


def test_bandit_names_the_policies_it_knows(tmp_path):
    message = optimist("bandit", "--policies", "acbb", "--out", tmp_path / "run", code=2)
    assert "unknown policies acbb: did you mean 'acb'" in message
    assert "acb-lazy" in message
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("name", "files"),
    [
        ("figure2", {"regret.csv", "curves.csv", "grid.csv", "figure2.png"}),
        (
            "linear-bandits",
            {"published.csv", "changing.csv", "drifting.csv", "labeled.csv", "open_question.csv", "policies.png"},
        ),
        ("fidelity", {"fidelity.csv", "judgements.csv", "fidelity_own_ridge.png", "fidelity_common_ridge.png"}),
    ],
)
def test_every_study_runs_at_smoke_scale_and_ends_with_a_verdict(name, files, tmp_path):
    out = tmp_path / "study"
    printed = optimist("study", name, "--scale", "smoke", "--out", out)
    assert files | {"verdicts.csv", "record.json"} <= {path.name for path in out.iterdir()}
    verdicts = rows(out / "verdicts.csv")
    assert verdicts
    assert {row["judgement"] for row in verdicts} <= {"holds", "does not hold", "not enough data"}
    assert "100 %" in printed
    assert all(name in printed for name in files)


def test_bad_usage_exits_with_2():
    assert optimist("study", "figure99", code=2)
    assert optimist("bandit", "--horizon", "many", code=2)
    assert "horizon must be a whole number >= 1" in optimist(
        "bandit", "--horizon", 0, "--out", "/nonexistent/x", code=2
    )


MINE = """
class Own:
    def __init__(self, strength):
        raise LookupError(f"no cave of strength {strength}")


def factory(task, strength=1):
    return Own(strength)
"""
SMALL = ("--n-envs", 2, "--steps", 4, "--minibatches", 1, "--total-steps", 8, "--threads", 1, "--width", 4)


def test_code_of_ones_own_is_found_in_the_current_folder_and_its_errors_are_named_as_its_own(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("caves.py").write_text(MINE)
    options = ("--env", "DeepSea-3", "--bonus", "caves:factory", "--bonus-options", "strength=7", *SMALL)
    told = optimist("train", *options, code=1)
    assert "LookupError: no cave of strength 7" in told
    assert 'caves.py", line ' in told
    assert "raised in your caves:factory, not by optimist" in told
    assert "optimist/training" not in told  # only their own lines
    assert not Path("runs").exists()
    told = optimist("train", *options, "--debug", code=1)
    assert "optimist/training" in told


def test_python_m_optimist_is_the_same_command():
    done = subprocess.run([sys.executable, "-m", "optimist", "--version"], capture_output=True, text=True, check=True)
    assert done.stdout == optimist("--version")


def test_a_reader_that_goes_away_ends_it_quietly():
    line = f"set -o pipefail; {OPTIMIST} claims {RESULTS}/*/ | head -1"
    done = subprocess.run(["bash", "-c", line], capture_output=True, text=True, check=False, timeout=300)
    assert done.stderr == ""
    assert done.stdout.count("\n") == 1
    assert done.returncode in (0, 1)


def test_a_pipe_gets_no_colors_and_a_narrow_screen_whole_numbers():
    environment = os.environ | {"COLUMNS": "40"}
    done = subprocess.run([OPTIMIST, "theory"], capture_output=True, text=True, check=True, env=environment)
    assert "\x1b" not in done.stdout
    for number in ("2.754e+05", "1.177e+06", "1.854e+06", "32,107"):
        assert number in done.stdout
