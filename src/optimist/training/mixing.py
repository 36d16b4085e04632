"""How the task and the bonus are weighed against each other: each advantage in a unit of its own, the bonus waning."""

from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from optimist.bonuses.checkpointing import require_same_layout
from optimist.bonuses.scaling import ReturnScale
from optimist.config import leaves
from optimist.training.config import TrainConfig
from optimist.training.runs.checkpoints import require_entries

MEMORY = 10  # rollouts that the scale of the bonus remembers, and after which its unit is fixed
LEAST_SHARE = 0.03  # of the mean of discounted sums: their deviation counts as this much at least
SMALLEST_UNIT = 0.2  # of the largest return: what returns that include gains are divided by at least
FIRST = 20  # episodes that news are measured against
NEAR_BEST = 0.2  # of the way back from the best return to the first ones: an episode above it did not fall short
RECENT = 100  # episodes of which it is remembered whether they met a gain
FEW = 50  # episodes: the share that fell short is of at least so many
LOW_ENTROPY = 0.15  # of the first policy's: below it a policy that still has to explore is pushed back


class Mixing:
    """The intrinsic rewards, and the weights of both advantages in the sum that the policy learns from.

    *The bonus* is divided by the deviation of its discounted sums over the last ten rollouts, so that its value head
    always learns returns of about the same size. What that hides, its waning, is in its weight: the deviation of today
    over that after the first ten rollouts. Deviations are about the mean of their own rollout: a bonus that falls from
    rollout to rollout does not count as one that varies.

    *The task* is weighed in units of the largest discounted sum of rewards met so far, which makes rewards of any size
    alike. Until a reward that is not 0 its advantages are masked: they are nothing but errors of the value head.

    - While there are only costs it counts a tenth, and the bonus does not wane: costs say what to avoid, not what to
      look for, and the cheapest is to do nothing.
    - An episode that did better than the best of the first twenty by more than their range is good news: the task
      counts in full, and the bonus by the share of recent episodes that fall short of the best one, so that an agent
      that has solved a task stays there.
    - A reward above 0, a gain, is better news: the unit is the deviation of the returns, at least a fifth of the
      largest, and the bonus counts a tenth of the above, and nothing once half of the recent episodes meet a gain.
    - Beside gains, costs count twice the share of recent episodes that met a gain, at most in full, and an episode
      without a gain falls short: after a first lucky gain doing nothing would otherwise still look best.
    - While the returns rise, the task shows the way by itself: the bonus falls to a half the more surely they do.

    Ours. With ``config.mixing = "rnd"`` nothing of this: the bonus over the deviation of its sums of all times, and
    both advantages as they come (Burda et al. 2018, section 2.4).
    """

    def __init__(self, config: TrainConfig):
        self._config = config
        self._is_plain = config.mixing == "rnd"
        self._plain = ReturnScale(discount=config.intrinsic.discount)
        self._sums = torch.zeros(2, config.n_envs, dtype=torch.float64)  # discounted rewards and bonuses
        self._rollouts = 0
        self._variance = 0.0  # of the discounted bonuses, about the mean of their rollout
        self._unit = 0.0  # the deviation after the first rollouts
        self.largest = 0.0
        self._task_rollouts = 0
        self._has_gains = self._has_costs = self._has_news = False
        self._gained = torch.zeros(config.n_envs, dtype=torch.bool)  # whether the episode in progress met a gain
        self._with_gain: deque[bool] = deque(maxlen=RECENT)  # whether the last episodes did
        self._first: list[float] = []  # returns of the first episodes
        self._best = -torch.inf
        self._share_short = 1.0  # of the last episodes
        self._means: list[float] = []  # mean returns of the last episodes, one per rollout
        self._entropies = (0.0, 0.0)  # of the first policy, and of the last one

    # The bonus --------------------------------------------------------------------------------------------------------

    def intrinsic(self, bonus: Tensor) -> Tensor:
        """The intrinsic rewards of a rollout, whose statistics are taken in first. Shapes: (T, N) -> (T, N)."""
        if self._is_plain:
            self._plain.update(bonus)
            return self._plain.normalize(bonus)
        rewards, discount = bonus.double(), self._config.intrinsic.discount
        if not self._rollouts:  # as if the first rollout had gone on for ever: sums from 0 on would only grow
            self._sums[1] = rewards.mean() / (1 - discount)
        sums = self._run(1, rewards, discount, None)
        variance = max(sums.var(correction=0).item(), (LEAST_SHARE * sums.mean().item()) ** 2)
        self._rollouts += 1
        self._variance += (variance - self._variance) / min(self._rollouts, MEMORY)
        if self._rollouts <= MEMORY:
            self._unit = self._deviation
        return bonus / self._deviation if self._variance else bonus

    @property
    def _deviation(self) -> float:
        return self._variance**0.5

    # The task ---------------------------------------------------------------------------------------------------------

    def extrinsic(self, rewards: Tensor, ended: Tensor) -> Tensor:
        """The extrinsic rewards of a rollout, which are taken in first, with costs made weak while gains are rare.

        ``ended`` says where episodes did. In the reward-free setting nothing is taken in: there is no task, whatever
        the environment pays. Shapes: (T, N) -> (T, N).
        """
        if self._config.extrinsic.weight == 0:
            return rewards
        sums = self._run(0, rewards.double(), self._config.extrinsic.discount, ended)
        self.largest = max(self.largest, sums.abs().max().item())
        self._has_gains |= bool((rewards > 0).any())
        self._has_costs |= bool((rewards < 0).any())
        self._task_rollouts += self.has_task
        for gains, ends in zip(rewards > 0, ended, strict=True):
            self._gained |= gains
            self._with_gain.extend(self._gained[ends].tolist())
            self._gained &= ~ends
        if self._is_plain or not self._has_gains or not self._config.explores:
            return rewards
        return torch.where(rewards < 0, rewards * self._common, rewards)

    @property
    def _common(self) -> float:
        """How common gains are: twice the share of recent episodes that met one, at most 1."""
        return min(1.0, 2 * sum(self._with_gain) / max(len(self._with_gain), FEW))

    @property
    def has_task(self) -> bool:
        """Whether a reward that is not 0 was met: before it neither policy nor value head learn from rewards."""
        return self.largest > 0

    def weights(self, deviation: float, returns: Sequence[float]) -> Tensor:
        """The weights of the extrinsic and the intrinsic advantage, (2,).

        ``deviation`` is the unit of the extrinsic value head, ``returns`` those of the last episodes.
        """
        config, balance = self._config, self._config.balance
        task, bonus = config.extrinsic.weight * self.has_task, config.intrinsic.weight * config.explores
        if not self._is_plain:
            self._hear(returns)
            waned = min(1.0, self._deviation / self._unit) if self._unit else 1.0
            wanted = waned * self._share_short * (1 - (1 - balance.bonus_beside_progress) * rising(self._means))
            if self._has_gains:
                task /= max(deviation, SMALLEST_UNIT * self.largest)
                bonus *= wanted * balance.bonus_beside_gains * (1 - self._common)
            elif self._has_news:
                task /= self.largest
                bonus *= wanted
            elif self.has_task:
                task *= balance.costs_alone / self.largest
                bonus *= max(waned, balance.bonus_beside_costs)
        return torch.tensor([task, bonus])

    def _hear(self, returns: Sequence[float]) -> None:
        """Take in the returns of the last episodes: whether they are good news, and how many fall short of the best."""
        if returns:
            self._best = max(self._best, *returns)
            self._means = [*self._means, sum(returns) / len(returns)][-MEMORY:]
        if len(self._first) < FIRST:
            self._first = list(returns[:FIRST])
            return
        worst, best = min(self._first), max(self._first)
        self._has_news |= self._has_gains or (self.has_task and self._best > best + (best - worst))
        if self._has_news:
            enough = self._best - NEAR_BEST * (self._best - sum(self._first) / FIRST)
            near = sum(one >= enough for one in returns) if self._best > worst else 0
            if self._has_gains and self._has_costs:
                near = min(near, sum(self._with_gain))
            self._share_short = max(self._config.balance.bonus_when_solved, 1 - near / max(len(returns), FEW))

    def entropy_weight(self) -> float:
        """The weight of the policy's entropy: more of it where a policy sets before it has found what it looks for.

        On-policy a bonus is seen only where the policy goes. One that has become certain of its way sees no news,
        and nothing brings it back: on DeepSea-80 not one new state was found in the last 160,000 of 400,000 steps.
        """
        first, last = self._entropies
        if self._is_plain or not self._config.explores or first <= 0 or last >= LOW_ENTROPY * first:
            return self._config.entropy_weight
        push = min(self._config.balance.hardest_push, LOW_ENTROPY * first / max(last, 1e-9))
        return self._config.entropy_weight * (1 + self._share_short * (push - 1))

    def remember_entropy(self, entropy: float) -> None:
        """Take in the mean entropy of a policy of discrete actions in an update."""
        first = self._entropies[0] or entropy
        self._entropies = (first, entropy)

    @property
    def value_rate(self) -> float:
        """How far the unit of the extrinsic value head moves: all the way when a task begins, then less."""
        if not self.has_task:
            return 0.0
        return max(self._config.value_scale_rate, 1 / self._task_rollouts)

    @property
    def least_deviation(self) -> float:
        """What the unit of the extrinsic value head is at least."""
        return 0.0 if self._is_plain else SMALLEST_UNIT * self.largest

    def _run(self, row: int, rewards: Tensor, discount: float, ended: Tensor | None) -> Tensor:
        """The discounted sums of every environment over a rollout, from the end of the last one on, (T, N)."""
        current, sums = self._sums[row], []
        for t, reward in enumerate(rewards):
            current = current * discount + reward
            sums.append(current)
            if ended is not None:
                current = torch.where(ended[t], 0.0, current)
        self._sums[row] = current
        return torch.stack(sums)

    def state_dict(self) -> dict[str, Any]:
        """Everything that a rollout changes."""
        return {
            "plain": self._plain.state_dict(),
            "sums": self._sums.clone(),
            "rollouts": self._rollouts,
            "variance": self._variance,
            "unit": self._unit,
            "largest": self.largest,
            "task_rollouts": self._task_rollouts,
            "has_gains": self._has_gains,
            "has_costs": self._has_costs,
            "gained": self._gained.clone(),
            "with_gain": torch.tensor(list(self._with_gain), dtype=torch.bool),
            "has_news": self._has_news,
            "first": torch.tensor(self._first, dtype=torch.float64),
            "best": self._best,
            "share_short": self._share_short,
            "means": torch.tensor(self._means, dtype=torch.float64),
            "entropies": torch.tensor(self._entropies, dtype=torch.float64),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue where ``state`` was taken."""
        require_entries(state, *self.state_dict())
        growing = {"first", "means", "with_gain"}
        require_same_layout({**state, "plain": {}}, {**self.state_dict(), "plain": {}}, growing=growing)
        self._plain.load_state_dict(state["plain"])
        self._sums = state["sums"].clone()
        self._rollouts, self._variance, self._unit = state["rollouts"], state["variance"], state["unit"]
        self.largest, self._best = state["largest"], state["best"]
        self._has_gains, self._has_costs, self._has_news = (state[f"has_{what}"] for what in ("gains", "costs", "news"))
        self._gained = state["gained"].clone()
        self._with_gain = deque(state["with_gain"].tolist(), maxlen=RECENT)
        self._first, self._means = state["first"].tolist(), state["means"].tolist()
        self._task_rollouts, self._share_short = state["task_rollouts"], state["share_short"]
        first, last = state["entropies"].tolist()
        self._entropies = (first, last)


def unread(config: TrainConfig) -> set[str]:
    """Fields, as `leaves` names them, that nothing reads in a run of ``config``: other values would not change it."""
    names = set(leaves(config.balance))
    if config.mixing == "rnd":
        read: set[str] = set()
    elif not config.explores:
        read = {"costs_alone"}
    else:
        read = {"hardest_push"} if config.extrinsic.weight == 0 else names
    return {f"balance.{name}" for name in names - read}


def rising(values: Sequence[float]) -> float:
    """How surely ``values`` rise from one to the next: Kendall's rank correlation with time, and 0 if they fall."""
    later = [(b > a) - (b < a) for k, b in enumerate(values) for a in values[:k]]
    return max(0.0, sum(later) / len(later)) if later else 0.0
