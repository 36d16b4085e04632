"""One look for everything that is drawn: the color, dash and marker of every learner, bonus and policy, and the sheet.

A name looks the same in every figure, in the report and in the player, on light and on dark ground. Colors are told
apart by color-blind readers too (a test simulates that), and no two known names share color, dash and marker.
Numbers that others published never have the look of a learner: they are ink-colored, dashed, with a diamond, and
hatched as bars.
"""

import re
import textwrap
import zlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from html import unescape
from pathlib import Path
from typing import Literal

import matplotlib as mpl
from matplotlib.figure import Figure
from PIL import Image

from optimist.files import write_atomically

Dash = Literal["solid", "dash", "dot", "dashdot"]
LineStyle = Literal["-", "--", ":", "-."]
LINE_STYLES: Mapping[Dash, LineStyle] = {"solid": "-", "dash": "--", "dot": ":", "dashdot": "-."}

WIDTH = 7.2
"""Inches of a sheet: wider ones have letters too small for a phone of 390 pixels."""
INK, QUIET, PAPER, GRID = "#37352f", "#6f6e69", "#ffffff", "#e6e6e3"
"""Text, small print, ground and lines of a light page."""
DARK_GROUND = {INK: "#e3e2de", QUIET: "#a3a29d", PAPER: "#191919", GRID: "#3b3b39"}
"""What they become on a dark page."""
BAND = 0.16
"""The opacity of a band around a line."""


@dataclass(frozen=True)
class Look:
    """How a name is drawn: its color on light and on dark ground, the dash of its line, and its marker."""

    light: str
    dark: str
    dash: Dash = "solid"
    marker: str = "o"

    @property
    def line(self) -> LineStyle:
        """The dash as matplotlib writes it."""
        return LINE_STYLES[self.dash]


BLUE, ORANGE, GREEN, GRAY = (
    ("#0b57b0", "#55a6fe"),
    ("#dc7548", "#ffbf8f"),
    ("#00735c", "#0b9a58"),
    ("#8c8c8c", "#9a9a9a"),
)
PLUM, OLIVE, CRIMSON = ("#742467", "#c054b4"), ("#9a9300", "#d1950c"), ("#c7365f", "#e03050")
MOSS, VIOLET, CYAN = ("#235c05", "#b8ff70"), ("#6f35fb", "#8453f0"), ("#2397bc", "#5fdcff")
"""On light ground, on dark ground."""

LOOKS: Mapping[str, Look] = {
    "acb": Look(*BLUE),
    "acb-8": Look(*CYAN, "dot", "v"),
    "acb-32": Look(*CYAN, "dash", "^"),
    "acb-512": Look(*VIOLET, "dashdot", "D"),
    "acb-penultimate": Look(*CYAN, "dash", "s"),
    "acb-streaming": Look(*CYAN, "dashdot", "o"),
    "acb-defaults": Look(*CYAN, "solid", "^"),
    "acb-argmax": Look(*CYAN, "dash", "D"),
    "rnd": Look(*ORANGE, "solid", "s"),
    "icm": Look(*PLUM, "dashdot", "^"),
    "count": Look(*GREEN, "dash", "D"),
    "episodic-count": Look(*MOSS, "dash", "v"),
    "elliptical": Look(*OLIVE, "solid", "P"),
    "e3b": Look(*CRIMSON, "solid", "X"),
    "acb*episodic-count": Look(*VIOLET, "solid", "o"),
    "acb*e3b": Look(*CYAN, "solid", "o"),
    "acb-noveld": Look(*BLUE, "dashdot", "P"),
    "rnd-noveld": Look(*ORANGE, "dashdot", "P"),
    "none": Look(*GRAY, "solid", "."),
    "random": Look(*GRAY, "dot", "."),
    # Policies of bandits: a color a family, a dash a member.
    "acb-rms": Look(*BLUE, "dash", "s"),
    "acb-lazy": Look(*BLUE, "dot", "^"),
    "acb-rerandomized": Look(*BLUE, "dashdot", "D"),
    "acb-sgd": Look(*CYAN, "solid", "v"),
    "acb-decay": Look(*BLUE, "dash", "P"),
    "acb-sgd-decay": Look(*CYAN, "dash", "P"),
    "linucb-decay": Look(*ORANGE, "dash", "P"),
    "lints-decay": Look(*PLUM, "dash", "P"),
    "linucb": Look(*ORANGE, "solid", "o"),
    "linucb-theory": Look(*ORANGE, "dash", "s"),
    "diagonal-linucb": Look(*ORANGE, "dot", "^"),
    "lints": Look(*PLUM, "solid", "o"),
    "linphe": Look(*PLUM, "dash", "s"),
    "ensemble-sampling": Look(*PLUM, "dot", "^"),
    "greedy": Look(*GREEN, "solid", "o"),
    "epsilon-greedy": Look(*GREEN, "dash", "s"),
}
"""The looks of the names that we know."""
PUBLISHED = Look(INK, DARK_GROUND[INK], "dash", "D")
"""Of numbers that others published, whoever they are of."""
PUBLISHED_HATCH = "////"

RESERVE = tuple(
    Look(light, dark, dash, marker)
    for dash, marker in (("dash", "p"), ("dot", "h"), ("solid", "*"))
    for light, dark in (
        ("#7a4a21", "#c99a6b"), ("#008f9c", "#3fd0dc"), ("#a3528f", "#e39ad2"), ("#5a5fa8", "#a6abf0"),
        ("#6b7a1e", "#c3d46a"), ("#a8322a", "#f08b80"), ("#3f6b78", "#8fc1d0"),
    )
)  # fmt: skip
"""For names that we do not know: a user's own bonus, or a variant of ours."""
PARTS = tuple(color for color, _ in (BLUE, GREEN, GRAY, ORANGE, VIOLET, OLIVE, PLUM, CYAN, CRIMSON, MOSS))
"""Parts of a whole, such as where time went."""
PANELS = {"success": BLUE[0], "unique_states": GREEN[0], "bonus": ORANGE[0], "time": PLUM[0]}


