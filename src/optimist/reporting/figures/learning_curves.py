"""Figures of training: learning curves of studies, the largest problems solved, and one run at a glance."""

import math
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Literal

import numpy as np
from matplotlib import ticker
from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from optimist.reporting.figures.labels import MOST_TICKS, FewLogTicks, Label, label_ends, legend_above
from optimist.reporting.style import BAND, PANELS, PUBLISHED, Look, looks_of, sheet
from optimist.reporting.tables import Row, is_number
from optimist.training.runs.metrics_log import read_metrics

SQUEEZED = 1 / 3
"""If all that happens does so within this share of the steps, the axis is logarithmic."""
MOVED = 0.02
"""A change of a curve that is seen, as a share of the height of its panel."""


def draw_learning_curves(
    curves: Sequence[Row],
    measure: str,
    published: Sequence[Row],
    path: Path,
    *,
    published_is: Literal["value", "step"] = "value",
    is_share: bool = False,
) -> None:
    """A panel for each task: the mean over the seeds along the steps, in a band of one standard error.

    Rows of ``curves``: task, learner, step, seeds, mean, se. Rows of ``published``: task, learner, published (or NaN);
    such a number is a height, or the step at which the task was solved. The axis of a share goes from 0 to 1. Where the
    curves would be squeezed into the left third of their panels, the steps are on a logarithmic axis.
    """
    tasks = list(dict.fromkeys(row["task"] for row in curves))
    looks = looks_of(row["learner"] for row in curves)
    known = [row for row in published if row["task"] in tasks and is_number(row["published"])]
    # Two panels side by side, unless one of them has texts at its border.
    columns = 1 if known or len(tasks) == 1 else 2
    lines = -(-len(tasks) // columns)
    is_log = any(_is_squeezed([row for row in curves if row["task"] == task]) for task in tasks)
    caption = _caption(curves, measure, known, is_log=is_log)
    with sheet(path, 2.5 * lines + 0.9, caption=caption) as figure:
        axes = figure.subplots(lines, columns, squeeze=False).ravel()
        for spare in axes[len(tasks) :]:
            spare.set_axis_off()
        handles = [Line2D([], [], color=look.light, linestyle=look.line, label=name) for name, look in looks.items()]
        legend_above(figure, handles)
        for ax, task in zip(axes, tasks, strict=False):
            draw_task(ax, [row for row in curves if row["task"] == task], looks, is_log=is_log)
            ax.set(title=task, xlabel="steps")
            if is_share:
                ax.set_ylim(-0.03, 1.05)
        figure.supylabel(measure, fontsize=10)
        for ax, task in zip(axes, tasks, strict=False):
            draw_published(ax, [row for row in known if row["task"] == task], published_is)


def draw_task(axes: Axes, curves: Sequence[Row], looks: dict[str, Look], *, is_log: bool) -> None:
    """The lines of one panel, the first on top; a line that ends before the longest one has a dot at its end."""
    longest, lines = max(row["step"] for row in curves), _lines(curves)
    for learner, line in reversed(lines.items()):
        steps, mean = [row["step"] for row in line], np.array([row["mean"] for row in line])
        error = np.nan_to_num([row["se"] for row in line])  # a single seed has none
        look = looks[learner]
        axes.plot(steps, mean, look.line, color=look.light)
        axes.fill_between(steps, mean - error, mean + error, color=look.light, alpha=BAND, linewidth=0)
        if steps[-1] < 0.97 * longest or len(line) == 1:
            axes.plot(steps[-1], mean[-1], "o", color=look.light, markersize=5)
    if is_log:
        axes.set_xscale("log")
        first = min([_changes(curves)[0], *(line[-1]["step"] for line in lines.values())])  # every end is in view
        axes.set_xlim(left=max(1.0, first / 2))
        axes.xaxis.set_major_locator(FewLogTicks())
        axes.xaxis.set_minor_formatter(ticker.NullFormatter())
    else:
        axes.set_xlim(left=0)
        axes.xaxis.set_major_locator(ticker.MaxNLocator(MOST_TICKS, steps=(1, 2, 5, 10)))
    axes.xaxis.set_major_formatter(ticker.EngFormatter(sep=""))
    axes.set_ylim(bottom=min(0.0, axes.get_ylim()[0]))


def draw_published(axes: Axes, rows: Sequence[Row], kind: Literal["value", "step"]) -> None:
    """A dashed line with a diamond for each published number, named at its end."""
    style = {"color": PUBLISHED.light, "linestyle": PUBLISHED.line, "linewidth": 1.0}
    if kind == "step":
        for row in rows:
            axes.set_xlim(right=max(axes.get_xlim()[1], 1.25 * row["published"]))
            axes.axvline(row["published"], **style)
            axes.plot(
                row["published"], 0.5, PUBLISHED.marker, color=PUBLISHED.light, transform=axes.get_xaxis_transform()
            )
            axes.annotate(
                f"published,\n{row['learner']}",
                (row["published"], 0.5),
                (-8, 0),
                axes.get_xaxis_transform(),
                "offset points",
                ha="right",
                va="center",
                fontsize=9,
            )
        return
    for row in rows:
        axes.axhline(row["published"], **style)
        axes.plot(
            1.0,
            row["published"],
            PUBLISHED.marker,
            color=PUBLISHED.light,
            transform=axes.get_yaxis_transform(),
            clip_on=False,
        )
    right = axes.get_xlim()[1]
    texts = [f"published, {row['learner']}: {row['published']:g}" for row in rows]
    label_ends(
        axes, [Label(right, row["published"], text, PUBLISHED.light) for row, text in zip(rows, texts, strict=True)]
    )


def _is_squeezed(curves: Sequence[Row]) -> bool:
    """Whether all curves of a task stand still over the right part of its steps."""
    return _changes(curves)[-1] < SQUEEZED * max(row["step"] for row in curves)


def _lines(curves: Sequence[Row]) -> dict[str, list[Row]]:
    """The rows of each learner, in the order of ``curves``, from where all of its runs have a value.

    The first to have one are the quick ones: a mean over them would fall as soon as the others join it.
    """
    most: dict[str, float] = {}
    for row in curves:
        most[row["learner"]] = max(most.get(row["learner"], 0), row["seeds"])
    lines: dict[str, list[Row]] = {}
    for row in curves:
        if math.isfinite(row["mean"]) and row["seeds"] == most[row["learner"]]:
            lines.setdefault(row["learner"], []).append(row)
    return lines


def _changes(curves: Sequence[Row]) -> list[float]:
    """The steps, in order, at which some curve differs visibly from its own start or end; the last step if none."""
    means = [row["mean"] for row in curves if math.isfinite(row["mean"])]
    seen = MOVED * (max(means) - min(means)) if means else 0.0
    steps: list[float] = []
    for line in _lines(curves).values():
        moving = [row["step"] for row in line if abs(row["mean"] - line[0]["mean"]) > seen]
        steps += [row["step"] for row in line if row["step"] in moving and abs(row["mean"] - line[-1]["mean"]) > seen]
        steps += moving[:1]
    return sorted(steps) or [max(row["step"] for row in curves)]


def _caption(curves: Sequence[Row], measure: str, published: Sequence[Row], *, is_log: bool) -> str:
    """What is seen, over how many seeds."""
    by_learner = {(row["task"], row["learner"]): row["seeds"] for row in curves}
    longest = {}
    for row in curves:
        longest[row["task"]] = max(longest.get(row["task"], 0), row["step"])
    ends = {(row["task"], row["learner"]): row["step"] for row in curves}
    parts = [
        f"{measure[0].upper()}{measure[1:]}: mean over {seeds_of(by_learner.values())}; bands are ± 1 standard error."
    ]
    if any(step < 0.97 * longest[task] for (task, _), step in ends.items()):
        parts.append("A dot ends a line whose runs had all stopped, at success.")
    by_task = [[row for row in curves if row["task"] == task] for task in longest]
    drawn = [len(line) for mine in by_task for line in _lines(mine).values()]
    if 1 in drawn:
        parts.append("A dot without a line: the runs ended at their first value.")
    if sum(drawn) < sum(math.isfinite(row["mean"]) for row in curves):
        parts.append("A line begins where all its seeds have a value.")
    if is_log:
        parts.append("Steps are on a logarithmic axis.")
    if published:
        parts.append("Dashes with a diamond: published by others, not measured here.")
    return " ".join(parts)


def seeds_of(counts: Iterable[float]) -> str:
    """How many seeds there are, in words."""
    counts = list(counts)
    few, many = min(counts), max(counts)
    return f"{many:g} seed{'s' if many != 1 else ''}" if few == many else f"{few:g} to {many:g} seeds"


def draw_solved(rows: Sequence[Row], path: Path) -> None:
    """The share of the seeds that solved a problem against its size, one line for each learner.

    Rows: learner, size, seeds, share. Bars are ± 1 standard error of a share, with Wilson's center for small numbers.
    """
    looks = looks_of(row["learner"] for row in rows)
    seeds = seeds_of([row["seeds"] for row in rows])
    caption = (
        f"Share of {seeds} that solved the problem, by its size N. Bars: Wilson's 68 % interval of a share. Points are "
        "moved sideways where they would hide each other."
    )
    with sheet(path, 3.7, caption=caption) as figure:
        axes = figure.subplots()
        for place, (learner, look) in enumerate(looks.items()):
            line = sorted((row for row in rows if row["learner"] == learner), key=lambda row: row["size"])
            shift = 0.3 * (place - (len(looks) - 1) / 2)
            sizes, shares = [row["size"] + shift for row in line], np.array([row["share"] for row in line])
            low, high = wilson(shares, np.array([row["seeds"] for row in line]))
            style = {"color": look.light, "linestyle": look.line, "marker": look.marker, "markersize": 5, "capsize": 2}
            reach = [np.maximum(shares - low, 0), np.maximum(high - shares, 0)]
            axes.errorbar(sizes, shares, reach, label=learner, elinewidth=0.9, **style)
        axes.set(xlabel="size N", ylabel="share of the seeds that solved it", ylim=(-0.05, 1.05))
        axes.set_xticks(sorted({row["size"] for row in rows}))
        axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5))


