"""A study's runs: finished ones are not repeated, interrupted ones go on, failed ones are told and lose nobody else."""

import csv
import json
import os
import signal
from dataclasses import replace

import pytest

from optimist.files import locked
from optimist.studies.study import Session
from optimist.studies.training.runs import ERROR, UNPLAYED, Failed, Finished, Job, train_all
from optimist.training.config import TrainConfig
from optimist.training.runs.run import write_config

ROLLOUT = 64
TINY = TrainConfig(
    env="DeepSea-4",
    bonus="count",
    total_steps=8 * ROLLOUT,
    n_envs=4,
    steps=ROLLOUT // 4,
    warm_up_steps=0,
    checkpoint_every=ROLLOUT,
    width=8,
    device="cpu",
)


def jobs(*seeds, **changes):
    return [Job("sea", "count", replace(TINY, seed=seed, **changes)) for seed in seeds]


def silent(done, total, label):
    """Nobody watches."""


def train(lineup, folder, workers, progress, **options):
    return train_all(lineup, Session(folder, workers, progress, **options))


def metrics(folder, name):
    """All columns but those of time."""
    with (folder / "runs" / name / "metrics.csv").open() as file:
        return [
            {k: v for k, v in row.items() if not k.startswith(("seconds", "steps_per_second"))}
            for row in csv.DictReader(file)
        ]


def test_a_run_is_a_folder_and_a_finished_one_is_not_repeated(tmp_path):
    told = []
    first = train(jobs(0, 1), tmp_path, 1, lambda *news: told.append(news))
    assert [type(result) for result in first] == [Finished, Finished]
    assert [result.folder for result in first] == [tmp_path / "runs" / f"sea-count-seed-{seed}" for seed in (0, 1)]
    done = [news[0] for news in told]
    assert done == sorted(done)
    assert told[-1][:2] == (16 * ROLLOUT, 16 * ROLLOUT)
    assert (3 * ROLLOUT, 16 * ROLLOUT, "0 of 2 runs") in told
    for result in first:
        assert len(list((result.folder / "checkpoints").iterdir())) == 1
    written = [(result.folder / "metrics.csv").stat().st_mtime_ns for result in first]
    told.clear()
    again = train(jobs(0, 1), tmp_path, 1, lambda *news: told.append(news))
    assert again == first
    assert [(result.folder / "metrics.csv").stat().st_mtime_ns for result in again] == written
    assert len(told) == 1


@pytest.mark.parametrize("workers", [1, 2])
def test_an_interrupted_study_goes_on_as_if_it_had_not_been(workers, tmp_path):
    def impatient(done, total, label):
        if done >= 3 * ROLLOUT:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train(jobs(0, 1), tmp_path / "a", workers, impatient)
    # On a busy machine one of two workers may come to the end of its run before it hears of the stop.
    assert len(list((tmp_path / "a").rglob("finished"))) < workers
    told = []
    train(jobs(0, 1), tmp_path / "a", 1, lambda *news: told.append(news))
    assert len(told) <= 14 + 3  # two of the sixteen rollouts at least are not repeated; three more lines for the ends
    train(jobs(0, 1), tmp_path / "b", 1, silent)
    for seed in (0, 1):
        name = f"sea-count-seed-{seed}"
        assert metrics(tmp_path / "a", name) == metrics(tmp_path / "b", name)
    assert metrics(tmp_path / "b", "sea-count-seed-0") != metrics(tmp_path / "b", "sea-count-seed-1")


def test_without_workers_nothing_is_played_and_what_is_missing_is_told(tmp_path):
    (done,) = train(jobs(0), tmp_path, 1, silent)
    finished, missing = train(jobs(0, 1), tmp_path, 0, silent)
    assert finished == done
    assert missing == Failed(replace(jobs(1)[0], config=replace(jobs(1)[0].config, threads=1)), UNPLAYED)
    assert [path.name for path in (tmp_path / "runs").iterdir()] == ["sea-count-seed-0"]


def test_a_part_of_a_study_is_played_and_the_rest_is_told(tmp_path):
    played = train_all(jobs(0, 1), Session(tmp_path, 1, silent, only=("seed-1", "seed-7")))
    assert [type(result) for result in played] == [Failed, Finished]
    assert played[0].message == UNPLAYED
    assert [path.name for path in (tmp_path / "runs").iterdir()] == ["sea-count-seed-1"]


