"""The input of the policy's last linear layer."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from optimist.bonuses.features.batch import Dense
from optimist.bonuses.features.feature_map import Observations, pieces
from optimist.bonuses.features.inspection import inspect
from optimist.bonuses.features.loss import Loss
from optimist.bonuses.features.plan import Plan, layer_taps


class PenultimateFeatures:
    """``h(x)``, what enters the last linear layer that moves the loss; of several positions, all of them in a row.

    Paper: section 4 and Figure 3, the penultimate-layer representation.
    """

    def __init__(self, network: nn.Module, loss: Loss, example: Observations):
        self.network = network
        self.loss = loss
        self.layer = last_linear_layer(network, inspect(network, loss, example))
        self.shapes: Sequence[torch.Size] = self(example).shapes

    def __call__(self, observations: Observations) -> Dense:
        """The hidden state of a batch. Shapes: observations (n, ...) -> (n, d), d the input width of the last layer."""
        return Dense(torch.cat([self._hidden(some) for some in pieces(observations)]))

    def _hidden(self, observations: Observations) -> Tensor:
        _, tap = layer_taps(self.network, self.loss, observations, (self.layer,))[self.layer]
        return tap.inputs.flatten(1)


def last_linear_layer(network: nn.Module, plan: Plan) -> str:
    """The name of the linear layer that is used last on the way to the loss."""
    linear = [name for name in plan.layers if isinstance(network.get_submodule(name), nn.Linear)]
    if not linear:
        raise ValueError(
            "the last layer of the policy must be an ordinary nn.Linear that is used once for each state, got none "
            f"(layers found: {list(plan.layers)}): use features 'gradient' or 'sketch', which take any network"
        )
    return linear[-1]
