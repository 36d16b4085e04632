"""One run on several real processes: torchrun on the loopback, with gloo. `test_several_ranks` has every case."""

import csv
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

SETTINGS = (
    "--env DeepSea-6 --bonus acb --bonus-options ensemble_size=8 sketch_size=4 --n-envs 8 --steps 16 --epochs 2 "
    "--minibatches 3 --width 16 --warm-up-steps 16 --checkpoint-every 256 --device cpu --threads 1"
)


def environment(**more):
    kept = {k: v for k, v in os.environ.items() if k not in ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")}
    return kept | {"OMP_NUM_THREADS": "1", "TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1"} | more


def started(processes, *words, restarts=0, **variables):
    """The command ``optimist`` with ``words``, by torchrun in so many processes; by Python alone with 0."""
    command = [sys.executable, "-m", "optimist", *words]
    if processes:
        launch = f"--rdzv-backend=c10d --rdzv-endpoint=127.0.0.1:0 --max-restarts={restarts} --nnodes=1"
        torchrun = ["-m", "torch.distributed.run", *launch.split(), f"--nproc-per-node={processes}"]
        command = [sys.executable, *torchrun, "-m", "optimist", *words]
    variables = environment(**variables)
    return subprocess.Popen(command, env=variables, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def done(processes, *words, **launched):
    process = started(processes, *words, **launched)
    told, _ = process.communicate(timeout=600)
    assert process.returncode == 0, told
    return told


def train(processes, folder, steps, *, settings=SETTINGS, **launched):
    return done(processes, "train", *settings.split(), "--total-steps", str(steps), "--out", str(folder), **launched)


ABORTS_WHEN_TAKEN_APART = """
import atexit, os, pathlib, sys
from optimist.training import environments
class HalfMade:
    def __del__(self, abort=os.abort):
        abort()
sys.half_made = HalfMade()
atexit.register(pathlib.Path(os.environ["CLOSED"] + os.environ["RANK"]).touch)
def make(n_envs, **options):
    return environments.make("DeepSea-6", n_envs=n_envs)
"""


def test_a_rank_that_is_done_leaves_without_pythons_own_close_down(tmp_path):
    """Rarely a rank ended by SIGABRT after its last step, when Python took itself apart."""
    (tmp_path / "halves.py").write_text(ABORTS_WHEN_TAKEN_APART)
    settings = SETTINGS.replace("DeepSea-6", "halves:make").replace(
        "acb --bonus-options ensemble_size=8 sketch_size=4", "none"
    )
    train(2, tmp_path / "run", 128, settings=settings, PYTHONPATH=str(tmp_path), CLOSED=str(tmp_path / "closed-"))
    assert (tmp_path / "closed-0").exists()
    assert (tmp_path / "closed-1").exists()


def rows(folder):
    """``metrics.csv`` without the columns of time."""
    with (folder / "metrics.csv").open() as file:
        timed = ("seconds/", "steps_per_second")
        return [{k: v for k, v in row.items() if not k.startswith(timed)} for row in csv.DictReader(file)]


def require_close(expected, found):
    assert len(expected) == len(found)
    for one, other in zip(expected, found, strict=True):
        assert one.keys() == other.keys()
        for name in one:
            assert float(other[name]) == pytest.approx(float(one[name]), rel=1e-5, abs=1e-5, nan_ok=True), name
        assert (one["step"], one["unique_states"]) == (other["step"], other["unique_states"])


@pytest.fixture(scope="module")
def alone(tmp_path_factory):
    """A run of one plain process."""
    folder = tmp_path_factory.mktemp("alone") / "run"
    train(0, folder, 1024)
    return folder


def test_one_rank_is_a_plain_run_to_the_last_bit(alone, tmp_path):
    train(1, tmp_path / "run", 1024)
    assert rows(tmp_path / "run") == rows(alone)


def test_two_ranks_log_what_one_does_and_their_checkpoint_goes_on_with_one(alone, tmp_path):
    told = train(2, tmp_path / "run", 512)
    require_close(rows(alone)[:4], rows(tmp_path / "run"))
    assert not (tmp_path / "run/owner.json").exists()
    assert (tmp_path / "run/curves.png").exists()
    assert told.count("metrics.csv") <= 1, "the first process alone shows what there is"
    done(0, "resume", str(tmp_path / "run"), "--total-steps", "1024")
    require_close(rows(alone), rows(tmp_path / "run"))


def test_what_cannot_be_divided_is_refused_in_one_line(tmp_path):
    process = started(2, "train", "--env", "DeepSea-6", "--n-envs", "7", "--out", str(tmp_path / "run"))
    told, _ = process.communicate(timeout=600)
    assert process.returncode != 0
    assert "7 environments cannot be divided evenly among 2 processes" in told
    assert "this is a bug of optimist" not in told


@pytest.mark.campaign
@pytest.mark.parametrize("victim", [0, 1])
def test_a_killed_rank_leaves_no_trace(victim, tmp_path):
    """SIGKILL of one process in mid-run: torchrun starts all anew, and the result is as if nothing had happened."""
    train(2, tmp_path / "whole", 2048)
    words = ("train", *SETTINGS.split(), "--total-steps", "2048", "--out", str(tmp_path / "run"))
    process = started(2, *words, restarts=3)
    wait_for_checkpoints(tmp_path / "run", 2)
    os.kill(ranks_of(process)[victim], signal.SIGKILL)
    told, _ = process.communicate(timeout=600)
    assert process.returncode == 0, told
    events = [len(list((tmp_path / name / "tensorboard").iterdir())) for name in ("whole", "run")]
    assert events == [1, 2], "the first process was started twice"
    assert rows(tmp_path / "run") == rows(tmp_path / "whole")


@pytest.mark.campaign
@pytest.mark.parametrize("to_all", [False, True], ids=["torchrun alone", "torchrun and its processes, as Slurm"])
def test_a_preempted_run_leaves_a_checkpoint_and_the_same_command_goes_on(to_all, tmp_path):
    """SIGTERM, and then the command again, as a scheduler starts it: the result is as if nothing had happened."""
    steps, rollout = 24_576, 1024
    # Rollouts that take some tenths of a second: a process still plays one when torchrun repeats the signal.
    settings = SETTINGS.replace("--steps 16", "--steps 128").replace("--epochs 2", "--epochs 16")
    train(2, tmp_path / "whole", steps, settings=settings)
    words = ("train", *settings.split(), "--total-steps", str(steps), "--out", str(tmp_path / "run"))
    process = started(2, *words, restarts=3)
    wait_for_checkpoints(tmp_path / "run", 2)
    ranks = ranks_of(process)
    for number in (*(ranks.values() if to_all else ()), process.pid):
        os.kill(number, signal.SIGTERM)
    told, _ = process.communicate(timeout=600)
    assert process.returncode != 0, told
    assert "SIGKILL" not in told, "torchrun had to kill a process that did not end"
    stopped = len(rows(tmp_path / "run")) * rollout
    assert stopped < steps, "the run was over before it was preempted"
    assert f"stopped at step {stopped:,} of {steps:,}" in told
    assert (tmp_path / f"run/checkpoints/step-{stopped:012}.safetensors").exists(), "written where it stopped"
    again = started(2, *words, restarts=3, SLURM_RESTART_COUNT="1")
    told, _ = again.communicate(timeout=600)
    assert again.returncode == 0, told
    assert rows(tmp_path / "run") == rows(tmp_path / "whole")


def wait_for_checkpoints(folder, count):
    deadline = time.monotonic() + 300
    while len(list((folder / "checkpoints").glob("step-*"))) < count:
        assert time.monotonic() < deadline, "the run does not get on"
        time.sleep(0.05)


def ranks_of(process):
    """The processes that torchrun has started, by their ranks."""
    found = {environment_of(child).get("RANK"): child for child in children(process.pid)}
    return {int(rank): child for rank, child in found.items() if rank is not None}


def children(parent):
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            try:
                if int((entry / "stat").read_text().rpartition(")")[2].split()[1]) == parent:
                    found.append(int(entry.name))
            except (OSError, ValueError, IndexError):
                continue
    return found


def environment_of(process):
    try:
        words = Path(f"/proc/{process}/environ").read_bytes().split(b"\0")
    except OSError:
        return {}
    return dict(word.decode(errors="replace").split("=", 1) for word in words if b"=" in word)
