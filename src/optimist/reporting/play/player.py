"""A page to scrub through a game beside the curve of its bonus: one file, opened from disk, no network."""

import base64
import io
import json
import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import plotly.offline
from PIL import Image

from optimist.files import write_text
from optimist.reporting.play.drop import WINDOW, Drop
from optimist.reporting.play.frames import Pictures
from optimist.reporting.play.moments import peaks
from optimist.reporting.play.video import FRAMES_PER_SECOND
from optimist.reporting.style import look_of
from optimist.training.playback import Game

TEMPLATE = Path(__file__).with_name("player.html")
MOST_PEAKS = 12
COLUMNS = 10
PER_SHEET = COLUMNS * COLUMNS


def write_player(
    game: Game, pictures: Pictures, drop: Drop | None, *, title: str, subtitle: str, path: Path, bonus: str = "acb"
) -> None:
    """The page, about 5 MB of which is Plotly. Texts are shown as they are, whatever they hold.

    Without a ``drop`` nothing is said about the ends of episodes.
    """
    data = {
        "title": title,
        "subtitle": subtitle,
        "shows": game.shows,
        "curve": rounded(game.curve),
        "rewards": rounded(game.rewards),
        "actions": [action_text(action) for action in game.actions],
        "ends": game.ends.tolist(),
        "peaks": peaks(game.curve, most=MOST_PEAKS).tolist(),
        "judgement": "" if drop is None else drop.judgement,
        "drop": "" if drop is None else f"{str(drop)[0].upper()}{str(drop)[1:]}.",
        "how": f"Means of the last {WINDOW} steps of an episode and the first {WINDOW} of the next, in every game "
        "played; ± the standard error over ends.",
        "frames_per_second": FRAMES_PER_SECOND,
        "sheets": [png_address(sheet) for sheet in sprite_sheets(pictures)],
        "per_sheet": PER_SHEET,
        "columns": COLUMNS,
        "height": pictures.shape[1],
        "width": pictures.shape[2],
    }
    look = look_of(bonus)
    color = f":root {{ --curve: {look.light}; }}"
    color += f" @media (prefers-color-scheme: dark) {{ :root {{ --curve: {look.dark}; }} }}"
    parts = {
        "/*{{color}}*/": color,
        "/*{{plotly}}*/": plotly.offline.get_plotlyjs(),
        "{{data}}": as_json(data),
    }
    write_text(path, filled(TEMPLATE.read_text(encoding="utf-8"), parts))


def sprite_sheets(pictures: Pictures) -> Iterator[Pictures]:
    """All pictures on sheets of 10 x 10, row by row; the last sheet has as many rows as it needs."""
    height, width = pictures.shape[1:3]
    for start in range(0, len(pictures), PER_SHEET):
        some = pictures[start : start + PER_SHEET]
        rows = math.ceil(len(some) / COLUMNS)
        sheet = np.zeros((rows * COLUMNS, height, width, 3), np.uint8)
        sheet[: len(some)] = some
        grid = sheet.reshape(rows, COLUMNS, height, width, 3).transpose(0, 2, 1, 3, 4)
        yield grid.reshape(rows * height, COLUMNS * width, 3)


def png_address(picture: Pictures) -> str:
    """A ``data:`` address of the picture as a PNG, gray where it is."""
    gray = bool((picture == picture[..., :1]).all())
    file = io.BytesIO()
    Image.fromarray(picture[..., 0] if gray else picture).save(file, format="PNG", optimize=True)
    return "data:image/png;base64," + base64.b64encode(file.getvalue()).decode()


def as_json(data: Mapping[str, Any]) -> str:
    """JSON that may stand inside a script element: no text in it can end the element or open another."""
    return json.dumps(data, allow_nan=False).replace("<", "\\u003c")


def filled(template: str, parts: Mapping[str, str]) -> str:
    """The template with each mark replaced once; what is put in is never searched for marks."""
    page, rest = "", template
    for mark, text in parts.items():
        head, found, rest = rest.partition(mark)
        if not found:
            raise ValueError(f"the template of the player has no mark {mark}")
        page += head + text
    return page + rest


def rounded(values: np.ndarray) -> list[float]:
    """Numbers to six significant digits."""
    return [float(f"{value:.6g}") for value in values]


def action_text(action: np.ndarray) -> str:
    """An action as people write it: a number, or numbers to two digits."""
    return ", ".join(f"{value:.2g}" if np.ndim(action) else f"{value:g}" for value in np.atleast_1d(action))
