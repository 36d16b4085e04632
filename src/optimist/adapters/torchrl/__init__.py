"""TorchRL: a transform that writes the bonus beside the reward, and a loss module that trains it."""

from optimist.adapters.building import missing_host

try:
    import torchrl  # noqa: F401 (only to say what is missing)
except ModuleNotFoundError as missing:
    raise missing_host("torchrl", extra="torchrl") from missing

from optimist.adapters.torchrl.transform import BonusLoss, BonusTransform, bonus_transform

__all__ = ["BonusLoss", "BonusTransform", "bonus_transform"]
