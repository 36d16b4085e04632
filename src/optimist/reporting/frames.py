"""Pictures of a game: its frames, and of other observations a drawing that tells one state from another."""

import math

import numpy as np
from matplotlib.colors import to_rgb
from numpy.typing import NDArray

from optimist.bonuses.observations import SMALLEST_IMAGE, Discrete, ObservationShape
from optimist.reporting.style import COLOURS
from optimist.training.replay import Game

Pictures = NDArray[np.uint8]
"""(T, height, width, 3)."""

SIDE = 120
"""About the height of a drawing in pixels; frames keep their own."""
LARGEST = 240
"""The most pixels of a frame's side; of a larger one every second, third ... is shown."""
TILE = 16
MOST_BARS = 256
UNSEEN, EMPTY, WALL, FLOOR, DOOR, KEY, BALL, BOX, GOAL, LAVA, AGENT = range(11)
"""MiniGrid's kinds of objects."""


def colour(name: str) -> Pictures:
    """A colour as three bytes."""
    return (255 * np.array(to_rgb(name))).round().astype(np.uint8)


NIGHT, DUSK, LIT = colour("#10151b"), colour("#2c4a5e"), colour("#ffc44d")
GRID_COLOURS = np.stack([colour(name) for name in ("#e03e3e", "#3fb950", "#4a90e2", "#9a6dd7", "#f2c94c", "#7d8590")])
"""MiniGrid's colour codes: red, green, blue, purple, yellow, grey."""


def pictures(shape: ObservationShape, game: Game) -> Pictures:
    """A picture of what every step led to, (T, height, width, 3).

    ``shape`` is of a whole observation, before the newest frame of a stack was taken. Images are shown as they are; a
    small grid of MiniGrid's codes as tiles, any other small grid in a colour for each channel; one of n states as a
    square of cells with the path of the episode so far; numbers as bars.
    """
    seen = game.observations
    if isinstance(shape, Discrete):
        return lit_cells(shape.n, seen, game.ends)
    if seen.ndim == 4 and min(seen.shape[2:]) >= SMALLEST_IMAGE:
        return frames(seen)
    if seen.ndim == 4 and seen.shape[1] == 3 and seen.dtype == np.uint8 and seen[:, 0].max() <= AGENT:
        return tiles(seen)
    if seen.ndim == 4:
        return channel_colours(seen)
    flat = seen.reshape(len(seen), -1).astype(np.float64)
    return bars(flat) if flat.shape[1] <= MOST_BARS else heat(flat)


def frames(images: np.ndarray) -> Pictures:
    """Grey or colour frames; floats are spread over 0 .. 255. Shapes: (T, C, H, W) -> (T, H, W, 3)."""
    thinned = math.ceil(max(images.shape[2:]) / LARGEST)
    images = images[:, :, ::thinned, ::thinned]
    if images.dtype != np.uint8:
        low, high = images.min(), images.max()
        images = (255 * (images - low) / max(float(high - low), 1e-12)).astype(np.uint8)
    colours = images if images.shape[1] == 3 else images[:, -1:]
    return np.ascontiguousarray(np.broadcast_to(np.moveaxis(colours, 1, -1), (len(images), *images.shape[2:], 3)))


def tiles(codes: np.ndarray) -> Pictures:
    """MiniGrid's cells (kind, colour, state), the column first, as tiles. Shapes: (T, 3, W, H) -> (T, 16 H, 16 W, 3).

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
    """The tile of every kind, colour and state, (11, 6, 4, 16, 16, 3)."""
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
    atlas[:] = colour("#232a32")
    atlas[:, :, :, 0] = atlas[:, :, :, :, 0] = colour("#323b45")
    atlas[UNSEEN] = NIGHT
    for kind, shapes in masks.items():
        for state, mask in enumerate(shapes):
            if kind == AGENT:
                mask &= far < 0.9
            for hue in range(6):
                atlas[kind, hue, state][mask] = LIT if kind == AGENT else GRID_COLOURS[hue]
    atlas[GOAL], atlas[LAVA] = GRID_COLOURS[1], colour("#e8590c")
    atlas[FLOOR] = (GRID_COLOURS // 3)[:, None, None, None]
    return atlas


def channel_colours(grids: np.ndarray) -> Pictures:
    """Every cell in the colour of its strongest channel, black where all are 0. Shapes: (T, C, H, W) -> pictures."""
    palette = np.stack([colour(COLOURS[c % len(COLOURS)]) for c in range(grids.shape[1])])
    cells = palette[np.abs(grids.astype(np.float64)).argmax(1)]
    cells[(grids == 0).all(1)] = NIGHT
    return enlarged(cells, max(1, SIDE // max(grids.shape[2:])))


def lit_cells(n: int, states: np.ndarray, ends: NDArray[np.int64]) -> Pictures:
    """A square of cells: the state is lit, the ones before it in its episode are dim. Shapes: (T,) -> pictures.

    Of k^2 + 1 states the last one is beside the square, as DeepSea's end is: nothing is lit.
    """
    side = math.isqrt(n - 1) if n > 1 and math.isqrt(n - 1) ** 2 == n - 1 else math.isqrt(n - 1) + 1
    path = np.zeros((len(states), side * side + 1), bool)
    starts = np.concatenate([[0], ends + 1])
    for start, stop in zip(starts, [*starts[1:], len(states)], strict=True):
        steps = np.arange(stop - start)
        path[start + steps, states[start:stop]] = True
        path[start:stop] = np.logical_or.accumulate(path[start:stop])
    cells = np.where(path[..., None], DUSK, NIGHT)
    cells[np.arange(len(states)), states] = LIT
    size = max(2, SIDE // side)
    drawn = enlarged(cells[:, :-1].reshape(-1, side, side, 3), size)
    if size > 4:  # a line between cells
        drawn[:, ::size] = drawn[:, :, ::size] = colour("#1b222a")
    return drawn


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
