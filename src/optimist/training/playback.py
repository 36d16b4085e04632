"""A trained agent watched at play: every step with its bonus, or its value, while nothing learns."""

import math
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal, Unpack

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from optimist.bonuses.checkpointing import seeded_generator
from optimist.bonuses.observations import Observations, ObservationShape
from optimist.checks import require_count, require_seed
from optimist.seeding import stream_seed
from optimist.training.distributions import Greedy
from optimist.training.environments.protocol import Layout, Mapped
from optimist.training.ppo import Given, Trainer
from optimist.training.rollout import collect
from optimist.training.runs import checkpoints
from optimist.training.runs.episodes import Episodes
from optimist.training.runs.run import read_run
from optimist.training.runs.timer import Timer
from optimist.training.trunks import plain_shape
from optimist.training.visits.visit_map import VisitMap
from optimist.training.visits.visits import newest_frames


@dataclass(frozen=True, eq=False)
class Game:
    """T steps of one environment, one episode after the other. Row t of ``observations`` is the successor of step t,
    of stacked frames the newest, of a Dict its largest image or else all its numbers: what ``curve[t]`` is about, and
    at an episode's end its true final observation. The curve ``shows`` the bonus of each step. Where the run has none,
    it shows the value: what the critic expects of the task from the successor on, 0 where the episode terminated.
    ``familiar`` says whether the agent has acted on such a successor in training, see `Visits.familiar`; None where
    that is not known, because there were too many states to keep.

    Shapes: observations (T, ...); actions (T,) or (T, k); curve, rewards, terminated, truncated, familiar (T,).
    """

    observations: np.ndarray
    actions: np.ndarray
    curve: NDArray[np.float64]
    rewards: NDArray[np.float64]
    terminated: NDArray[np.bool_]
    truncated: NDArray[np.bool_]
    shows: Literal["bonus", "value"] = "bonus"
    familiar: NDArray[np.bool_] | None = None

    def __len__(self) -> int:
        return len(self.curve)

    @property
    def bonuses(self) -> NDArray[np.float64]:
        """The bonus of every step; an error if the run has none."""
        if self.shows != "bonus":
            raise ValueError("the agent was trained without a bonus: its games have none")
        return self.curve

    @property
    def ends(self) -> NDArray[np.int64]:
        """The steps that ended an episode."""
        return np.flatnonzero(self.terminated | self.truncated)


@dataclass(frozen=True, eq=False)
class Playback:
    """Games of one agent: whose, how far it was trained, and what it observes."""

    env: str
    bonus: str
    trained_steps: int
    observation_shape: ObservationShape
    games: tuple[Game, ...]
    map: VisitMap
    """Where the run was while it was trained; empty where there is no map."""
    layout: Layout | None = None
    """What that map looks like, where all episodes share one."""


def play_back(
    folder: str | Path,
    *,
    steps: int,
    seed: int = 0,
    n_envs: int = 1,
    greedy: bool = False,
    best: bool = False,
    **given: Unpack[Given],
) -> Playback:
    """The agent of the run in ``folder``, of its newest or best checkpoint, for ``steps`` steps of new environments.

    The curve is of bonuses, or of values if the run has no bonus. The bonuses are `Bonus.compute` of the whole play as
    one rollout: nothing is learned, memory of an episode (E3B, episodic counts) starts empty and anew after every end,
    and counts go on counting, as in a rollout of training. The play depends on the checkpoint and ``seed`` alone. What
    the run was ``given`` from Python must be given again.
    """
    require_count("steps", steps)
    require_count("n_envs", n_envs)
    require_seed(seed)
    folder = Path(folder)
    config, trained_steps, state = read_run(folder, best=best)
    checkpoints.require_entries(state["trainer"], "agent", "bonus", "visits")
    trainer = Trainer(replace(config, n_envs=n_envs, steps=steps, minibatches=1, device="cpu"), **given)
    bonus, pool = trainer.bonus, trainer.environments
    trainer.agent.load_state_dict(state["trainer"]["agent"])
    if bonus is not None:
        bonus.load_state_dict(state["trainer"]["bonus"])
        bonus.forget_episodes()
    trainer.visits.load_state_dict(state["trainer"]["visits"])
    with closing(pool):
        firsts = pool.reset(stream_seed(seed, "play environments"))
        layout = pool.layout() if isinstance(pool, Mapped) else None
        rollout, _ = collect(
            trainer.agent,
            pool,
            firsts,
            steps=steps,
            cut=False,
            distribution=Greedy(trainer.distribution) if greedy else trainer.distribution,
            generator=seeded_generator(seed, "play actions"),
            episodes=Episodes(n_envs, success_return=pool.success_return),
            timer=Timer(),
            first_step=0,
        )
        played = rollout.transitions
        if bonus is None:
            curve = rollout.successor_values[..., 0].masked_fill(played.terminated, 0.0)
        else:
            curve = bonus.compute(rollout.states)
    familiar = trainer.visits.familiar(played.next_observations) if trainer.visits.is_exact else None
    shape, seen = shown(plain_shape(pool.observation_shape), played.next_observations)
    games = []
    for k in range(n_envs):
        rows = slice(None) if played.valid is None else played.valid[:, k]
        observations, actions, values, rewards, terminated, truncated = (
            part[:, k][rows].numpy()
            for part in (seen, played.actions, curve.double(), rollout.rewards.double(), played.terminated,
                         played.truncated)
        )  # fmt: skip
        newest = newest_frames(shape, observations, config.frame_stack)
        shows = "value" if bonus is None else "bonus"
        known = None if familiar is None else familiar[:, k][rows]
        games.append(Game(newest, actions, values, rewards, terminated, truncated, shows, known))
    return Playback(config.env, config.bonus, trained_steps, shape, tuple(games), trainer.visits.map, layout)


def shown(shape: ObservationShape, observations: Observations) -> tuple[ObservationShape, Tensor]:
    """What is shown of observations (T, N, ...): of a Dict its largest image, or without one all its numbers."""
    if not isinstance(shape, Mapping) or isinstance(observations, Tensor):
        return shape, observations  # pyrefly: ignore
    images = {key: part for key, part in shape.items() if isinstance(part, tuple) and len(part) == 3}
    if images:
        largest = max(images, key=lambda key: math.prod(images[key]))
        return images[largest], observations[largest]
    rows = torch.cat([observations[key].float().unsqueeze(-1).flatten(2) for key in shape], dim=2)
    return (rows.shape[2],), rows
