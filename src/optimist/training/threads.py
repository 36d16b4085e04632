"""How many threads PyTorch computes with: one for small networks, all cores for large ones."""

import os

import torch
from torch import Tensor, nn

from optimist.bonuses.observations import Observations, count
from optimist.training.agent import Agent
from optimist.training.config import TrainConfig

THREADED_FROM = 2**30
"""Multiplications per minibatch, forward, from which several threads are used: some 50 ms of one core with backward.

Threads wait for each other after every operation. If another process has their core that takes as long as the system's
time slice: on a busy machine DoorKey's network (46 million) ran at 40 steps per second instead of 2,500. Below this
number the gain on an idle machine is small; above it an operation outlasts the waiting.
"""


def usable_cores() -> int:
    """The cores that this process may use, and at most ``OMP_NUM_THREADS``, which schedulers and torchrun set."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    given = os.environ.get("OMP_NUM_THREADS", "")
    return min(cores, int(given)) if given.isdecimal() and int(given) > 0 else cores


def fitting_threads(config: TrainConfig, agent: Agent, example: Observations) -> int:
    """The threads for a run: `usable_cores` if a minibatch takes `THREADED_FROM` multiplications, else one.

    A rule and not a measurement: another number of threads may change the last bits, and runs repeat. ``example`` is
    any batch of observations.
    """
    states = config.rollout_steps / config.minibatches
    return usable_cores() if multiplications(agent, example) * states >= THREADED_FROM else 1


@torch.no_grad()
def multiplications(agent: Agent, example: Observations) -> float:
    """Multiplications of linear layers and convolutions per state, forward. Shapes: example (n, ...)."""
    total, states = 0, count(example)

    def add(layer: nn.Module, _: object, made: Tensor) -> None:
        nonlocal total
        weight = layer.weight
        # Every number of a linear layer, or of a convolution, is a product with one row of its weights.
        total += made.numel() * (weight.numel() // len(weight))  # pyrefly: ignore

    layers = [module for module in agent.modules() if isinstance(module, nn.Linear | nn.Conv2d)]
    hooks = [layer.register_forward_hook(add) for layer in layers]
    try:
        agent.valued(agent.step(example, agent.first_hidden(states))[1])
    finally:
        for hook in hooks:
            hook.remove()
    return total / states
