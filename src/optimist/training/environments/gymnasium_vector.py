"""Gymnasium's environments under the contract of `Environments`: any id, and any vector environment you have."""

import warnings
from collections.abc import Callable, Mapping
from typing import Any

import gymnasium
import numpy as np
from gymnasium.vector import AutoresetMode, SyncVectorEnv, VectorEnv

from optimist.checks import require_count, require_seed
from optimist.seeding import split
from optimist.training.environments.protocol import Arrays, Layout, Step, map_arrays, options_refused, replaced
from optimist.training.environments.spaces import (
    ActionWriter,
    Keys,
    options_without,
    policy_reader,
    spread_seeds,
    success_return_of,
)


class GymnasiumVector:
    """A ``gymnasium.vector.VectorEnv`` in any of its three autoreset modes.

    SAME_STEP: the true successor is ``infos["final_obs"]``. DISABLED: ended episodes are reset here, at once.
    NEXT_STEP: the step after an end only resets and ignores its action, which `Step.valid` says. ``observation_key``
    chooses keys of a Dict, all of which are read without it. Images of MiniGrid are grids of codes, unless one of its
    RGB wrappers draws them; seen in a `SyncVectorEnv` only. The state of Python environments is not saved: `state_dict`
    is None.
    """

    def __init__(
        self, envs: VectorEnv, *, observation_key: Keys | None = None, success_return: float | None = None
    ) -> None:
        mode = envs.metadata.get("autoreset_mode")
        if not isinstance(mode, AutoresetMode):
            raise ValueError(
                f"{envs} must say in metadata['autoreset_mode'] how it starts new episodes, got {mode!r}: "
                "set it to a gymnasium.vector.AutoresetMode, or the true final observations cannot be told"
            )
        self._envs, self._mode = envs, mode
        self._read = policy_reader(envs.single_observation_space, keys=observation_key, codes=_shows_codes(envs))
        self._write = ActionWriter(envs.single_action_space)
        self.n_envs, self.success_return = envs.num_envs, success_return
        self.observation_shape, self.observation_dtype = self._read.shape, self._read.dtype
        self.actions = self._write.kind()
        self._resetting = np.zeros(self.n_envs, bool)
        self._layout: Layout | None = None
        self._first = 0

    def set_part(self, first: int, total: int) -> None:
        """A vector environment seeds its environment i by a number + i: these count from ``first`` on."""
        self._first = first

    def reset(self, seed: int) -> Arrays:
        """The first observations."""
        number = spread_seeds(split(seed, "environments"), 1)[0] + self._first
        self._resetting = np.zeros(self.n_envs, bool)
        observations = self._copied(self._envs.reset(seed=number)[0])
        self._layout = _fixed_layout(self._envs)
        return observations

    def layout(self) -> Layout | None:
        """Walls, doors, start and goal of MiniGrid's fixed level; None for all else."""
        return self._layout

    def step(self, actions: np.ndarray) -> Step:
        """The answer to ``actions``."""
        raw, rewards, terminated, truncated, infos = self._envs.step(self._write(actions))
        rewards = np.array(rewards, np.float32)
        terminated, truncated = np.array(terminated, bool), np.array(truncated, bool)
        observations, ended = self._copied(raw), terminated | truncated
        if self._mode is AutoresetMode.NEXT_STEP:
            valid = ~self._resetting
            self._resetting = ended & valid
            return Step(observations, observations, rewards * valid, terminated & valid, truncated & valid, valid=valid)
        next_observations, places = observations, self._places()
        if ended.any() and self._mode is AutoresetMode.DISABLED:
            observations = self._copied(self._envs.reset(options={"reset_mask": ended})[0])  # all, these ones anew
        elif ended.any():
            next_observations = replaced(observations, ended, self._finals(infos, ended))
        return Step(observations, next_observations, rewards, terminated, truncated, places=places)

    def state_dict(self) -> None:
        """None: a Python environment's state is its own; a run that resumes restarts the environments."""

    def load_state_dict(self, state: Mapping[str, Any]) -> Arrays:
        """An error: there is no state to load."""
        raise NotImplementedError(
            "Gymnasium's environments cannot be restored: call reset(seed) with a seed of its own"
        )

    def close(self) -> None:
        """Close the environments."""
        self._envs.close()

    def _copied(self, raw: Any) -> Arrays:
        return map_arrays(
            np.array, self._read(raw)
        )  # a vector environment may write its next answer into the same buffer

    def _places(self) -> np.ndarray | None:
        """Where the agents of MiniGrid stand, while ended episodes are not yet reset; None for all else."""
        if not isinstance(self._envs, SyncVectorEnv) or self._mode is not AutoresetMode.DISABLED:
            return None
        positions = [getattr(env.unwrapped, "agent_pos", None) for env in self._envs.envs]
        if any(position is None or np.shape(position) != (2,) for position in positions):
            return None
        return np.array(positions, np.int64)[:, ::-1]  # column and row

    def _finals(self, infos: Mapping[str, Any], ended: np.ndarray) -> Arrays:
        if "final_obs" not in infos:
            raise RuntimeError(
                "an episode ended without infos['final_obs'], which a SAME_STEP vector environment must give: "
                "the true final observation is needed"
            )
        return self._read.stacked([infos["final_obs"][i] for i in np.flatnonzero(ended)])


