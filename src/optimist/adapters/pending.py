"""The steps that a bonus has not learned from yet, in their order."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from optimist.bonuses.protocol import Observations, Transitions


class Pending:
    """Transitions one after the other, each (T, N, ...) with the same N."""

    def __init__(self) -> None:
        self._pieces: list[Transitions] = []
        self.steps = 0
        """Valid steps of all environments that are held."""

    def add(self, transitions: Transitions) -> int:
        """The number of valid steps that were added."""
        if self._pieces and self._pieces[0].environments != transitions.environments:
            raise ValueError(
                f"transitions must be of {self._pieces[0].environments} environments as before, "
                f"got {transitions.environments}: use one intrinsic reward for one vector environment"
            )
        count = transitions.terminated.numel() if transitions.valid is None else int(transitions.valid.sum())
        self._pieces.append(transitions)
        self.steps += count
        return count

    def followed_by(self, transitions: Transitions) -> Transitions:
        """What is held and then ``transitions``, as one rollout."""
        if len(self._pieces) > 1:
            self._pieces = [joined(self._pieces)]  # so that the next call copies them in one piece
        return joined([*self._pieces, transitions])

    def cut(self, environments: Tensor) -> None:
        """Let the latest step of the chosen environments be the last of its episode. Shapes: (N,), bool."""
        if self._pieces:
            latest = self._pieces[-1]
            truncated = latest.truncated.clone()
            truncated[-1] |= environments & ~latest.terminated[-1]
            self._pieces[-1] = replace(latest, truncated=truncated)

    def taken(self, batch_size: int) -> list[Transitions]:
        """What was held, in rollouts of at most ``batch_size`` steps (of one step of each environment at least)."""
        pieces = list(split(joined(self._pieces), batch_size)) if self._pieces else []
        self._pieces, self.steps = [], 0
        return pieces

    def state_dict(self) -> dict[str, Any]:
        """The transitions as tensors; nothing if there are none."""
        if not self._pieces:
            return {}
        held = joined(self._pieces)
        state: dict[str, Any] = {
            name: part for name, part in vars(held).items() if isinstance(part, Tensor) and name in _FLAGS
        }
        for name in _OBSERVATIONS:
            observations = getattr(held, name)
            state[name] = {"tensor": observations} if isinstance(observations, Tensor) else {"dict": dict(observations)}
        return state

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Hold the saved transitions."""
        self._pieces, self.steps = [], 0
        if state:
            parts = {name: state.get(name) for name in _FLAGS}
            for name in _OBSERVATIONS:
                (kind, parts[name]), *_ = state[name].items()
                if kind not in ("tensor", "dict"):
                    raise ValueError(f"the saved {name} must be a tensor or a dict of them, got {kind!r}")
            self.add(Transitions(**parts))  # pyrefly: ignore


_FLAGS = ("actions", "terminated", "truncated", "valid")
_OBSERVATIONS = ("observations", "next_observations")


def joined(pieces: list[Transitions]) -> Transitions:
    """The rollouts one after the other as one. Shapes: (T_k, N, ...) -> (sum T_k, N, ...)."""
    if len(pieces) == 1:
        return pieces[0]
    partly = any(piece.valid is not None for piece in pieces)
    return Transitions(
        _joined_observations([piece.observations for piece in pieces]),
        torch.cat([piece.actions for piece in pieces]),
        _joined_observations([piece.next_observations for piece in pieces]),
        torch.cat([piece.terminated for piece in pieces]),
        torch.cat([piece.truncated for piece in pieces]),
        torch.cat([_valid(piece) for piece in pieces]) if partly else None,
    )


def split(transitions: Transitions, batch_size: int) -> Iterator[Transitions]:
    """Rollouts of whole time steps with at most ``batch_size`` transitions each, but at least one time step."""
    rows = max(1, batch_size // transitions.environments)
    for start in range(0, transitions.steps, rows):
        at = slice(start, start + rows)
        yield transitions if rows >= transitions.steps else _piece(transitions, at)


def _piece(transitions: Transitions, at: slice) -> Transitions:
    return Transitions(
        _sliced(transitions.observations, at),
        transitions.actions[at],
        _sliced(transitions.next_observations, at),
        transitions.terminated[at],
        transitions.truncated[at],
        None if transitions.valid is None else transitions.valid[at],
    )


def _valid(transitions: Transitions) -> Tensor:
    return torch.ones_like(transitions.terminated) if transitions.valid is None else transitions.valid


def _joined_observations(pieces: list[Observations]) -> Observations:
    first = pieces[0]
    if isinstance(first, Tensor):
        return torch.cat(pieces)  # pyrefly: ignore
    return {name: torch.cat([piece[name] for piece in pieces]) for name in first}  # pyrefly: ignore


def _sliced(observations: Observations, at: slice) -> Observations:
    if isinstance(observations, Tensor):
        return observations[at]
    return {name: part[at] for name, part in observations.items()}
