"""The bonus inside the training loop you already have: one room per host, each of which needs its host installed.

`IntrinsicReward` serves any loop, `BonusVectorEnv` any Gymnasium vector environment; `optimist.adapters.rlexplore` has
the shape of RLeXplore's rewards. Importing this package imports neither a host nor PyTorch: a name is looked up when it
is asked for, and the error for a host that is missing names the extra that installs it.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from optimist.adapters.gymnasium import BonusVectorEnv
    from optimist.adapters.intrinsic import IntrinsicConfig, IntrinsicReward
    from optimist.adapters.rllib import BonusLearnerConfig, BonusPPOTorchLearner, with_bonus
    from optimist.adapters.sb3 import BonusCallback, BonusCallbackConfig, BonusVecEnv, EvalVecEnv
    from optimist.adapters.torchrl import BonusLoss, BonusTransform, bonus_transform

__all__ = [
    "BonusCallback",
    "BonusCallbackConfig",
    "BonusLearnerConfig",
    "BonusLoss",
    "BonusPPOTorchLearner",
    "BonusTransform",
    "BonusVecEnv",
    "BonusVectorEnv",
    "EvalVecEnv",
    "IntrinsicConfig",
    "IntrinsicReward",
    "bonus_transform",
    "with_bonus",
]

ROOMS = {
    "intrinsic": ("IntrinsicConfig", "IntrinsicReward"),
    "gymnasium": ("BonusVectorEnv",),
    "sb3": ("BonusCallback", "BonusCallbackConfig", "BonusVecEnv", "EvalVecEnv"),
    "rllib": ("BonusLearnerConfig", "BonusPPOTorchLearner", "with_bonus"),
    "torchrl": ("BonusLoss", "BonusTransform", "bonus_transform"),
}
"""The public names by the module that has them."""


def __getattr__(name: str) -> Any:
    """A public name, imported now."""
    for room, names in ROOMS.items():
        if name in names:
            return getattr(import_module(f"{__name__}.{room}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