class FixedLevel(gymnasium.Wrapper):
    """An environment whose every episode starts from the seed ``level``: one layout, and the same chances in it."""

    def __init__(self, env: gymnasium.Env, level: int) -> None:
        super().__init__(env)
        self._level = level

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """The first observation of the level; ``seed`` is not read."""
        return self.env.reset(seed=self._level, options=options)


LETTERS = {"wall": "#", "door": "D", "goal": "G", "lava": "H"}
"""MiniGrid's objects on a `Layout`; keys, balls and boxes are free places."""


def _shows_codes(envs: VectorEnv) -> bool:
    """Whether the images of ``envs`` are MiniGrid's codes: its environment, and no wrapper that draws it in RGB."""
    env = envs.envs[0] if isinstance(envs, SyncVectorEnv) else None
    if not hasattr(getattr(env, "unwrapped", None), "agent_view_size"):
        return False
    while isinstance(env, gymnasium.Wrapper):
        if type(env).__name__.startswith("RGB"):
            return False
        env = env.env
    return True


def _fixed_layout(envs: VectorEnv) -> Layout | None:
    """The grid of MiniGrid's fixed level, read right after a reset, where the agent stands at the start."""
    first = envs.envs[0] if isinstance(envs, SyncVectorEnv) else None
    grid, agent = getattr(getattr(first, "unwrapped", None), "grid", None), getattr(first, "unwrapped", None)
    if not isinstance(first, FixedLevel) or grid is None or not hasattr(agent, "agent_pos"):
        return None
    cells = [
        [LETTERS.get(getattr(grid.get(x, y), "type", ""), ".") for x in range(grid.width)] for y in range(grid.height)
    ]
    column, row = agent.agent_pos
    cells[row][column] = "S"
    return tuple("".join(line) for line in cells)


def make_gymnasium(env_id: str, *, n_envs: int, options: Mapping[str, Any]) -> GymnasiumVector:
    """``n_envs`` environments of a Gymnasium id, one after the other in this process.

    Options of ours: ``level`` (see `FixedLevel`), ``observation_key`` (of a Dict; MiniGrid's is image). All others, as
    ``max_episode_steps`` or those of the environment itself, go to ``gymnasium.make``.
    """
    level = options.get("level")
    key = options.get("observation_key", "image" if env_id.startswith(("MiniGrid-", "BabyAI-")) else None)
    own = options_without(options, "level", "observation_key")
    # Of the three modes DISABLED is the one where an environment that writes into its own observation stays right.
    makers = [_maker(env_id, level, own)] * require_count("n_envs", n_envs)
    envs = SyncVectorEnv(makers, autoreset_mode=AutoresetMode.DISABLED)
    spec = envs.envs[0].spec
    limit, threshold = (None, None) if spec is None else (spec.max_episode_steps, spec.reward_threshold)
    success = success_return_of(env_id, limit=limit, threshold=threshold)
    return GymnasiumVector(envs, observation_key=key, success_return=success)


def is_registered(env_id: str) -> bool:
    """Whether Gymnasium knows ``env_id``; the package minigrid is imported for an id of its own."""
    return env_id in registered_ids(with_minigrid=env_id.startswith(("MiniGrid-", "BabyAI-")))


def registered_ids(*, with_minigrid: bool = False) -> list[str]:
    """Every id that Gymnasium knows."""
    if with_minigrid:
        try:
            import minigrid  # noqa: F401  importing it registers its environments
        except ImportError as error:
            raise ImportError(
                "MiniGrid with a fixed level needs the package minigrid: pip install 'optimist[rl]'"
            ) from error
    return list(gymnasium.registry)


def _maker(env_id: str, level: int | None, options: Mapping[str, Any]) -> Callable[[], gymnasium.Env]:
    def made() -> gymnasium.Env:
        with options_refused(env_id, options), warnings.catch_warnings():
            # An older version was asked for: published numbers are of it.
            warnings.filterwarnings("ignore", message=".*is out of date", category=DeprecationWarning)
            env = gymnasium.make(env_id, disable_env_checker=True, **options)
        return env if level is None else FixedLevel(env, require_seed(level))

    return made