def wilson(share: np.ndarray, count: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Wilson's interval of a share at one standard error (z = 1): within 0 .. 1 even for 0 of 5."""
    center = (share + 0.5 / count) / (1 + 1 / count)
    half = np.sqrt(share * (1 - share) / count + 0.25 / count**2) / (1 + 1 / count)
    return center - half, center + half


def draw_run(metrics_file: Path, path: Path) -> None:
    """Four panels of one run, from its ``metrics.csv``: success or return, unique states, bonus, where time went."""
    metrics = read_metrics(metrics_file)
    steps = metrics["step"]
    with sheet(path, 5.4, width=9.5) as figure:
        (top_left, top_right), (bottom_left, bottom_right) = figure.subplots(2, 2)
        succeeds = bool(np.isfinite(metrics["success_rate"]).any())
        shown, label = ("success_rate", "success") if succeeds else ("return_mean", "return")
        top_left.plot(steps, metrics[shown], color=PANELS["success"], label="training")
        if (evaluated := metrics.get(f"evaluation/greedy_{label}")) is not None:
            top_left.plot(steps, evaluated, "o", color=PANELS["success"], markersize=3, label="evaluation, greedy")
            top_left.legend(fontsize=8)
        top_left.set(title=f"{label} of the last 100 episodes", ylim=(-0.03, 1.03) if succeeds else None)
        top_right.plot(steps, metrics["unique_states"], color=PANELS["unique_states"])
        top_right.set(title="unique states", ylim=(0, None))
        mean, deviation = metrics["bonus_mean"], metrics["bonus_deviation"]
        color = PANELS["bonus"]
        bottom_left.plot(steps, mean, color=color)
        bottom_left.fill_between(steps, np.maximum(mean - deviation, 0), mean + deviation, color=color, alpha=BAND)
        bottom_left.set(title="bonus, mean and deviation of a rollout")
        if (mean > 0).all():
            bottom_left.set_yscale("log")
        parts = {
            name.removeprefix("seconds/"): float(v.sum()) for name, v in metrics.items() if name.startswith("seconds/")
        }
        total = sum(parts.values()) or 1.0
        names = sorted(parts, key=lambda name: parts[name])
        bottom_right.barh(names, [100 * parts[name] / total for name in names], color=PANELS["time"])
        bottom_right.set(title=f"where {total:,.0f} s went", xlabel="percent")
        for axes in (top_left, top_right, bottom_left):
            axes.set(xlabel="steps", xlim=(0, None))
            axes.xaxis.set_major_formatter(ticker.EngFormatter(sep=""))
