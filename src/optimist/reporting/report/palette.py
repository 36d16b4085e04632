"""Colours of the page: those of all our figures, and what becomes of them on a dark page."""

from optimist.reporting.style import COLOURS

INK, PAPER, GRID = "#37352f", "#ffffff", "#e6e6e3"
"""Text, ground and lines on a light page."""
PARTS = ("#0b6e99", "#0f7b6c", "#9b9a97", "#d9730d", "#6940a5", "#dfab01", "#ad1a72")
"""Parts of a whole, such as where time went."""
BAND_OPACITY = 0.18
LIGHTER = 0.38
"""How far a colour moves towards white on a dark page."""


def band(colour: str) -> str:
    """The colour of a band under a line of ``colour``."""
    red, green, blue = _channels(colour)
    return f"rgba({red},{green},{blue},{BAND_OPACITY})"


def on_dark(colour: str) -> str:
    """A colour like ``colour`` that can be read on a dark page."""
    return "#" + "".join(f"{round(part + LIGHTER * (255 - part)):02x}" for part in _channels(colour))


def _channels(colour: str) -> tuple[int, ...]:
    return tuple(int(colour[k : k + 2], 16) for k in (1, 3, 5))


DARK = (
    {INK: "#e3e2de", PAPER: "#202020", GRID: "#3b3b39"}
    | {colour: on_dark(colour) for colour in COLOURS}
    | {band(colour): band(on_dark(colour)) for colour in COLOURS}
)
"""What the page's script puts in the place of a colour where a dark page is preferred."""
