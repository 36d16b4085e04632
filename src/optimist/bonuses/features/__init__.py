"""Features of a policy network: what a state looks like to the bonus.

================ =========================================================================== ====================
name             feature of a state                                                          size, paper's network
================ =========================================================================== ====================
``gradient``     the exact gradient of the loss in trunk and actor, never written out         1.2 million
``sketch``       a random projection of that gradient, layer by layer                         about 1,700
``last-layer``   the gradient in the last linear layer alone                                  449 per action
``penultimate``  the input of the last linear layer                                           448
``observations`` the observation itself, flattened: vectors that you bring, no network        their own
================ =========================================================================== ====================
"""

from optimist.bonuses.features.batch import BlockFeatures, Dense, FeatureBatch
from optimist.bonuses.features.losses import ArgmaxLoss, FisherLoss, GaussianLoss, Loss, MultiDiscreteLoss
from optimist.bonuses.features.maps import (
    NAMES,
    FeatureMap,
    GradientFeatures,
    LastLayerFeatures,
    ObservationFeatures,
    PenultimateFeatures,
    make,
    still_fits,
)
from optimist.bonuses.features.sketch import SketchFeatures

__all__ = [
    "NAMES",
    "ArgmaxLoss",
    "BlockFeatures",
    "Dense",
    "FeatureBatch",
    "FeatureMap",
    "FisherLoss",
    "GaussianLoss",
    "GradientFeatures",
    "LastLayerFeatures",
    "Loss",
    "MultiDiscreteLoss",
    "ObservationFeatures",
    "PenultimateFeatures",
    "SketchFeatures",
    "make",
    "still_fits",
]
