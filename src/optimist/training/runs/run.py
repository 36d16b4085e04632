"""A run on disk: one folder with its configuration, metrics and checkpoints, which survives anything and goes on."""

import json
import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from dataclasses import asdict, fields, replace
from pathlib import Path
from typing import Any

import optimist
from optimist.config import leaves
from optimist.files import write_text
from optimist.training.config import Signal, TrainConfig
from optimist.training.ppo import Trainer
from optimist.training.runs import checkpoints
from optimist.training.runs.metrics_log import FILE, MetricsLog
from optimist.training.runs.stopping import Interrupted, StopRequest, stop_requests

__all__ = ["Interrupted", "Tell", "read_config", "read_run", "resume", "stop_requests", "train", "write_config"]

CONFIG, CHECKPOINTS = "config.json", "checkpoints"
CHANGEABLE = ("total_steps", "stop_at_success", "checkpoint_every", "device", "threads")
"""How long and where a run is computed: what may be edited in ``config.json`` before it is resumed."""
FORMER_FIELDS = {"environments", "intrinsic_memory", *(f"{signal}_{field.name}" for signal in ("extrinsic", "intrinsic")
                                                     for field in fields(Signal))}  # fmt: skip
"""What only configurations of Optimist 0.1.0 have."""

Tell = Callable[[int, int, Mapping[str, float]], None]
"""Told (steps done, steps in all, metrics) after every rollout."""


def train(config: TrainConfig, folder: Path, *, tell: Tell = lambda *_: None) -> None:
    """Makes a run in ``folder``: ``config.json``, ``metrics.csv``, ``checkpoints/``, ``tensorboard/``.

    A run that cannot be started leaves nothing behind: not if its configuration is refused, nor if its folder cannot be
    written to or has no room for checkpoints, nor if its environments or its bonus fail before the first step. A first
    checkpoint is written before the first step, so a run killed at any moment can be resumed.
    """
    if used := [name for name in (CONFIG, FILE, CHECKPOINTS) if (folder / name).exists()]:
        raise FileExistsError(f"there is a run in {folder} already ({used[0]}): resume it, or choose another folder")
    _begin(config, folder, tell)


def resume(folder: Path, *, total_steps: int | None = None, tell: Tell = lambda *_: None) -> None:
    """Goes on with the run in ``folder`` from its newest intact checkpoint, to its end or to ``total_steps``.

    A run that was killed before its first checkpoint is started anew. If it cannot go on, nothing in it was changed.
    """
    stored = read_config(folder)
    config = stored if total_steps is None else replace(stored, total_steps=total_steps)
    if not any((folder / CHECKPOINTS).glob("*.safetensors")) and not (folder / FILE).exists():
        _begin(config, folder, tell)
        return
    _, step, state = read_run(folder)
    if config != stored and config.total_steps <= step:
        raise ValueError(
            f"the run in {folder} is at step {step:,} already, total_steps is {config.total_steps:,}: "
            "give more steps than that, or leave total_steps out"
        )
    trainer = Trainer(config)
    checkpoints.require_entries(state["trainer"], *trainer.own_state(), "environments")
    trainer.load_state_dict(state["trainer"])
    with _way_on(folder):
        if config != stored:
            write_config(folder, config)
        log = MetricsLog.resume(folder, state["log"])
    _play(trainer, log, folder, tell)


def _begin(config: TrainConfig, folder: Path, tell: Tell) -> None:
    trainer = Trainer(replace(config, threads=config.threads or os.cpu_count() or 1))  # resumed with as many
    with _nothing_left_if_refused(folder):
        checkpoints.require_writable(folder / CHECKPOINTS, checkpoints.size_in_bytes(trainer.own_state()))
        log = MetricsLog(folder)
        write_config(folder, trainer.config)
        trainer.start()
        _save(trainer, log, folder)
    _play(trainer, log, folder, tell)


def _play(trainer: Trainer, log: MetricsLog, folder: Path, tell: Tell) -> None:
    """Rollouts until the end, and a checkpoint whenever one is due. Asked to stop, it writes one after the rollout.

    Environments whose state cannot be saved are restarted at every checkpoint, in a run that is never interrupted too:
    so a resumed run and an uninterrupted one are the same.
    """
    total, every, size = trainer.config.total_steps, trainer.config.checkpoint_every, trainer.config.rollout_steps
    with closing(trainer.environments), stop_requests() as request, log:
        while trainer.step < total and not trainer.succeeded:
            after = trainer.step + size
            due = after >= total or after // every > trainer.step // every
            metrics = trainer.iterate(cut=due and trainer.restarts_environments)
            with _way_on(folder):
                log.write(trainer.step, metrics)
            tell(trainer.step, total, metrics)
            asked = request.signal_number is not None  # read once: it may change at any moment
            if due or asked or trainer.succeeded:
                if trainer.restarts_environments:
                    trainer.restart_environments()
                with _way_on(folder):
                    _save(trainer, log, folder)
            if asked:
                break
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


