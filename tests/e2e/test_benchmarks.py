"""The benchmark scripts run: a smoke run of each. Nobody looks at its numbers, but for the soak, which checks them."""

import csv
import runpy
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from optimist.bonuses import ACB, Transitions
from optimist.training import environments, train

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


def test_rooms_of_montezuma_are_drawn_as_envpool_draws_them():
    rooms = runpy.run_path(str(BENCHMARKS / "montezuma_rooms.py"))["drawn_rooms"](shots=1, seed=0)
    games = environments.make("MontezumaRevenge-v5", n_envs=1, options={"num_threads": 1})
    games.reset(0)
    for _ in range(3):
        step = games.step(np.zeros(1, dtype=np.int64))
    games.close()
    still = slice(20, 60)  # rows without the score, which shows the lives, and without the skull
    seen = step.observations[0, -1, still].astype(int)
    differing = {room: (abs(frames[0, -1, still] - seen) > 1).mean() for room, frames in rooms.items()}
    assert len(rooms) == 24
    assert differing.pop(1) < 0.03  # the player may stand elsewhere
    assert min(differing.values()) > 0.1


def test_rooms_of_montezuma_that_an_agent_never_entered(tmp_path):
    run = tmp_path / "run"
    rollouts = {"n_envs": 2, "steps": 16, "minibatches": 1, "epochs": 1, "warm_up_steps": 16, "threads": 1}
    train("MontezumaRevenge-v5", bonus="rnd", total_steps=32, out=run, env_options=("num_threads=1",), **rollouts)
    assert "rnd  0  32" in smoke("montezuma_rooms.py", tmp_path, str(run))
    with (tmp_path / "unseen_rooms.csv").open() as file:
        bonuses = [float(row["bonus"]) for row in csv.DictReader(file)]
    assert len(bonuses) == 24
    assert np.median(bonuses) > bonuses[1]  # the predictor has learned the first room alone
    assert (tmp_path / "map_unseen_rooms.png").exists()


def test_a_bounded_bonus_is_read_as_its_square_too():
    readings = runpy.run_path(str(BENCHMARKS / "montezuma_rooms.py"))["readings"]
    states = torch.randn(8, 4, 3, generator=torch.Generator().manual_seed(0))
    nothing = torch.zeros(8, 4, dtype=torch.bool)
    transitions = Transitions(states, nothing.long(), states, nothing, nothing)
    network = torch.nn.Linear(3, 2)
    bounded, square = (ACB(network, states[0], form=form) for form in ("bounded", "square"))
    for bonus in (bounded, square):
        bonus.update(transitions)
    assert list(readings("acb", square)) == ["acb"]
    read = readings("acb", bounded)["acb, squared"]
    np.testing.assert_allclose(
        read(bounded.compute(transitions).numpy()), square.compute(transitions).numpy(), rtol=1e-4
    )


def test_soak(tmp_path):
    """ACB on tens of thousands of states: finite, exact, falling as 1 / sqrt(n + 1), going on from a saved state."""
    assert "The soak of ACB" in smoke("soak.py", tmp_path)
    with (tmp_path / "soak.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 2 * 3 * 2  # solvers, numbers of different states, skewed or not
    assert {row["faults"] for row in rows} == {"none"}
    assert {row["identical"] for row in rows} == {"yes"}
