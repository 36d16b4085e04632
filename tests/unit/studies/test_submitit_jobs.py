"""Slurm's jobs, by submitit's local executor: real processes, a real preemption, and results as on this machine."""

import csv
import json
import os
import signal
from dataclasses import replace

import pytest

from executor_calls import broken, doubled, dying_until
from optimist.studies.engines.submitit_jobs import slurm_cluster
from optimist.studies.executors import WorkerDied
from optimist.studies.study import Session
from optimist.studies.training.runs import Finished, Job, train_all
from optimist.training.config import TrainConfig

LOCAL = {"cluster": "local", "timeout_min": 60}
ROLLOUT = 64
TINY = TrainConfig(
    env="DeepSea-4", bonus="count", total_steps=24 * ROLLOUT, n_envs=4, steps=ROLLOUT // 4, warm_up_steps=0,
    checkpoint_every=8 * ROLLOUT, width=8, device="cpu",
)  # fmt: skip


@pytest.fixture(autouse=True)
def paths(monkeypatch):
    """Jobs import what this process can import."""
    import sys

    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(sys.path))


def rows(folder):
    """All columns but those of time."""
    with (folder / "metrics.csv").open() as file:
        return [{k: v for k, v in row.items() if "second" not in k} for row in csv.DictReader(file)]


def test_results_errors_and_deaths_are_those_of_any_executor(tmp_path):
    with slurm_cluster(tmp_path / "jobs", 3, LOCAL) as workers:
        calls = [workers.submit(doubled, 4), workers.submit(broken, 3), workers.submit(dying_until, tmp_path / "n", 1)]
        assert calls[0].result() == 8
        assert str(calls[1].exception()) == "no 3"
        assert isinstance(calls[2].exception(), WorkerDied)
        assert workers.submit(dying_until, tmp_path / "n", 1).result() == 2


def test_a_preempted_run_is_queued_again_and_goes_on_bit_for_bit(tmp_path):
    """The signal that Slurm sends reaches the process of the run, which writes a checkpoint and is started again."""
    jobs = [Job("sea", "count", replace(TINY, seed=seed)) for seed in (0, 1)]
    run, preempted, told = tmp_path / "a/runs/sea-count-seed-0", [], []

    def preempting(done, total, label):
        told.append(label)
        if not preempted and (run / "metrics.csv").exists() and (run / "owner.json").exists():
            preempted.append(json.loads((run / "owner.json").read_text())["process"])
            os.kill(preempted[0], signal.SIGUSR2)

    session = Session(tmp_path / "a", 2, preempting, lambda workers: slurm_cluster(tmp_path / "jobs", workers, LOCAL))
    results = train_all(jobs, session)
    assert [type(result) for result in results] == [Finished, Finished]
    assert len(preempted) == 1
    assert told[-1] == "2 runs, 1 retried"
    logs = "".join(path.read_text() for path in (tmp_path / "jobs").glob("*.out"))
    assert "this job is preempted" in logs + "".join(path.read_text() for path in (tmp_path / "jobs").glob("*.err"))
    train_all(jobs, Session(tmp_path / "b", 1))
    for job in jobs:
        assert rows(tmp_path / "a/runs" / job.name) == rows(tmp_path / "b/runs" / job.name)


@pytest.mark.parametrize(
    ("options", "problem", "told"),
    [
        ({}, RuntimeError, "there is no Slurm on this machine .* cluster=local"),
        ({"cluster": "nowhere"}, ValueError, "cluster must be slurm or local, got nowhere"),
        ({"cluster": "local", "timeout_min": "long"}, ValueError, "must be parameters of submitit: .*timeout_min"),
        ({"cluster": "local", "colour": "red"}, ValueError, "must be parameters of submitit: .*colour"),
    ],
)
def test_what_cannot_be_submitted_is_refused_at_once(options, problem, told, tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", "/usr/bin")
    with pytest.raises(problem, match=told):
        slurm_cluster(tmp_path / "jobs", 1, options)
