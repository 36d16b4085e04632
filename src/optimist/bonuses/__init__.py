"""Exploration bonuses for deep networks: `compute` gives rewards and changes nothing, `update` learns.

- `make` builds a bonus by its name and `names` lists them; each has a class and a configuration, as `RND`, `RNDConfig`.
- `Bonus` is what all of them are, and what a bonus of your own is a subclass of. It reads `Transitions`, (T, N, ...),
  and gives rewards (T, N). It knows nothing of environments or of a training loop.
- `Product` and `Sum` combine two bonuses, `NoveltyGain` is the gain of one along a step. `ReturnScale`, `Whitening` and
  `RunningMoments` normalize.
- `Discrete` and ``...Actions`` say what observations and actions are like; ``...Loss`` how a policy is differentiated.
"""

from optimist.bonuses.acb.bonus import ACB
from optimist.bonuses.acb.config import (
    DEFAULT,
    PAPER,
    PRESETS,
    RELEASED,
    ACBConfig,
    Auto,
    Exact,
    Proximal,
    RMSprop,
    Streaming,
)
from optimist.bonuses.actions import Actions, ContinuousActions, DiscreteActions, MultiDiscreteActions
from optimist.bonuses.combination import Combination, NoveltyGain, NoveltyGainConfig, Product, Sum
from optimist.bonuses.counting.episodic_count import EpisodicCount, EpisodicCountConfig
from optimist.bonuses.counting.hash_count import HashCount, HashCountConfig
from optimist.bonuses.e3b import E3B, E3BConfig, Embedding, FixedEmbedding
from optimist.bonuses.elliptical import Elliptical, EllipticalConfig
from optimist.bonuses.factory import Task, make, names, parse
from optimist.bonuses.features import FisherLoss, GaussianLoss, MultiDiscreteLoss
from optimist.bonuses.learned.icm import ICM, ICMConfig
from optimist.bonuses.learned.inverse_dynamics import InverseDynamics, InverseDynamicsConfig
from optimist.bonuses.learned.rnd import RND, RNDConfig
from optimist.bonuses.observations import Discrete, Observations, ObservationShape
from optimist.bonuses.protocol import Bonus
from optimist.bonuses.scaling import ReturnScale, RunningMoments, Whitening
from optimist.bonuses.transitions import Transitions

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
    "Auto",
    "Bonus",
    "Combination",
    "ContinuousActions",
    "Discrete",
    "DiscreteActions",
    "E3BConfig",
    "Elliptical",
    "EllipticalConfig",
    "Embedding",
    "EpisodicCount",
    "EpisodicCountConfig",
    "Exact",
    "FisherLoss",
    "FixedEmbedding",
    "GaussianLoss",
    "HashCount",
    "HashCountConfig",
    "ICMConfig",
    "InverseDynamics",
    "InverseDynamicsConfig",
    "MultiDiscreteActions",
    "MultiDiscreteLoss",
    "NoveltyGain",
    "NoveltyGainConfig",
    "ObservationShape",
    "Observations",
    "Product",
    "Proximal",
    "RMSprop",
    "RNDConfig",
    "ReturnScale",
    "RunningMoments",
    "Streaming",
    "Sum",
    "Task",
    "Transitions",
    "Whitening",
    "make",
    "names",
    "parse",
]
