"""Names and numbers that never lie on each other: the legend, labels at the right border of a panel, ticks."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib import ticker
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.legend import Legend
from scipy.optimize import isotonic_regression

from optimist.reporting.style import QUIET

SIZE = 9.0
"""Points of a label's letters."""
SPACING = 1.25
"""Lines of labels are this many letters' heights apart."""

MOST_TICKS = 6
"""Parts of an axis between ticks, and ticks of a logarithmic one, at most: panels stand two in a row."""
MOST_COLUMNS = 5
"""Of a legend."""
DIVISIONS = ((1, 1.5, 2, 3, 5, 7), (1, 2, 5), (1, 3), (1,))
"""Where a decade may have ticks, the finest first."""


class FewLogTicks(ticker.Locator):
    """Ticks of a logarithmic axis: the finest of `DIVISIONS` that has at most `MOST_TICKS` in view.

    Matplotlib's own locator falls back to even steps where less than a decade is in view, and their labels overlap.
    """

    def __call__(self) -> list[float]:
        """The ticks of the axis as it is now."""
        return self.tick_values(*self.axis.get_view_interval())  # pyrefly: ignore

    def tick_values(self, vmin: float, vmax: float) -> list[float]:
        """The ticks from ``vmin`` to ``vmax``, both above 0; of the coarsest division also more."""
        decades = [10.0**k for k in range(math.floor(math.log10(vmin)), math.ceil(math.log10(vmax)) + 1)]
        divided = [[d * m for d in decades for m in division if vmin <= d * m <= vmax] for division in DIVISIONS]
        return next((ticks for ticks in divided if len(ticks) <= MOST_TICKS), divided[-1])


def legend_above(figure: Figure, handles: Sequence[Artist]) -> Legend:
    """The legend above all panels, in as many columns as the sheet is wide enough for."""
    for columns in range(min(MOST_COLUMNS, len(handles)), 0, -1):
        legend = figure.legend(handles=handles, loc="outside upper left", ncols=columns)
        if columns == 1 or legend.get_window_extent().width <= figure.bbox.width:
            return legend
        legend.remove()
    raise ValueError("a legend needs at least one handle")


@dataclass(frozen=True)
class Label:
    """A text for the point ``(x, y)`` of a panel, in the color of what stands there."""

    x: float
    y: float
    text: str
    color: str = QUIET


def label_ends(axes: Axes, labels: Sequence[Label], *, size: float = SIZE) -> None:
    """Each text at the right border, at the height of its point, moved up or down where it would meet another.

    The limits and the scales of the panel must be set before; a thin line ties a text to its point.
    """
    if not labels:
        return
    figure = axes.get_figure(root=True)
    if figure is None:
        raise ValueError("the panel must be on a figure")
    figure.draw_without_rendering()  # the layout decides how high the panel is
    points = axes.transAxes.inverted().transform(axes.transData.transform([(one.x, one.y) for one in labels]))
    line = SPACING * size / 72 * figure.dpi / axes.bbox.height
    heights = spread(np.clip(points[:, 1], 0.0, 1.0), line)
    for label, (x, y), height in zip(labels, points, heights, strict=True):
        axes.annotate(
            label.text,
            (min(x, 1.0), y),
            (1.03, height),
            "axes fraction",
            "axes fraction",
            color=label.color,
            fontsize=size,
            va="center",
            arrowprops={"arrowstyle": "-", "color": label.color, "linewidth": 0.6, "alpha": 0.6, "shrinkB": 1},
            annotation_clip=False,
        )


def spread(heights: np.ndarray, gap: float) -> np.ndarray:
    """The heights in the same order, at least ``gap`` apart, moved by the least sum of squares. Shapes: (n,)."""
    order = np.argsort(heights, kind="stable")
    steps = gap * np.arange(len(heights))
    moved = np.empty(len(heights))
    moved[order] = isotonic_regression(heights[order] - steps).x + steps
    return moved
