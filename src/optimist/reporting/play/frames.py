"""Pictures of a game: its frames, and of other observations a drawing that tells one state from another."""

import math
from collections.abc import Sequence

import numpy as np
from matplotlib.colors import to_rgb
from numpy.typing import NDArray

from optimist.bonuses.observations import SMALLEST_IMAGE, Discrete, ObservationShape
from optimist.reporting.style import PARTS
from optimist.training.playback import Game

Pictures = NDArray[np.uint8]
"""(T, height, width, 3)."""

SIDE = 120
"""About the height of a drawing in pixels; frames keep their own."""
LARGEST = 240
"""The most pixels of a frame's side; of a larger one every second, third ... is shown."""
CELLS = 200
"""About the side of a map of cells in pixels."""
SMALLEST_AGENT = 6.5
"""Pixels from the middle of the agent to its border, at least: on a large map it is larger than its cell."""
TILE = 16
MOST_BARS = 256
UNSEEN, EMPTY, WALL, FLOOR, DOOR, KEY, BALL, BOX, GOAL, LAVA, AGENT = range(11)
"""MiniGrid's kinds of objects."""


def color(name: str) -> Pictures:
    """A color as three bytes."""
    return (255 * np.array(to_rgb(name))).round().astype(np.uint8)


NIGHT, DUSK, LIT = color("#16202b"), color("#2f6182"), color("#ffc44d")
OUT_OF_REACH, HOLE, TREASURE, LINE = color("#05070a"), color("#7a2d2d"), color("#3fb950"), color("#0b1016")
GRID_COLORS = np.stack([color(name) for name in ("#e03e3e", "#3fb950", "#4a90e2", "#9a6dd7", "#f2c94c", "#7d8590")])
"""MiniGrid's color codes: red, green, blue, purple, yellow, gray."""


def pictures(shape: ObservationShape, game: Game, layout: Sequence[str] | None = None) -> Pictures:
    """A picture of what every step led to, (T, height, width, 3).

    ``shape`` is of a whole observation, before the newest frame of a stack was taken. Images are shown as they are; a
    small grid of MiniGrid's codes as tiles, any other small grid in a color for each channel; one of n states as the
    cell of ``layout`` (or of a square) where the agent stands, with its way in this episode; numbers as bars.
    """
    seen = game.observations
    if isinstance(shape, Discrete):
        return lit_cells(shape.n, seen, game.ends, layout)
    if seen.ndim == 4 and min(seen.shape[2:]) >= SMALLEST_IMAGE:
        return frames(seen)
    if seen.ndim == 4 and seen.shape[1] == 3 and seen.dtype == np.uint8 and seen[:, 0].max() <= AGENT:
        return tiles(seen)
    if seen.ndim == 4:
        return channel_colors(seen)
    flat = seen.reshape(len(seen), -1).astype(np.float64)
    return bars(flat) if flat.shape[1] <= MOST_BARS else heat(flat)


def frames(images: np.ndarray) -> Pictures:
    """Gray or color frames; floats are spread over 0 .. 255. Shapes: (T, C, H, W) -> (T, H, W, 3)."""
    thinned = math.ceil(max(images.shape[2:]) / LARGEST)
    images = images[:, :, ::thinned, ::thinned]
    if images.dtype != np.uint8:
        low, high = images.min(), images.max()
        images = (255 * (images - low) / max(float(high - low), 1e-12)).astype(np.uint8)
    colors = images if images.shape[1] == 3 else images[:, -1:]
    return np.ascontiguousarray(np.broadcast_to(np.moveaxis(colors, 1, -1), (len(images), *images.shape[2:], 3)))


