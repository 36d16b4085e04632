"""How much larger the bonus of a room of Montezuma's Revenge is that an agent has never entered: why RND may be ahead.

optimist study montezuma --out runs/montezuma      # the agents, which have seen the first room alone
python benchmarks/montezuma_rooms.py runs/montezuma/runs/* --out results/montezuma     # two minutes

The console's memory says which room is drawn. ale-py can write into it (EnvPool cannot), so all 24 rooms of the pyramid
are shown to agents that never got there; the bonuses of those screens stand beside the bonuses of the agent's own play.
The first room is shown in the same way too: its bonuses must be those of the own play, or the comparison says nothing.
RND's bonus is the mean of squared errors; that of ACB's default is a root, so its square q stands beside it.
"""

import argparse
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import ale_py
import numpy as np
import torch
from matplotlib.colors import LogNorm
from matplotlib.patches import Rectangle
from numpy.typing import NDArray

from optimist.bonuses import ACB, Bonus, Transitions
from optimist.reporting.style import INK, sheet
from optimist.reporting.tables import write_csv
from optimist.training.environments.envpool_pool import ATARI, PYRAMID, ROOM_BYTE
from optimist.training.playback import play_back
from optimist.training.ppo import Trainer
from optimist.training.runs.run import read_run

GAME = "MontezumaRevenge"
FIRST_ROOM = 1
SIDE = 84
SKIP, STACK, STICKY = (ATARI[name] for name in ("frame_skip", "stack_num", "repeat_action_probability"))
COLUMNS = ("learner", "seed", "trained_steps", "room", "bonus", "above")
"""``bonus``: the median bonus of the room's screens over the median of the agent's own play. ``above``: the chance that
a screen of the room has more than a step of the own play."""
SQUARED = "{}, squared"
"""The name of a learner whose bonus is read as the square that it is made of."""
Frames = NDArray[np.uint8]


@dataclass(frozen=True)
class Budget:
    """How many screens of each room are taken, and how many steps each of how many environments is played."""

    shots: int
    steps: int
    n_envs: int


FULL, QUICK = Budget(shots=16, steps=256, n_envs=8), Budget(shots=1, steps=8, n_envs=2)


def area_weights(large: int, small: int) -> NDArray[np.float64]:
    """The matrix, (small, large), that averages over the part of each large pixel that a small one covers."""
    edges = np.arange(small + 1)[:, None] * large / small
    covered = np.clip(edges - np.arange(large), 0, 1)
    return np.diff(covered, axis=0) * small / large


def screen(console: ale_py.ALEInterface) -> Frames:
    """The screen in gray, (84, 84), averaged over areas as EnvPool does."""
    gray = console.getScreenGrayscale().astype(np.float64)
    rows, columns = (area_weights(size, SIDE) for size in gray.shape)
    return np.rint(rows @ gray @ columns.T).astype(np.uint8)


def observed(console: ale_py.ALEInterface) -> Frames:
    """What an agent sees that stands still: 4 x 84 x 84, each the larger of the last two of four frames."""
    frames = []
    for _ in range(STACK):
        for _ in range(SKIP - 1):
            console.act(0)
        before = screen(console)
        console.act(0)
        frames.append(np.maximum(before, screen(console)))
    return np.stack(frames)


def drawn_rooms(shots: int, seed: int) -> dict[int, Frames]:
    """``shots`` screens of each room, (shots, 4, 84, 84), from ``shots`` moments of random play in the first one."""
    rng = np.random.default_rng(seed)
    ale_py.ALEInterface.setLoggerMode(ale_py.LoggerMode.Error)
    console = ale_py.ALEInterface()
    console.setInt("random_seed", seed)
    console.setFloat("repeat_action_probability", STICKY)
    console.loadROM(ale_py.roms.get_rom_path("montezuma_revenge"))
    byte, rooms = ROOM_BYTE[GAME], range(len(PYRAMID))
    seen: dict[int, list[Frames]] = {room: [] for room in rooms}
    for _ in range(shots):
        for _ in range(10 * SKIP):
            if console.game_over():
                console.reset_game()
            console.act(int(rng.integers(len(console.getMinimalActionSet()))))
        moment = console.cloneState()
        for room in rooms:
            console.restoreState(moment)
            console.setRAM(byte, room)
            for _ in range(SKIP):  # the room is drawn anew
                console.act(0)
            frames = observed(console)
            if console.getRAM()[byte] != room:
                raise RuntimeError(f"the console left room {room} by itself: choose another seed")
            seen[room].append(frames)
        console.restoreState(moment)
    return {room: np.stack(frames) for room, frames in seen.items()}


def compared(folder: Path, rooms: dict[int, Frames], budget: Budget) -> list[dict[str, object]]:
    """One row per room: what the bonus of an agent says of it, beside the bonuses of its own play."""
    config, trained_steps, state = read_run(folder)
    trainer = Trainer(config)
    trainer.environments.close()
    if trainer.bonus is None:
        raise ValueError(f"the run {folder} has no bonus: leave it out")
    trainer.agent.load_state_dict(state["trainer"]["agent"])
    trainer.bonus.load_state_dict(state["trainer"]["bonus"])
    games = play_back(folder, steps=budget.steps, n_envs=budget.n_envs).games
    own = np.concatenate([game.bonuses for game in games])
    rows = []
    for name, read in readings(config.bonus, trainer.bonus).items():
        for room, frames in rooms.items():
            states = torch.from_numpy(frames)[:, None]
            nothing = torch.zeros(len(frames), 1, dtype=torch.bool)
            shown = Transitions(states, nothing.long(), states, nothing, nothing)
            bonuses = trainer.bonus.compute(shown).flatten().numpy()
            measured = (float(np.median(read(bonuses)) / np.median(read(own))), float((bonuses[:, None] > own).mean()))
            values = (name, config.seed, trained_steps, room, *measured)
            rows.append(dict(zip(COLUMNS, values, strict=True)))
    return rows


