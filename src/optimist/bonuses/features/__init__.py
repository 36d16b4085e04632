"""Features of a policy network: what a state looks like to the bonus.

=============== =========================================================================== ====================
name            feature of a state                                                          size, paper's network
=============== =========================================================================== ====================
``gradient``    the exact gradient of the loss in trunk and actor, never written out         1.2 million
``sketch``      a random projection of that gradient, layer by layer                         about 1,700
``last-layer``  the gradient in the last linear layer alone                                  449 an action
``penultimate`` the input of the last linear layer                                           448
=============== =========================================================================== ====================
"""

import difflib
from collections.abc import Callable, Mapping
from typing import Any

from torch import Tensor, nn

from optimist.bonuses.features.batch import Dense, FeatureBatch
from optimist.bonuses.features.blocks import BlockFeatures
from optimist.bonuses.features.feature_map import FeatureMap, Observations
from optimist.bonuses.features.gradient import GradientFeatures
from optimist.bonuses.features.last_layer import LastLayerFeatures
from optimist.bonuses.features.loss import ArgmaxLoss, GaussianLoss, Loss, MultiDiscreteLoss, Weighting, forward
from optimist.bonuses.features.penultimate import PenultimateFeatures
from optimist.bonuses.features.sketch import DEFAULT_SIDE, Side, SketchFeatures, affordable_sketch

__all__ = [
    "ArgmaxLoss",
    "BlockFeatures",
    "Dense",
    "FeatureBatch",
    "FeatureMap",
    "GaussianLoss",
    "GradientFeatures",
    "LastLayerFeatures",
    "Loss",
    "MultiDiscreteLoss",
    "Observations",
    "PenultimateFeatures",
    "SketchFeatures",
    "make",
]

NAMES = ("gradient", "sketch", "last-layer", "penultimate")


def make(
    name: str,
    network: nn.Module,
    example_observation: Observations,
    *,
    seed: int,
    loss: Loss | None = None,
    weighting: Weighting = "none",
    logits: Callable[[nn.Module, Any], Tensor] = forward,
    side: Side | Mapping[str, Side] = DEFAULT_SIDE,
) -> FeatureMap:
    """The feature map called ``name``, one of ``NAMES``, of a policy network.

    ``example_observation`` is n >= 1 observations with their batch axis, (n, ...) or a dictionary of such; zeros will
    do. ``seed`` draws the projections of ``sketch``; the others have no chance in them. ``loss`` is the cross-entropy
    at the argmax, with ``weighting`` and ``logits`` (see ``ArgmaxLoss``), unless another is given. ``side`` is for
    ``sketch``; 0 is the largest of 64, 32 and 16 with which the sketch has at most 2,500 dimensions, or 8.
    """
    if loss is not None and (weighting != "none" or logits is not forward):
        raise ValueError("weighting and logits belong to the default loss: give them to the loss that you pass instead")
    chosen = ArgmaxLoss(weighting, logits) if loss is None else loss
    match name:
        case "gradient":
            return GradientFeatures(network, chosen, example_observation)
        case "sketch":
            if side == 0:
                return affordable_sketch(network, chosen, example_observation, seed=seed)
            return SketchFeatures(network, chosen, example_observation, seed=seed, side=side)
        case "last-layer":
            return LastLayerFeatures(network, chosen, example_observation)
        case "penultimate":
            return PenultimateFeatures(network, chosen, example_observation)
    near = difflib.get_close_matches(name, NAMES, n=1)
    meant = f"did you mean {near[0]!r}?" if near else "choose one of these"
    raise ValueError(f"features must be one of {', '.join(NAMES)}, got {name!r}: {meant}")
