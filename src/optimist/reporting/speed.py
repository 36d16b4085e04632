"""Figures of speed: the cost of a round against the size of the problem."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from optimist.reporting.style import COLOURS, sheet
from optimist.reporting.tables import Row


def draw_costs(rows: Sequence[Row], path: Path) -> None:
    """Milliseconds a round against d and against M, with a line of slope 1 through the last point."""
    with sheet(path, 8.5, 3.6) as figure:
        for ax, axis in zip(figure.subplots(1, 2), ("d", "M"), strict=True):
            line = [row for row in rows if row["axis"] == axis]
            sizes = np.array([row[axis] for row in line], float)
            cost = np.array([row["milliseconds"] for row in line], float)
            ax.loglog(sizes, cost, "o-", color=COLOURS[0], label="ACB, solver sgd")
            ax.loglog(sizes, cost[-1] * sizes / sizes[-1], "--", color="black", linewidth=0.9, label="linear")
            other = "M" if axis == "d" else "d"
            ax.set(xlabel=axis, ylabel="milliseconds a round", title=f"{other} = {line[0][other]:,}, 10 actions")
            ax.legend()
