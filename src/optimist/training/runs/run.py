"""A run on disk: one folder with its configuration, metrics and checkpoints, which survives anything and goes on."""

import math
import os
import shutil
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from copy import deepcopy
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from optimist.config import leaves
from optimist.files import Lock, locked
from optimist.training.config import TrainConfig
from optimist.training.ppo import Trainer
from optimist.training.runs import checkpoints
from optimist.training.runs.config_file import CONFIG, config_of, read_config, write_config
from optimist.training.runs.metrics_log import FILE, MetricsLog
from optimist.training.runs.stopping import Abandoned, Interrupted, StopRequest, stop_requests

__all__ = ["Interrupted", "Say", "Tell", "read_config", "read_run", "resume", "stop_requests", "train", "write_config"]

CHECKPOINTS = "checkpoints"
CHANGEABLE = ("total_steps", "stop_at_success", "checkpoint_every", "checkpoint_minutes", "device", "threads")
"""How long and where a run is computed: what may be edited in ``config.json`` before it is resumed."""

Tell = Callable[[int, int, Mapping[str, float]], None]
"""Told (steps done, steps in all, metrics) after every rollout."""
Say = Callable[[str], None]
"""Told what a run does before its first rollout, where that may take long."""
PROMPT = 5.0
"""Seconds: a rollout that takes longer is not played to its end when the run is asked to stop."""
ENOUGH = 100
"""Episodes that must have ended before a checkpoint can be the best."""


def train(config: TrainConfig, folder: Path, *, tell: Tell = lambda *_: None) -> None:
    """Makes a run in ``folder``: ``config.json``, ``metrics.csv``, ``checkpoints/``, ``tensorboard/``.

    A run that cannot be started leaves nothing behind: not if its configuration is refused, nor if its folder cannot be
    written to or has no room for checkpoints, nor if its environments or its bonus fail before the first step. A first
    checkpoint is written before the first step, so a run killed at any moment can be resumed. Nobody else can write to
    its folder while it is played: `optimist.files.InUse`.
    """
    _require_no_run(folder)
    trainer = _new_trainer(config)
    with _no_empty_folders(folder), locked(folder) as lock:
        _require_no_run(folder)  # again: another process may have been faster
        with _nothing_left_if_refused(folder):
            log = _begin(trainer, folder)
        _play(trainer, log, lock, tell)


def resume(
    folder: Path, *, total_steps: int | None = None, tell: Tell = lambda *_: None, say: Say = lambda _: None
) -> None:
    """Goes on with the run in ``folder`` from its newest intact checkpoint, to its end or to ``total_steps``.

    A run that was killed before its first checkpoint is started anew. If it cannot go on, nothing in it was changed.
    """
    read_config(folder)  # an error before the folder is touched
    with locked(folder) as lock:
        stored = read_config(folder)
        config = stored if total_steps is None else replace(stored, total_steps=total_steps)
        if not any((folder / CHECKPOINTS).glob("*.safetensors")) and not (folder / FILE).exists():
            trainer = _new_trainer(config)
            _play(trainer, _begin(trainer, folder), lock, tell)
            return
        _, step, state = read_run(folder)
        if config != stored and config.total_steps <= step:
            raise ValueError(
                f"the run in {folder} is at step {step:,} already, total_steps is {config.total_steps:,}: "
                "give more steps than that, or leave total_steps out"
            )
        trainer = Trainer(config)
        checkpoints.require_entries(state["trainer"], *trainer.own_state(), "environments")
        if again := len(state["trainer"]["environments"].get("actions", ())):
            say(f"{again:,} steps of every environment are played again, to bring them back to where they were")
        trainer.load_state_dict(state["trainer"])
        with _way_on(folder):
            if config != stored:
                write_config(folder, config)
            log = MetricsLog.resume(folder, state["log"])
        _play(trainer, log, lock, tell)


def _new_trainer(config: TrainConfig) -> Trainer:
    return Trainer(replace(config, threads=config.threads or os.cpu_count() or 1))  # resumed with as many


def _begin(trainer: Trainer, folder: Path) -> MetricsLog:
    """The log of a new run, whose configuration and first checkpoint are then in ``folder``."""
    write_config(folder, trainer.config)  # first: a kill from here on leaves what can be resumed
    checkpoints.require_writable(folder / CHECKPOINTS, checkpoints.size_in_bytes(trainer.own_state()))
    log = MetricsLog(folder)
    trainer.start()
    checkpoints.save(folder / CHECKPOINTS, trainer.step, _state(trainer, log))
    return log