def look_of(name: str) -> Look:
    """The look of a name: its own, or one of the reserve, always the same for the same name."""
    return LOOKS.get(name) or RESERVE[zlib.crc32(name.encode()) % len(RESERVE)]


def looks_of(names: Iterable[str]) -> dict[str, Look]:
    """The looks of names that are drawn together: unknown ones that would look alike move on in the reserve.

    The answer does not depend on the order of the names.
    """
    result: dict[str, Look] = {}
    names = list(dict.fromkeys(names))
    for name in sorted(names):
        look = look_of(name)
        if name not in LOOKS:
            start = RESERVE.index(look)
            free = [other for other in RESERVE[start:] + RESERVE[:start] if other not in result.values()]
            taken = {other.light for other in result.values()}
            look = min(free, key=lambda other: other.light in taken, default=look)  # the first of a color of its own
        result[name] = look
    return {name: result[name] for name in names}


def on_dark() -> dict[str, str]:
    """The color on dark ground of every color on light ground."""
    pairs = {look.light: look.dark for look in (*LOOKS.values(), *RESERVE)}
    return DARK_GROUND | pairs | {band(light): band(dark) for light, dark in pairs.items()}


def band(color: str) -> str:
    """The color of a band around a line of ``color``, in CSS."""
    return f"rgba({','.join(str(int(color[k : k + 2], 16)) for k in (1, 3, 5))},{BAND})"


STYLE = {
    "axes.edgecolor": INK,
    "axes.grid": True,
    "axes.labelcolor": INK,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlesize": 11,
    "axes.titlelocation": "left",
    "figure.constrained_layout.h_pad": 0.07,
    "figure.constrained_layout.use": True,
    "figure.constrained_layout.w_pad": 0.08,
    "font.size": 10,
    "grid.alpha": 0.25,
    "hatch.linewidth": 0.6,
    "legend.fontsize": 9,
    "legend.frameon": False,
    "lines.linewidth": 1.8,
    "pdf.fonttype": 42,
    "svg.hashsalt": "optimist",
    "text.color": INK,
    "xtick.color": INK,
    "ytick.color": INK,
}
NIGHT, NIGHT_INK, NIGHT_LINE = "#10151b", "#dbe2ea", "#39424e"
"""The ground of films, whose pictures are dark, with its text and its lines."""
AT_NIGHT = {
    "axes.edgecolor": NIGHT_LINE,
    "axes.facecolor": NIGHT,
    "axes.labelcolor": NIGHT_INK,
    "figure.facecolor": NIGHT,
    "text.color": NIGHT_INK,
    "xtick.color": NIGHT_INK,
    "ytick.color": NIGHT_INK,
}
FORMATS: Mapping[str, Mapping[str, str]] = {
    ".png": {"Software": ""},
    ".pdf": {"CreationDate": ""},
    ".svg": {"Date": ""},
}
"""The kinds of files, each with an entry that would make two drawings of the same rows differ."""
CHART, FILM = "chart", "film"
"""What a sheet is: lines and numbers on light ground, or pictures on dark ground. It is the title of the file."""


@contextmanager
def sheet(path: Path, height: float, *, width: float = WIDTH, caption: str = "", kind: str = CHART) -> Iterator[Figure]:
    """A figure in the house style, of the given size in inches, written to ``path`` (.png, .pdf or .svg) at the end.

    The caption stands below, and in the file as its description. The same rows give the same file.
    """
    if path.suffix not in FORMATS:
        raise ValueError(f"a figure is written as {', '.join(FORMATS)}, got {path.name}: choose another ending")
    with mpl.rc_context(STYLE | (AT_NIGHT if kind == FILM else {})):
        figure = Figure(figsize=(width, height))
        yield figure
        if caption:
            letters = int(15.5 * width)
            small = {"fontsize": 8.5, "x": 0.012, "ha": "left", "color": NIGHT_INK if kind == FILM else QUIET}
            figure.supxlabel("\n".join(textwrap.wrap(caption.replace("$", r"\$"), letters)), **small)
        told = dict.fromkeys(FORMATS[path.suffix]) | _told(path.suffix, kind, caption)
        write_atomically(path, lambda file: figure.savefig(file, format=path.suffix[1:], dpi=150, metadata=told))


def told_by(path: Path) -> tuple[str, str]:
    """What a picture (.png or .svg) says about itself: its kind and its caption; empty if not made by `sheet`."""
    if path.suffix == ".svg":
        text = path.read_text(encoding="utf-8", errors="replace")
        found = (re.search(rf"<dc:{name}>(.*?)</dc:{name}>", text, re.DOTALL) for name in ("title", "description"))
        kind, caption = (unescape(match[1]) if match else "" for match in found)
    else:
        with Image.open(path) as picture:
            kind, caption = (str(picture.info.get(name, "")) for name in ("Title", "Description"))
    return (kind, caption) if kind in (CHART, FILM) else ("", "")


def _told(suffix: str, kind: str, caption: str) -> dict[str, str]:
    """What a file says about itself, in the words of its format."""
    return {"Title": kind} | ({"Subject" if suffix == ".pdf" else "Description": caption} if caption else {})
