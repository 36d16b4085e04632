"""A study's training runs: a folder each, side by side in processes, going on where they stopped when started again."""

import multiprocessing
import os
import re
import shutil
import traceback
from collections import Counter, deque
from collections.abc import Callable, Generator, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, fields, replace
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path

from optimist.studies.outcome import Progress
from optimist.training.config import TrainConfig
from optimist.training.runs import Interrupted, read_config, resume, train

FINISHED = "finished"
"""The file that says that a run is at its end."""
ERROR = "error.txt"
"""The file with the traceback of a run that failed."""
UNPLAYED = "not played to its end yet"

SPAWN = multiprocessing.get_context("spawn")  # a fork of a process that has started threads may hang


@dataclass(frozen=True)
class Job:
    """One training run of a study: what is played, who learns, and everything else."""

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


def play(jobs: Sequence[Job], folder: Path, *, workers: int | None, progress: Progress) -> list[Result]:
    """The result of every job, in order; each is the run ``folder/runs/NAME``, on one core.

    A run that is finished is not played again, one that was interrupted is resumed. ``workers`` processes (all cores if
    None; a single one is this process itself) take one job after the other; with 0 of them nothing is played, and what
    is not finished counts as failed. Ctrl-C lets the running ones write a checkpoint and leaves everything resumable.
    """
    jobs = [replace(job, config=replace(job.config, threads=1)) for job in jobs]
    place = folder / "runs"
    require_playable(jobs, place)
    results: dict[str, Result] = {job.name: Finished(job, place / job.name) for job in jobs if is_finished(job, place)}
    if workers == 0:
        return [results.get(job.name, Failed(job, UNPLAYED)) for job in jobs]
    waiting = [job for job in jobs if job.name not in results]
    steps = {job.name: job.config.total_steps * (job.name in results) for job in jobs}
    total = sum(job.config.total_steps for job in jobs)

    def tell(job: Job, step: int) -> None:
        steps[job.name] = min(step, job.config.total_steps)
        failed = sum(isinstance(result, Failed) for result in results.values())
        label = f"{len(results)} of {len(jobs)} runs" + (f", {failed} failed" if failed else "")
        progress(sum(steps.values()), total, label)

    count = min(workers or os.cpu_count() or 1, len(waiting))
    playing = one_by_one(waiting, place, tell) if count <= 1 else side_by_side(waiting, place, count, tell)
    with closing(playing):
        for result in playing:
            results[result.job.name] = result
            tell(result.job, result.job.config.total_steps)
    progress(total, total, f"{len(jobs)} runs")
    return [results[job.name] for job in jobs]


def require_playable(jobs: Sequence[Job], place: Path) -> None:
    """An error if two jobs have one name, or if a run in ``place`` was started with another configuration."""
    twice = [name for name, times in Counter(job.name for job in jobs).items() if times > 1]
    if twice:
        raise ValueError(f"every job must have a name of its own, got twice: {', '.join(twice)}")
    for job in jobs:
        if not (place / job.name / "config.json").is_file():
            continue
        stored = read_config(place / job.name)
        names = [field.name for field in fields(TrainConfig)]
        differing = [name for name in names if getattr(stored, name) != getattr(job.config, name)]
        if differing:
            changes = ", ".join(f"{n}={getattr(stored, n)!r} (now {getattr(job.config, n)!r})" for n in differing)
            raise ValueError(
                f"the run {place / job.name} was started with {changes}: "
                "delete its folder to play it anew, or choose another folder for the study with --out"
            )


def is_finished(job: Job, place: Path) -> bool:
    """Whether the job's run is at its end."""
    return (place / job.name / FINISHED).is_file()


def one_by_one(jobs: Sequence[Job], place: Path, tell: Tell) -> Generator[Result]:
    """The jobs in order, in this process."""
    for job in jobs:
        try:
            yield play_one(job, place, tell)
        except Interrupted as stopped:
            raise KeyboardInterrupt from stopped


def play_one(job: Job, place: Path, tell: Tell) -> Result:
    """Trains or resumes one run; whatever goes wrong in it is its result."""
    run = place / job.name
    checkpoints = run / "checkpoints"
    try:
        if any(checkpoints.glob("*.safetensors")):
            resume(run, tell=lambda step, *_: tell(job, step))
        else:
            shutil.rmtree(run, ignore_errors=True)  # killed before its first checkpoint
            train(job.config, run, tell=lambda step, *_: tell(job, step))
    except (Interrupted, BrokenPipeError):  # asked to stop, or the study's own process is gone
        raise
    except Exception as problem:
        run.mkdir(parents=True, exist_ok=True)
        (run / ERROR).write_text(traceback.format_exc())
        return Failed(job, f"{type(problem).__name__}: {problem}")
    for old in sorted(checkpoints.glob("*.safetensors"))[:-1]:
        old.unlink()
    (run / ERROR).unlink(missing_ok=True)
    (run / FINISHED).touch()
    return Finished(job, run)


def side_by_side(jobs: Sequence[Job], place: Path, workers: int, tell: Tell) -> Generator[Result]:
    """The results of the jobs as they come, from ``workers`` processes; one that dies fails its job and is replaced."""
    waiting = deque(jobs)
    idle: list[tuple[BaseProcess, Connection]] = []
    busy: dict[Connection, tuple[BaseProcess, Job]] = {}
    try:
        while waiting or busy:
            while waiting and len(busy) < workers:
                process, pipe = idle.pop() if idle else start_worker(place)
                busy[pipe] = process, waiting.popleft()
                pipe.send(busy[pipe][1])
            for pipe in wait(list(busy)):
                process, job = busy[pipe]  # pyrefly: ignore
                answer = received(pipe)  # pyrefly: ignore
                if isinstance(answer, int):
                    tell(job, answer)
                    continue
                del busy[pipe]  # pyrefly: ignore
                if answer is not None:
                    idle.append((process, pipe))  # pyrefly: ignore
                    yield answer
                else:
                    process.join()
                    ended = f"its process ended with exit code {process.exitcode}"
                    yield Failed(job, f"{ended}: start the study again to go on from its last checkpoint")
    finally:
        processes = [process for process, _ in idle] + [process for process, _ in busy.values()]
        for process in processes:
            process.terminate()  # a run in training hears it, finishes its rollout and writes a checkpoint
        for process in processes:
            process.join()


def start_worker(place: Path) -> tuple[BaseProcess, Connection]:
    """A process that plays the jobs sent to it, and the pipe to it."""
    ours, theirs = SPAWN.Pipe()
    process = SPAWN.Process(target=serve, args=(theirs, place), daemon=True)
    process.start()
    theirs.close()  # so that its death is the end of the pipe
    return process, ours


def serve(pipe: Connection, place: Path) -> None:
    """Answers every job with its steps along the way and with its result, until asked to stop."""
    os.setpgrp()  # a terminal's Ctrl-C reaches the study's own process alone, which asks by SIGTERM
    with suppress(Interrupted, EOFError, OSError):
        while True:
            pipe.send(play_one(pipe.recv(), place, lambda job, step: pipe.send(step)))


def received(pipe: Connection) -> int | Result | None:
    """The next message of a worker; None if it is dead."""
    with suppress(EOFError, OSError):
        return pipe.recv()
    return None
