"""`TrainConfig`: every choice of a training run and its default, which are those of RND on Atari."""

from dataclasses import dataclass
from typing import Literal, get_args

from optimist.checks import (
    require_choice,
    require_counts,
    require_fields,
    require_number,
    require_positive_fields,
    require_seed,
)
from optimist.config import key_values

TrunkName = Literal["auto", "atari", "image", "grid", "mlp"]
Activation = Literal["leaky-relu", "relu", "tanh"]
Precision = Literal["float32", "bf16"]
PrecisionChoice = Literal["float32", "bf16", "auto"]
MixingName = Literal["rnd", "balanced"]
ScheduleName = Literal["constant", "linear", "cosine"]
LoggerName = Literal["tensorboard", "wandb"]


@dataclass(frozen=True)
class Signal:
    """One of the two reward signals: the environment's own (extrinsic) or the bonus (intrinsic)."""

    weight: float
    """Weight of its advantage in the sum of both."""
    discount: float
    """Discount of its returns."""
    episodic: bool
    """Whether its returns end with the episode."""


@dataclass(frozen=True)
class Balance:
    """The numbers of ``mixing="balanced"``. Ours, found on tuning seeds (docs/experiment_log.md, sessions 9 and 10)."""

    costs_alone: float = 0.1
    """Weight of a task that has brought no good news; 1: costs count in full from the first one on."""
    bonus_beside_costs: float = 1.0
    """What the bonus wanes to while there are no good news; 1: it does not wane."""
    bonus_beside_gains: float = 0.1
    """Weight of the bonus once a reward above 0 was met."""
    bonus_beside_progress: float = 0.5
    """What is left of the bonus while the returns rise from rollout to rollout."""
    bonus_when_solved: float = 0.02
    """What is left of the bonus when no episode falls short of the best; 1: it does not matter how many do."""
    hardest_push: float = 10.0
    """Times the weight of the entropy for a policy that is certain of its way and still falls short; 1: no push."""


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
    frame_stack: int = 1
    """Observations that are read as one by the policy and the bonus, the newest last. EnvPool's Atari has 4 already."""
    bonus_options: tuple[str, ...] = ()
    """Settings of the bonus, key=value each, e.g. preset=paper ensemble_size=64."""
    extrinsic: Signal = Signal(weight=2.0, discount=0.999, episodic=True)
    """The environment's reward. Weight 0 is the paper's reward-free setting: rewards are only reported."""
    intrinsic: Signal = Signal(weight=1.0, discount=0.99, episodic=False)
    """The bonus. Weight 0 is plain PPO."""
    mixing: MixingName = "rnd"
    """How task and bonus are weighed: rnd, as RND does, or balanced, each in a unit of its own (see `Mixing`). Ours."""
    balance: Balance = Balance()
    """The numbers of the mixing "balanced". Ours."""
    clip_rewards: bool = True
    """Whether extrinsic rewards are clipped to -1 .. 1 for training; the raw score is reported."""
    n_envs: int = 128
    """N, environments played side by side."""
    steps: int = 128
    """T, steps of every environment in a rollout."""
    epochs: int = 4
    """Passes over a rollout."""
    minibatches: int = 4
    """Parts of a rollout in a pass."""
    untrained: bool = False
    """Whether the policy stays as it was drawn: nothing updates it. The bonus is still computed and trained."""
    learning_rate: float = 1e-4
    """Adam's step size."""
    learning_rate_schedule: ScheduleName = "constant"
    """How it goes on: constant, or linear or cosine down to 0 at total_steps. Ours."""
    target_kl: float = 0.0
    """The passes over a rollout end at the first minibatch on which the policy is farther than this from the one that
    played; 0: never. Ours."""
    clip: float = 0.1
    """The range of PPO's probability ratio."""
    gae_lambda: float = 0.95
    """lambda of generalized advantage estimation."""
    entropy_weight: float = 0.001
    """Weight of the policy's entropy."""
    value_weight: float = 0.5
    """Weight of each value head's mean squared error."""
    value_scale_rate: float = 0.0
    """How far the units of the value heads move towards the moments of a rollout's returns (PopArt); 0: they stay 1."""
    normalize_advantages: bool = False
    """Whether advantages of a minibatch are brought to mean 0 and deviation 1."""
    max_gradient_norm: float = 0.0
    """Gradients are scaled down to this norm; 0 leaves them."""
    network: str = "auto"
    """atari (the paper's), image (small pictures), grid (MiniGrid's codes), mlp, your own as package.module:factory;
    auto takes what fits."""
    activation: Activation = "leaky-relu"
    """leaky-relu is the paper's text, relu the released code."""
    width: int = 64
    """Hidden units of the image, grid and mlp trunks."""
    recurrent: bool = False
    """Whether the policy has a memory, a GRU of as many units as its features. Minibatches are then environments."""
    normalize_observations: bool = False
    """Whether the policy reads vectors in units of their running mean and deviation; images, codes and states never."""
    warm_up_steps: int = 6400
    """Random steps of every environment before training, for observation statistics (RND's and ICM's): 50 x 128."""
    checkpoint_every: int = 200_000
    """Steps between checkpoints, of which the best is kept too. Ours."""
    checkpoint_minutes: float = 10.0
    """Minutes after which there is a checkpoint in any case, at the end of a rollout. Ours."""
    eval_every: int = 0
    """Steps between evaluations, greedy and sampled, on environments of their own; 0: none. Ours."""
    eval_episodes: int = 20
    """Episodes of an evaluation, of either kind, side by side. Ours."""
    restart_every: int = 20_000
    """Steps of every environment between restarts of those whose state cannot be saved: a resumed run plays at most
    so many again to bring them back to where they were. Ours."""
    unique_states_limit: int = 512 * 2**20
    """Bytes beyond which the number of unique states is estimated. Ours."""
    loggers: tuple[LoggerName, ...] = ("tensorboard",)
    """Where metrics are written besides metrics.csv: tensorboard, wandb (Weights & Biases, extra wandb). Ours."""
    precision: PrecisionChoice = "float32"
    """What the policy's trunk multiplies in: float32; bf16, about twice as fast for images where the CPU or GPU has it;
    auto, whichever is faster. All else stays in float32. Ours."""
    device: str = "auto"
    """auto, cpu, cuda, mps. Runs repeat bit by bit on the CPU."""
    threads: int = 0
    """Threads of PyTorch and EnvPool; 0 takes one for small networks and all cores for large ones. Another number may
    change the last bits."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "bonus", "".join(self.bonus.split()))  # "acb * e3b" is "acb*e3b"
        require_seed(self.seed)
        if ":" not in self.network:
            require_choice("network", self.network, (*get_args(TrunkName), "package.module:factory"))
        require_choice("activation", self.activation, Activation)
        require_choice("mixing", self.mixing, MixingName)
        require_choice("learning_rate_schedule", self.learning_rate_schedule, ScheduleName)
        for logger in self.loggers:
            require_choice("loggers", logger, LoggerName)
        require_choice("precision", self.precision, PrecisionChoice)
        require_counts(self, "total_steps", "n_envs", "steps", "epochs", "minibatches", "width", "checkpoint_every")
        require_counts(self, "frame_stack", "restart_every", "eval_episodes")
        require_counts(self, "warm_up_steps", "threads", "unique_states_limit", "eval_every", least=0)
        require_fields(self, "max_gradient_norm", "entropy_weight", "value_weight", "target_kl", least=0)
        require_fields(self, "gae_lambda", "value_scale_rate", least=0, most=1)
        require_fields(self, "stop_at_success", least=0, most=1, why="it is a share of episodes")
        require_positive_fields(self, "learning_rate", "clip", "checkpoint_minutes")
        shares = {name: value for name, value in vars(self.balance).items() if name != "hardest_push"}
        for name, value in shares.items():
            require_number(f"balance.{name}", value, least=0, most=1)
        require_number("balance.hardest_push", self.balance.hardest_push, least=1)
        for name, signal in (("extrinsic", self.extrinsic), ("intrinsic", self.intrinsic)):
            require_number(f"{name}.weight", signal.weight, least=0)
            require_number(f"{name}.discount", signal.discount, least=0, most=1)
        if self.intrinsic.discount == 1:
            raise ValueError("intrinsic.discount must be below 1, got 1: bonuses are scaled by their discounted sums")
        if self.rollout_steps < self.minibatches:
            raise ValueError(f"a rollout of {self.rollout_steps} steps has no {self.minibatches} minibatches")
        if self.recurrent and self.n_envs < self.minibatches:
            raise ValueError(
                f"minibatches of a recurrent policy are whole environments, and {self.n_envs} environments make no "
                f"{self.minibatches}: choose fewer minibatches"
            )
        if not self.explores and self.extrinsic.weight == 0:
            raise ValueError("with bonus none and extrinsic weight 0 there is nothing to learn from: choose a bonus")
        if self.bonus == "none" and self.bonus_options:
            raise ValueError(f"bonus none takes no bonus_options, got {' '.join(self.bonus_options)}: choose a bonus")
        key_values("env_options", self.env_options)
        key_values("bonus_options", self.bonus_options)

    @property
    def explores(self) -> bool:
        """Whether there is a bonus."""
        return self.bonus != "none" and self.intrinsic.weight > 0

    @property
    def rollout_steps(self) -> int:
        """Steps of all environments in a rollout, T N."""
        return self.n_envs * self.steps
