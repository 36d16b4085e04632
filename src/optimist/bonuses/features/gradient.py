"""The exact gradient of the policy's loss in every parameter that moves it, in blocks that are never written out."""

from collections.abc import Sequence

import torch
from torch import nn

from optimist.bonuses.features.blocks import Block, BlockFeatures, Rows
from optimist.bonuses.features.feature_map import Observations, count
from optimist.bonuses.features.inspection import inspect
from optimist.bonuses.features.isolation import parameter_name
from optimist.bonuses.features.layers import parameter_blocks
from optimist.bonuses.features.loss import Loss
from optimist.bonuses.features.plan import layer_taps, other_rows


class GradientFeatures:
    """``g(x) = d loss(x) / d theta``, theta being the trunk and the actor: the critic does not move the loss.

    One forward and one backward pass a batch. Linear layers stay outer products, convolutions are written out (they
    have few weights), every other parameter comes from ``torch.func``. Block ``k`` belongs to the parameter
    ``names[k]``. ``example`` is n >= 1 observations (n, ...) of any value; the network is run on it to find what moves
    the loss.
    Paper: section 4, the gradient representation ``g(x; f, theta)``.
    """

    def __init__(self, network: nn.Module, loss: Loss, example: Observations):
        self.network = network
        self.loss = loss
        self.plan = inspect(network, loss, example)

    @property
    def names(self) -> Sequence[str]:
        """The parameter of each block."""
        return tuple(self.plan.shapes)

    @property
    def shapes(self) -> Sequence[torch.Size]:
        """The shapes of these parameters; their sizes add up to d."""
        return tuple(self.plan.shapes.values())

    def __call__(self, observations: Observations) -> BlockFeatures:
        """The gradients of a batch. Shapes: observations (n, ...) -> n features."""
        blocks: dict[str, Block] = {}
        for name, (layer, tap) in layer_taps(self.network, self.loss, observations, self.plan.layers).items():
            blocks.update({parameter_name(name, key): block for key, block in parameter_blocks(layer, tap).items()})
        for name, rows in other_rows(self.network, self.loss, observations, self.plan).items():
            blocks[name] = Rows(rows)
        return BlockFeatures([blocks[name] for name in self.names], count(observations))
