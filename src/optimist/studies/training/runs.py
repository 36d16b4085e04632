"""The training runs of a study: one folder each, in processes or on machines, going on where they stopped."""

import os
import re
import signal
import traceback
from collections import Counter
from collections.abc import Callable, Generator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path

from optimist.config import leaves
from optimist.files import InUse, Token, new_work
from optimist.studies.attempts import Status, attempted
from optimist.studies.study import Session
from optimist.training.config import TrainConfig
from optimist.training.mixing import unread
from optimist.training.ppo import Trainer
from optimist.training.runs.run import Interrupted, read_config, resume, train

FINISHED = "finished"
"""The file that says that a run is at its end."""
ERROR = "error.txt"
"""The file with the traceback of a run that failed."""
UNPLAYED = "not played to its end yet"


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

    A run that is finished is not repeated, one that was interrupted is resumed, and so is one whose worker dies, see
    `attempted`. Several workers are processes of this machine, or of the session's cluster; a single one is this
    process itself; with 0 of them nothing is trained. What is not finished, because of that or because
    ``session.only`` does not name it, counts as failed. Ctrl-C lets the running ones write a checkpoint and leaves
    everything resumable.
    """
    jobs = [replace(job, config=replace(job.config, threads=1)) for job in jobs]
    place = session.folder / "runs"
    require_trainable(jobs, place)
    results: dict[str, Result] = {job.name: Finished(job, place / job.name) for job in jobs if is_finished(job, place)}
    waiting = [job for job in jobs if job.name not in results and is_wanted(job, session)]
    left = {job.name: Failed(job, UNPLAYED) for job in jobs if job.name not in results and job not in waiting}
    if session.workers == 0:
        return [(results | left)[job.name] for job in jobs]
    board = Board(jobs, results, session)
    count = min(session.workers or os.cpu_count() or 1, len(waiting))
    is_alone = count <= 1 and session.cluster is None
    training = one_by_one(waiting, place, board.tell) if is_alone else side_by_side(waiting, place, session, board)
    with closing(training):
        for result in training:
            results[result.job.name] = result
            board.tell(result.job, result.job.config.total_steps)
    board.close()
    return [(results | left)[job.name] for job in jobs]


class Board:
    """How far all runs are together, and who runs where: what the session's progress is told."""

    def __init__(self, jobs: Sequence[Job], results: Mapping[str, Result], session: Session):
        self._jobs, self._results, self._session = jobs, results, session
        self._steps = {job.name: job.config.total_steps * (job.name in results) for job in jobs}
        self._total = sum(job.config.total_steps for job in jobs)
        self.status = Status()

    def tell(self, job: Job, step: int) -> None:
        """A job has come to ``step``."""
        self.tell_all({job: step})

    def tell_all(self, steps: Mapping[Job, int]) -> None:
        """Jobs have come to these steps."""
        self._steps |= {job.name: min(step, job.config.total_steps) for job, step in steps.items()}
        failed = sum(isinstance(result, Failed) for result in self._results.values())
        words = [f"{len(self._results)} of {len(self._jobs)} runs", str(self.status), f"{failed} failed" * (failed > 0)]
        self._session.progress(sum(self._steps.values()), self._total, ", ".join(filter(None, words)))

    def close(self) -> None:
        """All is done."""
        words = [f"{len(self._jobs)} runs", str(replace(self.status, running=0))]
        self._session.progress(self._total, self._total, ", ".join(filter(None, words)))


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
        differing = [name for name in now if then[name] != now[name] and name not in unread(job.config)]
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


def is_wanted(job: Job, session: Session) -> bool:
    """Whether the session plays the job: it has workers, and names it or names none."""
    return session.workers != 0 and (not session.only or any(text in job.name for text in session.only))


def one_by_one(jobs: Sequence[Job], place: Path, tell: Tell) -> Generator[Result]:
    """The jobs in order, in this process."""
    for job in jobs:
        yield train_one(job, place, tell)


def side_by_side(jobs: Sequence[Job], place: Path, session: Session, board: Board) -> Generator[Result]:
    """The results of the jobs as they come, from the session's executor; steps are read in the runs' own metrics."""
    if not jobs:
        return
    shared, work = place.resolve(), new_work()  # another process may have another working folder

    def reached(job: Job) -> int:
        return last_step(place / job.name / "metrics.csv")

    def watch(status: Status, running: Sequence[Job]) -> None:
        board.status = status
        board.tell_all({job: reached(job) for job in running})

    with session.executor(len(jobs)) as workers:
        done = attempted(
            jobs,
            lambda job, attempt: workers.submit(train_elsewhere, job, shared, Token(work, attempt)),
            workers,
            retries=session.retries,
            reached=reached,
            watch=watch,
        )
        for job, future in done:
            yield outcome(future, job, place)


def outcome(future: Future[Result], job: Job, place: Path) -> Result:
    """The result of a job that is done; one whose process died too often has failed."""
    problem = future.exception()
    if problem is not None:
        return Failed(job, f"{problem}: start the study again to go on from its last checkpoint")
    result = future.result()
    return Finished(job, place / job.name) if isinstance(result, Finished) else result


def train_elsewhere(job: Job, place: Path, token: Token) -> Result:
    """`train_one` in a process of its own, which ends when it is asked to stop.

    The signal is sent once more, to who listened to it before the run did: by SIGUSR2 submitit queues the job again.
    """
    try:
        return train_one(job, place, lambda *_: None, token)
    except Interrupted as stopped:
        signal.raise_signal(stopped.signal_number)
        raise SystemExit(128 + stopped.signal_number) from stopped


def train_one(job: Job, place: Path, tell: Tell, token: Token | None = None) -> Result:
    """Trains or resumes one run; whatever goes wrong in it is its result."""
    run = place / job.name
    try:
        if (run / "config.json").is_file():
            resume(run, callbacks=[lambda moment: tell(job, moment.step)], token=token)
        else:
            train(job.config, run, callbacks=[lambda moment: tell(job, moment.step)], token=token)
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
