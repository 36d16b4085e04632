"""What every bonus reads (`Transitions`) and what every bonus is (`Bonus`)."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

import torch
from torch import Tensor

Observations = Tensor | Mapping[str, Tensor]
FLOAT32_MAX = torch.finfo(torch.float32).max


@dataclass(frozen=True, eq=False)
class Transitions:
    """T steps of N environments: ``(s_t, a_t, s_{t+1})`` and how each ended.

    ``next_observations[t]`` is the true successor, also where an episode ends: the final observation of the old
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
            for part, value in _named(name, getattr(self, name)):
                _require_leading(part, value, leading)
                _require_finite(part, value)
        _require_alike(self.observations, self.next_observations)

    @property
    def steps(self) -> int:
        """T, the number of steps."""
        return self.actions.shape[0]

    @property
    def environments(self) -> int:
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
            return torch.arange(self.terminated.numel())
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
        return Transitions(
            _chosen(self.observations, rows),
            self.actions.flatten(0, 1)[rows].unsqueeze(1),
            _chosen(self.next_observations, rows),
            self.terminated.flatten()[rows].unsqueeze(1),
            self.truncated.flatten()[rows].unsqueeze(1),
        )


class Bonus(Protocol):
    """An intrinsic reward: large where we have not learned enough about a transition's successor yet."""

    def compute(self, transitions: Transitions) -> Tensor:
        """The bonus of every transition, (T, N). Changes nothing: two calls give one answer."""
        ...

    def update(self, transitions: Transitions) -> dict[str, float]:
        """Metrics of learning from a rollout; none if no step is valid. With ``warm_up`` the only mutation."""
        ...

    def warm_up(self, transitions: Transitions) -> None:
        """Take the statistics of random play in before training: of observations alone, so nothing for most bonuses."""
        ...

    def state_dict(self) -> dict[str, Any]:
        """Copies of everything that changes or a seed has drawn: tensors, numbers, strings, nested dicts."""
        ...

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue exactly where ``state`` was taken. A state of another layout raises and changes nothing."""
        ...


def flatten_time(observations: Observations) -> Observations:
    """The observations with the time and environment axes merged. Shapes: (T, N, ...) -> (T N, ...), row t N + n."""
    if isinstance(observations, Tensor):
        return observations.flatten(0, 1)
    return {name: value.flatten(0, 1) for name, value in observations.items()}


def _chosen(observations: Observations, rows: Tensor) -> Observations:
    """The chosen rows as so many steps of one environment. Shapes: (T, N, ...), (K,) -> (K, 1, ...)."""
    if isinstance(observations, Tensor):
        return observations.flatten(0, 1)[rows].unsqueeze(1)
    return {name: value.flatten(0, 1)[rows].unsqueeze(1) for name, value in observations.items()}


def _leading_axes(actions: Tensor) -> torch.Size:
    if not isinstance(actions, Tensor) or actions.ndim < 2 or 0 in actions.shape[:2]:
        raise ValueError(
            f"actions must be a tensor (T, N) or (T, N, k) with at least one step and one environment, "
            f"got {_described(actions)}: stack the steps of a rollout along the first axis"
        )
    return actions.shape[:2]


def _named(name: str, observations: Observations) -> list[tuple[str, Tensor]]:
    if isinstance(observations, Mapping):
        if not observations:
            raise ValueError(f"{name} is an empty mapping: it must hold at least one tensor (T, N, ...)")
        return [(f"{name}[{key!r}]", value) for key, value in observations.items()]
    return [(name, observations)]


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
    low, high = torch.aminmax(value.detach())  # NaN propagates through both; nothing of the input's size is allocated
    if not (low >= -FLOAT32_MAX and high <= FLOAT32_MAX):
        raise ValueError(
            f"{name} must be finite in float32, got values from {low.item()} to {high.item()}: "
            "look for a diverged simulator or network before this rollout; nothing was changed"
        )


def _require_alike(observations: Observations, successors: Observations) -> None:
    before, after = _layout(observations), _layout(successors)
    if before != after:
        raise ValueError(
            f"next_observations must have the layout of observations, {before}, got {after}: "
            "pass the true successors, as the environment gave them"
        )


def _layout(observations: Observations) -> dict[str, tuple[tuple[int, ...], torch.dtype]]:
    return {key: (tuple(value.shape), value.dtype) for key, value in _named("", observations)}


def _described(value: object) -> str:
    if isinstance(value, Tensor):
        return f"a {value.dtype} tensor of shape {tuple(value.shape)}"
    return f"{type(value).__name__}"
