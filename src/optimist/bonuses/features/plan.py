"""How each parameter of a network is differentiated, and doing so for a batch."""

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from optimist.bonuses.features.feature_map import Observations
from optimist.bonuses.features.isolation import isolated, readable
from optimist.bonuses.features.layers import native_layers
from optimist.bonuses.features.loss import Loss
from optimist.bonuses.features.per_sample import looped_gradients, vectorised_gradients
from optimist.bonuses.features.taps import Tap, capture


@dataclass(frozen=True)
class Plan:
    """How each parameter that moves the loss is differentiated; made by ``inspect``."""

    shapes: Mapping[str, torch.Size]
    """The parameters by name, in the network's order, without those of the critic."""
    layers: tuple[str, ...]
    """The layers with a product form, in the order of use."""
    others: tuple[str, ...]
    """The parameters that are left to ``torch.func``."""
    vectorised: bool
    """Whether ``vmap`` can run this network; if not, one backward pass a state serves ``others``."""


def layer_taps(
    network: nn.Module, loss: Loss, observations: Observations, names: tuple[str, ...]
) -> dict[str, tuple[nn.Linear | nn.Conv2d, Tap]]:
    """The named layers, each with its input and output gradient for the n states of the batch."""
    layers = native_layers(network)
    with isolated(network):
        taps = capture(network, loss, readable(observations), {name: layers[name] for name in names})
    missing = [name for name in names if name not in taps]
    if missing:
        raise ValueError(
            f"layers {missing} are not used exactly once for these observations, though they were for the example: "
            "build the features with an observation that takes the network's usual path"
        )
    return {name: (layers[name], taps[name]) for name in names}


def other_rows(network: nn.Module, loss: Loss, observations: Observations, plan: Plan) -> dict[str, Tensor]:
    """The gradients of the n states in the parameters without a product form, (n, *shape) each."""
    if not plan.others:
        return {}
    differentiate = vectorised_gradients if plan.vectorised else looped_gradients
    with isolated(network):
        return {
            name: rows.detach()
            for name, rows in differentiate(network, loss, readable(observations), plan.others).items()
        }
