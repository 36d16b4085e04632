"""The figure of an ablation: a bar for each choice, its interval, and a point for each end of the range."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from optimist.reporting.style import COLOURS, sheet
from optimist.reporting.tables import Row


def draw_bars(rows: Sequence[Row], measure: str, reference: str, path: Path) -> None:
    """A bar of the mean for each learner, the best on top, with its interval; ``reference`` is dark and a line.

    Rows: learner, seeds, mean, low, high, lowest, highest. An interval that a single seed lacks is not drawn.
    """
    ordered = sorted(rows, key=lambda row: -row["mean"])
    with sheet(path, 7.5, 1.2 + 0.3 * len(ordered)) as figure:
        axes = figure.subplots()
        for place, row in enumerate(ordered):
            axes.barh(place, row["mean"], color=COLOURS[0] if row["learner"] == reference else COLOURS[5], alpha=0.75)
            axes.plot([row["lowest"], row["highest"]], [place, place], ".", color="black", markersize=4)
            if row["seeds"] > 1 and np.isfinite(row["high"]):
                axes.plot([max(0.0, row["low"]), row["high"]], [place, place], color="black", linewidth=1)
            if row["learner"] == reference:
                axes.axvline(row["mean"], color=COLOURS[0], linewidth=0.8, linestyle=":")
        axes.set_yticks(range(len(ordered)), [row["learner"] for row in ordered])
        axes.set_ylim(len(ordered) - 0.4, -0.6)
        axes.set_xlim(0, 1.12 * max(row["highest"] for row in ordered))
        axes.set_xlabel(f"{measure}: mean, 95 % interval, lowest and highest seed")