def _play(trainer: Trainer, log: MetricsLog, lock: Lock, tell: Tell) -> None:
    """Rollouts until the end, and a checkpoint whenever one is due, by steps or by the clock: it changes no result.

    Asked to stop, a run writes a checkpoint within seconds. A rollout that takes longer than `PROMPT` is abandoned, and
    the state before it is written, of which a copy was kept; a shorter one is played to its end.
    """
    config, folder = trainer.config, lock.folder
    total, every = config.total_steps, config.checkpoint_every
    saved, saved_at, is_slow, asked = trainer.step, time.monotonic(), False, False
    with closing(trainer.environments), stop_requests() as request, log:
        while trainer.step < total and not trainer.succeeded and not asked:
            start, before = trainer.step, None
            if is_slow and start != saved:
                with _way_on(folder):
                    before = deepcopy(_state(trainer, log))
            can_stop = start == saved or before is not None  # the state before the rollout is on the disk, or at hand
            try:
                metrics = trainer.iterate(check=request.abandon_if_asked if can_stop else lambda: None)
            except Abandoned:
                if before is not None:
                    with _way_on(folder):
                        lock.require_held()
                        checkpoints.save(folder / CHECKPOINTS, start, before)
                break
            is_slow = config.rollout_steps / metrics["steps_per_second"] > PROMPT
            with _way_on(folder):
                lock.require_held()
                log.write(trainer.step, metrics)
            tell(trainer.step, total, metrics)
            at_mark = trainer.step >= total or trainer.succeeded or trainer.step // every > start // every
            in_time = time.monotonic() - saved_at >= 60 * config.checkpoint_minutes
            asked = request.signal_number is not None  # read once: it may change at any moment
            if at_mark or in_time or asked:
                with _way_on(folder):
                    state = _state(trainer, log)
                    if at_mark and metrics["episodes"] >= ENOUGH:
                        checkpoints.save_if_best(folder / CHECKPOINTS, trainer.step, state, _score(metrics))
                    checkpoints.save(folder / CHECKPOINTS, trainer.step, state)
                saved, saved_at = trainer.step, time.monotonic()
        with _way_on(folder):
            log.close()
    _raise_if_asked(request, trainer, folder)  # also if it was asked in its very last rollout: the caller may go on


def _raise_if_asked(request: StopRequest, trainer: Trainer, folder: Path) -> None:
    if request.signal_number is None:
        return
    total = trainer.config.total_steps
    if trainer.step >= total or trainer.succeeded:
        raise Interrupted(f"the run in {folder} was at its end when it was asked to stop", request.signal_number)
    told = f"stopped at step {trainer.step:,} of {total:,}; go on with  optimist resume {folder}"
    raise Interrupted(told, request.signal_number)


def _state(trainer: Trainer, log: MetricsLog) -> dict[str, Any]:
    return {"config": asdict(trainer.config), "trainer": trainer.state_dict(), "log": log.state_dict()}


def _score(metrics: Mapping[str, float]) -> checkpoints.Score:
    success = metrics["success_rate"]
    return 0.0 if math.isnan(success) else success, metrics["return_mean"]


def _require_no_run(folder: Path) -> None:
    found = [name for name in (CONFIG, FILE) if (folder / name).exists()]
    found += [CHECKPOINTS] * any((folder / CHECKPOINTS).glob("*.safetensors"))
    if found:
        raise FileExistsError(f"there is a run in {folder} already ({found[0]}): resume it, or choose another folder")


@contextmanager
def _no_empty_folders(folder: Path) -> Iterator[None]:
    """If the block fails, folders that it made go again where they are empty."""
    made = [path for path in (folder, *folder.parents) if not path.exists()]
    try:
        yield
    except Exception:
        for path in made:  # the innermost first; the first that is not empty ends it
            with suppress(OSError):
                path.rmdir()
        raise


@contextmanager
def _nothing_left_if_refused(folder: Path) -> Iterator[None]:
    """If the start fails, what it made is removed. A process that is killed or interrupted leaves it, to be resumed."""
    try:
        yield
    except Exception:
        (folder / CONFIG).unlink(missing_ok=True)
        shutil.rmtree(folder / CHECKPOINTS, ignore_errors=True)
        raise


@contextmanager
def _way_on(folder: Path) -> Iterator[None]:
    """An error of the disk names the run that it stopped, and how it goes on."""
    try:
        yield
    except OSError as error:  # of the same errno, so of the same subclass
        told = f"the run in {folder} stopped: {error.strerror or error}. Then go on with  optimist resume {folder}"
        raise OSError(error.errno, told) from error


def read_run(folder: Path, *, best: bool = False) -> tuple[TrainConfig, int, dict[str, Any]]:
    """The configuration of the run in ``folder``, the step of its newest intact (or best) checkpoint, and its state.

    An error if ``config.json`` was edited in a way that does not fit the checkpoint, see `CHANGEABLE`.
    """
    config = read_config(folder)
    step, state = (checkpoints.best if best else checkpoints.newest)(folder / CHECKPOINTS)
    checkpoints.require_entries(state, "config", "trainer", "log")
    if (held := state["trainer"].get("step")) != step:
        raise ValueError(f"the checkpoint of step {step} in {folder} holds step {held}: it was renamed")
    then, now = leaves(config_of(state["config"])), leaves(config)
    edited = [name for name in now if now[name] != then[name] and name not in CHANGEABLE]
    if edited:
        told = ", ".join(f"{name} is {now[name]!r} and was {then[name]!r}" for name in edited)
        raise ValueError(
            f"{folder / CONFIG} was edited and does not fit the checkpoint: {told}. "
            f"Put it back, or start a new run with it; only {', '.join(CHANGEABLE)} may change in a run"
        )
    return config, step, state
