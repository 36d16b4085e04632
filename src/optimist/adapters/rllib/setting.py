"""What a bonus in RLlib is made from, and the line that puts it into an `AlgorithmConfig`."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal

from ray.rllib.algorithms.algorithm_config import AlgorithmConfig
from ray.rllib.algorithms.ppo import PPOConfig
from ray.rllib.algorithms.ppo.torch.ppo_torch_learner import PPOTorchLearner

from optimist.adapters.rllib.learner import SETTING, BonusPPOTorchLearner
from optimist.checks import require_counts, require_fields, require_seed
from optimist.config import replaced


@dataclass(frozen=True)
class BonusLearnerConfig:
    """Every default of the learner with a bonus."""

    weight: float = 1.0
    """What the normalized bonus is multiplied with before it is added to the reward."""
    extrinsic_weight: float = 1.0
    """What the environment's reward is multiplied with; 0 turns it off."""
    normalize: bool = True
    """Whether bonuses are divided by the running deviation of their discounted sums."""
    discount: float = 0.99
    """The discount of those sums: RND's. The policy discounts by RLlib's own ``gamma``."""
    memory_steps: int = 0
    """Steps that their deviation remembers; 0: all, as RND. See `ReturnScale`."""
    network: Literal["policy", "random"] = "policy"
    """What ACB looks into: the actor that is trained, or a fixed random network."""

    def __post_init__(self) -> None:
        require_counts(self, "memory_steps", least=0)
        require_fields(self, "weight", "extrinsic_weight", least=0)
        if not 0 <= self.discount < 1:
            raise ValueError(f"discount must lie in [0, 1), got {self.discount}: discounted sums must stay finite")
        if self.network not in ("policy", "random"):
            raise ValueError(f"network must be 'policy' or 'random', got {self.network!r}")


def with_bonus(
    algorithm: AlgorithmConfig,
    bonus: str = "acb",
    *,
    seed: int = 0,
    settings: Mapping[str, Any] | None = None,
    config: BonusLearnerConfig | None = None,
    **overrides: Any,
) -> PPOConfig:
    """A copy of PPO's config whose learners add ``bonus`` to the rewards; the one given is left alone.

    ``bonus`` is a name that `bonuses.make` knows, made with ``settings``, or "package.module:factory" of your own; each
    learner makes it for itself. Fields of `BonusLearnerConfig` may be given by name.
    """
    if not isinstance(algorithm, PPOConfig):
        raise ValueError(f"with_bonus is for a PPOConfig, got {type(algorithm).__name__}: RLlib's PPO has the learner")
    if not isinstance(bonus, str):
        raise ValueError(
            f"bonus must be a name or 'package.module:factory', got {type(bonus).__name__}: "
            "every learner makes its own, in a process of its own"
        )
    changed: Any = algorithm.copy(copy_frozen=False)
    learner = changed.learner_class
    if learner is PPOTorchLearner:
        learner = BonusPPOTorchLearner
    if not issubclass(learner, BonusPPOTorchLearner):
        raise ValueError(f"a learner of your own must be a subclass of BonusPPOTorchLearner, got {learner.__name__}")
    made_from = {
        "bonus": bonus,
        "seed": require_seed(seed),
        "settings": dict(settings or {}),
        "config": asdict(replaced(config or BonusLearnerConfig(), overrides)),
    }
    return changed.learners(learner_class=learner, learner_config_dict={SETTING: made_from})
