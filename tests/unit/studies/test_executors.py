"""Executors: results, errors and deaths of calls in real processes, and an end within seconds at any moment."""

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from executor_calls import LONG, blocks_ctrl_c, broken, deaf, doubled, dying, process_id, stubborn
from optimist.studies.executors import InProcess, Processes, WorkerDied, local
from optimist.studies.study import Session
from optimist.studies.training.runs import FINISHED, Job, train_all
from optimist.training.config import TrainConfig


def appears(*paths):
    end = time.monotonic() + LONG
    while not all(Path(path).exists() for path in paths):
        assert time.monotonic() < end, f"{paths} did not appear"
        time.sleep(0.02)


def is_alive(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return Path(f"/proc/{pid}/stat").read_text().split()[2] != "Z"


def test_results_come_in_order_and_errors_and_deaths_fail_their_own_call():
    with Processes(2) as executor:
        assert list(executor.map(doubled, range(5))) == [0, 2, 4, 6, 8]
        error, death, after = (executor.submit(f, 3) for f in (broken, dying, doubled))
        assert str(error.exception()) == "no 3"
        assert any("in broken" in note for note in error.exception().__notes__)  # where it came from
        assert isinstance(death.exception(), WorkerDied)
        assert "exit code 7" in str(death.exception())
        assert after.result() == 6
        assert [executor.submit(doubled, x).result() for x in (1, 2, 3)] == [2, 4, 6]


def test_what_cannot_be_sent_is_an_error_of_its_call():
    with Processes(1) as executor:
        assert executor.submit(doubled, lambda: 0).exception() is not None
        assert executor.submit(threading.Lock).exception() is not None
        assert executor.submit(doubled, 1).result() == 2


def test_a_single_worker_is_this_process_and_maps_as_it_is_asked():
    executor = local(1)
    assert isinstance(executor, InProcess)
    with executor:
        assert executor.submit(process_id).result() == os.getpid()
        assert isinstance(executor.submit(broken, 1).exception(), ValueError)
        seen = []
        results = executor.map(lambda x: seen.append(x) or x, range(3))
        assert seen == []
        assert next(results) == 0
        assert seen == [0]


def test_a_stop_that_comes_in_a_last_rollout_ends_the_processes_all_the_same(tmp_path):
    """The call swallows the signal and returns: its process must not wait for another call for ever."""
    started = [tmp_path / "a", tmp_path / "b"]
    executor = Processes(2)
    pid = executor.submit(process_id).result()
    calls = [executor.submit(deaf, str(path)) for path in started]
    waiting = executor.submit(doubled, 1)
    appears(*started)
    with pytest.raises(KeyboardInterrupt), executor:
        raise KeyboardInterrupt
    assert waiting.cancelled()
    assert [call.result() for call in calls] == ["done", "done"]
    assert not is_alive(pid)


def test_what_does_not_stop_is_killed(tmp_path):
    executor = Processes(1)
    pid = executor.submit(process_id).result()
    call = executor.submit(stubborn, str(tmp_path / "a"))
    appears(tmp_path / "a")
    executor.stop(grace=0.3)
    assert isinstance(call.exception(LONG), WorkerDied)
    assert not is_alive(pid)


def test_processes_end_with_the_one_that_started_them(tmp_path):
    """Killed outright, it can close nothing; what it started stops all the same."""
    code = (
        "from pathlib import Path; from executor_calls import *; from optimist.studies.executors import Processes\n"
        "executor = Processes(1)\n"
        f"Path({str(tmp_path / 'pid')!r}).write_text(str(executor.submit(process_id).result()))\n"
        f"executor.submit(deaf, {str(tmp_path / 'a')!r}).result()\n"
    )
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    starter = os.spawnve(os.P_NOWAIT, sys.executable, [sys.executable, "-c", code], environment)
    try:
        appears(tmp_path / "a")
        pid = int((tmp_path / "pid").read_text())
    finally:
        os.kill(starter, signal.SIGKILL)
        os.waitpid(starter, 0)
    end = time.monotonic() + LONG
    while is_alive(pid):
        assert time.monotonic() < end
        time.sleep(0.05)


def test_a_terminals_ctrl_c_does_not_reach_the_first_process_nor_the_others():
    """The first one starts Python's resource tracker too, which unblocks signals."""
    with Processes(3) as executor:
        calls = [executor.submit(blocks_ctrl_c) for _ in range(6)]
        assert all(call.result() for call in calls)


SLOW_ENVIRONMENT = """
import time
from pathlib import Path
from optimist.training.environments.deep_sea import DeepSea


class Slow(DeepSea):
    def step(self, actions):
        Path(self.marker).touch()
        time.sleep(0.25)
        return super().step(actions)


def make(n_envs, marker):
    made = Slow(4, n_envs=n_envs)
    made.marker = marker
    return made
"""


def slow_jobs(markers):
    """Three runs of one rollout of a second each; a marker is there when its run has taken a step."""
    return [
        Job("sea", "count", TrainConfig(
            env="slow_sea:make", env_options=(f"marker={marker}",), bonus="count", total_steps=8, n_envs=2, steps=4,
            warm_up_steps=0, minibatches=1, epochs=1, width=8, device="cpu", seed=seed,
        ))
        for seed, marker in enumerate(markers)
    ]  # fmt: skip


def test_ctrl_c_in_the_last_rollout_of_real_runs_ends_a_study_that_then_goes_on(tmp_path, monkeypatch):
    """Two processes are in the last rollout of their run; a third run waits. The study is a process of its own."""
    (tmp_path / "slow_sea.py").write_text(SLOW_ENVIRONMENT)
    markers = [tmp_path / f"stepped-{seed}" for seed in range(3)]
    code = (
        "from pathlib import Path\nfrom test_executors import Session, slow_jobs, train_all\n"
        f"folder = Path({str(tmp_path)!r})\n"
        "if __name__ == '__main__':\n"
        "    markers = [folder / f'stepped-{seed}' for seed in range(3)]\n"
        "    train_all(slow_jobs(markers), Session(folder, workers=2))\n"
    )
    script = tmp_path / "study.py"
    script.write_text(code)
    paths = [str(tmp_path), str(Path(__file__).parent), *sys.path]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(paths)}
    study = subprocess.Popen([sys.executable, str(script)], env=environment, stderr=subprocess.PIPE, text=True)
    appears(*markers[:2])
    study.send_signal(signal.SIGINT)
    _, told = study.communicate(timeout=LONG)
    assert study.returncode != 0
    assert "KeyboardInterrupt" in told
    assert not markers[2].exists()
    monkeypatch.syspath_prepend(tmp_path)
    jobs = slow_jobs(markers)
    assert all((tmp_path / "runs" / job.name / "checkpoints").is_dir() for job in jobs[:2])
    results = train_all(jobs, Session(tmp_path, workers=1))
    assert all((result.folder / FINISHED).is_file() for result in results)
