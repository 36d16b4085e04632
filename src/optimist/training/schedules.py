"""The step size of Adam along a run."""

import math

import torch

from optimist.training.config import TrainConfig


def learning_rate(config: TrainConfig, step: int) -> float:
    """Adam's step size in the update of the rollout that began at ``step``, for ``t = step / total_steps``:

    ``learning_rate`` itself (constant), times ``1 - t`` (linear), times ``(1 + cos(pi t)) / 2`` (cosine). It is a
    function of the step alone, so a resumed run goes on with it; one with another end follows the new ``total_steps``.
    """
    done = min(1.0, step / config.total_steps)
    share = {"constant": 1.0, "linear": 1 - done, "cosine": (1 + math.cos(math.pi * done)) / 2}
    return config.learning_rate * share[config.learning_rate_schedule]


def set_learning_rate(optimizer: torch.optim.Optimizer, rate: float) -> None:
    """Use ``rate`` from now on."""
    for group in optimizer.param_groups:
        group["lr"] = rate
