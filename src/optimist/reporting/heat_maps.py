"""Where a run has been and what the bonus was there, over the map of a grid, from its first part to its last."""

from pathlib import Path

import numpy as np
from matplotlib.colors import LogNorm

from optimist.reporting.style import sheet

MOST_COLUMNS = 6
"""Moments that are shown: the first, the last, and some between."""


def draw_heat_maps(visits: np.ndarray, bonuses: np.ndarray, period: int, path: Path, *, title: str) -> None:
    """Writes the maps: above, how often each place was reached by then; below, the mean bonus there at that time.

    Places never reached are white. Shapes: visits, bonuses (parts, rows, columns), of ``period`` steps each.
    """
    if not visits.any():
        raise ValueError("there is no visit to draw: the environment has no map, or nothing was played")
    visits, bonuses = _cropped(visits, bonuses)
    until = np.cumsum(visits, axis=0)
    chosen = np.unique(np.linspace(0, len(visits) - 1, min(MOST_COLUMNS, len(visits))).round().astype(int))
    height = 2.1 * visits.shape[1] / visits.shape[2]
    paid = bonuses[np.isfinite(bonuses) & (bonuses > 0)]
    rows = (
        ("visits so far", np.where(until > 0, until, np.nan), "viridis", _log_scale(until[until > 0])),
        ("mean bonus then", np.where(bonuses > 0, bonuses, np.nan), "magma", _log_scale(paid)),
    )
    with sheet(path, 2.1 * len(chosen) + 1.2, 2 * max(height, 1.2) + 1.0) as figure:
        axes = figure.subplots(2, len(chosen), squeeze=False, sharex=True, sharey=True)
        for line, (label, values, colours, scale) in zip(axes, rows, strict=True):
            for ax, part in zip(line, chosen, strict=True):
                image = ax.imshow(values[part], cmap=colours, norm=scale, interpolation="nearest")
                ax.set(xticks=[], yticks=[])
            line[0].set_ylabel(label)
            figure.colorbar(image, ax=list(line), shrink=0.8, pad=0.01)
        for ax, part in zip(axes[0], chosen, strict=True):
            ax.set_title(f"to step {(part + 1) * period:,}")
        figure.suptitle(title)


def _log_scale(values: np.ndarray) -> LogNorm:
    low, high = (1.0, 1.0) if not values.size else (float(values.min()), float(values.max()))
    return LogNorm(low, max(high, 1.001 * low))


def _cropped(visits: np.ndarray, bonuses: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Both maps without the rows and columns around them that nothing ever reached."""
    seen = np.asarray(visits.sum(axis=0) > 0)
    rows, columns = np.flatnonzero(seen.any(axis=1)), np.flatnonzero(seen.any(axis=0))
    window = (slice(None), slice(rows[0], rows[-1] + 1), slice(columns[0], columns[-1] + 1))
    return visits[window], bonuses[window]