def tiles(codes: np.ndarray) -> Pictures:
    """MiniGrid's cells (kind, color, state), the column first, as tiles. Shapes: (T, 3, W, H) -> (T, 16 H, 16 W, 3).

    A grid without an agent is what it sees: it stands in the middle of the last row and looks up.
    """
    kind, hue, state = np.moveaxis(codes, 1, 0).transpose(0, 1, 3, 2).copy()
    if not (kind == AGENT).any():
        kind[:, -1, kind.shape[2] // 2], state[:, -1, kind.shape[2] // 2] = AGENT, 3
        hue[:, -1, kind.shape[2] // 2] = 0
    drawn = tile_atlas()[kind, np.minimum(hue, 5), np.minimum(state, 3)]  # (T, H, W, tile, tile, 3)
    steps, rows, columns = kind.shape
    return np.ascontiguousarray(drawn.transpose(0, 1, 3, 2, 4, 5).reshape(steps, rows * TILE, columns * TILE, 3))


def tile_atlas() -> Pictures:
    """The tile of every kind, color and state, (11, 6, 4, 16, 16, 3)."""
    y, x = np.mgrid[:TILE, :TILE] / (TILE - 1) * 2 - 1
    far = np.maximum(abs(x), abs(y))
    everywhere, frame = far <= 1, (far > 0.55) & (far < 0.9)
    ring = (np.hypot(x, y + 0.4) < 0.4) & (np.hypot(x, y + 0.4) > 0.15)
    masks = {
        WALL: (everywhere,) * 4,
        DOOR: (frame, frame | (abs(x - 0.3) + abs(y) < 0.25), far < 0.9, far < 0.9),  # open, closed, locked
        KEY: (ring | (abs(x) < 0.15) & (y > -0.1) & (y < 0.85) | (abs(y - 0.6) < 0.15) & (x > 0) & (x < 0.5),) * 4,
        BALL: (np.hypot(x, y) < 0.65,) * 4,
        BOX: (frame | (abs(y) < 0.12) & (far < 0.9),) * 4,
        AGENT: tuple(2 * abs(b) < 0.85 - a for a, b in ((x, y), (y, x), (-x, y), (-y, x))),  # right, down, left, up
    }
    atlas = np.empty((11, 6, 4, TILE, TILE, 3), np.uint8)
    atlas[:] = color("#232a32")
    atlas[:, :, :, 0] = atlas[:, :, :, :, 0] = color("#323b45")
    atlas[UNSEEN] = NIGHT
    for kind, shapes in masks.items():
        for state, mask in enumerate(shapes):
            if kind == AGENT:
                mask &= far < 0.9
            for hue in range(6):
                atlas[kind, hue, state][mask] = LIT if kind == AGENT else GRID_COLORS[hue]
    atlas[GOAL], atlas[LAVA] = GRID_COLORS[1], color("#e8590c")
    atlas[FLOOR] = (GRID_COLORS // 3)[:, None, None, None]
    return atlas


def channel_colors(grids: np.ndarray) -> Pictures:
    """Every cell in the color of its strongest channel, black where all are 0. Shapes: (T, C, H, W) -> pictures."""
    palette = np.stack([color(PARTS[c % len(PARTS)]) for c in range(grids.shape[1])])
    cells = palette[np.abs(grids.astype(np.float64)).argmax(1)]
    cells[(grids == 0).all(1)] = NIGHT
    return enlarged(cells, max(1, SIDE // max(grids.shape[2:])))


def lit_cells(n: int, states: np.ndarray, ends: NDArray[np.int64], layout: Sequence[str] | None) -> Pictures:
    """The map with the agent on it, and its way in this episode. Shapes: (T,) -> pictures.

    The state is a cell's number, row by row, of ``layout`` or else of a square. A state more than there are cells is
    beside the map, as DeepSea's end is: the way is seen, and no agent.
    """
    ground = ground_of(n, layout)
    path = np.zeros((len(states), ground.size // 3 + 1), bool)
    starts = np.concatenate([[0], ends + 1])
    for start, stop in zip(starts, [*starts[1:], len(states)], strict=True):
        steps = np.arange(stop - start)
        path[start + steps, states[start:stop]] = True
        path[start:stop] = np.logical_or.accumulate(path[start:stop])
    rows, columns = ground.shape[:2]
    on_way = path[:, :-1].reshape(-1, rows, columns)
    size = max(2, CELLS // max(rows, columns))
    drawn = enlarged(np.where(on_way[..., None], DUSK, ground), size)
    if size > 4:  # a line between cells
        drawn[:, ::size] = drawn[:, :, ::size] = LINE
    y, x = np.mgrid[: rows * size, : columns * size] + 0.5
    for row, column in goals_of(n, layout):
        drawn[:, abs(x - (column + 0.5) * size) + abs(y - (row + 0.5) * size) <= max(1.0, 0.46 * size)] = TREASURE
    for t, state in enumerate(states):
        if state < rows * columns:
            row, column = divmod(int(state), columns)
            far = np.hypot(x - (column + 0.5) * size, y - (row + 0.5) * size)
            drawn[t, far <= max(SMALLEST_AGENT, 0.42 * size)] = LIT
    return drawn


def goals_of(n: int, layout: Sequence[str] | None) -> list[tuple[int, int]]:
    """The rows and columns of the goals."""
    if not layout or not fits(n, layout):
        return []
    return [(row, column) for row, line in enumerate(layout) for column, letter in enumerate(line) if letter == "G"]


def ground_of(n: int, layout: Sequence[str] | None) -> Pictures:
    """The map without the agent, a pixel for each cell: free, out of reach, or a hole. Shapes: (rows, columns, 3)."""
    if not layout or not fits(n, layout):
        side = math.isqrt(n - 1) if n > 1 and math.isqrt(n - 1) ** 2 == n - 1 else math.isqrt(n - 1) + 1
        return np.broadcast_to(NIGHT, (side, side, 3)).copy()
    letters = np.array([list(line) for line in layout])
    ground = np.broadcast_to(NIGHT, (*letters.shape, 3)).copy()
    ground[letters == "#"], ground[letters == "H"] = OUT_OF_REACH, HOLE
    return ground


def fits(n: int, layout: Sequence[str]) -> bool:
    """Whether ``n`` states are the cells of ``layout``, or one more: an end beside it."""
    return sum(map(len, layout)) in (n, n - 1)


def bars(values: NDArray[np.float64]) -> Pictures:
    """Numbers as bars from 0 in the middle, each on the scale of its own largest. Shapes: (T, k) -> pictures."""
    half = SIDE // 2
    scale = np.maximum(np.abs(values).max(0), 1e-12)
    heights = np.round(0.95 * half * values / scale).astype(np.int64)[:, None]
    row = (half - np.arange(2 * half))[None, :, None]
    filled = np.where(heights >= 0, (row > 0) & (row <= heights), (row <= 0) & (row > heights))
    cells = np.where(filled[..., None], LIT, NIGHT)
    cells[:, half] = DUSK
    width = max(1, SIDE // values.shape[1])
    wide = cells.repeat(width, axis=2)
    if width > 3:
        wide[:, :, ::width] = NIGHT
    return wide


def heat(values: NDArray[np.float64]) -> Pictures:
    """Many numbers as a square from dark to lit. Shapes: (T, k) -> pictures."""
    side = math.isqrt(values.shape[1] - 1) + 1
    square = np.zeros((len(values), side * side))
    low, high = values.min(), values.max()
    square[:, : values.shape[1]] = (values - low) / max(float(high - low), 1e-12)
    drawn = NIGHT + square[..., None] * (LIT.astype(float) - NIGHT)
    return enlarged(drawn.astype(np.uint8).reshape(-1, side, side, 3), max(1, SIDE // side))


def enlarged(images: Pictures, times: int) -> Pictures:
    """Every pixel a square of ``times`` pixels."""
    return images.repeat(times, axis=1).repeat(times, axis=2)
