"""What an update of ACB steps through: which states of a rollout, their features, and the noise to be predicted."""

import math
from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from optimist.bonuses.acb.config import ACBConfig
from optimist.bonuses.acb.sharing import SharedSteps
from optimist.bonuses.features.batch import FeatureBatch


def minibatch_rows(total: int, config: ACBConfig, *, generator: torch.Generator) -> list[Tensor]:
    """The rows of a rollout of ``total`` states that each step of an update is made of, a new shuffle every epoch.

    Without a number of minibatches an epoch takes ``fraction`` of the states and cuts them evenly into steps of at most
    ``minibatch_size``; with one, the rollout is cut into that many and ``fraction`` of each is taken, up to
    ``minibatch_size``.
    """
    least = 2 if config.statistics in ("batch", "rollout") else 1
    if total < least:
        raise ValueError(
            f"batch statistics need a rollout of at least two states, got {total}: use statistics='running'"
        )
    schedule = []
    for _ in range(config.solver.epochs):
        order = torch.randperm(total, generator=generator)
        if config.minibatches:
            for some in order.tensor_split(min(config.minibatches, total // least)):
                taken = min(config.minibatch_size, max(least, round(config.fraction * len(some))))
                schedule.append(some[:taken])
        else:
            kept = order[: max(least, round(config.fraction * total))]
            steps = min(math.ceil(len(kept) / config.minibatch_size), len(kept) // least)
            schedule.extend(kept.tensor_split(steps))
    return schedule


def noise_minibatches(
    steps: SharedSteps,
    schedule: Sequence[Tensor],
    total: int,
    config: ACBConfig,
    *,
    like: Tensor,
    generator: torch.Generator,
) -> Iterator[tuple[FeatureBatch, Tensor]]:
    """The raw features of every step, and noise of N(0, 1) to be predicted from them, (n, m).

    Noise is drawn for all rows of a step, whichever of them this rank reads.

    Paper: Algorithm 2, line 10.
    """
    members = config.ensemble_size
    tied = torch.randn(total, members, generator=generator) if config.targets == "per-rollout" else None
    for rows in schedule:
        noise = torch.randn(len(rows), members, generator=generator) if tied is None else tied[rows]
        yield steps.features(rows), steps.kept(rows, noise).to(like)
