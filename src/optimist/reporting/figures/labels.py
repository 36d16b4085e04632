"""Names beside what they name: labels at the right border of a panel that never lie on each other."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes
from scipy.optimize import isotonic_regression

from optimist.reporting.style import QUIET

SIZE = 9.0
"""Points of a label's letters."""
SPACING = 1.25
"""Lines of labels are this many letters' heights apart."""


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