def readings(name: str, bonus: Bonus) -> dict[str, Callable[[NDArray[Any]], NDArray[Any]]]:
    """How the numbers of a bonus are read, by the learner's name: as they are, and a bounded one as its square too."""
    result: dict[str, Callable[[NDArray[Any]], NDArray[Any]]] = {name: lambda b: b}
    if isinstance(bonus, ACB) and bonus.config.form == "bounded":  # the root of q / (1 + q), q the mean of squares
        result[SQUARED.format(name)] = lambda b: b**2 / (1 - b**2)
    return result


def summary(rows: Sequence[Mapping[str, Any]]) -> str:
    """One line per agent: the first room as it is drawn here, then all others, their median and the least of them."""
    lines = ["learner  seed  steps  first room  other rooms: median, least, chance that one has more"]
    for learner, seed in dict.fromkeys((row["learner"], row["seed"]) for row in rows):
        mine = [row for row in rows if (row["learner"], row["seed"]) == (learner, seed)]
        first = [row["bonus"] for row in mine if row["room"] == FIRST_ROOM]
        others = [row for row in mine if row["room"] != FIRST_ROOM]
        ratios = [row["bonus"] for row in others]
        numbers = (first[0], np.median(ratios), min(ratios), np.mean([row["above"] for row in others]))
        lines.append(f"{learner}  {seed}  {mine[0]['trained_steps']}  " + "  ".join(f"{x:.3g}" for x in numbers))
    return "\n".join(lines)


def draw_pyramid(rows: Sequence[Mapping[str, Any]], path: Path) -> None:
    """Writes the picture: the pyramid as each bonus sees it, the geometric mean over the agents in every room."""
    learners = list(dict.fromkeys(row["learner"] for row in rows))
    maps = {}
    for learner in learners:
        logs = [[math.log(row["bonus"]) for row in rows if (row["learner"], row["room"]) == (learner, room)]
                for room in range(len(PYRAMID))]  # fmt: skip
        grid = np.full(PYRAMID.max(axis=0) + 1, np.nan)
        grid[PYRAMID[:, 0], PYRAMID[:, 1]] = np.exp([np.mean(values) for values in logs])
        maps[learner] = grid
    every = np.concatenate([grid[np.isfinite(grid)] for grid in maps.values()])
    scale = LogNorm(min(1.0, every.min()), max(every.max(), 1.001))
    steps = max(row["trained_steps"] for row in rows)
    agents = len({row["seed"] for row in rows})
    caption = (
        f"The 24 rooms of the first level. Numbers are the median bonus of a room's screens over that of the agent's "
        f"own play; agents ({agents} seeds, {steps:,} steps) had hardly left the first room, which is framed."
    )
    with sheet(path, 1.2 + 1.9 * len(learners), caption=caption) as figure:
        axes = figure.subplots(len(learners), 1, squeeze=False)[:, 0]
        for ax, (learner, grid) in zip(axes, maps.items(), strict=True):
            image = ax.imshow(grid, cmap="cividis", norm=scale, aspect=0.5)
            bonus, comma, reading = learner.partition(",")
            ax.set(title=f"{bonus.upper()}{comma}{reading}", xticks=[], yticks=[])
            ax.grid(visible=False)
            ax.spines[:].set_visible(False)
            for row, column in PYRAMID:
                dark = scale(grid[row, column]) < 0.5
                ax.text(column, row, f"{grid[row, column]:.3g}", ha="center", va="center", fontsize=8.5,
                        color="white" if dark else INK)  # fmt: skip
            row, column = PYRAMID[FIRST_ROOM]
            ax.add_patch(Rectangle((column - 0.5, row - 0.5), 1, 1, fill=False, edgecolor="#c7365f", linewidth=2))
        bar = figure.colorbar(image, ax=list(axes), pad=0.02, aspect=30)
        bar.set_label("bonus, times that of the own play", fontsize=9)


def main(arguments: Sequence[str] | None = None) -> None:
    """Show the rooms to every agent, print a table, and write ``unseen_rooms.csv`` and ``map_unseen_rooms.png``."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "runs", type=Path, nargs="+", help="folders of runs of Montezuma's Revenge; without bonus: skipped"
    )
    parser.add_argument("--quick", action="store_true", help="one screen per room: only that everything runs")
    parser.add_argument(
        "--out", type=Path, default=Path("results/montezuma"), help="folder of the table and the picture"
    )
    chosen = parser.parse_args(arguments)
    torch.set_num_threads(1)
    budget = QUICK if chosen.quick else FULL
    rooms = drawn_rooms(budget.shots, seed=0)
    played = [folder for folder in chosen.runs if read_run(folder)[0].bonus != "none"]
    rows = [row for folder in sorted(played) for row in compared(folder, rooms, budget)]
    chosen.out.mkdir(parents=True, exist_ok=True)
    write_csv(chosen.out / "unseen_rooms.csv", rows)
    draw_pyramid(rows, chosen.out / "map_unseen_rooms.png")
    print(summary(rows))


if __name__ == "__main__":
    main()
