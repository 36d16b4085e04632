"""Runs survive: interrupted at any moment, a damaged checkpoint, a full disk. `test_fault_campaign.py` kills them."""

import csv
import math
import pickle
import shlex
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from optimist.training import losses, ppo
from optimist.training.config import TrainConfig
from optimist.training.environments.deep_sea import DeepSea
from optimist.training.environments.envpool_pool import EnvPool
from optimist.training.presets import train_command
from optimist.training.runs import checkpoints, playing
from optimist.training.runs import run as runs
from optimist.training.runs.run import Interrupted

OPTIMIST = Path(sys.executable).with_name("optimist")
ROLLOUT = 64
SEA = TrainConfig(  # an environment whose state is saved
    env="DeepSea-6",
    bonus="acb",
    bonus_options=("ensemble_size=8", "sketch_size=4"),
    n_envs=4,
    steps=ROLLOUT // 4,
    epochs=1,
    minibatches=2,
    learning_rate=1e-3,
    value_scale_rate=0.1,
    width=16,
    warm_up_steps=32,
    total_steps=40 * ROLLOUT,
    checkpoint_every=2 * ROLLOUT,
    restart_every=3 * ROLLOUT // 4,
    device="cpu",
    threads=1,
)
POLE = replace(
    SEA, env="envpool:CartPole-v1", bonus="rnd", bonus_options=("n_features=16",)
)  # one that is played again
CONFIGS = {"sea": SEA, "pole": POLE}


def rows(folder):
    """``metrics.csv`` without the columns of time."""
    with (folder / "metrics.csv").open() as file:
        timed = ("seconds/", "steps_per_second")
        return [{k: v for k, v in row.items() if not k.startswith(timed)} for row in csv.DictReader(file)]


def lines(folder):
    """How many whole lines ``metrics.csv`` has, its header included."""
    path = folder / "metrics.csv"
    return path.read_bytes().count(b"\n") if path.exists() else 0


def flags(config):
    return shlex.split(train_command(config))[2:]


