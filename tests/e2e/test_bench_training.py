"""The benchmark of training runs from end to end on tiny rollouts. Its numbers are not judged here."""

import csv
import math
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from optimist.seeding import split
from optimist.training.environments.envpool_pool import EnvPool
from optimist.training.environments.spaces import spread_seeds

pytest.importorskip("stable_baselines3")

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "bench_training.py"
TASKS = ("CartPole-v1", "MiniGrid-DoorKey-8x8-v0", "Breakout-v5")
THEIRS = ("stable-baselines3", "stable-baselines3, fused Adam")
OURS = ("optimist, no bonus", "optimist, ACB (default)", "optimist, RND")
HAS_BF16 = torch.cpu._is_avx512_bf16_supported() or torch.cpu._is_amx_tile_supported()
PARTS = ("environment", "inference", "bonus", "update", "bookkeeping")


def test_a_quick_run_prints_and_writes_every_measurement(tmp_path):
    command = [sys.executable, str(SCRIPT), "--quick", "--out", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=600)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "training.md").read_text() in done.stdout
    with (tmp_path / "training.csv").open() as file:
        rows = {(row.pop("task"), row.pop("variant")): row for row in csv.DictReader(file)}
    expected = {(task, variant) for task in TASKS for variant in (*THEIRS, *OURS)}
    if HAS_BF16:
        expected |= {("Breakout-v5", f"{variant}, bf16") for variant in OURS[:2]}
    assert set(rows) == expected
    for (_, variant), row in rows.items():
        milliseconds = [row.pop(f"{part}_ms") for part in PARTS]
        assert all(math.isfinite(float(value)) and float(value) > 0 for value in row.values())
        assert variant != THEIRS[0] or row["ratio"] == "1"
        if variant in THEIRS:
            assert not any(milliseconds)
        else:
            # One round of 4 x 8 steps: the medians are one iteration's own numbers, and its parts are no more than it.
            assert 0 < sum(map(float, milliseconds)) <= 1.001 * 1e3 * 32 / float(row["steps_per_second"])


@pytest.mark.skipif(not HAS_BF16, reason="this CPU has no bfloat16")
def test_a_quick_run_of_both_precisions_writes_a_row_of_each(tmp_path):
    script = SCRIPT.with_name("bench_precision.py")
    command = [sys.executable, str(script), "--quick", "--env", "MiniGrid-DoorKey-5x5-v0", "--out", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "precision.md").read_text() in done.stdout
    with (tmp_path / "precision.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [(row["precision"], row["seed"], row["steps"]) for row in rows] == [
        ("float32", "0", "2048"),
        ("bf16", "0", "2048"),
    ]


@pytest.mark.parametrize("env_id", TASKS[:2])
def test_both_sides_play_the_same_environments(monkeypatch, env_id):
    monkeypatch.syspath_prepend(str(SCRIPT.parent))
    from sb3_setting import Pool

    (number,) = spread_seeds(split(0, "environments"), 1)
    theirs = Pool(env_id, 4, seed=number, clip_rewards=False, options={"num_threads": 2})
    ours = EnvPool(env_id, n_envs=4, options={"num_threads": 2})
    assert np.array_equal(theirs.reset(), ours.reset(seed=0))
    rng, episodes = np.random.default_rng(0), 0
    for _ in range(660):  # DoorKey is cut after 640
        actions = rng.integers(2, size=4)
        observations, rewards, dones, infos = theirs.step(actions)
        step = ours.step(actions)
        assert np.array_equal(observations, step.observations)
        assert np.array_equal(rewards, step.rewards)
        assert np.array_equal(dones, step.terminated | step.truncated)
        for i in np.flatnonzero(dones):
            assert np.array_equal(infos[i]["terminal_observation"], step.next_observations[i])
            assert infos[i]["TimeLimit.truncated"] == step.truncated[i]
            assert infos[i]["episode"]["l"] > 0
            episodes += 1
    assert episodes >= 4
    theirs.close()
    ours.close()
