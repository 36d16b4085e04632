"""Gymnasium's spaces as a bonus reads them: batches of raw observations and actions become tensors, copied."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from optimist.adapters.building import missing_host
from optimist.bonuses.actions import Actions, ContinuousActions, DiscreteActions, MultiDiscreteActions
from optimist.bonuses.observations import ObservationShape
from optimist.bonuses.protocol import Observations

try:
    import gymnasium
except ModuleNotFoundError as error:
    raise missing_host("gymnasium", extra="rl") from error

from optimist.training.environments.spaces import ObservationReader, observation_reader


@dataclass(frozen=True)
class SpaceReader:
    """How a batch of raw observations becomes tensors of ``shape``: one, or one for each chosen key of a Dict."""

    shape: ObservationShape
    parts: ObservationReader | Mapping[str, ObservationReader]

    def __call__(self, raw: Any) -> Observations:
        """Copies of a batch of raw observations, channels first. Shapes: (n, ...) -> (n, *shape)."""
        if isinstance(self.parts, Mapping):
            return {key: _tensor(read, raw) for key, read in self.parts.items()}
        return _tensor(self.parts, raw)


def space_reader(space: gymnasium.Space, *, keys: Sequence[str] | None = None) -> SpaceReader:
    """How to read the observations of ``space``: a Box, a Discrete, or ``keys`` (all, if None) of a Dict of them."""
    if not isinstance(space, gymnasium.spaces.Dict):
        if keys is not None:
            raise ValueError(f"observation_keys={list(keys)} were given, but the observation is no Dict: it is {space}")
        reader = observation_reader(space, key=None)
        return SpaceReader(reader.shape, reader)  # pyrefly: ignore
    chosen = list(space.spaces) if keys is None else list(keys)
    if not chosen or set(chosen) - set(space.spaces):
        raise ValueError(f"observation_keys must be among {sorted(space.spaces)}, at least one, got {chosen}")
    parts = {}
    for key in chosen:
        try:
            parts[key] = observation_reader(space, key=key)
        except ValueError as error:
            raise ValueError(f"the key {key!r} cannot be read: {error}, or leave it out by observation_keys") from error
    return SpaceReader({key: part.shape for key, part in parts.items()}, parts)  # pyrefly: ignore


@dataclass(frozen=True)
class ActionReader:
    """How a batch of raw actions becomes a tensor, and what ``kind`` of actions they are; None: no bonus reads them."""

    kind: Actions | None
    read: Callable[[np.ndarray], np.ndarray]

    def __call__(self, raw: Any) -> Tensor:
        """A copy of a batch of raw actions. Shapes: (n, ...) -> (n,) or (n, k)."""
        return torch.from_numpy(np.array(self.read(np.asarray(raw))))


def action_reader(space: gymnasium.Space) -> ActionReader:
    """How to read the actions of ``space``: Discrete, MultiDiscrete, MultiBinary, or a Box of any shape, read flat."""
    match space:
        case gymnasium.spaces.Discrete():
            return ActionReader(DiscreteActions(int(space.n)), lambda a: (a - space.start).astype(np.int64))
        case gymnasium.spaces.MultiDiscrete():
            sizes, start = tuple(int(n) for n in space.nvec.flat), space.start.flatten()
            return ActionReader(MultiDiscreteActions(sizes), lambda a: (_flat(a) - start).astype(np.int64))
        case gymnasium.spaces.MultiBinary():
            return ActionReader(MultiDiscreteActions((2,) * int(np.prod(space.shape))), lambda a: _flat(a).astype(int))
        case gymnasium.spaces.Box():
            size = int(np.prod(space.shape))
            return ActionReader(ContinuousActions(size), lambda a: _flat(a).astype(np.float32))
    raise ValueError(
        f"actions must be Discrete, MultiDiscrete, MultiBinary or a Box, got {space}: wrap the environment"
    )


def _tensor(read: ObservationReader, raw: Any) -> Tensor:
    return torch.from_numpy(np.array(read(raw)))  # a vector environment may write its next answer into the same buffer


def _flat(actions: np.ndarray) -> np.ndarray:
    return actions.reshape(len(actions), -1)