def begun(*arguments):
    return subprocess.Popen([OPTIMIST, *map(str, arguments)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def wait_for_lines(process, folder, count):
    until = time.monotonic() + 120
    while lines(folder) < count:
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < until, "the run does not get on"
        time.sleep(0.005)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_command_killed_and_then_asked_to_stop(number, tmp_path):
    config = replace(SEA, total_steps=90 * ROLLOUT, checkpoint_every=10 * ROLLOUT)
    folder = tmp_path / "run"
    process = begun("train", *flags(config), "--out", folder)
    wait_for_lines(process, folder, 15)
    process.kill()
    process.communicate()
    process = begun("resume", folder)
    wait_for_lines(process, folder, 40)
    process.send_signal(number)
    printed, problems = process.communicate(timeout=60)
    assert process.returncode == 128 + number, problems
    assert f"go on with  optimist resume {folder}" in printed
    assert "stopped at step" in printed
    step, _ = checkpoints.newest(folder / "checkpoints")
    assert step == (lines(folder) - 1) * ROLLOUT < config.total_steps
    runs.resume(folder)
    runs.train(config, tmp_path / "whole")
    assert rows(folder) == rows(tmp_path / "whole")


class Stop(BaseException):
    """What a test raises to end a run."""


def stop_after(count, *, how):
    """A callback that calls ``how`` after ``count`` rollouts."""
    told = []

    def callback(moment):
        told.append(moment.step)
        if len(told) == count:
            how()

    return callback


def leave():
    raise Stop  # no Exception: a checkpoint is written before one of those passes on


@pytest.mark.parametrize("config", CONFIGS.values(), ids=CONFIGS)
def test_a_cut_off_newest_checkpoint_falls_back_to_the_one_before(config, tmp_path):
    config = replace(config, total_steps=10 * ROLLOUT)
    runs.train(config, tmp_path / "whole")
    with pytest.raises(Stop):
        runs.train(config, tmp_path / "run", callbacks=[stop_after(7, how=leave)])
    old, new = sorted((tmp_path / "run/checkpoints").glob("*.safetensors"))
    assert (old.stem, new.stem) == ("step-000000000256", "step-000000000384")
    new.write_bytes(new.read_bytes()[:-100])
    with pytest.warns(checkpoints.DamagedCheckpoint, match=f"{new.name} cannot be used.*The one before it is taken"):
        runs.resume(tmp_path / "run")
    assert rows(tmp_path / "run") == rows(tmp_path / "whole")


def interrupt():
    signal.raise_signal(signal.SIGINT)


@pytest.mark.parametrize("config", CONFIGS.values(), ids=CONFIGS)
def test_an_interrupted_run_writes_a_checkpoint_and_goes_on(config, tmp_path):
    config, handler = replace(config, total_steps=10 * ROLLOUT), signal.getsignal(signal.SIGINT)
    with pytest.raises(Interrupted, match="stopped at step 320 of 640; go on with  optimist resume") as stopped:
        runs.train(config, tmp_path / "run", callbacks=[stop_after(5, how=interrupt)])
    assert stopped.value.signal_number == signal.SIGINT
    assert signal.getsignal(signal.SIGINT) is handler
    assert checkpoints.newest(tmp_path / "run/checkpoints")[0] == 5 * ROLLOUT  # off the schedule
    runs.resume(tmp_path / "run")
    got = rows(tmp_path / "run")
    assert [int(row["step"]) for row in got] == [ROLLOUT * k for k in range(1, 11)]
    runs.train(config, tmp_path / "whole")
    assert got == rows(tmp_path / "whole")


@pytest.mark.parametrize("where", ["in play", "in the update"])
@pytest.mark.parametrize("name", CONFIGS)
def test_a_slow_rollout_is_abandoned_and_the_state_before_it_is_written(name, where, tmp_path, monkeypatch):
    config, kind = replace(CONFIGS[name], total_steps=10 * ROLLOUT), DeepSea if name == "sea" else EnvPool
    warm_up = 0 if name == "sea" else config.warm_up_steps  # which ACB does without
    if where == "in play":
        owner, method, after = kind, "step", warm_up + 5 * config.steps + 3
    else:
        owner, method, after = losses, "ppo_loss", 5 * config.minibatches + 1
    original, called = getattr(owner, method), []

    def interrupting(*arguments):
        called.append(None)
        if len(called) == after:  # in the sixth rollout, at whose start there is no checkpoint
            interrupt()
        return original(*arguments)

    with monkeypatch.context() as patch:
        patch.setattr(owner, method, interrupting)
        patch.setattr(playing, "PROMPT", 0.0)
        with pytest.raises(Interrupted, match="stopped at step 320 of 640; go on with  optimist resume"):
            runs.train(config, tmp_path / "run")
    assert len(called) <= after + 1  # not to the end of the rollout
    assert checkpoints.newest(tmp_path / "run/checkpoints")[0] == 5 * ROLLOUT
    runs.resume(tmp_path / "run")
    runs.train(config, tmp_path / "whole")
    assert rows(tmp_path / "run") == rows(tmp_path / "whole")


@pytest.mark.parametrize(("config", "expected"), [(SEA, []), (POLE, [3, 6, 9])], ids=CONFIGS)
def test_episodes_are_cut_where_their_environments_restart_and_only_there(config, expected, tmp_path, monkeypatch):
    collect, cuts = ppo.collect, []

    def spied(*arguments, cut, **named):
        cuts.append(cut)
        return collect(*arguments, cut=cut, **named)

    monkeypatch.setattr(ppo, "collect", spied)
    runs.train(replace(config, total_steps=10 * ROLLOUT), tmp_path / "run")
    assert [k for k, cut in enumerate(cuts, start=1) if cut] == expected
    told = [float(row["episodes_cut"]) for row in rows(tmp_path / "run")]
    assert told == [4 * sum(k <= row for k in expected) for row in range(1, 11)]  # four environments each time


def test_a_second_interrupt_ends_at_once_and_loses_no_checkpoint(tmp_path):
    def twice():
        interrupt()
        interrupt()

    with pytest.raises(KeyboardInterrupt):
        runs.train(SEA, tmp_path / "run", callbacks=[stop_after(5, how=twice)])
    assert checkpoints.newest(tmp_path / "run/checkpoints")[0] == 4 * ROLLOUT


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("config", CONFIGS.values(), ids=CONFIGS)
def test_a_request_in_the_last_rollout_is_not_lost(number, config, tmp_path):
    """Whoever plays several runs in one process must know of it, though this one is at its end."""
    config = replace(config, total_steps=3 * ROLLOUT)
    with pytest.raises(Interrupted, match="was at its end when it was asked to stop") as stopped:
        runs.train(config, tmp_path / "run", callbacks=[stop_after(3, how=lambda: signal.raise_signal(number))])
    assert stopped.value.signal_number == number
    assert pickle.loads(pickle.dumps(stopped.value)).signal_number == number
    assert checkpoints.newest(tmp_path / "run/checkpoints")[0] == 3 * ROLLOUT
    runs.resume(tmp_path / "run")  # nothing is left to do, and nobody asks it to stop any more
    runs.train(config, tmp_path / "whole")
    assert rows(tmp_path / "run") == rows(tmp_path / "whole")


def test_a_run_that_is_killed_before_its_first_checkpoint_can_be_resumed(tmp_path, monkeypatch):
    config = replace(SEA, total_steps=3 * ROLLOUT)
    with monkeypatch.context() as patch:
        patch.setattr(runs.Trainer, "start", lambda self: interrupt())
        with pytest.raises(KeyboardInterrupt):
            runs.train(config, tmp_path / "run")
    runs.resume(tmp_path / "run")
    runs.train(config, tmp_path / "whole")
    assert rows(tmp_path / "run") == rows(tmp_path / "whole")


@pytest.mark.parametrize("config", CONFIGS.values(), ids=CONFIGS)
def test_a_finished_run_goes_on_to_another_end(config, tmp_path):
    runs.train(replace(config, total_steps=4 * ROLLOUT), tmp_path / "run")
    before = rows(tmp_path / "run")
    runs.resume(tmp_path / "run")
    assert rows(tmp_path / "run") == before
    runs.resume(tmp_path / "run", total_steps=8 * ROLLOUT)
    runs.train(replace(config, total_steps=8 * ROLLOUT), tmp_path / "whole")
    assert rows(tmp_path / "run") == rows(tmp_path / "whole")
    assert runs.read_config(tmp_path / "run").total_steps == 8 * ROLLOUT


@pytest.fixture
def small_disk(tmp_path):
    """A disk of 400 kB, or a skipped test where none can be mounted."""
    place = tmp_path / "disk"
    place.mkdir()
    mount = shutil.which("mount")
    options = ["-t", "tmpfs", "-o", "size=400k", "none", str(place)]
    if mount is None or subprocess.run([mount, *options], capture_output=True, check=False).returncode != 0:
        pytest.skip("no disk can be mounted here")
    yield place
    subprocess.run(["umount", str(place)], check=True)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")  # TensorBoard's own thread
@pytest.mark.parametrize("every", [2, 1000])
def test_a_full_disk_is_an_error_that_names_the_way_on(every, small_disk, tmp_path):
    config = replace(SEA, bonus="count", bonus_options=(), checkpoint_every=every * ROLLOUT)

    def fill():
        with pytest.raises(OSError, match="No space left"):
            (small_disk / "filler").write_bytes(bytes(10**6))

    with pytest.raises(OSError, match=r"the run in .* stopped: .*No space left.* go on with  optimist resume"):
        runs.train(config, small_disk / "run", callbacks=[stop_after(6, how=fill)])
    assert checkpoints.newest(small_disk / "run/checkpoints")[0] == (4 * ROLLOUT if every == 2 else 0)
    (small_disk / "filler").unlink()
    runs.resume(small_disk / "run")
    runs.train(config, tmp_path / "whole")
    assert rows(small_disk / "run") == rows(tmp_path / "whole")


def test_what_is_not_finite_stops_the_run_and_keeps_the_last_good_checkpoint(tmp_path, monkeypatch):
    step, taken = DeepSea.step, []

    def poisoned(self, actions):
        answer = step(self, actions)
        taken.append(None)
        if len(taken) == 16 * 5 + 3:  # five rollouts, and the third step of the sixth
            answer.rewards[2] = math.nan
        return answer

    with monkeypatch.context() as patch:
        patch.setattr(DeepSea, "step", poisoned)
        with pytest.raises(ArithmeticError, match="the reward of environment 2 is not finite at step 332"):
            runs.train(SEA, tmp_path / "run")
    assert checkpoints.newest(tmp_path / "run/checkpoints")[0] == 4 * ROLLOUT
    runs.resume(tmp_path / "run", total_steps=8 * ROLLOUT)
    runs.train(replace(SEA, total_steps=8 * ROLLOUT), tmp_path / "whole")
    assert rows(tmp_path / "run") == rows(tmp_path / "whole")
