"""What every bonus reads: T steps of N environments; steps that are not valid earn nothing and teach nothing."""

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any, TypeVar, cast

import torch
from torch import Tensor

from optimist.bonuses.observations import Observations, join, label, map_observations, named
from optimist.ranks import Ranks, SharedRows

FLOAT32_MAX = torch.finfo(torch.float32).max
Method = TypeVar("Method", bound=Callable[..., Any])


@dataclass(frozen=True, eq=False)
class Transitions:
    """T steps of N environments: ``(s_t, a_t, s_{t+1})`` and how each ended.

    ``next_observations[t]`` is the true next observation, also where an episode ends: the final one of that
    episode, never the first one of the next. Observations are a tensor or a flat mapping of tensors (a Dict).

    A step is not ``valid`` where the action was ignored because the environment was only resetting, as after an episode
    in Gymnasium's next-step autoreset: its bonus is 0 and nothing is learned from it, as if it were not there.

    Shapes: observations, next_observations (T, N, ...); actions (T, N) for discrete, (T, N, k) for multi-discrete and
    continuous ones; terminated, truncated (T, N), bool; valid (T, N), bool, or None: all are.
    """

    observations: Observations
    actions: Tensor
    next_observations: Observations
    terminated: Tensor
    truncated: Tensor
    valid: Tensor | None = None

    def __post_init__(self) -> None:
        leading = _leading_axes(self.actions)
        for name in ("terminated", "truncated") if self.valid is None else ("terminated", "truncated", "valid"):
            flags = getattr(self, name)
            if not isinstance(flags, Tensor) or flags.dtype != torch.bool or flags.shape != leading:
                raise ValueError(
                    f"{name} must be a bool tensor of shape {tuple(leading)}, got {_described(flags)}: "
                    "convert it with torch.as_tensor(..., dtype=torch.bool)"
                )
        _require_finite("actions", self.actions)
        for name in ("observations", "next_observations"):
            parts = named(getattr(self, name))
            if not parts:
                raise ValueError(f"{name} is an empty mapping: it must hold at least one tensor (T, N, ...)")
            for key, part in parts.items():
                _require_leading(label(name, key), part, leading)
                _require_finite(label(name, key), part)
        _require_alike(self.observations, self.next_observations)

    @property
    def steps(self) -> int:
        """T, the number of steps."""
        return self.actions.shape[0]

    @property
    def n_envs(self) -> int:
        """N, the number of environments."""
        return self.actions.shape[1]

    @property
    def ended(self) -> Tensor:
        """Whether an episode ended with the step, by termination or truncation, (T, N); never where it is not valid."""
        ended = self.terminated | self.truncated
        return ended if self.valid is None else ended & self.valid

    @property
    def rows(self) -> Tensor:
        """The places ``t N + n`` of the valid steps among all, in time order, (K,)."""
        if self.valid is None:
            return torch.arange(self.terminated.numel(), device=self.terminated.device)
        return self.valid.flatten().nonzero().squeeze(1)

    @cached_property
    def only_valid(self) -> "Transitions | None":
        """The valid steps alone, (K, 1, ...), in time order; itself where all are valid, None where none is.

        Copied once, when first asked for: write into no tensor of a rollout after that, but make a new rollout.
        """
        if self.valid is None or bool(self.valid.all()):
            return self
        rows = self.rows
        if not len(rows):
            return None
        alone = self._mapped_fields(lambda part: part.flatten(0, 1)[rows].unsqueeze(1))
        return Transitions(**(alone | {"valid": None}))

    @cached_property
    def on_cpu(self) -> "Transitions":
        """The transitions on the CPU; itself where they are there already. Copied once, as `only_valid`."""
        parts = [self.terminated, *named(self.observations).values(), *named(self.next_observations).values()]
        return self if all(part.device.type == "cpu" for part in parts) else self.mapped(Tensor.cpu)

    def mapped(self, function: Callable[[Tensor], Tensor]) -> "Transitions":
        """The transitions with ``function`` of every tensor: on another device, or some of the steps."""
        return Transitions(**self._mapped_fields(function))

    def _mapped_fields(self, function: Callable[[Tensor], Tensor]) -> dict[str, Any]:
        given = {field.name: getattr(self, field.name) for field in fields(self)}
        return {name: None if value is None else map_observations(function, value) for name, value in given.items()}


def join_transitions(pieces: Sequence[Transitions]) -> Transitions:
    """The rollouts one after the other as one. Shapes: (T_k, N, ...) -> (sum T_k, N, ...)."""
    if len(pieces) == 1:
        return pieces[0]
    partly_valid = any(piece.valid is not None for piece in pieces)
    valid = [torch.ones_like(piece.terminated) if piece.valid is None else piece.valid for piece in pieces]
    return Transitions(
        join([piece.observations for piece in pieces]),
        torch.cat([piece.actions for piece in pieces]),
        join([piece.next_observations for piece in pieces]),
        torch.cat([piece.terminated for piece in pieces]),
        torch.cat([piece.truncated for piece in pieces]),
        torch.cat(valid) if partly_valid else None,
    )


