"""The gradient of the policy's loss in its last linear layer alone."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from optimist.bonuses.features.batch import Dense
from optimist.bonuses.features.blocks import BlockFeatures
from optimist.bonuses.features.feature_map import Observations, count, pieces
from optimist.bonuses.features.inspection import inspect
from optimist.bonuses.features.layers import parameter_blocks
from optimist.bonuses.features.loss import Loss
from optimist.bonuses.features.penultimate import last_linear_layer
from optimist.bonuses.features.plan import layer_taps


class LastLayerFeatures:
    """``e (outer) [h, 1]`` of the last linear layer; for a softmax policy ``e = p(x) - onehot(argmax p(x))``.

    No backward pass through the trunk: only what follows the last layer is differentiated.
    Deviation: between the paper's two representations; the exact gradient with all blocks left out but the last.
    """

    def __init__(self, network: nn.Module, loss: Loss, example: Observations):
        self.network = network
        self.loss = loss
        self.layer = last_linear_layer(network, inspect(network, loss, example))
        self.shapes: Sequence[torch.Size] = self(example).shapes

    def __call__(self, observations: Observations) -> Dense:
        """The gradients, weights first. Shapes: observations (n, ...) -> (n, d), d = actions x (width + 1)."""
        return Dense(torch.cat([self._gradients(some) for some in pieces(observations)]))

    def _gradients(self, observations: Observations) -> Tensor:
        layer, tap = layer_taps(self.network, self.loss, observations, (self.layer,))[self.layer]
        return BlockFeatures(list(parameter_blocks(layer, tap).values()), count(observations)).dense()
