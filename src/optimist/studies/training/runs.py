"""The training runs of a study: one folder each, side by side in processes, going on where they stopped."""

import os
import re
import traceback
from collections import Counter
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path

from optimist.config import leaves
from optimist.files import InUse
from optimist.studies.study import Session
from optimist.training.config import TrainConfig
from optimist.training.ppo import Trainer
from optimist.training.runs.run import Interrupted, read_config, resume, train

FINISHED = "finished"
"""The file that says that a run is at its end."""
ERROR = "error.txt"
"""The file with the traceback of a run that failed."""
UNPLAYED = "not played to its end yet"
LOOK = 0.5
"""Seconds between two looks at how far the runs of other processes are."""


@dataclass(frozen=True)
class Job:
    """One learner on one task from one seed, and everything else that its run depends on."""

    task: str
    learner: str
    config: TrainConfig

    @property
    def name(self) -> str:
        """The name of the run's folder."""
        words = f"{self.task} {self.learner} seed {self.config.seed}".lower()
        return re.sub(r"[^a-z0-9]+", "-", words).strip("-")


@dataclass(frozen=True)
class Finished:
    """A run at its end, and where it lies."""

    job: Job
    folder: Path


@dataclass(frozen=True)
class Failed:
    """A run that stopped by an error; the study goes on without it, and tries it again when started again."""

    job: Job
    message: str


Result = Finished | Failed
Tell = Callable[[Job, int], None]
"""Told (a job, its steps so far)."""


def train_all(jobs: Sequence[Job], session: Session) -> list[Result]:
    """The result of every job, in order; each is the run ``session.folder/runs/NAME``, on one core.

    A run that is finished is not repeated, one that was interrupted is resumed. Several workers are processes of the
    session's executor; a single one is this process itself; with 0 of them nothing is trained, and what is not finished
    counts as failed. Ctrl-C lets the running ones write a checkpoint and leaves everything resumable.
    """
    jobs = [replace(job, config=replace(job.config, threads=1)) for job in jobs]
    place = session.folder / "runs"
    require_trainable(jobs, place)
    results: dict[str, Result] = {job.name: Finished(job, place / job.name) for job in jobs if is_finished(job, place)}
    if session.workers == 0:
        return [results.get(job.name, Failed(job, UNPLAYED)) for job in jobs]
    waiting = [job for job in jobs if job.name not in results]
    steps = {job.name: job.config.total_steps * (job.name in results) for job in jobs}
    total = sum(job.config.total_steps for job in jobs)

    def tell(job: Job, step: int) -> None:
        steps[job.name] = min(step, job.config.total_steps)
        failed = sum(isinstance(result, Failed) for result in results.values())
        label = f"{len(results)} of {len(jobs)} runs" + (f", {failed} failed" if failed else "")
        session.progress(sum(steps.values()), total, label)

    count = min(session.workers or os.cpu_count() or 1, len(waiting))
    training = one_by_one(waiting, place, tell) if count <= 1 else side_by_side(waiting, place, count, session, tell)
    with closing(training):
        for result in training:
            results[result.job.name] = result
            tell(result.job, result.job.config.total_steps)
    session.progress(total, total, f"{len(jobs)} runs")
    return [results[job.name] for job in jobs]


def require_trainable(jobs: Sequence[Job], place: Path) -> None:
    """An error if two jobs have one name, or if a run in ``place`` was started with another configuration."""
    twice = [name for name, times in Counter(job.name for job in jobs).items() if times > 1]
    if twice:
        raise ValueError(f"every job must have a name of its own, got twice: {', '.join(twice)}")
    for job in jobs:
        if not (place / job.name / "config.json").is_file():
            continue
        stored = read_config(place / job.name)
        then, now = leaves(stored), leaves(job.config)
        differing = [name for name in now if then[name] != now[name]]
        if differing:
            changes = ", ".join(f"{name}={then[name]!r} (now {now[name]!r})" for name in differing)
            raise ValueError(
                f"the run {place / job.name} was started with {changes}: "
                "delete its folder to play it anew, or choose another folder for the study with --out"
            )


def require_buildable(job: Job) -> None:
    """An error if environments, agent or bonus of a job cannot be made, for instance because of its options."""
    with closing(Trainer(replace(job.config, threads=1)).environments):
        pass


def is_finished(job: Job, place: Path) -> bool:
    """Whether the job's run is at its end."""
    return (place / job.name / FINISHED).is_file()


def one_by_one(jobs: Sequence[Job], place: Path, tell: Tell) -> Generator[Result]:
    """The jobs in order, in this process."""
    for job in jobs:
        yield train_one(job, place, tell)


def side_by_side(jobs: Sequence[Job], place: Path, workers: int, session: Session, tell: Tell) -> Generator[Result]:
    """The results of the jobs as they come, from ``workers`` processes; steps are read in the runs' own metrics."""
    with session.executor(workers) as executor:
        waiting: dict[Future[Result], Job] = {executor.submit(train_elsewhere, job, place): job for job in jobs}
        while waiting:
            done, others = wait(waiting, timeout=LOOK, return_when=FIRST_COMPLETED)
            for future in done:
                yield outcome(future, waiting.pop(future))
            for job in [waiting[future] for future in others if future.running()]:
                tell(job, last_step(place / job.name / "metrics.csv"))


def outcome(future: Future[Result], job: Job) -> Result:
    """The result of a job that is done; one whose process died has failed."""
    problem = future.exception()
    if problem is None:
        return future.result()
    return Failed(job, f"{problem}: start the study again to go on from its last checkpoint")


def train_elsewhere(job: Job, place: Path) -> Result:
    """`train_one` in a process of its own, which ends when it is asked to stop."""
    try:
        return train_one(job, place, lambda *_: None)
    except Interrupted as stopped:
        raise SystemExit(128 + stopped.signal_number) from stopped


def train_one(job: Job, place: Path, tell: Tell) -> Result:
    """Trains or resumes one run; whatever goes wrong in it is its result."""
    run = place / job.name
    try:
        if (run / "config.json").is_file():
            resume(run, callbacks=[lambda moment: tell(job, moment.step)])
        else:
            train(job.config, run, callbacks=[lambda moment: tell(job, moment.step)])
    except Interrupted:
        raise
    except InUse as problem:  # by another process, whose folder is left alone
        return Failed(job, str(problem))
    except Exception as problem:
        run.mkdir(parents=True, exist_ok=True)
        (run / ERROR).write_text(traceback.format_exc())
        return Failed(job, f"{type(problem).__name__}: {problem}")
    for old in sorted((run / "checkpoints").glob("*.safetensors"))[:-1]:  # also the best: a study is about the end
        old.unlink(missing_ok=True)
    (run / ERROR).unlink(missing_ok=True)
    (run / FINISHED).touch()
    return Finished(job, run)


def last_step(metrics: Path) -> int:
    """The step of the last whole row of a ``metrics.csv``; 0 if there is none yet."""
    try:
        with metrics.open("rb") as file:
            end = file.seek(0, os.SEEK_END)
            file.seek(max(0, end - 8192))
            rows = file.read().split(b"\n")[:-1]
        return int(rows[-1].partition(b",")[0])
    except (OSError, IndexError, ValueError):  # no file, no row, or the header alone
        return 0
