"""The film strip of the paper's Figure 1: frames at the peaks and the drops of the bonus, over its curve."""

from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import ConnectionPatch

from optimist.reporting.frames import Pictures
from optimist.reporting.peaks import drops, peaks
from optimist.reporting.style import COLOURS, sheet
from optimist.training.replay import Game

FRAMES = 8
"""Half of them peaks, half drops."""
CURVE, PEAK, DROP, END = COLOURS[0], COLOURS[1], COLOURS[4], COLOURS[7]


def draw_film_strip(game: Game, pictures: Pictures, title: str, path: Path) -> None:
    """The frames of the most prominent peaks and drops in the order of time, each tied to its place on the curve.

    Dotted lines are ends of episodes. Paper: Figure 1.
    """
    moments = sorted(
        [(int(t), PEAK) for t in peaks(game.bonuses, most=FRAMES // 2)]
        + [(int(t), DROP) for t in drops(game.bonuses, most=FRAMES // 2)]
    )
    with sheet(path, 11.5, 4.4) as figure:
        figure.suptitle(title.replace("$", r"\$"), fontsize=11)
        grid = figure.add_gridspec(2, max(1, len(moments)), height_ratios=[1, 1.15])
        curve = figure.add_subplot(grid[1, :])
        draw_curve(curve, game)
        for k, (t, colour) in enumerate(moments):
            frame = figure.add_subplot(grid[0, k])
            draw_frame(frame, pictures[t], f"step {t:,}", colour)
            tie(figure, frame, curve, (t, float(game.bonuses[t])), colour)


def draw_curve(axes: Axes, game: Game) -> None:
    """The bonus of every step, with a dotted line after every end of an episode."""
    for k, t in enumerate(game.ends):
        axes.axvline(t + 0.5, color=END, linestyle=":", linewidth=1.1, label="" if k else "end of an episode")
    axes.plot(np.arange(len(game)), game.bonuses, color=CURVE, linewidth=1.1)
    axes.plot([], [], "o", color=PEAK, markersize=5, label="peak")
    axes.plot([], [], "o", color=DROP, markersize=5, label="drop")
    axes.set(xlabel="step", ylabel="bonus", xlim=(0, max(1, len(game) - 1)))
    axes.legend(loc="upper left", bbox_to_anchor=(0, -0.16), ncols=3, fontsize=8, borderaxespad=0)


def draw_frame(axes: Axes, picture: Pictures, title: str, colour: str) -> None:
    """One frame in a border of its colour."""
    axes.imshow(picture, interpolation="nearest")
    axes.set_title(title, fontsize=8.5, color=colour)
    axes.set(xticks=[], yticks=[])
    for spine in axes.spines.values():
        spine.set(visible=True, color=colour, linewidth=1.8)


def tie(figure: Figure, frame: Axes, curve: Axes, point: tuple[float, float], colour: str) -> None:
    """A line from the middle of a frame's lower border to its point on the curve."""
    curve.plot(*point, "o", color=colour, markersize=5, zorder=5)
    line = ConnectionPatch(
        (0.5, 0), point, frame.transAxes, curve.transData, color=colour, linewidth=0.9, alpha=0.6, zorder=4
    )
    line.set_in_layout(False)
    figure.add_artist(line)
