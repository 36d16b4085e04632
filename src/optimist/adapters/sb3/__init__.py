"""Stable-Baselines3: a bonus for every algorithm as a `VecEnv` wrapper, or for PPO and A2C as a callback."""

from optimist.adapters.building import missing_host

try:
    import stable_baselines3  # noqa: F401 (only to say what is missing)
except ModuleNotFoundError as missing:
    raise missing_host("stable-baselines3", extra="sb3") from missing

from optimist.adapters.sb3.callback import BonusCallback, BonusCallbackConfig
from optimist.adapters.sb3.wrapper import BonusVecEnv, EvalVecEnv

__all__ = ["BonusCallback", "BonusCallbackConfig", "BonusVecEnv", "EvalVecEnv"]
