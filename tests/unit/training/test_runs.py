"""A run on disk: a refused start leaves nothing, a refused resume changes nothing, and errors say what to do."""

import io
import json
import signal
import threading
from dataclasses import replace

import numpy as np
import pytest
import torch

from optimist.files import InUse, Token, locked, new_work
from optimist.training.agent import chosen_device
from optimist.training.config import TrainConfig
from optimist.training.environments import GymnasiumVector
from optimist.training.environments.deep_sea import DeepSea
from optimist.training.runs import checkpoints
from optimist.training.runs import run as runs
from optimist.training.runs import serialization as state_files
from optimist.training.runs.metrics_log import MetricsLog
from optimist.training.runs.stopping import stop_requests

TINY = TrainConfig(
    env="DeepSea-4",
    bonus="count",
    total_steps=64,
    n_envs=2,
    steps=8,
    epochs=1,
    minibatches=2,
    width=8,
    warm_up_steps=4,
    checkpoint_every=32,
    device="cpu",
    threads=1,
)


def contents(folder):
    """Every file below ``folder`` with its bytes; TensorBoard's apart."""
    files = [path for path in sorted(folder.rglob("*")) if path.is_file() and "tensorboard" not in path.parts]
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


def failing_reset(n_envs):
    class Failing(DeepSea):
        def reset(self, seed):
            raise OSError("the simulator is not there")

    return Failing(4, n_envs=n_envs)


def no_success(n_envs):
    import gymnasium

    return GymnasiumVector(gymnasium.make_vec("CartPole-v1", num_envs=n_envs, vectorization_mode="sync"))


