"""How much larger the bonus of a room of Montezuma's Revenge is that an agent has never entered: why RND may be ahead.

optimist study montezuma --out runs/montezuma      # the agents, which have seen the first room alone
python benchmarks/montezuma_rooms.py runs/montezuma/runs/* --out results/montezuma     # two minutes

The console's memory says which room is drawn. ale-py can write into it (EnvPool cannot), so all 24 rooms of the pyramid
are shown to agents that never got there; the bonuses of those screens stand beside the bonuses of the agent's own play.
The first room is shown in the same way too: its bonuses must be those of the own play, or the comparison says nothing.
"""

import argparse
import csv
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import ale_py
import numpy as np
import torch
from numpy.typing import NDArray

from optimist.bonuses import Transitions
from optimist.training.environments.envpool_pool import ATARI, PYRAMID, ROOM_BYTE
from optimist.training.playback import play_back
from optimist.training.ppo import Trainer
from optimist.training.runs.run import read_run

GAME = "MontezumaRevenge"
FIRST_ROOM = 1
SIDE = 84
SKIP, STACK, STICKY = (ATARI[name] for name in ("frame_skip", "stack_num", "repeat_action_probability"))
COLUMNS = ("learner", "seed", "trained_steps", "familiar", "first_room", "other_rooms", "lowest_room", "above")
"""``familiar``: the median bonus of the agent's own play. The next three in its units, medians too: the first room
drawn as the others are, all other rooms, the other room with the least. ``above``: the chance that another room has
more."""
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


def compared(folder: Path, rooms: dict[int, Frames], budget: Budget) -> dict[str, object]:
    """One row: the bonuses of an agent in rooms that it never entered, beside those of its own play."""
    config, trained_steps, state = read_run(folder)
    trainer = Trainer(config)
    trainer.environments.close()
    if trainer.bonus is None:
        raise ValueError(f"the run {folder} has no bonus: leave it out")
    trainer.agent.load_state_dict(state["trainer"]["agent"])
    trainer.bonus.load_state_dict(state["trainer"]["bonus"])
    games = play_back(folder, steps=budget.steps, n_envs=budget.n_envs).games
    own = np.concatenate([game.bonuses for game in games])
    familiar = float(np.median(own))

    def scored(frames: Frames) -> NDArray[np.float64]:
        states = torch.from_numpy(frames)[:, None]
        nothing = torch.zeros(len(frames), 1, dtype=torch.bool)
        assert trainer.bonus is not None
        return trainer.bonus.compute(Transitions(states, nothing.long(), states, nothing, nothing)).flatten().numpy()

    bonuses = {room: scored(frames) for room, frames in rooms.items()}
    first = bonuses.pop(FIRST_ROOM)
    others = np.concatenate(list(bonuses.values()))
    units = [float(np.median(part)) / familiar for part in (first, others)]
    lowest = min(float(np.median(part)) / familiar for part in bonuses.values())
    above = float((others[:, None] > own).mean())
    values = (config.bonus, config.seed, trained_steps, familiar, *units, lowest, above)
    return dict(zip(COLUMNS, values, strict=True))


def main(arguments: Sequence[str] | None = None) -> None:
    """Show the rooms to every agent, print a table, and write ``unseen_rooms.csv``."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", type=Path, nargs="+", help="folders of runs of Montezuma's Revenge with a bonus")
    parser.add_argument("--quick", action="store_true", help="one screen per room: only that everything runs")
    parser.add_argument("--out", type=Path, default=Path("results/montezuma"), help="folder of unseen_rooms.csv")
    chosen = parser.parse_args(arguments)
    torch.set_num_threads(1)
    budget = QUICK if chosen.quick else FULL
    rooms = drawn_rooms(budget.shots, seed=0)
    played = [folder for folder in chosen.runs if read_run(folder)[0].bonus != "none"]
    rows = [compared(folder, rooms, budget) for folder in sorted(played)]
    chosen.out.mkdir(parents=True, exist_ok=True)
    with (chosen.out / "unseen_rooms.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        writer.writeheader()
        writer.writerows({k: f"{v:.6g}" if isinstance(v, float) else v for k, v in row.items()} for row in rows)
    print("  ".join(COLUMNS))
    for row in rows:
        print("  ".join(f"{v:.3g}" if isinstance(v, float) else str(v) for v in row.values()))


if __name__ == "__main__":
    main()
