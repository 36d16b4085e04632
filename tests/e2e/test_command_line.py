"""The installed ``optimist`` command in a subprocess."""

import csv
import json
import subprocess
import sys
from pathlib import Path

import pytest

OPTIMIST = Path(sys.executable).with_name("optimist")


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


def test_bandit_names_the_policies_it_knows(tmp_path):
    message = optimist("bandit", "--policies", "acbb", "--out", tmp_path / "run", code=2)
    assert "unknown policies acbb" in message
    assert "acb-lazy" in message
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("name", "files"),
    [
        ("figure2", {"regret.csv", "curves.csv", "grid.csv", "figure2.png"}),
        ("linear-bandits", {"published.csv", "changing.csv", "labelled.csv", "open_question.csv", "policies.png"}),
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
