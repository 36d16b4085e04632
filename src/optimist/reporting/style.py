"""One look for all figures."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import matplotlib as mpl
from cycler import cycler
from matplotlib.figure import Figure

COLOURS = ("#0b6e99", "#d9730d", "#0f7b6c", "#ad1a72", "#6940a5", "#9b9a97", "#dfab01", "#e03e3e", "#64473a", "#337ea9")
"""Told apart in print and by colour-blind readers, in this order."""

STYLE = {
    "axes.grid": True,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlesize": 11,
    "axes.prop_cycle": cycler(color=COLOURS),
    "figure.constrained_layout.use": True,
    "font.size": 9.5,
    "grid.alpha": 0.25,
    "legend.frameon": False,
    "lines.linewidth": 1.7,
    "svg.hashsalt": "optimist",
}


@contextmanager
def sheet(path: Path, width: float, height: float) -> Iterator[Figure]:
    """A figure in the house style, of the given size in inches, written to ``path`` at the end."""
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(width, height))
        yield figure
        figure.savefig(path, dpi=150, metadata={"Software": None})
