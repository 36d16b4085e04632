"""Environments whose state can always be saved: as itself, or as the seed and the actions that lead to it."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from optimist.bonuses.actions import DiscreteActions
from optimist.ranks import ALONE, Ranks
from optimist.training.environments.protocol import Arrays, Environments, Layout, Mapped, Step

LIMIT_BYTES = 64 * 2**20
"""Beyond this many bytes of actions environments are restarted earlier than they would have to be."""
FACTOR = np.uint64(0x9E3779B97F4A7C15)  # odd: multiplying by it loses nothing


class NotRepeated(RuntimeError):
    """Environments that were started from the same seed and given the same actions answered otherwise."""


class Recorded:
    """``environments``, and a `state_dict` also where they have none: their seed and every action since.

    The state of an emulator or of a Python environment cannot be saved. But it follows from the seed and the actions,
    so `load_state_dict` starts them again and plays the same actions, and a check sum of its answers says for each
    whether it went the same way. What is recorded grows with every step, until `reset`.

    The state is that of the environments of all ``ranks``: each gives its part to it, and takes its part of it.
    """

    def __init__(self, environments: Environments, ranks: Ranks = ALONE):
        self._inner, self._ranks = environments, ranks
        self.n_envs, self.actions = environments.n_envs, environments.actions
        self.observation_shape = environments.observation_shape
        self.observation_dtype = environments.observation_dtype
        self.success_return = environments.success_return
        self._code = np.min_scalar_type(self.actions.n - 1) if isinstance(self.actions, DiscreteActions) else None
        self._seed, self._check = 0, np.zeros(self.n_envs, np.uint64)
        self._played: list[np.ndarray] | None = []  # None: they can save their state themselves
        self._observations: Arrays = np.zeros(0)

    def is_full_after(self, steps: int, *, limit: int) -> bool:
        """Whether ``steps`` more would make the record ``limit`` steps long, or `LIMIT_BYTES` large."""
        if self._played is None:
            return False
        length, size = len(self._played) + steps, self._played[0].nbytes if self._played else 0
        return length >= limit or length * size * self._ranks.count >= LIMIT_BYTES

    def reset(self, seed: int) -> Arrays:
        """The first observations, from ``seed`` alone; what was recorded is forgotten."""
        self._observations = self._inner.reset(seed)
        self._seed, self._check = seed, np.zeros(self.n_envs, np.uint64)
        self._played = [] if self._inner.state_dict() is None else None
        return self._observations

    def step(self, actions: np.ndarray) -> Step:
        """The answer to ``actions``."""
        answer = self._inner.step(actions)
        if self._played is not None:
            self._played.append(actions.astype(self._code or actions.dtype))  # a copy
            self._observations = answer.observations
            rewards = np.ascontiguousarray(answer.rewards, np.float32).view(np.uint32)
            for part in (rewards, answer.terminated, answer.truncated):
                self._check = self._check * FACTOR + part.astype(np.uint64)
        return answer

    def state_dict(self) -> dict[str, Any]:
        """The state of the environments themselves, or what leads to it."""
        if self._played is None:
            return {"saved": _joined(self._ranks.objects(self._inner.state_dict()))}
        actions = np.stack(self._played, 1) if self._played else np.zeros((self.n_envs, 0), np.uint8)
        recorded: dict[str, Any] = {"seed": self._seed, "actions": actions, "check": self._check.copy()}
        recorded["observations"] = _copied(self._observations)
        whole = _joined(self._ranks.objects(recorded))
        return whole | {"actions": np.ascontiguousarray(whole["actions"].swapaxes(0, 1))}

    def load_state_dict(self, state: Mapping[str, Any]) -> Arrays:
        """The observations to act on, having continued exactly where ``state`` was taken; or `NotRepeated`."""
        if "saved" in state:
            self._played = None
            return self._inner.load_state_dict(_own(state["saved"], self._ranks))
        observations = self.reset(int(state["seed"]))
        for actions in self._ranks.mine(np.asarray(state["actions"]), 1):
            observations = self.step(actions if self._code is None else actions.astype(np.int64)).observations
        before = _own({"check": np.asarray(state["check"]), "observations": state["observations"]}, self._ranks)
        is_repeated = np.array_equal(self._check, before["check"])
        if self._ranks.any(not is_repeated or _bytes(observations) != _bytes(before["observations"])):
            raise NotRepeated(
                f"the environments, started again from their seed, did not answer the same {len(state['actions']):,} "
                "actions as they did before: something in them depends on more than seed and actions"
            )
        return observations

    def layout(self) -> Layout | None:
        """What their map looks like, where they say it."""
        return self._inner.layout() if isinstance(self._inner, Mapped) else None

    def close(self) -> None:
        """Close the environments."""
        self._inner.close()


def _joined(states: Sequence[Any]) -> Any:
    """One state of the environments of all ranks: arrays have a row per environment, all else is alike."""
    first = states[0]
    if len(states) == 1:
        return first
    if isinstance(first, Mapping):
        return {name: _joined([state[name] for state in states]) for name in first}
    if isinstance(first, np.ndarray):
        return np.concatenate(states)
    if any(state != first for state in states):
        raise ValueError(
            f"the states of environments on several processes must have arrays that differ only, got {states}"
        )
    return first


def _own(state: Any, ranks: Ranks) -> Any:
    """This rank's part of what `_joined` gave."""
    if isinstance(state, Mapping):
        return {name: _own(part, ranks) for name, part in state.items()}
    return ranks.mine(state) if isinstance(state, np.ndarray) and state.ndim else state


def _copied(observations: Arrays) -> Arrays:
    if isinstance(observations, np.ndarray):
        return observations.copy()
    return {name: part.copy() for name, part in observations.items()}


def _bytes(observations: Arrays) -> bytes:
    parts = (
        [observations] if isinstance(observations, np.ndarray) else [part for _, part in sorted(observations.items())]
    )
    return b"".join(part.tobytes() for part in parts)