def at_valid_steps(
    transitions: Transitions, read: Callable[[Transitions], Tensor], *, size: tuple[int, ...] = ()
) -> Tensor:
    """What ``read`` gives for the valid steps, which are all that it sees, at their places; 0 at the others.

    It is on the device of the transitions, wherever ``read`` has worked.
    Shapes: read K valid transitions -> K numbers, or (K, *size) -> (T, N, *size).
    """
    shape, device = (*transitions.ended.shape, *size), transitions.terminated.device
    valid = transitions.only_valid
    if valid is None:
        return torch.zeros(shape, device=device)
    values = read(valid).to(device)
    if valid is transitions:
        return values.reshape(shape)
    placed = values.new_zeros(transitions.ended.numel(), *size)
    placed[transitions.rows] = values.reshape(-1, *size)
    return placed.reshape(shape)


def require_environments(which: Tensor, n_envs: int) -> None:
    """An error unless ``which`` chooses among N environments: a bool tensor (N,)."""
    if not isinstance(which, Tensor) or which.dtype != torch.bool or which.shape != (n_envs,):
        raise ValueError(
            f"which must be a bool tensor of shape ({n_envs},), one entry per environment, got {_described(which)}"
        )


def shared_rows(transitions: Transitions, ranks: Ranks) -> SharedRows:
    """The valid steps of the transitions of all ``ranks`` as rows."""
    valid = transitions.valid
    return SharedRows(torch.ones_like(transitions.terminated) if valid is None else valid, ranks)


def from_valid_steps(update: Callable[..., dict[str, float]]) -> Callable[..., dict[str, float]]:
    """The method ``update(self, transitions, rows)`` called as ``update(transitions)``; without a valid step it is not.

    It is given the valid steps alone, and as ``rows`` where they stand among those of all of ``self.ranks``.
    """

    @functools.wraps(update)
    def learned(self: Any, transitions: Transitions) -> dict[str, float]:
        rows, valid = shared_rows(transitions, self.ranks), transitions.only_valid
        return {} if valid is None else update(self, valid, rows)

    del learned.__wrapped__  # pyrefly: ignore  # so that its signature is the one it is called by
    return learned


def read_on_cpu(method: Method) -> Method:
    """The method ``method(self, transitions)`` of a bonus that lives on the CPU, for transitions on any device.

    What it returns, if it is a tensor, goes back to their device.
    """

    @functools.wraps(method)
    def called(self: Any, transitions: Transitions) -> Any:
        result = method(self, transitions.on_cpu)
        return result.to(transitions.terminated.device) if isinstance(result, Tensor) else result

    return cast("Method", called)


def _leading_axes(actions: Tensor) -> torch.Size:
    if not isinstance(actions, Tensor) or actions.ndim < 2 or 0 in actions.shape[:2]:
        raise ValueError(
            f"actions must be a tensor (T, N) or (T, N, k) with at least one step and one environment, "
            f"got {_described(actions)}: stack the steps of a rollout along the first axis"
        )
    return actions.shape[:2]


def _require_leading(name: str, value: Tensor, leading: torch.Size) -> None:
    if not isinstance(value, Tensor) or value.shape[:2] != leading:
        raise ValueError(
            f"{name} must be a tensor ({leading[0]}, {leading[1]}, ...) like actions, got {_described(value)}: "
            "axes are (time, environment, ...), and nested mappings must be flattened"
        )


def _require_finite(name: str, value: Tensor) -> None:
    if value.is_complex():
        raise ValueError(f"{name} must be real, got dtype {value.dtype}")
    if not value.is_floating_point() or value.numel() == 0:
        return
    # NaN propagates through both; nothing of the input's size is allocated.
    low, high = (extreme.item() for extreme in torch.aminmax(value.detach()))
    if not (low >= -FLOAT32_MAX and high <= FLOAT32_MAX):
        raise ValueError(
            f"{name} must be finite in float32, got values from {low} to {high}: "
            "look for a diverged simulator or network before this rollout; nothing was changed"
        )


def _require_alike(observations: Observations, next_observations: Observations) -> None:
    before, after = _layout(observations), _layout(next_observations)
    if before != after or isinstance(observations, Mapping) != isinstance(next_observations, Mapping):
        raise ValueError(
            f"next_observations must have the layout of observations, {before}, got {after}: "
            "pass the true next observations, as the environment gave them"
        )


def _layout(observations: Observations) -> dict[str, tuple[tuple[int, ...], torch.dtype]]:
    return {name: (tuple(part.shape), part.dtype) for name, part in named(observations).items()}


def _described(value: object) -> str:
    if isinstance(value, Tensor):
        return f"a {value.dtype} tensor of shape {tuple(value.shape)}"
    return f"{type(value).__name__}"
