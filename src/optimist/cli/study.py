"""``optimist study``: a figure of the paper, or a benchmark, with its verdicts."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import tyro
from rich.console import Console

from optimist.checks import require_count
from optimist.cli.console import command_line, print_paths, print_table, progress_bar
from optimist.cli.outputs import output_folder
from optimist.config import key_values
from optimist.reporting.tables import write_record
from optimist.studies.attempts import RETRIES
from optimist.studies.executors import Workers
from optimist.studies.registry import STUDIES, find_study
from optimist.studies.study import ARCHIVE, RECORD, Session, Study, carry_out, write_outcome

NAMES = "|".join(STUDIES)


@dataclass(frozen=True)
class StudyCommand:
    """Reproduce a figure of the paper or run a benchmark study."""

    name: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar=NAMES)]
    """Which study."""
    scale: Literal["smoke", "laptop", "paper"] = "laptop"
    """Seconds, minutes, or the budget of the paper."""
    seeds: tuple[int, ...] = ()
    """Seeds of the runs in place of the scale's own. A study of bandits and fidelity has one; figure2 may have two, on
    the first of which beta and learning rate are selected."""
    bonus: tyro.conf.UseAppendAction[tuple[str, ...]] = ()
    """A bonus to add to every task of a study of training runs, as a further learner; may be given several times. A
    name, package.module:factory, or a product of two; before it a label, after it options, as in
    wide=acb,ensemble_size=512."""
    workers: int | None = None
    """Cores to use, or runs at a time on a cluster; all there are if not given (slurm: 100). 0 trains nothing: the
    training runs that are finished are judged."""
    executor: Literal["local", "ray", "slurm"] = "local"
    """Where the runs and trials are played: on this machine, on a Ray cluster, or as jobs of Slurm. The results folder
    must be on a disk that all machines share."""
    ray_address: str | None = None
    """HOST:PORT of the head of the Ray cluster, or auto; if not given, that of RAY_ADDRESS, or one started here."""
    executor_options: tuple[str, ...] = ()
    """Options NAME=VALUE of each run's Ray task (num_cpus, num_gpus, memory) or Slurm job, as submitit writes them
    (timeout_min, mem_gb, slurm_partition); cluster=local tries the latter without Slurm."""
    retries: int = RETRIES
    """How often a run is tried again whose worker died without getting further than before."""
    only: tuple[str, ...] = ()
    """Train only the runs whose name contains one of these texts, such as floor-all or seed-100; the others are
    judged if they are finished, and listed as not played if not."""
    out: Path | None = None
    """The folder of the results; runs/NAME-SCALE if not given."""
    runs: Path | None = None
    """The folder of another study whose training runs are used and added to; if not given, the study's own. Figures 5
    and 6 have the same runs, and share some with 3, 4 and atari."""
    format: Literal["png", "pdf", "svg"] = "png"
    """The format of all figures."""
    overwrite: bool = False
    """Write into the folder even if it is in use. A study of training runs goes on where it stopped without this, and
    plays no run that played.zip in its folder holds."""


def run_study(command: StudyCommand, screen: Console) -> None:
    """``optimist study``."""
    study = find_study(command.name)
    settings = chosen_settings(command, study)
    path = command.out or Path("runs") / f"{command.name}-{command.scale}"
    is_begun = (path / "runs").is_dir() or (path / ARCHIVE).is_file()
    goes_on = is_begun or (command.runs is not None and (path / RECORD).is_file())
    start = time.perf_counter()
    with output_folder(path, may_overwrite=command.overwrite or goes_on) as folder:
        with way_on(study), progress_bar(screen) as progress:
            runs, cluster = command.runs or folder, chosen_cluster(command, folder)
            session = Session(runs, command.workers, progress, cluster, command.retries, command.only)
            outcome = carry_out(study, settings, session)
        seconds = time.perf_counter() - start
        write_outcome(outcome, folder, command.format)
        write_record(folder / RECORD, command_line(), settings, seconds)
    cells = [(verdict.claim, verdict.measured, verdict.judgement) for verdict in outcome.verdicts]
    title = f"{command.name}, scale {command.scale}, {seconds:.0f} s"
    print_table(screen, title, ("claim", "measured", "verdict"), cells)
    print_paths(screen, folder)


@contextmanager
def way_on(study: Study[Any]) -> Iterator[None]:
    """When training runs are asked to stop, it is said how they go on."""
    try:
        yield
    except BaseException as stopped:
        if study.trains and (isinstance(stopped, KeyboardInterrupt) or hasattr(stopped, "signal_number")):
            stopped.args = ("stopped; what was trained is kept: the same command goes on from there",)
        raise


def chosen_settings(command: StudyCommand, study: Study[Any]) -> Any:
    """The settings that the options ask for; what cannot be is an error before anything is made."""
    given = (("--runs", command.runs), ("--bonus", " ".join(command.bonus)), ("--only", " ".join(command.only)))
    for option, value in given:
        if value and not study.trains:
            raise ValueError(f"{command.name} is no study of training runs, got {option} {value}: leave it out")
    least = 0 if study.trains else 1
    if command.workers is not None and command.workers < least:
        raise ValueError(f"--workers must be at least {least} for {command.name}, got {command.workers}")
    require_count("--retries", command.retries, least=0)
    require_executor(command, study)
    settings = study.scales[command.scale]
    if command.seeds:
        settings = settings.with_seeds(command.seeds)
    if command.bonus:
        from optimist.studies.training.runs import require_buildable
        from optimist.studies.training.tasks import Added

        settings = settings.with_learners([Added.parse(text) for text in command.bonus])
        conditions = {(job.task, job.learner): job for job in settings.jobs() if job.learner in settings.added}
        for job in conditions.values():
            require_buildable(job)
    return settings


def require_executor(command: StudyCommand, study: Study[Any]) -> None:
    """An error if an option does not go with the executor, or the study with any but this machine."""
    if command.executor != "local" and not study.spreads:
        raise ValueError(f"{command.name} is measured in this process, got --executor {command.executor}: leave it out")
    if command.ray_address and command.executor != "ray":
        raise ValueError(f"--ray-address goes with --executor ray, got --executor {command.executor}")
    if command.executor_options and command.executor == "local":
        raise ValueError("--executor-options goes with --executor ray or slurm, got --executor local")
    key_values("--executor-options", command.executor_options)


def chosen_cluster(command: StudyCommand, folder: Path) -> Callable[[int | None], Workers] | None:
    """What makes the executor on other machines; None for this one. Its package is imported now, or missed now."""
    options = key_values("--executor-options", command.executor_options)
    if command.executor == "ray":
        from optimist.studies.engines.ray_tasks import ray_cluster

        return lambda workers: ray_cluster(command.ray_address, workers, options)
    if command.executor == "slurm":
        from optimist.studies.engines.submitit_jobs import slurm_cluster

        return lambda workers: slurm_cluster(folder / "slurm", workers, options)
    return None