@pytest.mark.parametrize("configured", [False, True])
def test_a_run_killed_before_its_first_checkpoint_is_started_anew(configured, tmp_path):
    torso = tmp_path / "runs/sea-count-seed-0"
    (torso / "checkpoints").mkdir(parents=True)
    (torso / "owner.json").write_text("")  # the lock of the killed process
    if configured:
        write_config(torso, replace(jobs(0)[0].config, threads=1))
    (result,) = train(jobs(0), tmp_path, 1, silent)
    assert isinstance(result, Finished)
    assert len(metrics(tmp_path, "sea-count-seed-0")) == 8


def test_a_run_that_somebody_else_plays_is_left_to_them(tmp_path):
    theirs = tmp_path / "runs/sea-count-seed-0"
    with locked(theirs):
        taken, free = train(jobs(0, 1), tmp_path, 1, silent)
        assert [path.name for path in theirs.iterdir()] == ["owner.json"]
    assert isinstance(free, Finished)
    assert taken.message.startswith(f"{theirs} is being written to by process ")
    assert isinstance(train(jobs(0), tmp_path, 1, silent)[0], Finished)


def test_failed_and_dead_runs_are_told_and_the_others_go_on(tmp_path):
    broken = Job("nowhere", "count", replace(TINY, env="DeapSee-4"))
    deadly = Job("death", "count", replace(TINY, env="os:_exit"))  # ends the process that makes it
    told = []
    lineup = [broken, deadly, *jobs(0, 1, 2)]
    with locked(tmp_path / "runs" / lineup[-1].name):  # this process plays that one already
        results = train(lineup, tmp_path, 2, lambda *news: told.append(news), retries=0)
    assert [type(result) for result in results] == [Failed, Failed, Finished, Finished, Failed]
    assert f"is being written to by process {os.getpid()} on " in results[4].message
    assert [result.job.name for result in results] == [job.name for job in lineup]
    assert results[0].message.startswith("ValueError: no environment is called 'DeapSee-4'")
    assert "exit code 4" in results[1].message
    assert "Traceback" in (tmp_path / "runs/nowhere-count-seed-0" / ERROR).read_text()
    assert any("failed" in label for *_, label in told)
    assert told[-1][0] == told[-1][1]


def owner(folder):
    """The process that plays a run, or None."""
    try:
        return json.loads((folder / "owner.json").read_text())["process"]
    except (OSError, ValueError):
        return None


def test_a_worker_that_is_killed_in_mid_run_is_replaced_and_its_run_goes_on_bit_for_bit(tmp_path):
    # Long enough that progress, which is looked at every half second, sees the run in its middle.
    lineup, told, killed = jobs(0, 1, total_steps=160 * ROLLOUT), [], []

    def murderous(done, total, label):
        told.append(label)
        run = tmp_path / "a/runs/sea-count-seed-0"
        if not killed and len(list(run.glob("checkpoints/*"))) >= 2 and (pid := owner(run)):
            killed.append(pid)
            os.kill(pid, signal.SIGKILL)

    results = train(lineup, tmp_path / "a", 2, murderous)
    assert [type(result) for result in results] == [Finished, Finished]
    assert len(killed) == 1
    assert told[-1] == "2 runs, 1 retried"
    assert any("running on 1 node" in label for label in told)
    train(lineup, tmp_path / "b", 1, silent)
    for job in lineup:
        assert metrics(tmp_path / "a", job.name) == metrics(tmp_path / "b", job.name)


def test_another_configuration_in_the_same_folder_is_refused_before_anything_is_played(tmp_path):
    train(jobs(0), tmp_path, 1, silent)
    with pytest.raises(
        ValueError, match=r"seed-0 was started with learning_rate=0\.0001 \(now 0\.1\): delete its folder"
    ):
        train([*jobs(5), *jobs(0, learning_rate=0.1)], tmp_path, 1, silent)
    assert not (tmp_path / "runs/sea-count-seed-5").exists()


def test_two_jobs_of_one_name_are_refused(tmp_path):
    with pytest.raises(ValueError, match="got twice: sea-count-seed-3"):
        train([*jobs(3), *jobs(3, width=9)], tmp_path, 1, silent)
