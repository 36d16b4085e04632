"""A video of a game with the curve of its bonus running under it."""

from collections.abc import Iterator
from pathlib import Path

import imageio_ffmpeg
import matplotlib as mpl
import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from numpy.typing import NDArray

from optimist.files import require_replaceable
from optimist.reporting.play.frames import Pictures, color, enlarged
from optimist.reporting.style import AT_NIGHT, NIGHT, NIGHT_LINE, STYLE
from optimist.training.playback import Game

WIDTH, GAME_HEIGHT, CURVE_HEIGHT = 640, 444, 208
TOP, BOTTOM = 10, 44
"""Margins of the curve in pixels."""
FRAMES_PER_SECOND = 15
"""The speed of an Atari game whose agent acts on every fourth of 60 frames."""
DONE, END, CURSOR = "#ffc44d", "#ff6b6b", "#ffffff"
DPI = 100


def write_video(game: Game, pictures: Pictures, path: Path) -> None:
    """An MP4 (H.264) of ``pictures``, one frame per step, without blur; the curve is bright as far as it came."""
    writer = imageio_ffmpeg.write_frames(
        str(require_replaceable(path)),  # ffmpeg writes it, and would write to a device too
        (WIDTH, GAME_HEIGHT + CURVE_HEIGHT),
        fps=FRAMES_PER_SECOND,
        codec="libx264",
        quality=None,
        macro_block_size=2,
        output_params=["-preset", "veryfast", "-crf", "21", "-tune", "animation", "-movflags", "+faststart"],
        ffmpeg_log_level="error",
    )
    writer.send(None)
    try:
        for frame in video_frames(game, pictures):
            writer.send(np.ascontiguousarray(frame))
    finally:
        writer.close()


def video_frames(game: Game, pictures: Pictures) -> Iterator[Pictures]:
    """Every picture over the curve. Drawn only twice, pale and bright: a frame is the two of them cut at its step."""
    done, places = curve_picture(game, DONE)
    to_come, _ = curve_picture(game, NIGHT_LINE)
    times = max(1, min(WIDTH // pictures.shape[2], (GAME_HEIGHT - 16) // pictures.shape[1]))
    frame = np.empty((GAME_HEIGHT + CURVE_HEIGHT, WIDTH, 3), np.uint8)
    frame[:] = color(NIGHT)
    for picture, place in zip(pictures, places, strict=True):
        shown = enlarged(picture[None], times)[0]
        top, left = (GAME_HEIGHT - shown.shape[0]) // 2, (WIDTH - shown.shape[1]) // 2
        frame[top : top + shown.shape[0], left : left + shown.shape[1]] = shown
        frame[GAME_HEIGHT:, :place], frame[GAME_HEIGHT:, place:] = done[:, :place], to_come[:, place:]
        frame[GAME_HEIGHT + TOP : -BOTTOM, place - 1 : place + 1] = color(CURSOR)
        yield frame


def curve_picture(game: Game, line: str) -> tuple[Pictures, NDArray[np.int64]]:
    """The curve with a line of that color, (CURVE_HEIGHT, WIDTH, 3), and the column of every step in it, (T,)."""
    with mpl.rc_context(STYLE | AT_NIGHT | {"figure.constrained_layout.use": False}):
        figure = Figure(figsize=(WIDTH / DPI, CURVE_HEIGHT / DPI), dpi=DPI, facecolor=NIGHT)
        canvas = FigureCanvasAgg(figure)
        axes = figure.add_axes((0.1, BOTTOM / CURVE_HEIGHT, 0.87, 1 - (TOP + BOTTOM) / CURVE_HEIGHT), facecolor=NIGHT)
        for end in game.ends:
            axes.axvline(end + 0.5, color=END, linestyle=":", linewidth=1.0, alpha=0.7)
        axes.plot(np.arange(len(game)), game.curve, color=line, linewidth=1.2)
        axes.set(ylabel=game.shows, xlabel="step", xlim=(0, max(1, len(game) - 1)))
        axes.grid(alpha=0.12)
        axes.xaxis.labelpad = 1
        canvas.draw()
        ends = axes.transData.transform([(t, 0.0) for t in range(len(game))])
        return np.asarray(canvas.buffer_rgba())[..., :3].copy(), np.round(ends[:, 0]).astype(np.int64)
