"""Ctrl-C and SIGTERM at any moment: a command ends within seconds, with its exit code, and leaves nothing half-written.

The signal goes to the whole process group, as a terminal sends Ctrl-C. A process hears it from the moment on at which
it catches SIGTERM, which Python does not do by itself: before that, Python has not come to our code.
"""

import contextlib
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

OPTIMIST = Path(sys.executable).with_name("optimist")
RESULTS = Path(__file__).parents[2] / "results"
LONG = ("--env", "DeepSea-6", "--bonus", "acb", "--n-envs", "4", "--steps", "32", "--total-steps", "100000000",
        "--threads", "1", "--device", "cpu")  # fmt: skip
COMMANDS = {
    "train": ("train", *LONG, "--out", "run"),
    "resume": ("resume", "done", "--total-steps", "100000000"),
    "play": ("play", "done", "--steps", "100000"),
    "bandit": ("bandit", "--horizon", "100000", "--trials", "20", "--workers", "2"),
    "theory": ("theory",),
    "study": ("study", "linear-bandits", "--scale", "laptop", "--workers", "2"),
    "training study": ("study", "deepsea", "--scale", "laptop", "--workers", "2"),
    "report": ("report", *(str(path) for path in sorted(RESULTS.iterdir()) if path.is_dir())),
}
SECONDS = 60
"""Far more than a command may need to end, for machines that do other things too."""


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """The folder of a run that is at its end."""
    folder = tmp_path_factory.mktemp("trained") / "done"
    line = [OPTIMIST, "train", *LONG, "--total-steps", "256", "--out", folder]
    subprocess.run(line, check=True, capture_output=True, timeout=300)
    return folder


def catches(process, number):
    """Whether the process has a handler for the signal."""
    status = Path(f"/proc/{process.pid}/status").read_text()
    caught = next(line for line in status.splitlines() if line.startswith("SigCgt"))
    return bool(int(caught.split()[1], 16) >> (number - 1) & 1)


def stopped(words, folder, number, delay, *, after=None):
    """The exit code, the output and the seconds that a command took to end after the signal."""
    process = subprocess.Popen(
        [OPTIMIST, *words],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    deadline = time.monotonic() + SECONDS
    while not (catches(process, signal.SIGTERM) and (after is None or after.exists())):
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.01)
    time.sleep(delay)
    sent = time.monotonic()
    os.killpg(process.pid, number)
    try:
        printed = "".join(process.communicate(timeout=SECONDS))
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    return process.returncode, printed, time.monotonic() - sent


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.parametrize("moment", [0.0, 1.0, 4.0])
@pytest.mark.parametrize("name", COMMANDS)
def test_ctrl_c_at_any_moment_ends_any_command(name, moment, trained, tmp_path):
    (tmp_path / "done").symlink_to(trained)
    delay = random.Random(f"{name} {moment}").uniform(0, 1.0) + moment
    code, printed, seconds = stopped(COMMANDS[name], tmp_path, signal.SIGINT, delay)
    assert code == 130 or (code == 0 and name in ("theory", "report")), (code, printed)
    assert "Traceback" not in printed
    assert "Error" not in printed
    assert seconds < SECONDS / 2
    left = [path for path in tmp_path.rglob("*") if path.suffix in (".tmp", ".partial")]
    assert not left
    empty = [path for path in tmp_path.glob("runs/*") if path.is_dir() and not any(path.iterdir())]
    assert not empty


def test_a_library_that_a_signal_left_half_made_does_not_change_the_end(tmp_path):
    """Ctrl-C within the import of torch ended some commands by SIGABRT, when Python took the library apart."""
    (tmp_path / "halves.py").write_text(
        "import atexit, os, pathlib, signal, sys, time\n"
        "class HalfMade:\n"
        "    def __del__(self, abort=os.abort):\n"
        "        abort()\n"
        "sys.half_made = HalfMade()\n"
        "atexit.register(pathlib.Path('closed').touch)\n"
        "def make(number, **options):\n"
        "    os.kill(os.getpid(), signal.SIGINT)\n"
        "    time.sleep(60)\n"
    )
    line = [OPTIMIST, "train", "--env", "halves:make", "--bonus", "count", "--out", "run"]
    done = subprocess.run(line, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=SECONDS)
    assert done.returncode == 130, done.stderr
    assert done.stderr == "optimist: interrupted\n"
    assert (tmp_path / "closed").exists()


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_run_in_training_writes_a_checkpoint_and_says_how_it_goes_on(number, code, tmp_path):
    run = tmp_path / "run"
    returned, printed, _ = stopped(COMMANDS["train"], tmp_path, number, 0.5, after=run / "metrics.csv")
    assert returned == code, printed
    assert "go on with  optimist resume run" in printed
    assert "Traceback" not in printed
    newest = max((run / "checkpoints").glob("*.safetensors")).stem
    last = (run / "metrics.csv").read_text().splitlines()[-1].split(",")[0]
    assert int(newest.rpartition("-")[2]) == int(last)


SLOW = """
import time
from optimist.training.environments.deep_sea import DeepSea

class Slow(DeepSea):
    def step(self, actions):
        open("stepped", "w").close()
        time.sleep(0.05)
        return super().step(actions)

def make(n_envs):
    return Slow(6, n_envs=n_envs)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_a_rollout_of_ten_minutes_does_not_delay_the_answer(tmp_path):
    """`stopped` waits for a minute."""
    (tmp_path / "slow.py").write_text(SLOW)
    words = ("train", *LONG, "--env", "slow:make", "--bonus", "count", "--steps", "12000", "--out", "run")
    returned, printed, seconds = stopped(words, tmp_path, signal.SIGTERM, 0.2, after=tmp_path / "stepped")
    assert returned == 143, printed
    assert "stopped at step 0 of 100,000,000; go on with  optimist resume run" in printed
    assert seconds < SECONDS / 2


def test_sigterm_outside_of_a_run_exits_with_143(tmp_path):
    code, printed, _ = stopped(COMMANDS["bandit"], tmp_path, signal.SIGTERM, 3.0)
    assert code == 143, printed
    assert "Traceback" not in printed
    assert not (tmp_path / "runs").exists()
