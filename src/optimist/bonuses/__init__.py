"""Exploration bonuses for deep networks: one protocol, `compute` that changes nothing and `update` that learns.

They know nothing of environments or of a training loop: a bonus reads `Transitions` and gives rewards (T, N).
"""

from optimist.bonuses.acb import ACB
from optimist.bonuses.acb_config import ACBConfig
from optimist.bonuses.actions import Actions, ContinuousActions, DiscreteActions, MultiDiscreteActions
from optimist.bonuses.combination import Product, Sum
from optimist.bonuses.counts import HashCount, HashCountConfig
from optimist.bonuses.elliptical import Elliptical, EllipticalConfig
from optimist.bonuses.episodic import E3B, E3BConfig, Embedding, FixedEmbedding
from optimist.bonuses.episodic_count import EpisodicCount, EpisodicCountConfig
from optimist.bonuses.factory import make
from optimist.bonuses.features import GaussianLoss, MultiDiscreteLoss
from optimist.bonuses.icm import ICM, ICMConfig
from optimist.bonuses.inverse_dynamics import InverseDynamics, InverseDynamicsConfig
from optimist.bonuses.normalization import ReturnScale, RunningMoments, Whitening
from optimist.bonuses.observations import Discrete, ObservationShape
from optimist.bonuses.presets import DEFAULT, PAPER, PRESETS, RELEASED
from optimist.bonuses.protocol import Bonus, Observations, Transitions
from optimist.bonuses.rnd import RND, RNDConfig

__all__ = [
    "ACB",
    "DEFAULT",
    "E3B",
    "ICM",
    "PAPER",
    "PRESETS",
    "RELEASED",
    "RND",
    "ACBConfig",
    "Actions",
    "Bonus",
    "ContinuousActions",
    "Discrete",
    "DiscreteActions",
    "E3BConfig",
    "Elliptical",
    "EllipticalConfig",
    "Embedding",
    "EpisodicCount",
    "EpisodicCountConfig",
    "FixedEmbedding",
    "GaussianLoss",
    "HashCount",
    "HashCountConfig",
    "ICMConfig",
    "InverseDynamics",
    "InverseDynamicsConfig",
    "MultiDiscreteActions",
    "MultiDiscreteLoss",
    "ObservationShape",
    "Observations",
    "Product",
    "RNDConfig",
    "ReturnScale",
    "RunningMoments",
    "Sum",
    "Transitions",
    "Whitening",
    "make",
]
