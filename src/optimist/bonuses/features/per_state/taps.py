"""One forward and one backward pass of a batch, with what enters each layer and the gradient at what leaves it."""

import math
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.graph import GradientEdge, get_gradient_edge

from optimist.bonuses.features.losses import Loss
from optimist.bonuses.features.per_state.isolation import one_per_state
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
    with differentiable(network, layers.values()), recorded(layers) as calls:
        losses = one_per_state(loss(network, observations), observations)
    once = {name: uses[0] for name, uses in calls.items() if len(uses) == 1}
    if not once or not losses.requires_grad:
        return {}
    edges = [call.edge for call in once.values()]
    gradients = torch.autograd.grad(losses, edges, torch.ones_like(losses), allow_unused=True)
    pairs = zip(once.items(), gradients, strict=True)
    return {name: Tap(call.inputs, gradient) for (name, call), gradient in pairs if gradient is not None}


@contextmanager
def differentiable(network: nn.Module, layers: Iterable[nn.Module]) -> Iterator[None]:
    """Inside, the layers' own parameters require a gradient and no others do, so that a graph starts at the layers.

    Nothing flows into a parameter: what is differentiated are outputs of layers. ``functional_call``, which would put
    other tensors in their place, takes ten times as long.
    """
    chosen = {id(parameter) for layer in layers for parameter in layer._parameters.values()}
    every = (parameter for module in network.modules() for parameter in module._parameters.values())
    other = [p for p in every if p is not None and p.requires_grad != (id(p) in chosen)]
    try:
        for parameter in other:
            parameter.requires_grad_(not parameter.requires_grad)
        yield
    finally:
        for parameter in other:
            parameter.requires_grad_(id(parameter) not in chosen)


@contextmanager
def recorded(layers: Mapping[str, nn.Module]) -> Iterator[dict[str, list[Call]]]:
    """The uses of each layer while the context is open, by name, in the order of first use.

    Each layer's ``forward`` is wrapped meanwhile. A forward hook would do the same, but sees what other hooks have made
    of the output, and a module with hooks is called by a slower way: 70 microseconds for three layers.
    """
    calls: dict[str, list[Call]] = {}
    before: list[tuple[dict[str, Any], Any]] = []

    def listen(name: str, layer: nn.Module) -> None:
        own = layer.forward

        def forward(input: Tensor) -> Tensor:
            outputs = own(input)
            if outputs.requires_grad:  # it does not where the network itself turns gradients off: then it moves no loss
                calls.setdefault(name, []).append(Call(input.detach(), get_gradient_edge(outputs)))
            return outputs

        before.append((vars(layer), vars(layer).get("forward")))
        vars(layer)["forward"] = forward

    try:
        for name, layer in layers.items():
            listen(name, layer)
        yield calls
    finally:
        for attributes, forward in before:
            if forward is None:
                del attributes["forward"]
            else:
                attributes["forward"] = forward


def pieces(observations: Observations) -> Iterator[Observations]:
    """The batch in order, in even pieces of at most ``READ_NUMBERS`` numbers, or of one row."""
    numbers = sum(tensor.numel() for tensor in named(observations).values())
    if numbers <= READ_NUMBERS:
        yield observations
        return
    n = count(observations)
    number = min(n, math.ceil(numbers / READ_NUMBERS))
    for k in range(number):
        yield take(observations, slice(k * n // number, (k + 1) * n // number))
