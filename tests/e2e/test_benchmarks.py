"""The benchmark scripts run: a smoke run of each. Nobody looks at its numbers, but for the soak, which checks them."""

import csv
import subprocess
import sys
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


def smoke(script, out, *more):
    command = [sys.executable, BENCHMARKS / script, "--quick", "--out", out, *more]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=600)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_figure2(tmp_path):
    assert "seconds of wall time" in smoke("bench_figure2.py", tmp_path)
    assert (tmp_path / "figure2.csv").exists()


def test_bandits(tmp_path):
    assert "vw --rnd 32" in smoke("bench_bandits.py", tmp_path)
    assert (tmp_path / "bandits_scaling.png").exists()
    assert "CPU time in one thread" in (tmp_path / "bandits.md").read_text()


def test_startup(tmp_path):
    assert "ACB  warm  first decision" in smoke("bench_startup.py", tmp_path)
    assert (tmp_path / "startup.csv").exists()


def test_service(tmp_path):
    assert "service, 4 clients" in smoke("bench_service.py", tmp_path)
    assert (tmp_path / "service.md").exists()


def test_beta(tmp_path):
    assert "acb-rms" in smoke("bench_beta.py", tmp_path)
    assert (tmp_path / "beta.png").exists()


def test_recommender(tmp_path):
    assert "| changing | acb-sgd, decay |" in smoke("bench_recommender.py", tmp_path)
    assert (tmp_path / "recommender.csv").exists()


def test_sgd(tmp_path):
    assert "few non-zeros, sparse  0.01" in smoke("bench_sgd.py", tmp_path)
    assert len((tmp_path / "sgd.csv").read_text().splitlines()) == 11  # ten problems


@pytest.mark.campaign
def test_ranks(tmp_path):
    told = smoke("bench_ranks.py", tmp_path, "--tasks", "deepsea")
    assert "two processes / one" in told
    assert "sum, given by one rank" in told
    assert (tmp_path / "ranks.csv").exists()


def test_sizing(tmp_path):
    assert "network and bonus on a GPU" in smoke("sizing.py", tmp_path)
    assert "computed: linear in d" in (tmp_path / "sizing.md").read_text()


@pytest.mark.campaign
def test_environments(tmp_path):
    smoke("bench_environments.py", tmp_path, "--rollouts", "1")
    assert "| 4 | 8 |" in (tmp_path / "environments.md").read_text()


def test_soak(tmp_path):
    """ACB on tens of thousands of states: finite, exact, falling as 1 / sqrt(n + 1), going on from a saved state."""
    assert "The soak of ACB" in smoke("soak.py", tmp_path)
    with (tmp_path / "soak.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 2 * 3 * 2  # solvers, numbers of different states, skewed or not
    assert {row["faults"] for row in rows} == {"none"}
    assert {row["identical"] for row in rows} == {"yes"}
