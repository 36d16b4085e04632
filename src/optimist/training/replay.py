"""A trained agent watched at play: every step with its bonus, while nothing learns."""

from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from optimist.bonuses.observations import ObservationShape
from optimist.bonuses.state import seeded_generator
from optimist.training import checkpoints
from optimist.training.distributions import Distribution, Softmax
from optimist.training.metrics import Episodes, Stopwatch
from optimist.training.ppo import Trainer, newest_frames, stream_seed
from optimist.training.rollout import collect
from optimist.training.runs import read_config
from optimist.training.state_map import StateMap


@dataclass(frozen=True, eq=False)
class Game:
    """T steps of one environment, one episode after the other. Row t of ``observations`` is the successor of step t,
    of stacked frames the newest: what ``bonuses[t]`` is about, and at an episode's end its true final observation.

    Shapes: observations (T, ...); actions (T,) or (T, k); bonuses, rewards, terminated, truncated (T,).
    """

    observations: np.ndarray
    actions: np.ndarray
    bonuses: NDArray[np.float64]
    rewards: NDArray[np.float64]
    terminated: NDArray[np.bool_]
    truncated: NDArray[np.bool_]

    def __len__(self) -> int:
        return len(self.bonuses)

    @property
    def ends(self) -> NDArray[np.int64]:
        """The steps that ended an episode."""
        return np.flatnonzero(self.terminated | self.truncated)


@dataclass(frozen=True, eq=False)
class Replay:
    """Games of one agent: whose, how far it was trained, and what it observes."""

    env: str
    bonus: str
    trained_steps: int
    observation_shape: ObservationShape
    games: tuple[Game, ...]
    map: StateMap
    """Where the run was while it was trained; empty where there is no map."""


@dataclass(frozen=True)
class Greedy:
    """The most likely action instead of a drawn one."""

    family: Distribution

    @property
    def outputs(self) -> int:
        """How many numbers the policy must give."""
        return self.family.outputs

    def sample(self, outputs: Tensor, *, generator: torch.Generator) -> Tensor:
        """The mode. Shapes: (n, A) -> (n,), or (n, 2 size) -> (n, size)."""
        return outputs.argmax(1) if isinstance(self.family, Softmax) else outputs.chunk(2, dim=1)[0]

    def log_probability(self, outputs: Tensor, actions: Tensor) -> Tensor:
        """Of the family."""
        return self.family.log_probability(outputs, actions)

    def entropy(self, outputs: Tensor) -> Tensor:
        """Of the family."""
        return self.family.entropy(outputs)


def replay(folder: Path, *, steps: int, seed: int, environments: int = 1, greedy: bool = False) -> Replay:
    """The agent of the run in ``folder``, as its newest checkpoint has it, for ``steps`` steps of new environments.

    The bonuses are `Bonus.compute` of the whole play as one rollout: nothing is learned, memory of an episode (E3B,
    episodic counts) starts empty and anew after every end, and counts go on counting, as in a rollout of training. The
    play depends on the checkpoint and ``seed`` alone.
    """
    if steps < 1 or environments < 1:
        raise ValueError(f"steps and environments must be at least 1, got {steps} and {environments}")
    config = read_config(folder)
    if not config.explores:
        raise ValueError(f"the run in {folder} was trained without a bonus: there is none to show")
    _, state = checkpoints.newest(folder / "checkpoints")
    checkpoints.require_entries(state["trainer"], "agent", "bonus", "map")
    trainer = Trainer(replace(config, environments=environments, steps=steps, minibatches=1, device="cpu"))
    bonus, pool = trainer.bonus, trainer.environments
    if bonus is None:
        raise RuntimeError("a run that explores has a bonus")
    trainer.agent.load_state_dict(state["trainer"]["agent"])
    bonus.load_state_dict(between_episodes(state["trainer"]["bonus"]))
    trainer.map.load_state_dict(state["trainer"]["map"])
    with closing(pool):
        rollout, _ = collect(
            trainer.agent,
            pool,
            pool.reset(stream_seed(seed, "play environments")),
            steps=steps,
            cut=False,
            distribution=Greedy(trainer.distribution) if greedy else trainer.distribution,
            generator=seeded_generator(seed, "play actions"),
            episodes=Episodes(environments, success_return=pool.success_return),
            watch=Stopwatch(),
            first_step=0,
        )
        bonuses, played = bonus.compute(rollout.transitions), rollout.transitions
    games = []
    for k in range(environments):
        rows = slice(None) if played.valid is None else played.valid[:, k]
        observations, actions, values, rewards, terminated, truncated = (
            part[:, k][rows].numpy()  # pyrefly: ignore
            for part in (played.next_observations, played.actions, bonuses.double(), rollout.rewards.double(),
                         played.terminated, played.truncated)
        )  # fmt: skip
        newest = newest_frames(pool.observation_shape, observations)
        games.append(Game(newest, actions, values, rewards, terminated, truncated))
    trained_steps = int(state["trainer"]["step"])
    return Replay(config.env, config.bonus, trained_steps, pool.observation_shape, tuple(games), trainer.map)


def between_episodes(state: Mapping[str, Any]) -> dict[str, Any]:
    """A bonus's state without what it carries of the episodes that were running when it was saved.

    E3B has ``inverses`` and episodic counts have ``carried`` visits of a ``number`` of environments; either may be one
    of the two factors of a product.
    """
    result: dict[str, Any] = {}
    for name, value in state.items():
        if name == "inverses":
            result[name] = value[:0]
        elif name == "carried":
            result |= {name: {part: rows[:0] for part, rows in value.items()}, "number": 0}
        elif isinstance(value, Mapping):
            result[name] = between_episodes(value)
        else:
            result.setdefault(name, value)
    return result
