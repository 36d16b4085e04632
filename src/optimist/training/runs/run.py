"""A run on disk: one folder with its configuration, metrics and checkpoints, which survives anything and goes on."""

import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any, Unpack

from optimist.config import leaves
from optimist.files import Token, locked, removed_if_empty
from optimist.ranks import ALONE, Ranks
from optimist.training.config import TrainConfig
from optimist.training.ppo import Given, Trainer
from optimist.training.runs import checkpoints
from optimist.training.runs.callbacks import Callback, Outcome
from optimist.training.runs.config_file import CONFIG, config_of, read_config, write_config
from optimist.training.runs.loggers import require_loggers
from optimist.training.runs.metrics_log import FILE, MetricsLog
from optimist.training.runs.playing import CHECKPOINTS, Playing, state_of, way_on
from optimist.training.runs.stopping import Interrupted, stop_requests

__all__ = [
    "Callback",
    "Interrupted",
    "Say",
    "read_config",
    "read_run",
    "resume",
    "stop_requests",
    "train",
    "write_config",
]

CHANGEABLE = (
    "total_steps",
    "stop_at_success",
    "checkpoint_every",
    "checkpoint_minutes",
    "loggers",
    "device",
    "threads",
)
"""How long and where a run is computed: what may be edited in ``config.json`` before it is resumed."""

Say = Callable[[str], None]
"""Told what a run does before its first rollout, where that may take long."""


def train(
    config: TrainConfig,
    folder: Path,
    *,
    callbacks: Sequence[Callback] = (),
    ranks: Ranks = ALONE,
    token: Token | None = None,
    **given: Unpack[Given],
) -> Outcome:
    """Makes a run in ``folder``: ``config.json``, ``metrics.csv``, ``checkpoints/``, ``tensorboard/``.

    A run that cannot be started leaves nothing behind: not if its configuration is refused, nor if its folder cannot be
    written to or has no room for checkpoints, nor if its environments or its bonus fail before the first step. A first
    checkpoint is written before the first step, so a run killed at any moment can be resumed. Nobody else can write to
    its folder while it is played (`optimist.files.InUse`), except a later attempt at the same work, by its ``token``.
    ``given`` takes the place of what ``config`` names. Of several ``ranks`` the first alone writes, and calls the
    callbacks.
    """
    if not ranks.is_first:
        trainer = _new_trainer(config, given, ranks)
        return Playing(trainer, _begin(trainer, folder), None, folder, callbacks).to_the_end()
    _require_no_run(folder)
    trainer = _new_trainer(config, given, ranks)
    with removed_if_empty(folder), locked(folder, token) as lock:
        _require_no_run(folder)  # again: another process may have been faster
        with _nothing_left_if_refused(folder):
            log = _begin(trainer, folder)
        return Playing(trainer, log, lock, folder, callbacks).to_the_end()


def resume(
    folder: Path,
    *,
    total_steps: int | None = None,
    callbacks: Sequence[Callback] = (),
    say: Say = lambda _: None,
    ranks: Ranks = ALONE,
    token: Token | None = None,
    **given: Unpack[Given],
) -> Outcome:
    """Goes on with the run in ``folder`` from its newest intact checkpoint, to its end or to ``total_steps``.

    A run that was killed before its first checkpoint is started anew. If it cannot go on, nothing in it was changed.
    It may go on with another number of ``ranks`` than it was begun with.
    """
    read_config(folder)  # an error before the folder is touched
    with locked(folder, token) if ranks.is_first else nullcontext() as lock:
        stored = read_config(folder)
        config = stored if total_steps is None else replace(stored, total_steps=total_steps)
        is_new = not any((folder / CHECKPOINTS).glob("*.safetensors")) and not (folder / FILE).exists()
        if ranks.any(ranks.is_first and is_new):  # as the first has it: for the others it may be writing already
            trainer = _new_trainer(config, given, ranks)
            return Playing(trainer, _begin(trainer, folder), lock, folder, callbacks).to_the_end()
        _, step, state = read_run(folder)
        if config != stored and config.total_steps <= step:
            raise ValueError(
                f"the run in {folder} is at step {step:,} already, total_steps is {config.total_steps:,}: "
                "give more steps than that, or leave total_steps out"
            )
        require_loggers(config.loggers)
        if len(set(ranks.objects(step))) > 1:
            raise ValueError(f"the processes of this run read different checkpoints in {folder}: it must be one disk")
        trainer = Trainer(config, ranks=ranks, **given)
        checkpoints.require_entries(state["trainer"], *trainer.own_state(), "environments")
        if again := len(state["trainer"]["environments"].get("actions", ())):
            say(f"{again:,} steps of every environment are played again, to bring them back to where they were")
        trainer.load_state_dict(state["trainer"])
        with way_on(folder):
            if config != stored and ranks.is_first:
                write_config(folder, config)
            log = None
            if ranks.is_first:
                log = MetricsLog.resume(folder, state["log"], loggers=config.loggers, config=leaves(config))
        return Playing(trainer, log, lock, folder, callbacks).to_the_end(state["unwritten"])


def _new_trainer(config: TrainConfig, given: Given, ranks: Ranks) -> Trainer:
    require_loggers(config.loggers)
    return Trainer(config, ranks=ranks, **given)


def _begin(trainer: Trainer, folder: Path) -> MetricsLog | None:
    """The log of a new run, whose configuration and first checkpoint are then in ``folder``; None on other ranks."""
    own = trainer.own_state()
    if not trainer.ranks.is_first:
        trainer.start()
        trainer.state_dict()
        return None
    write_config(folder, trainer.config)  # first: a kill from here on leaves what can be resumed
    checkpoints.require_writable(folder / CHECKPOINTS, checkpoints.size_in_bytes(own))
    log = MetricsLog(folder, loggers=trainer.config.loggers, config=leaves(trainer.config))
    trainer.start()
    checkpoints.save(folder / CHECKPOINTS, trainer.step, state_of(trainer, log))
    return log


def _require_no_run(folder: Path) -> None:
    found = [name for name in (CONFIG, FILE) if (folder / name).exists()]
    found += [CHECKPOINTS] * any((folder / CHECKPOINTS).glob("*.safetensors"))
    if found:
        raise FileExistsError(f"there is a run in {folder} already ({found[0]}): resume it, or choose another folder")


@contextmanager
def _nothing_left_if_refused(folder: Path) -> Iterator[None]:
    """If the start fails, what it made is removed. A process that is killed or interrupted leaves it, to be resumed."""
    try:
        yield
    except Exception:
        (folder / CONFIG).unlink(missing_ok=True)
        shutil.rmtree(folder / CHECKPOINTS, ignore_errors=True)
        raise


def read_run(folder: Path, *, best: bool = False) -> tuple[TrainConfig, int, dict[str, Any]]:
    """The configuration of the run in ``folder``, the step of its newest intact (or best) checkpoint, and its state.

    An error if ``config.json`` was edited in a way that does not fit the checkpoint, see `CHANGEABLE`.
    """
    config = read_config(folder)
    step, state = (checkpoints.best if best else checkpoints.newest)(folder / CHECKPOINTS)
    checkpoints.require_entries(state, "config", "trainer", "log", "unwritten")
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
