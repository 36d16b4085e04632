"""Figures of training: learning curves with a band of the standard error, and the largest problems solved."""

import csv
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal

import numpy as np
from matplotlib import ticker
from matplotlib.axes import Axes

from optimist.reporting.style import COLOURS, sheet
from optimist.reporting.tables import Row

LEARNERS = {
    "acb": COLOURS[0],
    "rnd": COLOURS[1],
    "count": COLOURS[2],
    "icm": COLOURS[3],
    "acb*episodic-count": COLOURS[4],
    "none": COLOURS[5],
    "random": COLOURS[5],
    "elliptical": COLOURS[6],
    "e3b": COLOURS[7],
    "acb*e3b": COLOURS[8],
    "acb-penultimate": COLOURS[1],
    "acb-8": COLOURS[6],
    "acb-32": COLOURS[2],
    "acb-512": COLOURS[3],
}
"""A learner has one colour in all figures."""
OTHERS = "black"
COLUMNS = 3


def draw_learning_curves(
    curves: Sequence[Row],
    measure: str,
    published: Mapping[tuple[str, str], float],
    path: Path,
    *,
    published_is: Literal["value", "step"] = "value",
    is_share: bool = False,
) -> None:
    """A panel a task: the mean over the seeds along the steps, in a band of one standard error, one line a learner.

    The axis of a share goes from 0 to 1. A published number is a dotted line in its learner's colour: a height, or the
    step at which the task was solved.
    """
    tasks = list(dict.fromkeys(row["task"] for row in curves))
    columns = min(COLUMNS, len(tasks))
    lines = -(-len(tasks) // columns)
    with sheet(path, 4.2 * columns + 1.2, 3.3 * lines) as figure:
        axes = figure.subplots(lines, columns, squeeze=False).ravel()
        for spare in axes[len(tasks) :]:
            spare.set_axis_off()
        names = {}
        for ax, task in zip(axes, tasks, strict=False):
            draw_task(ax, [row for row in curves if row["task"] == task])
            for (where, learner), number in published.items():
                if where == task:
                    line = ax.axhline if published_is == "value" else ax.axvline
                    line(number, linestyle=":", color=colour_of(learner), linewidth=1.2, label=f"{learner}, published")
            ax.set(title=task, xlabel="steps", xlim=(0, None))
            if is_share:
                ax.set_ylim(-0.03, 1.03)
            names |= dict(zip(*reversed(ax.get_legend_handles_labels()), strict=True))
        for ax in axes[::columns]:
            ax.set_ylabel(measure)
        figure.legend(names.values(), names.keys(), loc="outside right upper", fontsize=8)


def draw_task(axes: Axes, curves: Sequence[Row]) -> None:
    """The lines of one panel."""
    for learner in dict.fromkeys(row["learner"] for row in curves):
        line = [row for row in curves if row["learner"] == learner]
        steps, mean = [row["step"] for row in line], np.array([row["mean"] for row in line])
        error = np.nan_to_num([row["se"] for row in line])  # a single seed has none
        colour = colour_of(learner)
        axes.plot(steps, mean, color=colour, label=learner, marker="." if len(line) == 1 else None)
        axes.fill_between(steps, mean - error, mean + error, color=colour, alpha=0.18, linewidth=0)
    axes.xaxis.set_major_formatter(ticker.EngFormatter(sep=""))
    axes.set_ylim(bottom=min(0.0, axes.get_ylim()[0]))


def draw_run(metrics: Path, path: Path) -> None:
    """Four panels of one run, from its ``metrics.csv``: success or return, unique states, bonus, where time went."""
    with metrics.open(newline="") as file:
        rows = [{name: float(value or "nan") for name, value in row.items()} for row in csv.DictReader(file)]
    if not rows:
        return
    column = {name: np.array([row[name] for row in rows]) for name in rows[0]}
    steps = column["step"]
    with sheet(path, 9.5, 5.6) as figure:
        (top_left, top_right), (bottom_left, bottom_right) = figure.subplots(2, 2)
        succeeds = bool(np.isfinite(column["success_rate"]).any())
        shown, label = ("success_rate", "success") if succeeds else ("return_mean", "return")
        top_left.plot(steps, column[shown])
        top_left.set(title=f"{label} of the last 100 episodes", ylim=(-0.03, 1.03) if succeeds else None)
        top_right.plot(steps, column["unique_states"], color=COLOURS[2])
        top_right.set(title="unique states", ylim=(0, None))
        mean, deviation = column["bonus_mean"], column["bonus_deviation"]
        bottom_left.plot(steps, mean, color=COLOURS[1])
        bottom_left.fill_between(steps, np.maximum(mean - deviation, 0), mean + deviation, color=COLOURS[1], alpha=0.18)
        bottom_left.set(title="bonus, mean and deviation of a rollout")
        if (mean > 0).all():
            bottom_left.set_yscale("log")
        parts = {
            name.removeprefix("seconds/"): values for name, values in column.items() if name.startswith("seconds/")
        }
        total = sum(float(values.sum()) for values in parts.values())
        names = sorted(parts, key=lambda name: float(parts[name].sum()))
        bottom_right.barh(names, [100 * float(parts[name].sum()) / total for name in names], color=COLOURS[3])
        bottom_right.set(title=f"where {total:,.0f} s went", xlabel="per cent")
        for axes in (top_left, top_right, bottom_left):
            axes.set(xlabel="steps", xlim=(0, None))
            axes.xaxis.set_major_formatter(ticker.EngFormatter(sep=""))


def draw_solved(rows: Sequence[Row], path: Path) -> None:
    """The share of the seeds that solved a problem against its size, one line a learner.

    Rows: learner, size, share.
    """
    learners = list(dict.fromkeys(row["learner"] for row in rows))
    with sheet(path, 6.2, 3.6) as figure:
        axes = figure.subplots()
        for place, learner in enumerate(learners):
            line = sorted((row for row in rows if row["learner"] == learner), key=lambda row: row["size"])
            shift = 0.15 * (place - (len(learners) - 1) / 2)  # lines that coincide stay visible
            sizes, shares = [row["size"] + shift for row in line], [row["share"] for row in line]
            axes.plot(sizes, shares, "o-", color=colour_of(learner), label=learner, markersize=4)
        axes.set(xlabel="size N", ylabel="share of the seeds that solved it", ylim=(-0.05, 1.05))
        axes.legend(fontsize=8)


def colour_of(learner: str) -> str:
    """The colour of a learner, black for one that is not ours."""
    return LEARNERS.get(learner, OTHERS)
