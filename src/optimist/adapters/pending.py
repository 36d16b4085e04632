"""The steps that a bonus has not learned from yet, in their order."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from optimist.bonuses.transitions import Transitions, join_transitions


class Pending:
    """Transitions one after the other, each (T, N, ...) with the same N."""

    def __init__(self) -> None:
        self._pieces: list[Transitions] = []
        self.steps = 0
        """Valid steps of all environments that are held."""

    def add(self, transitions: Transitions) -> int:
        """The number of valid steps that were added: those of ``transitions``."""
        count = transitions.terminated.numel() if transitions.valid is None else int(transitions.valid.sum())
        self._pieces.append(transitions)
        self.steps += count
        return count

    def followed_by(self, transitions: Transitions) -> Transitions:
        """What is held and then ``transitions``, as one rollout."""
        if len(self._pieces) > 1:
            self._pieces = [join_transitions(self._pieces)]  # so that the next call copies them in one piece
        return join_transitions([*self._pieces, transitions])

    def cut(self, which: Tensor) -> Tensor:
        """Let the latest valid step of the chosen environments be the last of its episode.

        Returns those of the chosen that have no valid step here. Shapes: (N,) -> (N,), bool.
        """
        missing = which.clone()
        for k in reversed(range(len(self._pieces))):
            if not missing.any():
                break
            piece = self._pieces[k]
            valid = torch.ones_like(piece.terminated) if piece.valid is None else piece.valid
            here = (missing & valid.any(0)).nonzero().squeeze(1)
            latest = piece.steps - 1 - valid.flip(0).int().argmax(0)[here]
            truncated = piece.truncated.clone()
            truncated[latest, here] |= ~piece.terminated[latest, here]
            self._pieces[k] = replace(piece, truncated=truncated)
            missing[here] = False
        return missing

    @property
    def over(self) -> Tensor:
        """Whether the episode of every environment is over after the latest step held, (N,)."""
        held = join_transitions(self._pieces)
        valid = torch.ones_like(held.ended) if held.valid is None else held.valid
        latest = held.steps - 1 - valid.flip(0).int().argmax(0)
        return held.ended.gather(0, latest.unsqueeze(0)).squeeze(0)

    def taken(self, batch_size: int) -> list[Transitions]:
        """What was held, in rollouts of at most ``batch_size`` steps (of one step of each environment at least)."""
        pieces = list(split(join_transitions(self._pieces), batch_size)) if self._pieces else []
        self._pieces, self.steps = [], 0
        return pieces

    def state_dict(self) -> dict[str, Any]:
        """The transitions as tensors; nothing if there are none."""
        if not self._pieces:
            return {}
        held = join_transitions(self._pieces)
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


def split(transitions: Transitions, batch_size: int) -> Iterator[Transitions]:
    """Rollouts of whole time steps with at most ``batch_size`` transitions each, but at least one time step."""
    rows = max(1, batch_size // transitions.n_envs)
    for start in range(0, transitions.steps, rows):
        at = slice(start, start + rows)
        yield transitions if rows >= transitions.steps else transitions.mapped(lambda part, at=at: part[at])
