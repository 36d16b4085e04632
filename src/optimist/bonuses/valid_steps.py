"""Steps that are not valid are as good as not there: the one place where they are left out and put back in as 0."""

import functools
from collections.abc import Callable
from typing import Any, TypeVar, cast

import torch
from torch import Tensor

from optimist.bonuses.protocol import Transitions

Update = TypeVar("Update", bound=Callable[..., dict[str, float]])


def at_valid_steps(
    transitions: Transitions, read: Callable[[Transitions], Tensor], *, size: tuple[int, ...] = ()
) -> Tensor:
    """What ``read`` gives for the valid steps, which are all that it sees, at their places; 0 at the others.

    Shapes: read K valid transitions -> K numbers, or (K, *size) -> (T, N, *size).
    """
    shape = (*transitions.ended.shape, *size)
    valid = transitions.only_valid
    if valid is None:
        return torch.zeros(shape)
    values = read(valid)
    if valid is transitions:
        return values.reshape(shape)
    placed = values.new_zeros(transitions.ended.numel(), *size)
    placed[transitions.rows] = values.reshape(-1, *size)
    return placed.reshape(shape)


def from_valid_steps(update: Update) -> Update:
    """The method ``update(self, transitions)`` given the valid steps alone; without any it is not called."""

    @functools.wraps(update)
    def learned(self: Any, transitions: Transitions) -> dict[str, float]:
        valid = transitions.only_valid
        return {} if valid is None else update(self, valid)

    return cast("Update", learned)
