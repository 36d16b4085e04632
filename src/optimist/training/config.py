"""`TrainConfig`: every choice of a training run and its default, which are those of RND on Atari."""

import json
from dataclasses import dataclass
from typing import Any, Literal

from optimist.configuration import require_at_least, require_choice, require_positive
from optimist.seeding import require_seed

NetworkName = Literal["auto", "atari", "grid", "mlp"]
Activation = Literal["leaky-relu", "relu", "tanh"]


@dataclass(frozen=True)
class TrainConfig:
    """A run of PPO with an exploration bonus. Defaults: Burda et al. 2018 (RND), table 5, unless a line says else."""

    env: str = "Breakout-v5"
    """An id of EnvPool or Gymnasium, DeepSea-N, CombinationLock, FrozenLake-8x8, or your own module:function."""
    bonus: str = "acb"
    """acb, rnd, icm, elliptical, e3b, count, episodic-count, none; a product of two is written acb*e3b."""
    total_steps: int = 10_000_000
    """Steps of all environments together."""
    seed: int = 0
    """The seed of the run."""
    stop_at_success: float = 0.0
    """The run ends when this share of the last 100 episodes succeeded; 0 plays all steps. Ours."""
    env_options: tuple[str, ...] = ()
    """Options of the environment, key=value each."""
    bonus_options: tuple[str, ...] = ()
    """Settings of the bonus, key=value each, e.g. preset=paper ensemble_size=64."""
    extrinsic_weight: float = 2.0
    """Weight of the extrinsic advantage; 0 is the paper's reward-free setting: rewards are only reported."""
    intrinsic_weight: float = 1.0
    """Weight of the intrinsic advantage."""
    extrinsic_discount: float = 0.999
    """gamma_E."""
    intrinsic_discount: float = 0.99
    """gamma_I."""
    intrinsic_memory: int = 0
    """Rollouts that the scale of the bonus remembers; 0: all, as RND. See `ReturnScale`."""
    extrinsic_episodic: bool = True
    """Whether extrinsic returns end with the episode."""
    intrinsic_episodic: bool = False
    """Whether intrinsic returns end with the episode."""
    clip_rewards: bool = True
    """Whether extrinsic rewards are clipped to -1 .. 1 for training; the raw score is reported."""
    environments: int = 128
    """N, environments played side by side."""
    steps: int = 128
    """T, steps of every environment in a rollout."""
    epochs: int = 4
    """Passes over a rollout."""
    minibatches: int = 4
    """Parts of a rollout in a pass."""
    learning_rate: float = 1e-4
    """Adam's step size."""
    clip: float = 0.1
    """The range of PPO's probability ratio."""
    gae_lambda: float = 0.95
    """lambda of generalised advantage estimation."""
    entropy_weight: float = 0.001
    """Weight of the policy's entropy."""
    value_weight: float = 0.5
    """Weight of each value head's mean squared error."""
    value_scale_rate: float = 0.0
    """How far the units of the value heads move towards the moments of a rollout's returns (PopArt); 0: they stay 1."""
    normalise_advantages: bool = False
    """Whether advantages of a minibatch are brought to mean 0 and deviation 1."""
    max_gradient_norm: float = 0.0
    """Gradients are scaled down to this norm; 0 leaves them."""
    network: NetworkName = "auto"
    """The trunk: atari (the paper's), grid (small convolutions), mlp; auto chooses by the observation's shape."""
    activation: Activation = "leaky-relu"
    """leaky-relu is the paper's text, relu the released code."""
    width: int = 64
    """Hidden units of the grid and mlp trunks."""
    warm_up_steps: int = 6400
    """Random steps of every environment before training, for the observation statistics of RND and ICM: 50 x 128."""
    checkpoint_every: int = 2_000_000
    """Steps between checkpoints."""
    unique_states_limit: int = 512 * 2**20
    """Bytes beyond which the number of unique states is estimated. Ours."""
    device: str = "auto"
    """auto, cpu, cuda, mps. Runs repeat bit by bit on the CPU."""
    threads: int = 0
    """Threads of PyTorch; 0 takes all cores. Another number may change the last bits."""

    def __post_init__(self) -> None:
        require_seed(self.seed)
        require_choice("network", self.network, NetworkName)
        require_choice("activation", self.activation, Activation)
        require_at_least(
            1, self, "total_steps", "environments", "steps", "epochs", "minibatches", "width", "checkpoint_every"
        )
        require_at_least(
            0, self, "extrinsic_weight", "intrinsic_weight", "entropy_weight", "value_weight", "max_gradient_norm",
            "warm_up_steps", "threads", "intrinsic_memory",
        )  # fmt: skip
        require_positive(self, "learning_rate", "clip")
        for name in ("extrinsic_discount", "intrinsic_discount", "gae_lambda", "value_scale_rate"):
            if not 0 <= getattr(self, name) <= 1:
                raise ValueError(f"{name} must lie in [0, 1], got {getattr(self, name)}")
        if not 0 <= self.stop_at_success <= 1:
            raise ValueError(f"stop_at_success must lie in [0, 1], got {self.stop_at_success}: it is a share")
        if self.intrinsic_discount == 1:
            raise ValueError("intrinsic_discount must be below 1: bonuses are scaled by their discounted sums")
        if self.rollout_steps < self.minibatches:
            raise ValueError(f"a rollout of {self.rollout_steps} steps has no {self.minibatches} minibatches")
        if not self.explores and self.extrinsic_weight == 0:
            raise ValueError("with bonus none and extrinsic weight 0 there is nothing to learn from: choose a bonus")
        key_values("env_options", self.env_options)
        key_values("bonus_options", self.bonus_options)

    @property
    def explores(self) -> bool:
        """Whether there is a bonus."""
        return self.bonus != "none" and self.intrinsic_weight > 0

    @property
    def rollout_steps(self) -> int:
        """Steps of all environments in a rollout, T N."""
        return self.environments * self.steps


def key_values(name: str, texts: tuple[str, ...]) -> dict[str, Any]:
    """The mapping that texts ``key=value`` write: a value is read as JSON where it is JSON, else as it stands."""
    result: dict[str, Any] = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not key or not equals:
            raise ValueError(f"{name} must be written key=value, got {text!r}")
        if key in result:
            raise ValueError(f"{name} gives {key} twice: {text!r}")
        try:
            result[key] = json.loads(value)
        except json.JSONDecodeError:
            result[key] = value
    return result