REFUSED = {
    "environment": ({"env": "DeepSee-4"}, ValueError, "no environment is called"),
    "bonus": ({"bonus": "acbb"}, ValueError, "there is no bonus 'acbb'"),
    "option": ({"bonus_options": ("color=1",)}, ValueError, "color"),
    "device": ({"device": "gpu"}, ValueError, "the device 'gpu' cannot be used here: .* Choose auto, cpu"),
    "success": ({"env": f"{__name__}:no_success", "stop_at_success": 0.5}, ValueError, "what a success is, and .*:no_"),
    "reset": ({"env": f"{__name__}:failing_reset"}, OSError, "^the simulator is not there$"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_refused_start_leaves_nothing_behind(case, tmp_path):
    changes, kind, message = REFUSED[case]
    with pytest.raises(kind, match=message):
        runs.train(replace(TINY, **changes), tmp_path / "deep" / "run")
    assert not list(tmp_path.iterdir())


@pytest.mark.skipif(torch.cuda.is_available() or torch.backends.mps.is_available(), reason="there is an accelerator")
@pytest.mark.parametrize("accelerator", ["mps", "cuda"])
def test_an_accelerator_that_cannot_compute_a_run_is_passed_over_with_a_warning(accelerator, monkeypatch):
    """Here there is neither, so both fail, as MPS does without double precision."""
    monkeypatch.setattr(getattr(torch, accelerator), "is_available", lambda: True)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: accelerator == "mps")
    with pytest.warns(
        UserWarning, match=f"training on the CPU instead: the device '{accelerator}' cannot be used here"
    ):
        assert chosen_device("auto").type == "cpu"
    with pytest.raises(ValueError, match=f"the device '{accelerator}' cannot be used here: .* Choose auto, cpu"):
        chosen_device(accelerator)


def test_a_refused_start_leaves_what_was_there(tmp_path):
    (tmp_path / "run").mkdir()
    (tmp_path / "run/notes.txt").write_text("mine")
    with pytest.raises(OSError, match="simulator"):
        runs.train(replace(TINY, env=f"{__name__}:failing_reset"), tmp_path / "run")
    assert contents(tmp_path) == {"run/notes.txt": b"mine"}
    runs.train(TINY, tmp_path / "run")  # and the folder can be used


def test_no_room_is_known_before_any_work_and_leaves_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr(runs.Trainer, "start", lambda self: pytest.fail("it was started"))
    monkeypatch.setattr(checkpoints.shutil, "disk_usage", lambda folder: type("Disk", (), {"free": 10}))
    with pytest.raises(OSError, match=r"needs .* bytes for 4 checkpoints .* 10 are free"):
        runs.train(TINY, tmp_path / "run")
    assert not list(tmp_path.iterdir())


def rows(folder):
    """``metrics.csv`` without the columns of time."""
    names, *lines = [line.split(",") for line in (folder / "metrics.csv").read_text().splitlines()]
    return [[c for n, c in zip(names, line, strict=True) if not n.startswith(("seconds", "steps_p"))] for line in lines]


@pytest.mark.parametrize("env", ["DeepSea-4", "CartPole-v1"])
def test_a_checkpoint_by_the_clock_changes_no_result(env, tmp_path, monkeypatch):
    save, saved = checkpoints.save, []
    monkeypatch.setattr(checkpoints, "save", lambda *state, **kept: saved.append(state[1]) or save(*state, **kept))
    config = replace(TINY, env=env, checkpoint_every=10**6)
    runs.train(config, tmp_path / "steps")
    assert saved == [0, 64]
    saved.clear()
    runs.train(replace(config, checkpoint_minutes=1e-9), tmp_path / "clock")
    assert saved == [0, 16, 32, 48, 64]
    assert rows(tmp_path / "clock") == rows(tmp_path / "steps")
    ends = [io.BytesIO(), io.BytesIO()]
    for name, end in zip(("steps", "clock"), ends, strict=True):
        state_files.StateFile(checkpoints.newest(tmp_path / name / "checkpoints")[1]["trainer"], {}).write(end)
    assert ends[0].getvalue() == ends[1].getvalue()


def test_a_run_taken_over_by_a_later_attempt_ends_as_if_alone_and_the_earlier_one_writes_nothing_more(tmp_path):
    """The first attempt is cut off in mid-run and does not know it; the second one plays on to the end beside it."""
    runs.train(TINY, tmp_path / "alone")
    work, folder, after = new_work(), tmp_path / "taken", []

    def take_over(moment):
        if moment.step == 32:
            runs.resume(folder, token=Token(work, 2))
            after.append(contents(folder))

    with pytest.raises(InUse, match="is no longer this process's"):
        runs.train(TINY, folder, callbacks=[take_over], token=Token(work, 1))
    assert after == [contents(folder)]
    assert rows(folder) == rows(tmp_path / "alone")


def test_rows_of_an_attempt_that_lost_its_run_go_where_nobody_reads_them(tmp_path):
    """It looked whether the run was still its own, and was then so slow that another one had resumed it meanwhile."""
    stale = MetricsLog(tmp_path)
    stale.write(1, {"a": 1.0})
    state = stale.state_dict()
    with MetricsLog.resume(tmp_path, state) as log:
        stale.write(2, {"a": 9.0})
        log.write(2, {"a": 2.0})
    stale.close()
    assert (tmp_path / "metrics.csv").read_text() == "step,a\n1,1.0\n2,2.0\n"


def test_the_best_checkpoint_is_that_of_the_highest_success_at_a_mark(tmp_path):
    config = replace(TINY, total_steps=2048, learning_rate=1e-2, stop_at_success=0.0, seed=1)
    runs.train(config, tmp_path)
    names, *lines = [line.split(",") for line in (tmp_path / "metrics.csv").read_text().splitlines()]
    columns = [names.index(name) for name in ("step", "episodes", "success_rate", "return_mean")]
    told = [[float(line[k]) for k in columns] for line in lines]
    marks = [row for row in told if row[0] % 32 == 0 and row[1] >= 100]
    highest = max(marks, key=lambda row: (row[2], row[3], -row[0]))
    assert checkpoints.best(tmp_path / "checkpoints")[0] == highest[0] < 2048
    assert highest[2] > min(row[2] for row in marks)


def test_a_second_process_is_refused_and_the_first_one_goes_on(tmp_path):
    """Whoever resumes or starts a run that is being played is told who plays it, and changes nothing."""
    refused = []

    def try_too(moment):
        before = contents(tmp_path)
        for go_on in (lambda: runs.resume(tmp_path / "run"), lambda: runs.train(TINY, tmp_path / "run")):
            with pytest.raises((InUse, FileExistsError)) as caught:
                go_on()
            refused.append(type(caught.value))
        assert contents(tmp_path) == before

    runs.train(TINY, tmp_path / "run", callbacks=[try_too])
    assert refused == [InUse, FileExistsError] * 4
    assert not (tmp_path / "run/owner.json").exists()
    with locked(tmp_path / "new"), pytest.raises(InUse, match="new is being written to by process"):
        runs.train(TINY, tmp_path / "new")
    assert not list((tmp_path / "new").iterdir())


def test_a_run_whose_folder_is_taken_over_stops_without_writing(tmp_path):
    def take(moment):
        if moment.step == 48:
            (tmp_path / "owner.json").write_text("another's")
            take.before = contents(tmp_path)

    with pytest.raises(InUse, match="is no longer this process's"):
        runs.train(TINY, tmp_path, callbacks=[take])
    assert contents(tmp_path) == take.before


def test_a_resume_that_cannot_start_keeps_the_run(tmp_path, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(runs.Trainer, "start", lambda self: signal.raise_signal(signal.SIGINT))
        with pytest.raises(KeyboardInterrupt):
            runs.train(TINY, tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr(runs.Trainer, "start", lambda self: (_ for _ in ()).throw(OSError("no simulator")))
        with pytest.raises(OSError, match="no simulator"):
            runs.resume(tmp_path)
    runs.resume(tmp_path)
    assert checkpoints.newest(tmp_path / "checkpoints")[0] == 64


def test_a_run_is_not_started_over_another(tmp_path):
    runs.train(TINY, tmp_path)
    before = contents(tmp_path)
    with pytest.raises(FileExistsError, match=r"there is a run in .* already \(config.json\): resume it"):
        runs.train(replace(TINY, seed=1), tmp_path)
    assert contents(tmp_path) == before


@pytest.mark.parametrize("steps", [10, 63])
def test_an_end_that_a_run_is_beyond_is_refused_and_changes_nothing(steps, tmp_path):
    runs.train(TINY, tmp_path)
    before = contents(tmp_path)
    with pytest.raises(ValueError, match=f"is at step 64 already, total_steps is {steps}: give more steps than that"):
        runs.resume(tmp_path, total_steps=steps)
    assert contents(tmp_path) == before
    runs.resume(tmp_path)
    runs.resume(tmp_path, total_steps=64)
    assert contents(tmp_path) == before


def edit(folder, **changes):
    path = folder / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"learning_rate": 0.5}, "learning_rate is 0.5 and was 0.0001"),
        ({"extrinsic": {"weight": 0.0, "discount": 0.999, "episodic": True}}, "extrinsic.weight is 0.0 and was 2.0"),
        ({"bonus": "rnd", "n_envs": 4}, "bonus is 'rnd' and was 'count', n_envs is 4 and was 2"),
    ],
)
def test_an_edited_configuration_that_does_not_fit_the_checkpoint_is_refused(changes, told, tmp_path):
    runs.train(TINY, tmp_path)
    edit(tmp_path, **changes)
    before = contents(tmp_path)
    for go_on in (lambda: runs.resume(tmp_path), lambda: runs.resume(tmp_path, total_steps=128)):
        with pytest.raises(ValueError, match=rf"was edited and does not fit the checkpoint: {told}\. Put it back"):
            go_on()
    assert contents(tmp_path) == before


