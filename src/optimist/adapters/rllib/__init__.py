"""RLlib's PPO, new API stack: a learner that adds the bonus to the rewards, and a line that puts it into a config."""

from optimist.adapters.rllib.host import MINOR  # first: it says what is missing
from optimist.adapters.rllib.learner import BonusPPOTorchLearner
from optimist.adapters.rllib.setting import BonusLearnerConfig, with_bonus

__all__ = ["MINOR", "BonusLearnerConfig", "BonusPPOTorchLearner", "with_bonus"]
