"""``optimist train`` and ``optimist resume`` in a subprocess: what they refuse, and environments of one's own."""

import json
import os
import re
import resource
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path

import pytest

from optimist.training.config import TrainConfig
from optimist.training.runs import checkpoints

OPTIMIST = Path(sys.executable).with_name("optimist")
SMALL = ("--n-envs", 2, "--steps", 16, "--minibatches", 2, "--width", 8, "--total-steps", 96,
         "--checkpoint-every", 32, "--threads", 1, "--device", "cpu")  # fmt: skip
CORRIDOR = '''
import gymnasium
import numpy as np
from gymnasium.vector import AutoresetMode, SyncVectorEnv


class Corridor(gymnasium.Env):
    """Five cells; right is 1. The last one pays and ends. Cells seen after ``nan_after`` steps are NaN."""

    observation_space = gymnasium.spaces.Box(0.0, 5.0, (1,), np.float32)
    action_space = gymnasium.spaces.Discrete(2)

    def __init__(self, nan_after):
        self.nan_after, self.steps = nan_after, 0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.cell = 0
        return self.seen(), {}

    def step(self, action):
        self.steps += 1
        self.cell = max(0, self.cell + (1 if action == 1 else -1))
        ended = self.cell == 5
        return self.seen(), float(ended), ended, False, {}

    def seen(self):
        return np.array([np.nan if self.steps > self.nan_after else self.cell], np.float32)


def make(count, nan_after=10**9):
    return SyncVectorEnv([lambda: Corridor(nan_after)] * count, autoreset_mode=AutoresetMode.NEXT_STEP)
'''


def optimist(*arguments, code=0, path=None, **options):
    environment = os.environ | ({} if path is None else {"PYTHONPATH": str(path)})
    command = [OPTIMIST, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300, env=environment, **options)
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout if code == 0 else done.stderr + done.stdout


@pytest.fixture
def corridor(tmp_path):
    """The folder of a module with an environment of one's own."""
    folder = tmp_path / "modules"
    folder.mkdir()
    (folder / "corridor.py").write_text(CORRIDOR)
    return folder


def test_an_environment_of_ones_own_trains_and_goes_on(corridor, tmp_path):
    out = tmp_path / "run"
    printed = optimist("train", "--env", "corridor:make", "--bonus", "count", *SMALL, "--out", out, path=corridor)
    assert "100 %" in printed
    assert {"config.json", "metrics.csv", "checkpoints", "tensorboard", "curves.png"} <= {p.name for p in out.iterdir()}
    assert json.loads((out / "config.json").read_text())["env"] == "corridor:make"
    optimist("resume", out, "--total-steps", 160, path=corridor)
    written = (out / "metrics.csv").read_text().splitlines()
    assert [line.split(",")[0] for line in written] == ["step", "32", "64", "96", "128", "160"]


def test_an_environment_that_is_not_finite_stops_the_run_and_leaves_its_last_checkpoint(corridor, tmp_path):
    out, options = tmp_path / "run", ("--no-normalize-observations", "--env-options", "nan_after=40")
    message = optimist("train", "--env", "corridor:make", "--bonus", "count", *SMALL, *options, "--out", out,
                       code=1, path=corridor)  # fmt: skip
    assert re.search(r"the observation of environment [01] is not finite at step \d+", message)
    assert "can be resumed from its last checkpoint" in message
    assert "Traceback" not in message
    assert checkpoints.newest(out / "checkpoints")[0] in (64, 96)  # 40 steps each, fewer with those that only reset


@pytest.mark.parametrize(
    ("arguments", "messages"),
    [
        (("--env", "DeepSee-6"), ("no environment is called 'DeepSee-6'", "DeepSea-")),
        (("--env", "DeepSea-6", "--bonus", "acbb"), ("there is no bonus 'acbb'", "did you mean 'acb'")),
        (("--env", "DeepSea-6", "--clip", -1), ("clip must be > 0",)),
        (("--env", "DeepSea-6", "--seed", -1), ("seed must be a non-negative integer",)),
        (("--env", "DeepSea-6", "--extrinsic.weight", -1), ("extrinsic.weight must be a finite number >= 0",)),
        (("--env", "DeepSea-6", "--bonus", "none", "--bonus-options", "a=1"), ("bonus none takes no bonus_options",)),
        (("--env", "Pendulum-v1", "--stop-at-success", 0.9), ("what a success is, and Pendulum-v1 does not say",)),
        (("--env", "DeepSea-6", "--device", "gpu"), ("the device 'gpu' cannot be used here",)),
        (("--env", "DeepSea-6", "--color", "red"), ("--color",)),
    ],
)
def test_bad_usage_exits_with_2_and_says_what_is_meant(arguments, messages, tmp_path):
    printed = optimist("train", *arguments, "--out", tmp_path / "run", code=2)
    assert all(message in printed for message in messages), printed
    assert "Traceback" not in printed
    assert not list(tmp_path.iterdir())


def test_a_folder_in_use_and_a_file_in_its_place_are_refused(tmp_path):
    (tmp_path / "used").mkdir()
    (tmp_path / "used/notes.txt").write_text("mine")
    (tmp_path / "file").write_text("mine")
    assert "is in use" in optimist("train", "--env", "DeepSea-6", "--out", tmp_path / "used", code=2)
    assert "is a file" in optimist("train", "--env", "DeepSea-6", "--out", tmp_path / "file", code=2)
    assert (tmp_path / "used/notes.txt").read_text() == (tmp_path / "file").read_text() == "mine"
    assert len(list((tmp_path / "used").iterdir())) == 1


def test_what_a_killed_start_has_left_is_in_nobodys_way(tmp_path):
    """A process that was killed before it wrote its configuration: its lock, a half-written file."""
    out = tmp_path / "run"
    out.mkdir()
    (out / "owner.json").write_text('{"host": "here", "process": 7, "started": 1, "since": "today"}')
    (out / ".config.json.7.partial").write_text("{")
    optimist("train", "--env", "DeepSea-6", "--bonus", "count", *SMALL, "--total-steps", 32, "--out", out)
    assert not (out / "owner.json").exists()
    assert checkpoints.newest(out / "checkpoints")[0] == 32


def test_a_disk_that_holds_no_checkpoint_is_known_before_any_training(tmp_path):
    def limit():
        resource.setrlimit(resource.RLIMIT_FSIZE, (8192, 8192))

    message = optimist("train", "--env", "DeepSea-6", "--bonus", "count", *SMALL, "--out", tmp_path / "run",
                       code=1, preexec_fn=limit)  # fmt: skip
    assert "was not written: File too large" in message
    assert "There is no checkpoint yet" in message
    assert not (tmp_path / "run/metrics.csv").exists()


def test_a_configuration_with_a_missing_entry_is_refused(tmp_path):
    stored = asdict(TrainConfig())
    stored.pop("clip")
    (tmp_path / "config.json").write_text(json.dumps(stored))
    message = optimist("resume", tmp_path, code=2)
    assert "config.json is not the configuration of a run: missing entries: clip" in message
