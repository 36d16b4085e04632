"""Which rows of a rollout each step of an update is made of."""

import math
from collections.abc import Iterator

import torch
from torch import Tensor

from optimist.bonuses.acb_config import ACBConfig


def minibatches(total: int, *, epochs: int, count: int, generator: torch.Generator) -> Iterator[Tensor]:
    """Indices of ``count`` near equal minibatches an epoch, from a fresh permutation of all rows each epoch."""
    for _ in range(epochs):
        order = torch.randperm(total, generator=generator)
        yield from (part for part in order.tensor_split(count) if len(part))


def minibatch_rows(total: int, config: ACBConfig, *, generator: torch.Generator) -> list[Tensor]:
    """The rows of a rollout of ``total`` states that each step of an update is made of, a new shuffle every pass.

    Without a number of minibatches a pass takes ``fraction`` of the states and cuts them evenly into steps of at most
    ``minibatch_size``; with one, the rollout is cut into that many and ``fraction`` of each is taken, up to
    ``minibatch_size``.
    """
    least = 2 if config.statistics in ("batch", "rollout") else 1
    if total < least:
        raise ValueError(
            f"batch statistics need a rollout of at least two states, got {total}: use statistics='running'"
        )
    schedule = []
    for _ in range(config.passes):
        order = torch.randperm(total, generator=generator)
        if config.minibatches:
            for part in order.tensor_split(min(config.minibatches, total // least)):
                taken = min(config.minibatch_size, max(least, round(config.fraction * len(part))))
                schedule.append(part[:taken])
        else:
            kept = order[: max(least, round(config.fraction * total))]
            steps = min(math.ceil(len(kept) / config.minibatch_size), len(kept) // least)
            schedule.extend(kept.tensor_split(steps))
    return schedule
