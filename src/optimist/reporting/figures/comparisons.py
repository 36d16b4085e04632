"""Figures that set learners side by side: the choices of an ablation, and all games together."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes

from optimist.reporting.figures.learning_curves import seeds_of
from optimist.reporting.statistics import bootstrap_interval, mean
from optimist.reporting.style import BAND, GRAY, INK, LOOKS, QUIET, looks_of, sheet
from optimist.reporting.tables import Row
from optimist.seeding import split


def draw_choices(
    runs: Sequence[Row], column: str, label: str, path: Path, *, reference: str, most: float | None = None
) -> None:
    """The mean of each learner, the best on top, with its interval and a ring for every seed.

    Rows: learner, and ``column`` of one run. The interval is a percentile bootstrap over seeds, so that it lies within
    what was measured. ``most`` is the largest possible value, drawn as a wall; the ``reference`` is colored and a line.
    """
    values = {
        learner: np.array([row[column] for row in runs if row["learner"] == learner], np.float64)
        for learner in dict.fromkeys(row["learner"] for row in runs)
    }
    ordered = sorted(values, key=lambda learner: -float(values[learner].mean()))
    caption = (
        f"{label[0].upper()}{label[1:]}, {seeds_of(map(len, values.values()))}. Filled: mean; rings: seeds; bars: 95 % "
        "percentile bootstrap of the mean, too narrow for so few seeds, but never beyond what was measured."
    )
    with sheet(path, 1.3 + 0.3 * len(ordered), caption=caption) as figure:
        axes = figure.subplots()
        for place, learner in enumerate(ordered):
            mine, is_reference = values[learner], learner == reference
            color = LOOKS["acb"].light if is_reference else GRAY[0]
            if len(mine) > 1:
                rng = np.random.default_rng(split(0, "choices"))
                low, high = map(float, bootstrap_interval(mean, [mine], rng=rng))
                axes.plot([low, high], [place, place], color=color, linewidth=4, alpha=0.45, solid_capstyle="butt")
            axes.plot(
                mine, [place] * len(mine), "o", markersize=5, color="none", markeredgecolor=INK, markeredgewidth=0.8
            )
            axes.plot(mine.mean(), place, "o", color=color, markersize=7)
            if is_reference:
                axes.axvline(float(mine.mean()), color=color, linewidth=0.9, linestyle=":")
        if most is not None:
            axes.axvline(most, color=INK, linewidth=1.2)
            axes.annotate(
                f"all {most:,.0f}",
                (most, 1.0),
                (-4, 2),
                ("data", "axes fraction"),
                "offset points",
                ha="right",
                fontsize=9,
            )
        axes.set_yticks(range(len(ordered)), ordered)
        axes.set_ylim(len(ordered) - 0.4, -0.6)
        axes.set_xlabel(label)


def draw_aggregates(rows: Sequence[Row], profiles: Sequence[Row], unit: str, reference: str, path: Path) -> None:
    """All games together, with 95 % intervals: interquartile means, how likely ``reference`` is better, the profiles.

    Rows: learner, games, runs, iqm, improvement, each of the latter two with _low and _high.
    Profiles: learner, score, share, low, high.
    """
    looks = looks_of(row["learner"] for row in rows)
    games, runs = max(row["games"] for row in rows), max(row["runs"] for row in rows)
    caption = (
        f"{games:g} game{'s' * (games != 1)}, {runs:g} runs of each learner; {unit}. Intervals: 95 % stratified "
        "bootstrap over runs (rliable). A probability of 0.5 is no difference. Profile: the share of runs above τ."
    )
    others = [row for row in rows if row["learner"] != reference]
    with sheet(path, 3.9 + 0.32 * max(3, len(rows)), caption=caption) as figure:
        panels = figure.subplot_mosaic(
            [["iqm", "chance"], ["profile", "profile"]], height_ratios=[0.32 * max(3, len(rows)), 2]
        )
        draw_intervals(panels["iqm"], rows, "iqm")
        panels["iqm"].set(title="interquartile mean")
        panels["iqm"].locator_params(axis="x", nbins=4)  # small numbers are long: more of them would touch
        draw_intervals(panels["chance"], others, "improvement")
        panels["chance"].axvline(0.5, color=QUIET, linewidth=0.9, linestyle=":")
        panels["chance"].set(title=f"P({reference} improves on ...)", xlim=(-0.03, 1.03))
        right = panels["profile"]
        for learner, look in looks.items():
            line = [row for row in profiles if row["learner"] == learner]
            scores = [row["score"] for row in line]
            low, high = [row["low"] for row in line], [row["high"] for row in line]
            right.step(scores, [row["share"] for row in line], look.line, where="post", color=look.light, label=learner)
            right.fill_between(scores, low, high, step="post", color=look.light, alpha=BAND, linewidth=0)
        right.set(title="performance profile", xlabel="score τ", ylabel="share of runs above τ", ylim=(-0.03, 1.03))
        right.legend(loc="center left", bbox_to_anchor=(1.0, 0.5))


def draw_intervals(axes: Axes, rows: Sequence[Row], column: str) -> None:
    """A point and its interval for each row, from top to bottom."""
    looks = looks_of(row["learner"] for row in rows)
    for place, row in enumerate(rows):
        look = looks[row["learner"]]
        ends = [row[f"{column}_low"], row[f"{column}_high"]]
        axes.plot(ends, [place, place], color=look.light, linewidth=5, alpha=0.4, solid_capstyle="butt")
        axes.plot(row[column], place, look.marker, color=look.light, markersize=7)
    axes.set_yticks(range(len(rows)), [row["learner"] for row in rows])
    axes.set_ylim(len(rows) - 0.4, -0.6)
