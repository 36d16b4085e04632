"""A run on disk: one folder with its configuration, metrics and checkpoints, which survives anything and goes on."""

import json
import os
import signal
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import asdict, fields, replace
from pathlib import Path
from types import FrameType
from typing import Any

import optimist
from optimist.training import checkpoints
from optimist.training.config import TrainConfig
from optimist.training.metrics import FILE, MetricsLog
from optimist.training.ppo import Trainer

Tell = Callable[[int, int, Mapping[str, float]], None]
"""Told (steps done, steps in all, metrics) after every rollout."""


class Interrupted(Exception):
    """The run was asked to stop; its checkpoint is written and it can be resumed."""


def train(config: TrainConfig, folder: Path, *, tell: Tell = lambda *_: None) -> None:
    """Makes a run in ``folder``: ``config.json``, ``metrics.csv``, ``checkpoints/``, ``tensorboard/``.

    A configuration that cannot be run makes no folder; one that cannot be written to or has no room for checkpoints is
    known at once. A first checkpoint is written before the first step, so a run killed at any moment can be resumed.
    """
    trainer = Trainer(resolved(config))
    checkpoints.require_writable(folder / "checkpoints", checkpoints.size_in_bytes(trainer.state_dict()))
    log = MetricsLog(folder)
    write_config(folder, trainer.config)
    trainer.start()
    _save(folder, trainer, log)
    _run(trainer, log, folder, tell)


def resume(folder: Path, *, total_steps: int | None = None, tell: Tell = lambda *_: None) -> None:
    """Goes on with the run in ``folder`` from its newest intact checkpoint, to its end or to ``total_steps``.

    A run that was killed before its first checkpoint is started anew.
    """
    config = read_config(folder)
    if total_steps is not None:
        config = replace(config, total_steps=total_steps)
    place = folder / "checkpoints"
    if not any(place.glob("*.safetensors")) and not (folder / FILE).exists():
        train(config, folder, tell=tell)
        return
    step, state = checkpoints.newest(place)
    trainer = Trainer(config)
    checkpoints.require_entries(state["trainer"], *trainer.state_dict())
    trainer.load_state_dict(state["trainer"])
    if trainer.step != step:
        raise ValueError(f"the checkpoint of step {step} in {folder} holds step {trainer.step}: it was renamed")
    write_config(folder, config)
    _run(trainer, MetricsLog.resume(folder, state["log"]), folder, tell)


def _run(trainer: Trainer, log: MetricsLog, folder: Path, tell: Tell) -> None:
    """Rollouts until the end, a checkpoint whenever one is due. Asked to stop, it writes one after the next rollout.

    Environments whose state cannot be saved are restarted at every checkpoint, in a run that is never interrupted too:
    so a resumed run and an uninterrupted one are the same.
    """
    total, every, size = trainer.config.total_steps, trainer.config.checkpoint_every, trainer.config.rollout_steps
    with _way_on(folder), closing(trainer.environments), stop_requests() as stopping, log:
        while trainer.step < total and not trainer.succeeded:
            after = trainer.step + size
            last = after >= total or stopping.is_set()
            due = last or after // every > trainer.step // every
            metrics = trainer.iterate(cut=due and trainer.restarts_environments)
            log.write(trainer.step, metrics)
            tell(trainer.step, total, metrics)
            if due or trainer.succeeded:
                if trainer.restarts_environments:
                    trainer.restart_environments()
                _save(folder, trainer, log)
            if last and trainer.step < total and not trainer.succeeded:
                raise Interrupted(
                    f"stopped at step {trainer.step:,} of {total:,}; go on with  optimist resume {folder}"
                )


def _save(folder: Path, trainer: Trainer, log: MetricsLog) -> None:
    checkpoints.save(folder / "checkpoints", trainer.step, {"trainer": trainer.state_dict(), "log": log.state_dict()})


@contextmanager
def _way_on(folder: Path) -> Iterator[None]:
    """An error of the disk names the run that it stopped, and how it goes on."""
    try:
        yield
    except OSError as error:  # of the same errno, so of the same subclass
        told = f"the run in {folder} stopped: {error.strerror or error}. Then go on with  optimist resume {folder}"
        raise OSError(error.errno, told) from error


@contextmanager
def stop_requests() -> Iterator[threading.Event]:
    """An event that the first Ctrl-C or SIGTERM sets; a second one interrupts at once. Only in the main thread."""
    asked = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield asked
        return
    before: dict[int, Any] = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    at_once: dict[int, Any] = {signal.SIGINT: signal.default_int_handler, signal.SIGTERM: signal.SIG_DFL}

    def ask(number: int, frame: FrameType | None) -> None:
        asked.set()
        signal.signal(number, at_once[number])

    for number in before:
        signal.signal(number, ask)
    try:
        yield asked
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def resolved(config: TrainConfig) -> TrainConfig:
    """``config`` with the number of threads of this machine, so that a resumed run computes with as many."""
    return replace(config, threads=config.threads or os.cpu_count() or 1)


def write_config(folder: Path, config: TrainConfig) -> None:
    """Writes ``config.json``, as a whole or not at all."""
    text = json.dumps({"optimist": optimist.__version__, **asdict(config)}, indent=2) + "\n"
    temporary = folder / "config.json.tmp"
    temporary.write_text(text)
    temporary.replace(folder / "config.json")


def read_config(folder: Path) -> TrainConfig:
    """The configuration of the run in ``folder``."""
    path = folder / "config.json"
    if not path.is_file():
        raise FileNotFoundError(f"there is no run in {folder}: config.json is missing")
    try:
        stored: Any = json.loads(path.read_text())
        if not isinstance(stored, dict):
            raise ValueError("it must be a JSON object, one entry a setting")
        values: dict[str, Any] = {key: tuple(v) if isinstance(v, list) else v for key, v in stored.items()}
        values.pop("optimist", None)
        names = {field.name for field in fields(TrainConfig)}
        if values.keys() != names:
            missing, unknown = (", ".join(sorted(some)) for some in (names - values.keys(), values.keys() - names))
            raise ValueError(f"missing entries: {missing or 'none'}; unknown entries: {unknown or 'none'}")
        return TrainConfig(**values)
    except (ValueError, TypeError) as problem:
        raise ValueError(f"{path} is not the configuration of a run: {problem}") from None
