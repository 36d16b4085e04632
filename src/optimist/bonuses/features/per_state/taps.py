"""One forward and one backward pass of a batch, with what enters each layer and the gradient at what leaves it."""

import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.graph import GradientEdge, get_gradient_edge

from optimist.bonuses.features.losses import Loss
from optimist.bonuses.features.per_state.isolation import detached_parameters, losses, parameter_name
from optimist.bonuses.observations import Observations, count, named, take

READ_NUMBERS = 2**21
"""How many numbers of observations a network reads at a time: 8 megabytes in single precision.

Measured, one core, the paper's network: 650 microseconds per state in batches of 64 or 96 images; 760 in batches of 128
and 920 in batches of 512, whose temporaries glibc's allocator gives back to the system and gets as new pages again.
"""


@dataclass(frozen=True)
class Tap:
    """The input h of a layer and the gradient e of the summed loss at its output, n states each.

    The gradient of state n in the layer's weights is a function of ``inputs[n]`` and ``gradients[n]`` alone.
    """

    inputs: Tensor
    gradients: Tensor


@dataclass(frozen=True)
class Call:
    """One use of a layer: its input, and where in the graph its output's gradient passes.

    The edge stands for the output as the layer made it, even if an activation then overwrites it in place.
    """

    inputs: Tensor
    edge: GradientEdge


def capture(
    network: nn.Module, loss: Loss, observations: Observations, layers: Mapping[str, nn.Module]
) -> dict[str, Tap]:
    """The tap of every layer that was used exactly once and moves the loss, in the order of use.

    Only what lies after the first of ``layers`` is differentiated, and only once for the whole batch. Call inside
    ``isolated``.
    """
    parameters = detached_parameters(network)
    for name, layer in layers.items():
        for key, _ in layer.named_parameters(recurse=False):
            parameters[parameter_name(name, key)].requires_grad_()
    with recorded(layers) as calls:
        total = losses(network, loss, parameters, observations).sum()
    once = {name: uses[0] for name, uses in calls.items() if len(uses) == 1}
    if not once or not total.requires_grad:
        return {}
    gradients = torch.autograd.grad(total, [call.edge for call in once.values()], allow_unused=True)
    taps = {}
    for (name, call), gradient in zip(once.items(), gradients, strict=True):
        if gradient is not None:
            taps[name] = Tap(call.inputs, gradient)
    return taps


@contextmanager
def recorded(layers: Mapping[str, nn.Module]) -> Iterator[dict[str, list[Call]]]:
    """The uses of each layer while the context is open, by name, in the order of first use."""
    calls: dict[str, list[Call]] = {}
    handles = []

    def listen(name: str, layer: nn.Module) -> None:
        def hook(_: nn.Module, args: tuple[Any, ...], keywords: dict[str, Any], outputs: Tensor) -> None:
            inputs = args[0] if args else keywords["input"]
            if outputs.requires_grad:  # it does not where the network itself turns gradients off: then it moves no loss
                calls.setdefault(name, []).append(Call(inputs.detach(), get_gradient_edge(outputs)))

        handles.append(layer.register_forward_hook(hook, with_kwargs=True))

    try:
        for name, layer in layers.items():
            listen(name, layer)
        yield calls
    finally:
        for handle in handles:
            handle.remove()


def pieces(observations: Observations) -> Iterator[Observations]:
    """The batch in order, in even pieces of at most ``READ_NUMBERS`` numbers, or of one row."""
    n = count(observations)
    number = min(n, math.ceil(sum(tensor.numel() for tensor in named(observations).values()) / READ_NUMBERS))
    for k in range(number):
        yield take(observations, slice(k * n // number, (k + 1) * n // number))