def test_how_long_and_where_a_run_is_computed_may_be_edited(tmp_path):
    runs.train(TINY, tmp_path / "run")
    edit(tmp_path / "run", total_steps=96, checkpoint_every=48, threads=2, device="auto")
    runs.resume(tmp_path / "run")
    assert checkpoints.newest(tmp_path / "run/checkpoints")[0] == 96


def test_a_resume_that_fails_to_load_changes_nothing(tmp_path, monkeypatch):
    runs.train(TINY, tmp_path)
    before = contents(tmp_path)

    def broken(self, state):
        raise ValueError("another layout")

    monkeypatch.setattr(runs.Trainer, "load_state_dict", broken)
    with pytest.raises(ValueError, match="another layout"):
        runs.resume(tmp_path, total_steps=128)
    assert contents(tmp_path) == before


def raising(n_envs, after=20):
    class Raising(DeepSea):
        taken = 0

        def step(self, actions):
            self.taken += 1
            if self.taken > after:
                raise FileNotFoundError("levels.json")
            return super().step(actions)

    return Raising(4, n_envs=n_envs)


def test_an_error_of_the_users_environment_keeps_its_kind_and_its_traceback(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"^levels\.json$") as caught:
        runs.train(replace(TINY, env=f"{__name__}:raising"), tmp_path / "run")
    assert str(caught.traceback[-1].path) == __file__
    assert caught.value.__cause__ is None
    runs.read_config(tmp_path / "run")  # it had begun, so it stays