def _save(trainer: Trainer, log: MetricsLog, folder: Path) -> None:
    state = {"config": asdict(trainer.config), "trainer": trainer.state_dict(), "log": log.state_dict()}
    checkpoints.save(folder / CHECKPOINTS, trainer.step, state)


@contextmanager
def _nothing_left_if_refused(folder: Path) -> Iterator[None]:
    """If the start fails, what it made is removed. A process that is killed or interrupted leaves it, to be resumed."""
    made = [path for path in (folder, *folder.parents) if not path.exists()]
    try:
        yield
    except Exception:
        (folder / CONFIG).unlink(missing_ok=True)
        shutil.rmtree(folder / CHECKPOINTS, ignore_errors=True)
        for path in made:  # the innermost first; the first that is not empty ends it
            with suppress(OSError):
                path.rmdir()
        raise


@contextmanager
def _way_on(folder: Path) -> Iterator[None]:
    """An error of the disk names the run that it stopped, and how it goes on."""
    try:
        yield
    except OSError as error:  # of the same errno, so of the same subclass
        told = f"the run in {folder} stopped: {error.strerror or error}. Then go on with  optimist resume {folder}"
        raise OSError(error.errno, told) from error


def write_config(folder: Path, config: TrainConfig) -> None:
    """Writes ``config.json``, as a whole or not at all."""
    stored = {"optimist": optimist.__version__, **asdict(config)}
    write_text(folder / CONFIG, json.dumps(stored, indent=2) + "\n")


def read_config(folder: Path) -> TrainConfig:
    """The configuration of the run in ``folder``."""
    path = folder / CONFIG
    if not path.is_file():
        raise FileNotFoundError(f"there is no run in {folder}: config.json is missing")
    try:
        stored: Any = json.loads(path.read_text())
        if not isinstance(stored, dict):
            raise ValueError("it must be a JSON object, one entry per setting")
    except ValueError as problem:
        raise ValueError(f"{path} is not the configuration of a run: {problem}") from None
    version = stored.pop("optimist", "of an unknown version")
    if former := sorted(FORMER_FIELDS & stored.keys()):
        raise ValueError(
            f"{path} was written by an older version, Optimist {version}, whose settings {', '.join(former)} have "
            "other names now: train the run anew, or read it with the version of Optimist that wrote it"
        )
    try:
        return _config_of(stored)
    except (ValueError, TypeError) as problem:
        raise ValueError(f"{path} is not the configuration of a run: {problem}") from None


def read_run(folder: Path) -> tuple[TrainConfig, int, dict[str, Any]]:
    """The configuration of the run in ``folder``, the step of its newest intact checkpoint, and the state in it.

    An error if ``config.json`` was edited in a way that does not fit the checkpoint, see `CHANGEABLE`.
    """
    config = read_config(folder)
    step, state = checkpoints.newest(folder / CHECKPOINTS)
    checkpoints.require_entries(state, "config", "trainer", "log")
    if (held := state["trainer"].get("step")) != step:
        raise ValueError(f"the checkpoint of step {step} in {folder} holds step {held}: it was renamed")
    then, now = leaves(_config_of(state["config"])), leaves(config)
    edited = [name for name in now if now[name] != then[name] and name not in CHANGEABLE]
    if edited:
        told = ", ".join(f"{name} is {now[name]!r} and was {then[name]!r}" for name in edited)
        raise ValueError(
            f"{folder / CONFIG} was edited and does not fit the checkpoint: {told}. "
            f"Put it back, or start a new run with it; only {', '.join(CHANGEABLE)} may change in a run"
        )
    return config, step, state


def _config_of(stored: Mapping[str, Any]) -> TrainConfig:
    """The configuration that JSON has kept: lists are tuples, objects are signals; all entries, and no others."""
    values = {name: tuple(value) if isinstance(value, list) else value for name, value in stored.items()}
    signals = {name: Signal(**_exactly(Signal, values[name])) for name in ("extrinsic", "intrinsic") if name in values}
    return TrainConfig(**_exactly(TrainConfig, values | signals))


def _exactly(kind: type, values: Any) -> dict[str, Any]:
    """``values`` itself, or an error unless its entries are the fields of ``kind``."""
    if not isinstance(values, dict):
        raise ValueError(f"expected an object with the entries of {kind.__name__}, got {values!r}")
    names = {field.name for field in fields(kind)}
    if values.keys() != names:
        missing, unknown = (", ".join(sorted(some)) for some in (names - values.keys(), values.keys() - names))
        raise ValueError(f"missing entries: {missing or 'none'}; unknown entries: {unknown or 'none'}")
    return values
