"""The film strip of the paper's Figure 1: frames at the peaks and the drops of the bonus, around its curve."""

from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import ConnectionPatch

from optimist.reporting.play.frames import Pictures
from optimist.reporting.play.moments import Kind, Moment, moments
from optimist.reporting.style import FILM, look_of, sheet
from optimist.training.playback import Game

FRAMES = 8
"""Half of them above the curve, half below."""
COLORS: dict[Kind, str] = {"peak": "#ffc44d", "drop": "#6fd3c0", "between": "#98a4b1"}
END = "#ff7b72"
NAMES: dict[Kind, str] = {"peak": "peak", "drop": "drop", "between": "another moment"}


def draw_film_strip(game: Game, pictures: Pictures, title: str, path: Path, *, bonus: str = "acb") -> None:
    """Frames in the order of time, each tied to its place on the curve, which has the color of the bonus.

    Dotted lines are ends of episodes. Paper: Figure 1.
    """
    chosen = moments(game.curve, pictures, most=FRAMES)
    above, below = split_rows(chosen)
    ends = len(game.ends)
    caption = (
        f"{title}. The {game.shows} of every step of one game, {len(game):,} steps with {ends} end{'s' * (ends != 1)} "
        "of episodes (dotted), and what was seen at its most prominent peaks and drops, no picture twice."
    )
    with sheet(path, 6.6 if below else 4.6, caption=caption, kind=FILM) as figure:
        columns = max(1, len(above), len(below))
        heights = [1.0, 1.0, 1.0] if below else [1.0, 1.0]
        grid = figure.add_gridspec(len(heights), columns, height_ratios=heights)
        curve = figure.add_subplot(grid[1, :])
        draw_curve(curve, game, look_of(bonus).dark)
        for line, row in ((above, 0), (below, 2)):
            for k, moment in enumerate(line):
                frame = figure.add_subplot(grid[row, k])
                color = COLORS[moment.kind]
                draw_frame(frame, pictures[moment.step], f"step {moment.step:,}", color)
                tie(figure, frame, curve, (moment.step, float(game.curve[moment.step])), color, is_above=row == 0)
        for kind in dict.fromkeys(moment.kind for moment in chosen):
            curve.plot([], [], "o", color=COLORS[kind], markersize=5, label=NAMES[kind])
        curve.legend(loc="lower right", bbox_to_anchor=(1, 1), ncols=4, fontsize=8.5, borderaxespad=0)


def split_rows(chosen: list[Moment]) -> tuple[list[Moment], list[Moment]]:
    """The frames above the curve and those below it: every second one, so that lines to the curve rarely cross."""
    return (chosen, []) if len(chosen) <= FRAMES // 2 else (chosen[::2], chosen[1::2])


def draw_curve(axes: Axes, game: Game, color: str) -> None:
    """The bonus of every step, with a dotted line after every end of an episode."""
    for k, t in enumerate(game.ends):
        axes.axvline(t + 0.5, color=END, linestyle=":", linewidth=1.0, label="" if k else "end of an episode")
    axes.plot(np.arange(len(game)), game.curve, color=color, linewidth=1.2)
    axes.set(xlabel="step", ylabel=game.shows, xlim=(0, max(1, len(game) - 1)))
    axes.grid(alpha=0.12)


def draw_frame(axes: Axes, picture: Pictures, title: str, color: str) -> None:
    """One frame in a border of its color."""
    axes.imshow(picture, interpolation="nearest")
    axes.set_title(title, fontsize=9, color=color, loc="center")
    axes.set(xticks=[], yticks=[])
    axes.grid(visible=False)
    for spine in axes.spines.values():
        spine.set(visible=True, color=color, linewidth=1.8)


def tie(figure: Figure, frame: Axes, curve: Axes, point: tuple[float, float], color: str, *, is_above: bool) -> None:
    """A line from the middle of a frame's border to its point on the curve."""
    curve.plot(*point, "o", color=color, markersize=5, zorder=5)
    border = (0.5, 0.0) if is_above else (0.5, 1.0)
    line = ConnectionPatch(border, point, frame.transAxes, curve.transData, color=color, linewidth=0.9, alpha=0.55)
    line.set_in_layout(False)
    figure.add_artist(line)