def only_resets(n_envs):
    """Environments of which one step in eight is real."""

    class Idle(DeepSea):
        taken = 0

        def step(self, actions):
            self.taken += 1
            return replace(super().step(actions), valid=np.full(self.n_envs, self.taken % 8 == 0))

    return Idle(4, n_envs=n_envs)


def test_a_rollout_with_too_few_valid_steps_for_its_minibatches_is_named_as_such(tmp_path):
    config = replace(TINY, env=f"{__name__}:only_resets", minibatches=4)
    with pytest.raises(ValueError, match=r"a rollout had 2 valid steps .* too few for 4 minibatches: choose fewer"):
        runs.train(config, tmp_path / "run")


@pytest.mark.parametrize(("first", "second"), [(2, 2), (15, 2)])
def test_the_first_signal_is_noted_and_a_second_ends_at_once(first, second):
    handlers = signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)
    with stop_requests() as request:
        assert request.signal_number is None
        signal.raise_signal(first)
        assert request.signal_number == first
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(second)
    assert (signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)) == handlers
    assert request.signal_number == first


def test_of_a_launched_process_a_second_sigterm_does_no_harm_and_ctrl_c_ends_at_once():
    """The scheduler sends SIGTERM to torchrun and to its processes, and torchrun sends it to them again."""
    with stop_requests(launched=True) as request:
        signal.raise_signal(signal.SIGTERM)
        signal.raise_signal(signal.SIGTERM)  # would end this process if it were taken for a second request
        assert request.signal_number == signal.SIGTERM
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)


def test_other_threads_leave_signals_alone():
    seen = []

    def play():
        with stop_requests() as request:
            seen.append((request.signal_number, signal.getsignal(signal.SIGINT)))

    before = signal.getsignal(signal.SIGINT)
    thread = threading.Thread(target=play)
    thread.start()
    thread.join()
    assert seen == [(None, before)]


def test_a_schedulers_warning_is_noted_where_somebody_listens_and_a_sigterm_after_it_does_no_harm():
    heard = []
    before = signal.signal(signal.SIGUSR2, lambda number, _: heard.append(number))
    try:
        with stop_requests() as request:
            signal.raise_signal(signal.SIGUSR2)
            signal.raise_signal(signal.SIGTERM)  # would end this process if it were taken for a second request
            assert request.signal_number == signal.SIGUSR2
        assert heard == []
        signal.raise_signal(signal.SIGUSR2)
        assert heard == [signal.SIGUSR2]
        signal.signal(signal.SIGUSR2, signal.SIG_IGN)
        with stop_requests() as request:
            signal.raise_signal(signal.SIGUSR2)
        assert request.signal_number is None
    finally:
        signal.signal(signal.SIGUSR2, before)
