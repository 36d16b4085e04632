"""EnvPool's C++ environments (Atari, MiniGrid, Procgen, classic control ...) under the contract of `Environments`."""

import warnings
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from functools import cache
from typing import Any

import envpool
import numpy as np
import torch

from optimist.checks import require_count
from optimist.seeding import split
from optimist.training.environments.protocol import Arrays, Step, replaced
from optimist.training.environments.spaces import (
    ActionWriter,
    options_without,
    policy_reader,
    spread_seeds,
    success_return_of,
)

# RND's Atari (Burda et al. 2018): sticky actions are the only randomness; an episode is a whole game, or 18,000 frames.
# No random no-ops (EnvPool always takes one, so the least is 1), no automatic fire, no life as an episode, raw rewards.
ATARI: Mapping[str, Any] = {
    "stack_num": 4,
    "frame_skip": 4,
    "repeat_action_probability": 0.25,
    "max_episode_steps": 4500,
    "noop_max": 1,
    "use_fire_reset": False,
    "episodic_life": False,
    "reward_clip": False,
}

ROOM_BYTE = {"MontezumaRevenge": 3}
"""Games whose memory says which room the player is in, and the byte that does."""
PYRAMID = np.array([(row, 3 - row + k) for row in range(4) for k in range(3 + 2 * row)])
"""Where each of the 24 rooms of Montezuma's pyramid lies, row and column: 3 on top, 9 at the bottom, numbered from the
top left."""


class EnvPool:
    """``n_envs`` environments of an id that EnvPool has; ``options`` are EnvPool's own, and override `ATARI`.

    EnvPool gives the true final observation at the step that ends an episode and would ignore the next action; here the
    ended ones are reset at once, so that no action is lost. The stream depends on the seed alone, not on the threads.
    An emulator's state cannot be saved: `state_dict` is None. An end at the very last step allowed counts as truncated
    only, because EnvPool reports no termination there.
    """

    def __init__(self, env_id: str, *, n_envs: int, options: Mapping[str, Any]) -> None:
        grid = env_id.startswith(("MiniGrid-", "BabyAI-"))
        key = options.get("observation_key", "image" if grid else None)
        own = options_without(options, "observation_key")
        with _box_precision_ignored():
            known = envpool.make_spec(env_id).config._asdict()
            _require_options(env_id, own, known)
            atari = ATARI if "stack_num" in known else {}
            self._options = {"num_threads": min(n_envs, torch.get_num_threads())} | dict(atari) | own
            spec = envpool.make_spec(env_id, **self._options)
            self._read = policy_reader(spec.gymnasium_observation_space, keys=key, codes=grid)
            self._write = ActionWriter(spec.gymnasium_action_space)
        self.env_id, self.n_envs = env_id, require_count("n_envs", n_envs)
        self.observation_shape, self.observation_dtype = self._read.shape, self._read.dtype
        self.actions = self._write.kind()
        limit = spec.config._asdict().get("max_episode_steps")
        self.success_return = success_return_of(env_id, limit=limit, threshold=spec.reward_threshold)
        self._pool: Any = None
        self._first = 0

    def set_part(self, first: int, total: int) -> None:
        """EnvPool seeds its environment i by a number + i: these count from ``first`` on."""
        self._first = first

    def reset(self, seed: int) -> Arrays:
        """The first observations of a new pool: EnvPool takes seeds at construction only."""
        self.close()
        number = spread_seeds(split(seed, "environments"), 1)[0] + self._first
        with _box_precision_ignored():
            self._pool = envpool.make(
                self.env_id, env_type="gymnasium", num_envs=self.n_envs, seed=number, **self._options
            )
            return self._read(self._pool.reset()[0])

    def step(self, actions: np.ndarray) -> Step:
        """The answer to ``actions``; environments whose episode ended are already in the next one."""
        if self._pool is None:
            raise RuntimeError("step before reset: call reset(seed) first")
        raw, rewards, terminated, truncated, infos = self._pool.step(self._write(actions))
        places = self._places(infos)
        ended = terminated | truncated
        next_observations = observations = self._read(raw)
        if ended.any():
            firsts = self._read(self._pool.reset(np.flatnonzero(ended))[0])
            observations = replaced(next_observations, ended, firsts)
        rewards = rewards.astype(np.float32, copy=False)
        return Step(observations, next_observations, rewards, terminated, truncated, places=places)

    def _places(self, infos: Mapping[str, Any]) -> np.ndarray | None:
        """Row and column on a map, (N, 2): MiniGrid's cells, Montezuma's rooms; None elsewhere."""
        if "agent_pos" in infos:
            return infos["agent_pos"][:, ::-1]  # column and row
        byte = next((byte for game, byte in ROOM_BYTE.items() if self.env_id.startswith(game)), None)
        if byte is None or "ram" not in infos:
            return None
        rooms = infos["ram"][:, byte].astype(np.int64)
        return np.where((rooms < len(PYRAMID))[:, None], PYRAMID[np.minimum(rooms, len(PYRAMID) - 1)], -1)

    def state_dict(self) -> None:
        """None: a C++ emulator's state cannot be saved; a run that resumes restarts the environments."""

    def load_state_dict(self, state: Mapping[str, Any]) -> Arrays:
        """An error: there is no state to load."""
        raise NotImplementedError(f"EnvPool cannot restore {self.env_id}: call reset(seed) with a seed of its own")

    def close(self) -> None:
        """End the pool's threads."""
        if self._pool is not None:
            self._pool.close()
            self._pool = None


@cache
def stacks_frames(env_id: str) -> bool:
    """Whether EnvPool has ``env_id`` and stacks its frames, as it does Atari's."""
    with _box_precision_ignored():
        return env_id in known_ids() and "stack_num" in envpool.make_spec(env_id).config._asdict()


def known_ids() -> list[str]:
    """Every id that EnvPool knows."""
    return list(envpool.list_all_envs())


def _require_options(env_id: str, options: Mapping[str, Any], known: Mapping[str, Any]) -> None:
    owned = {"num_envs", "batch_size", "seed", "env_seed", "gym_reset_return_info"}
    unknown = sorted(options.keys() - (known.keys() - owned))
    if unknown:
        raise ValueError(
            f"{env_id} in EnvPool takes the options {sorted(known.keys() - owned)}, got {unknown}: "
            f"for an option of Gymnasium's write gymnasium:{env_id}"
        )
    if options.get("noop_max", 1) < 1:
        raise ValueError(f"noop_max must be at least 1 (EnvPool crashes below), got {options['noop_max']}")
    if options.get("agent_view_size", 7) != 7:
        raise ValueError(
            f"agent_view_size must be 7 (EnvPool crashes with any other), got {options['agent_view_size']}: "
            f"write gymnasium:{env_id}, which has it"
        )


@contextmanager
def _box_precision_ignored() -> Generator[None]:
    """No warning of Gymnasium's about the float64 bounds that EnvPool gives a float32 Box."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*precision lowered by casting", category=UserWarning)
        yield
