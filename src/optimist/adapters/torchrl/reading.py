"""TorchRL's tensordicts as `Transitions`: one step of an environment, a rollout with a time axis, or a loose batch."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from tensordict.utils import NestedKey, unravel_key
from torch import Tensor
from torchrl.data import Bounded, Categorical, MultiCategorical, MultiOneHot, OneHot, TensorSpec, Unbounded
from torchrl.envs import EnvBase

from optimist.bonuses.actions import Actions, ContinuousActions, DiscreteActions, MultiDiscreteActions
from optimist.bonuses.observations import Discrete, ObservationShape
from optimist.bonuses.protocol import Observations, Transitions

Steps = Any
"""A TensorDictBase: what lies under a key of it no type checker can tell."""


@dataclass(frozen=True)
class Rollout:
    """Transitions (T, N), and how they lay in a tensordict of ``batch`` with ``time`` among its axes, or nowhere."""

    transitions: Transitions
    batch: torch.Size
    time: int | None

    def restored(self, rewards: Tensor) -> Tensor:
        """Rewards as TorchRL has them. Shapes: (T, N) -> (*batch, 1)."""
        if self.time is None:
            return rewards.reshape(*self.batch, 1)
        others = [size for axis, size in enumerate(self.batch) if axis != self.time]
        return rewards.reshape(len(rewards), *others).movedim(0, self.time).unsqueeze(-1)


@dataclass(frozen=True)
class TransitionReader:
    """How to read steps: which keys, and what their specifications said about them."""

    observation_keys: tuple[NestedKey, ...]
    observation_shape: ObservationShape
    action_key: NestedKey
    actions: Actions | None
    one_hot: bool
    reward_key: NestedKey

    def rollout(self, now: Steps, after: Steps) -> Rollout:
        """The steps from ``now`` to ``after``; without an axis named "time" they are one step of N environments."""
        time = now.names.index("time") if "time" in now.names else None
        batch = now.batch_size

        def rows(value: Tensor) -> Tensor:  # (*batch, ...) -> (T, N, ...)
            value = value.unsqueeze(0) if time is None else value.movedim(time, 0)
            others = len(batch) + (time is None)
            return value.reshape(len(value), math.prod(value.shape[1:others]), *value.shape[others:])

        def flags(source: Steps, key: NestedKey) -> Tensor | None:
            value = source.get(key, None)
            return None if value is None else rows(value.reshape(batch))

        def observed(source: Steps) -> Observations:
            parts = {_name(key): rows(source[key]) for key in self.observation_keys}
            return parts if len(parts) > 1 else next(iter(parts.values()))

        truncated = flags(after, "truncated")
        terminated = flags(after, "terminated" if truncated is not None else "done")
        if terminated is None:
            raise ValueError(f"steps must say 'done' or 'terminated', got {sorted(map(str, after.keys()))}")
        valid = flags(now, "_step")  # what an environment was told to leave out, and what was only padded
        transitions = Transitions(
            observed(now),
            self._indices(rows(now[self.action_key])),
            observed(after),
            terminated,
            torch.zeros_like(terminated) if truncated is None else truncated,
            flags(now, ("collector", "mask")) if valid is None else valid,
        )
        return Rollout(transitions, batch, time)

    def _indices(self, actions: Tensor) -> Tensor:
        """Indices of one-hot actions; others as they are."""
        if not self.one_hot:
            return actions
        if isinstance(self.actions, MultiDiscreteActions):
            return torch.stack([part.int().argmax(-1) for part in actions.split(self.actions.sizes, dim=-1)], dim=-1)
        return actions.int().argmax(-1)


def reader_of(env: EnvBase, in_keys: Sequence[NestedKey] | None) -> TransitionReader:
    """How to read the steps of ``env``: the observations ``in_keys``, or all of them."""
    specs: Any = env  # its properties are made by a metaclass, which no type checker follows
    found = {unravel_key(key): spec for key, spec in specs.full_observation_spec_unbatched.items(True, True)}
    keys = tuple(found) if in_keys is None else tuple(map(unravel_key, in_keys))
    if not keys or set(keys) - set(found):
        raise ValueError(f"in_keys must be among the observations {list(found)}, at least one, got {list(keys)}")
    shapes = {_name(key): _observation_shape(found[key]) for key in keys}
    spec = specs.full_action_spec_unbatched[specs.action_key]
    return TransitionReader(
        observation_keys=keys,
        observation_shape=shapes if len(keys) > 1 else next(iter(shapes.values())),
        action_key=specs.action_key,
        actions=_actions(spec),
        one_hot=isinstance(spec, OneHot),
        reward_key="reward" if "reward" in specs.reward_keys else specs.reward_keys[0],
    )


def _name(key: NestedKey) -> str:
    return key if isinstance(key, str) else ".".join(map(str, key))


def _observation_shape(spec: TensorSpec) -> tuple[int, ...] | Discrete:
    if isinstance(spec, Categorical) and not spec.shape:
        return Discrete(int(spec.space.n))
    return tuple(spec.shape)


def _actions(spec: TensorSpec) -> Actions | None:
    """The kind of actions, or None if none of ours: then only a bonus that reads actions will say so."""
    if isinstance(spec, MultiOneHot | MultiCategorical) and len(spec.shape) == 1:
        return MultiDiscreteActions(tuple(int(n) for n in spec.nvec))
    if isinstance(spec, OneHot) or (isinstance(spec, Categorical) and not spec.shape):
        return DiscreteActions(int(spec.space.n))
    if isinstance(spec, Bounded | Unbounded) and len(spec.shape) == 1 and spec.dtype.is_floating_point:
        return ContinuousActions(spec.shape[0])
    return None
