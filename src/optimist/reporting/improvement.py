"""What a learner is worth: the chance that a run of ours does better than a rival's, by task and over all tasks."""

from collections.abc import Mapping, Sequence

import numpy as np

from optimist.reporting.statistics import Array, bootstrap_interval, probability_of_improvement
from optimist.reporting.tables import Row, is_number
from optimist.seeding import split

Pairs = Mapping[str, Sequence[tuple[str, str]]]
"""By the name of a rival the learners that are set against each other, ours and theirs: the first that a task has."""
ALL = "all tasks"
SAME_RUN = ("task", "learner", "seed", "steps", "unique_states", "return")
"""Two studies may be about the same runs: these columns tell."""


def improvement_rows(runs: Sequence[Row], pairs: Pairs, *, least: int = 1) -> list[Row]:
    """Of each rival a row over all tasks, and one per task: P(improvement) with its 95 % interval (rliable's).

    ``runs`` have study, task, learner, seed, ``score`` (more is better; only compared within a task) and ``counts``. A
    run that two studies show is taken once, of the first, and so is a task that they share: one whose ``world`` is the
    same, the environment with its options, whatever the budget. Tasks that say nothing are left out: those on which all
    scores are the same, or that one side has played fewer than ``least`` times. So are runs without a score. Over all
    tasks only those that count are taken, each with the same weight.
    """
    result: list[Row] = []
    for rival, candidates in pairs.items():
        scores = {task: found for task, found in by_task(runs, candidates).items() if tells(*found, least)}
        rows = [improvement_row(rival, *task, [scores[task]]) for task in scores]
        counted = [scores[task] for task, row in zip(scores, rows, strict=True) if row["counts"]]
        result += [improvement_row(rival, "", ALL, True, counted)] if counted else []
        result += rows
    return result


def by_task(
    runs: Sequence[Row], candidates: Sequence[tuple[str, str]]
) -> dict[tuple[str, str, bool], tuple[Array, Array]]:
    """Our scores and theirs, by the study, the task and whether it counts."""
    seen: set[tuple[object, ...]] = set()
    worlds: dict[tuple[str, str, bool], str] = {}
    found: dict[tuple[str, str, bool], dict[str, list[float]]] = {}
    for run in runs:
        identity = tuple(str(run.get(name)) for name in SAME_RUN)
        if identity in seen or not is_number(run["score"]):
            continue
        seen.add(identity)
        task = (str(run["study"]), str(run["task"]), bool(run["counts"]))
        worlds[task] = str(run.get("world") or task)
        found.setdefault(task, {}).setdefault(str(run["learner"]), []).append(float(run["score"]))
    result: dict[tuple[str, str, bool], tuple[Array, Array]] = {}
    taken: set[str] = set()
    for task in sorted(found, key=lambda task: not task[2]):  # one that counts is not hidden by one that does not
        for ours, theirs in candidates:
            learners = found[task]
            if ours in learners and theirs in learners and worlds[task] not in taken:
                result[task] = np.array(learners[ours]), np.array(learners[theirs])
                taken.add(worlds[task])
                break
    return result


def tells(ours: Array, theirs: Array, least: int) -> bool:
    """Whether there are enough runs of both, and not all scores are the same."""
    return min(len(ours), len(theirs)) >= least and len({*ours.tolist(), *theirs.tolist()}) > 1


def improvement_row(rival: str, study: str, task: str, counts: bool, scores: Sequence[tuple[Array, Array]]) -> Row:
    """P(improvement) over the tasks of ``scores``, ours and theirs, with its interval."""
    ours, theirs = [x for x, _ in scores], [y for _, y in scores]
    rng = np.random.default_rng(split(0, "improvement"))
    low, high = bootstrap_interval(probability_of_improvement, ours, theirs, rng=rng)
    return {
        "rival": rival,
        "study": study,
        "task": task,
        "counts": int(counts),
        "tasks": len(scores),
        "runs": sum(map(len, ours)),
        "rival_runs": sum(map(len, theirs)),
        "improvement": float(probability_of_improvement(ours, theirs)),
        "low": float(low),
        "high": float(high),
    }
