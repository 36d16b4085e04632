"""A run as it is played: rollouts, evaluations, rows, callbacks, and checkpoints whenever one is due."""

import math
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, nullcontext
from copy import deepcopy
from dataclasses import asdict
from pathlib import Path
from types import MappingProxyType
from typing import Any

from optimist.files import Lock
from optimist.ranks import is_launched
from optimist.training.evaluation import COLUMNS, Evaluation
from optimist.training.ppo import Trainer
from optimist.training.runs import checkpoints
from optimist.training.runs.callbacks import Callback, Moment, Outcome
from optimist.training.runs.metrics_log import MetricsLog
from optimist.training.runs.stopping import Abandoned, Interrupted, StopRequest, stop_requests

CHECKPOINTS = "checkpoints"
PROMPT = 5.0
"""Seconds: a rollout that takes longer is not played to its end when the run is asked to stop."""
ENOUGH = 100
"""Episodes that must have ended before a checkpoint can be the best."""
Metrics = Mapping[str, float]
NONE: Metrics = MappingProxyType({})


class Playing:
    """A trainer whose run is in ``folder``: `to_the_end` plays it.

    There is a checkpoint whenever one is due, by steps or by the clock: it changes no result. Asked to stop, the run
    writes one within seconds. A rollout that takes longer than `PROMPT` is abandoned, and the state before it is
    written, of which a copy was kept; a shorter one is played to its end. An evaluation is abandoned too: the metrics
    of its rollout are kept in the checkpoint, ``unwritten``, and the resumed run begins with the evaluation.

    Of several ranks the first has the ``log`` and the ``lock``: it evaluates, writes and calls the callbacks. They stop
    together, at the end of a rollout: none is abandoned.
    """

    def __init__(
        self,
        trainer: Trainer,
        log: MetricsLog | None,
        lock: Lock | None,
        folder: Path,
        callbacks: Sequence[Callback],
    ):
        self._trainer, self._log, self._lock, self._callbacks = trainer, log, lock, callbacks
        self._folder, self._ranks = folder, trainer.ranks
        self._is_agreed = False  # whether several ranks stop here
        self._evaluation = Evaluation(trainer.config, trainer.make_environments)
        self._saved, self._saved_at = trainer.step, time.monotonic()
        self._is_slow = False
        self._reason = ""  # why a callback stopped the run
        self._request = StopRequest()

    def to_the_end(self, unwritten: Metrics = NONE) -> Outcome:
        """How the run ended: it is finished, or a callback stopped it. `Interrupted` if a signal did."""
        trainer, folder, log = self._trainer, self._folder, self._log or nullcontext()
        requests = stop_requests(launched=is_launched())
        with closing(trainer.environments), closing(self._evaluation), requests as self._request, log:
            try:
                if unwritten:
                    self._finish_rollout(trainer.step - trainer.config.rollout_steps, unwritten)
                while not (trainer.is_finished or self._is_asked):
                    start = trainer.step
                    self._finish_rollout(start, self._play_rollout())
            except Abandoned:
                pass  # where it was raised, a checkpoint was written
            with way_on(folder):
                if self._log is not None:
                    self._log.close()
        self._raise_if_asked()  # also if it was asked in its very last rollout: the caller may go on
        return Outcome(folder, trainer.config, trainer.step, "" if trainer.is_finished else self._reason)

    def _play_rollout(self) -> Metrics:
        start, before = self._trainer.step, None
        if self._is_slow and start != self._saved and self._ranks.alone:
            with way_on(self._folder):
                before = deepcopy(state_of(self._trainer, self._log))
        is_safe = start == self._saved or before is not None  # the state before it is on the disk, or at hand
        can_stop = is_safe and self._ranks.alone
        try:
            metrics = self._trainer.iterate(check=self._request.abandon_if_asked if can_stop else lambda: None)
        except Abandoned:
            if before is not None:
                self._save(start, before)
            raise
        self._is_slow = self._trainer.config.rollout_steps / metrics["steps_per_second"] > PROMPT
        return metrics

    def _finish_rollout(self, start: int, metrics: Metrics) -> None:
        """Evaluate, write the row, tell the callbacks, and write a checkpoint: each if it is due."""
        trainer, folder = self._trainer, self._folder
        if self._log is not None and self._lock is not None:
            evaluated = self._evaluate(start, metrics)
            empty = dict.fromkeys(COLUMNS) if trainer.config.eval_every else {}
            with way_on(folder):
                self._lock.require_held()
                self._log.write(trainer.step, {**metrics, **empty, **evaluated})
            self._call(Moment(trainer, folder, {**metrics, **evaluated}))
        self._agree()
        every = trainer.config.checkpoint_every
        at_mark = trainer.is_finished or trainer.step // every > start // every
        is_late = time.monotonic() - self._saved_at >= 60 * trainer.config.checkpoint_minutes
        in_time = self._ranks.any(self._ranks.is_first and is_late)
        if at_mark or in_time or self._is_asked:
            with way_on(folder):
                state = state_of(trainer, self._log)
                if at_mark and metrics["episodes"] >= ENOUGH and self._lock is not None:
                    place, score = folder / CHECKPOINTS, _score(metrics)
                    checkpoints.save_if_best(place, trainer.step, state, score, require=self._lock.require_held)
            self._save(trainer.step, state)

    def _evaluate(self, start: int, metrics: Metrics) -> Metrics:
        trainer = self._trainer
        if not self._evaluation.is_due(start, trainer.step, at_end=trainer.is_finished):
            return NONE
        try:
            return self._evaluation.measure(
                trainer.agent,
                trainer.distribution,
                trainer.step,
                check=self._request.abandon_if_asked if self._ranks.alone else lambda: None,
            )
        except Abandoned:
            self._save(trainer.step, state_of(trainer, self._log, unwritten=metrics))
            raise

    def _call(self, moment: Moment) -> None:
        """Tell every callback; where one raises, nothing is lost either."""
        try:
            for callback in self._callbacks:
                callback(moment)
        except Exception:
            if self._ranks.alone:  # the state is that of all ranks, and the others do not know of the error
                self._save(self._trainer.step, state_of(self._trainer, self._log))
            raise
        self._reason = moment.reason

    @property
    def _is_asked(self) -> bool:
        """Whether a signal or a callback has asked the run to stop."""
        if not self._ranks.alone:
            return self._is_agreed
        return self._request.signal_number is not None or bool(self._reason)

    def _agree(self) -> None:
        """Let all ranks stop here if one of them is asked to."""
        if self._ranks.alone:
            return
        said = self._ranks.objects((self._request.signal_number, self._reason))
        numbers = [number for number, _ in said if number is not None]
        self._reason = next((reason for _, reason in said if reason), "")
        self._is_agreed = bool(numbers or self._reason)
        if numbers and self._request.signal_number is None:
            self._request.signal_number = numbers[0]

    def _save(self, step: int, state: Mapping[str, Any]) -> None:
        if self._lock is not None:
            with way_on(self._folder):
                checkpoints.save(self._folder / CHECKPOINTS, step, state, require=self._lock.require_held)
        self._saved, self._saved_at = step, time.monotonic()

    def _raise_if_asked(self) -> None:
        trainer, folder, number = self._trainer, self._folder, self._request.signal_number
        if number is None:
            return
        if trainer.is_finished:
            raise Interrupted(f"the run in {folder} was at its end when it was asked to stop", number)
        told = (
            f"stopped at step {trainer.step:,} of {trainer.config.total_steps:,}; go on with  optimist resume {folder}"
        )
        raise Interrupted(told, number)


def state_of(trainer: Trainer, log: MetricsLog | None, *, unwritten: Metrics = NONE) -> dict[str, Any]:
    """All that a checkpoint holds, of all ranks, each of which must ask for it.

    ``unwritten`` are the metrics of a rollout that has no row yet.
    """
    return {
        "config": asdict(trainer.config),
        "trainer": trainer.state_dict(),
        "log": {} if log is None else log.state_dict(),
        "unwritten": dict(unwritten),
    }


def _score(metrics: Metrics) -> checkpoints.Score:
    success = metrics["success_rate"]
    return 0.0 if math.isnan(success) else success, metrics["return_mean"]


@contextmanager
def way_on(folder: Path) -> Iterator[None]:
    """An error of the disk names the run that it stopped, and how it goes on."""
    try:
        yield
    except OSError as error:  # of the same errno, so of the same subclass
        told = f"the run in {folder} stopped: {error.strerror or error}. Then go on with  optimist resume {folder}"
        raise OSError(error.errno, told) from error
