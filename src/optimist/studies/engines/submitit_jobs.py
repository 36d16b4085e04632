"""Calls as jobs of Slurm, by way of submitit: one job per call, in arrays; what is preempted is queued again."""

import os
import shutil
import signal
import socket
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import submitit
from submitit.core.utils import UncompletedJobError
from submitit.helpers import DelayedSubmission

from optimist.studies.cluster import Answered, Cluster, News, Started, died
from optimist.studies.executors import Call, answered

DEFAULTS = {"name": "optimist", "timeout_min": 12 * 60, "cpus_per_task": 1, "mem_gb": 4}
"""What every job asks for, unless an option says otherwise."""
JOBS = 100
"""Jobs in the queue at a time, where nobody says how many."""


def slurm_cluster(folder: Path, workers: int | None, options: Mapping[str, Any]) -> Cluster:
    """An executor of up to ``workers`` jobs at a time (`JOBS` if None); their logs and answers are in ``folder``.

    ``options`` are submitit's: timeout_min, mem_gb, slurm_partition, slurm_account ...; ``cluster=local`` starts
    processes of this machine in place of jobs, to try it.
    """
    jobs = SubmititJobs(folder, options)
    return Cluster(jobs, workers or ((os.cpu_count() or 1) if jobs.is_local else JOBS))


class SubmititJobs:
    """The engine of Slurm. Where a job runs, and how often it was begun, it writes to a file beside its log."""

    def __init__(self, folder: Path, options: Mapping[str, Any]):
        options = dict(options)
        cluster = options.pop("cluster", "slurm")
        if cluster not in ("slurm", "local"):
            raise ValueError(f"--executor-options cluster must be slurm or local, got {cluster}")
        self.is_local = cluster == "local"
        if not self.is_local and shutil.which("sbatch") is None:
            raise RuntimeError(
                "there is no Slurm on this machine (no command sbatch): start the study where jobs are submitted, or "
                "try it with  --executor-options cluster=local"
            )
        self._folder = folder.resolve()
        try:
            self._executor = submitit.AutoExecutor(self._folder, cluster=cluster)
            self._executor.update_parameters(**DEFAULTS | options)
        except (AssertionError, NameError, ValueError, TypeError) as problem:
            told = str(problem).strip().splitlines()[0]
            raise ValueError(f"--executor-options must be parameters of submitit: {told}") from problem
        self._held: dict[Call, tuple[Any, Path]] = {}
        self._starts: dict[Call, int] = {}
        self._count = 0
        self._is_stopping = False

    def start(self, calls: Sequence[Call]) -> None:
        """Submits the calls as one array of jobs."""
        slips = [self._folder / f"{os.getpid()}-{self._count + k}.started" for k in range(len(calls))]
        self._count += len(calls)
        with self._executor.batch():
            jobs = [
                self._executor.submit(Resumable(slip), call.function, call.args, call.kwargs)
                for call, slip in zip(calls, slips, strict=True)
            ]
        self._held |= {call: (job, slip) for call, job, slip in zip(calls, jobs, slips, strict=True)}

    def news(self, patience: float) -> Iterator[tuple[Call, News]]:
        """Starts, answers and ends without an answer, by files on the shared disk, and what Slurm says."""
        time.sleep(patience)
        for call, (job, slip) in list(self._held.items()):
            nodes = slip.read_text().split() if slip.exists() else []
            for node in nodes[self._starts.get(call, 0) :]:
                yield call, Started(node)
            self._starts[call] = len(nodes)
            if job.done():
                del self._held[call], self._starts[call]
                is_lost = self._is_stopping and not job.paths.result_pickle.exists()
                yield call, Answered(None, died(InterruptedError("stopped"))) if is_lost else result_of(job)

    def ask_to_stop(self) -> None:
        """Cancels the jobs: those that run hear a SIGTERM."""
        self._is_stopping = True
        for job, _ in list(self._held.values()):
            with suppress(OSError, RuntimeError):
                if self.is_local:
                    os.kill(int(job.job_id), signal.SIGTERM)  # submitit's own way leaves it one second
                else:
                    job.cancel(check=False)

    def close(self) -> None:
        """Kills what still runs; of jobs in Slurm's hands it takes care itself."""
        if self.is_local:
            for job, _ in list(self._held.values()):
                job.cancel(check=False)


def result_of(job: Any) -> Answered:
    """The answer of a job that is done; `WorkerDied` if it has none."""
    try:
        result, problem = job.result()
    except UncompletedJobError as problem:
        return Answered(None, died(problem))
    except Exception as problem:
        return Answered(None, ChildProcessError(str(problem)))
    return Answered(result, died(problem) if isinstance(problem, UncompletedJobError) else problem)


class Resumable:
    """Makes a call, after it has noted on which machine. Preempted, it is queued again as it was."""

    def __init__(self, slip: Path):
        self.slip = slip

    def __call__(self, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, Any]:
        """The result of the call, or what it raised."""
        with self.slip.open("a") as file:
            file.write(f"{socket.gethostname()}\n")
        return answered(function, args, kwargs)

    def checkpoint(self, *args: Any, **kwargs: Any) -> DelayedSubmission:
        """What submitit queues when the job is preempted or out of time: the same call."""
        return DelayedSubmission(self, *args, **kwargs)
