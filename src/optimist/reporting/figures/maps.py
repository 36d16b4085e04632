"""Where a run has been and what the bonus was there, over the map of a grid, from its first part to its last."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from matplotlib import ticker
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.colors import ListedColormap, LogNorm
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from scipy import ndimage

from optimist.reporting.style import INK, sheet

MOMENTS = 4
"""Parts of the run that are shown: the first, the last, and some between."""
WALL, NEVER = "#b9b8b3", "#f1f0ec"
"""Cells that cannot be reached, and cells that were not."""
START, GOAL, DOOR, HOLE, BLOCKED, FREE, VOID = "SGDH#. "
MARKS = {START: ("o", "start"), GOAL: ("*", "goal"), DOOR: ("s", "door"), HOLE: ("X", "hole")}
FILLS = dict.fromkeys(MARKS, "white") | {GOAL: "#ffd23f"}


def draw_maps(
    visits: np.ndarray,
    bonuses: np.ndarray,
    period: int,
    path: Path,
    *,
    title: str,
    layout: Sequence[str] | None = None,
    steps: int | None = None,
) -> None:
    """Writes the maps: above, how often each place was reached by then; below, the mean bonus there in that part.

    ``layout`` are the rows of the map: S start, G goal, # wall or unreachable, D door, H hole, any other letter free.
    Shapes: visits, bonuses (parts, rows, columns), of ``period`` steps each; the last part may have ended at ``steps``.
    """
    if not visits.any():
        raise ValueError("there is no visit to draw: the environment has no map, or nothing was played")
    letters = letters_of(visits, layout)
    visits, bonuses = grown(visits, letters.shape), grown(bonuses, letters.shape, fill=np.nan)
    window = window_of(visits, letters)
    visits, bonuses, letters = visits[:, *window], bonuses[:, *window], letters[window]
    until = np.cumsum(visits, axis=0)
    chosen = np.unique(np.linspace(0, len(visits) - 1, min(MOMENTS, len(visits))).round().astype(int))
    paid = bonuses[np.isfinite(bonuses) & (bonuses > 0)]
    rows = (
        ("visits so far", np.where(until > 0, until, np.nan), "viridis", log_scale(until[until > 0])),
        ("mean bonus in this part", np.where(bonuses > 0, bonuses, np.nan), "magma", log_scale(paid)),
    )
    caption = (
        f"{title}: one run. Above, how often each place was reached up to that step; below, the mean bonus of reaching "
        f"it in the {period:,} steps before; both on logarithmic scales. Pale places were not reached."
    )
    panel = 6.1 / len(chosen) * visits.shape[1] / visits.shape[2]
    with sheet(path, 2 * min(max(panel, 0.9), 3.2) + 1.5, caption=caption) as figure:
        axes = figure.subplots(2, len(chosen), squeeze=False, sharex=True, sharey=True)
        for line, (label, values, colors, scale) in zip(axes, rows, strict=True):
            for ax, part in zip(line, chosen, strict=True):
                draw_ground(ax, letters)
                image = ax.imshow(values[part], cmap=colors, norm=scale, interpolation="nearest", zorder=1)
                draw_marks(ax, letters)
            bar = figure.colorbar(image, ax=list(line), pad=0.015, aspect=14)
            bar.set_label(label, fontsize=9)
            label_decades(bar.ax.yaxis, scale)
        for ax, part in zip(axes[0], chosen, strict=True):
            end = min((part + 1) * period, steps or (part + 1) * period)
            ax.set_title(f"step {end:,}", fontsize=9.5, loc="center")
        figure.legend(handles=legend_of(letters), loc="outside upper center", ncols=5, fontsize=8.5)


def draw_ground(axes: Axes, letters: np.ndarray) -> None:
    """Walls and free places, below what was reached."""
    ground = np.where(letters == BLOCKED, 1, np.where(letters == VOID, 2, 0))
    colors = ListedColormap([NEVER, WALL, "white"])
    axes.imshow(ground, cmap=colors, vmin=0, vmax=2, interpolation="nearest", zorder=0)
    axes.set(xticks=[], yticks=[])
    axes.grid(visible=False)
    for spine in axes.spines.values():
        spine.set(visible=not (letters == VOID).any(), color=WALL)


def draw_marks(axes: Axes, letters: np.ndarray) -> None:
    """Start, goal, doors and holes, seen on light and on dark places."""
    size = min(70.0, 900.0 / max(letters.shape))
    for letter, (marker, _) in MARKS.items():
        y, x = np.nonzero(letters == letter)
        axes.scatter(
            x,
            y,
            size,
            marker=marker,
            facecolor=FILLS[letter],
            edgecolor=INK,
            linewidth=0.9,
            zorder=3,
        )


def legend_of(letters: np.ndarray) -> list[Line2D | Patch]:
    """What the marks and the grounds mean, those that occur."""
    handles: list[Line2D | Patch] = [
        Line2D([], [], linestyle="", marker=marker, markersize=8, color=FILLS[letter], markeredgecolor=INK, label=name)
        for letter, (marker, name) in MARKS.items()
        if (letters == letter).any()
    ]
    if (letters == BLOCKED).any():
        handles.append(Patch(facecolor=WALL, label="wall, or out of reach"))
    return [*handles, Patch(facecolor=NEVER, edgecolor=WALL, label="not reached")]


def letters_of(visits: np.ndarray, layout: Sequence[str] | None) -> np.ndarray:
    """The map as letters, at least as large as what was visited; free everywhere without a ``layout``.

    Free places that no way from the start leads to, such as those between MiniGrid's rooms, are void.
    """
    rows, columns = visits.shape[1:]
    if layout:
        rows, columns = max(rows, len(layout)), max(columns, *map(len, layout))
    letters = np.full((rows, columns), FREE)
    for row, line in enumerate(layout or ()):
        letters[row, : len(line)] = list(line)
    if (letters == START).any():
        places, _ = ndimage.label(letters != BLOCKED)
        apart = (places != places[letters == START][0]) & (letters != BLOCKED)
        letters[apart] = VOID
    return letters


def window_of(visits: np.ndarray, letters: np.ndarray) -> tuple[slice, slice]:
    """The rows and columns of the map, without the void ones around it; of a map without letters, what was seen."""
    shown = letters != VOID if (letters != FREE).any() else np.asarray(visits.sum(axis=0) > 0)
    rows, columns = np.flatnonzero(shown.any(axis=1)), np.flatnonzero(shown.any(axis=0))
    return slice(rows[0], rows[-1] + 1), slice(columns[0], columns[-1] + 1)


def grown(values: np.ndarray, shape: tuple[int, ...], fill: float = 0) -> np.ndarray:
    """The maps with rows and columns added below and on the right until they have ``shape``."""
    wider = [(0, 0), *((0, most - has) for most, has in zip(shape, values.shape[1:], strict=True))]
    return np.pad(values, wider, constant_values=fill)


def label_decades(axis: Axis, scale: LogNorm) -> None:
    """Plain numbers at the powers of ten, and at 2 and 5 between them where there are few."""
    few = (scale.vmax or 1.0) < 100 * (scale.vmin or 1.0)
    axis.set_major_locator(ticker.LogLocator(subs=(1.0, 2.0, 5.0) if few else (1.0,)))
    axis.set_major_formatter(ticker.FuncFormatter(lambda value, _: f"{value:,g}"))
    axis.set_minor_formatter(ticker.NullFormatter())


def log_scale(values: np.ndarray) -> LogNorm:
    """A logarithmic scale of colors from the least of the values to the largest."""
    low, high = (1.0, 1.0) if not values.size else (float(values.min()), float(values.max()))
    return LogNorm(low, max(high, 1.001 * low))
