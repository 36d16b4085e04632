"""Running moments, observation whitening, and the scale of intrinsic returns. Only `update` moves them."""

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from optimist.bonuses.checkpointing import require_same_layout
from optimist.ranks import Ranks

SMALLEST_DEVIATION = 1e-6  # a coordinate that never varied is read as 0, not as 0 / 0
LARGEST_REWARD = 200.0  # times the root mean square of those before; see `ReturnScale`
SMALLEST_SHARE = 1e-3  # of the root mean square of the sums: what they are divided by at least


def finite(tensor: Tensor) -> bool:
    """Whether all numbers are finite, by the two extremes, which NaN would be: nothing of the tensor's size is made."""
    if tensor.numel() == 0:
        return True
    least, greatest = torch.aminmax(tensor.detach())
    return math.isfinite(least.item()) and math.isfinite(greatest.item())


def in_double(tensor: Tensor) -> Tensor:
    """The numbers in float64: on their own device or, where it has no such numbers (mps), on the CPU."""
    return tensor.to(device_with_double(tensor.device)).double()


def device_with_double(device: torch.device) -> torch.device:
    """The device, or the CPU if there is no float64 on it."""
    try:
        return torch.empty(0, dtype=torch.float64, device=device).device
    except (TypeError, RuntimeError):
        return torch.device("cpu")


class MergedMoments(NamedTuple):
    """The count and the mean of two samples together, and what their scatters lack to be the scatter of both."""

    count: int
    mean: Tensor
    shift: Tensor
    weight: float


def merge_moments(count: int, mean: Tensor, added: int, added_mean: Tensor) -> MergedMoments:
    """The moments of ``count`` samples and of ``added`` more, merged by Chan's parallel formula.

    With the squared distances to the mean summed as the scatter S, that of both is ``S + S_added + weight shift^2``, or
    ``weight shift shift'`` where S is a matrix. Adding up distances to a mean, not squares, a large mean cancels
    nothing.

    Shapes: mean, added_mean (...) -> mean, shift (...).
    """
    total = count + added
    shift = added_mean - mean
    return MergedMoments(total, mean + shift * (added / total), shift, count * added / total)


def pooled(
    ranks: Ranks, count: int, means: Sequence[Tensor], variances: Sequence[Tensor]
) -> tuple[int, list[Tensor], list[Tensor]]:
    """The number, means and (population) variances of the samples of all ranks, from those of each; alone, as given.

    Summed in float64, first the means, then the squared distances to the mean of all: a large mean cancels nothing.
    A rank may have no sample. Shapes: blocks of any shapes, each mean like its variance.
    """
    if ranks.alone:
        return count, list(means), list(variances)
    mean, variance = (_flat(blocks) if count else torch.zeros_like(_flat(blocks)) for blocks in (means, variances))
    summed = ranks.sum(torch.cat([mean.new_tensor([count]), mean * count]))
    total = round(summed[0].item())
    of_all = summed[1:] / max(total, 1)
    spread = ranks.sum((variance + (mean - of_all).square()) * count) / max(total, 1)
    sizes = [block.numel() for block in means]
    pairs = zip((of_all, spread), (means, variances), strict=True)
    found = [
        [part.view_as(block).to(block) for part, block in zip(flat.split(sizes), blocks, strict=True)]
        for flat, blocks in pairs
    ]
    return total, found[0], found[1]


def _flat(blocks: Sequence[Tensor]) -> Tensor:
    """All numbers of the blocks in one row, in float64 on the CPU."""
    return torch.cat([block.flatten().cpu().double() for block in blocks])


class RunningMoments:
    """The mean and the (population) variance of every coordinate of everything seen, in one pass.

    Batches are merged by `merge_moments` in float64: the result does not depend on how the data was batched,
    up to rounding, and a large mean does not cancel the variance. Before the first sample: mean 0, variance 1.
    With ``memory`` the past never weighs more than that many samples: older ones are forgotten exponentially. 0: never.
    """

    def __init__(self, shape: tuple[int, ...], *, memory: int = 0):
        self.memory = memory
        self.count = 0
        self.mean = torch.zeros(shape, dtype=torch.float64)
        self._scatter = torch.zeros(shape, dtype=torch.float64)  # sum of squared distances to the mean

    @property
    def variance(self) -> Tensor:
        """The population variance of every coordinate; 1 before the first sample."""
        return self._scatter / self.count if self.count else torch.ones_like(self._scatter)

    @property
    def deviation(self) -> Tensor:
        """The standard deviation of every coordinate, at least 1e-6."""
        return self.variance.sqrt().clamp_min(SMALLEST_DEVIATION)

    def update(self, samples: Tensor) -> None:
        """Merge a batch. Shapes: samples (n, *shape)."""
        if samples.shape[1:] != self.mean.shape:
            raise ValueError(f"samples must be (n, *{tuple(self.mean.shape)}), got shape {tuple(samples.shape)}")
        if not len(samples):
            return
        variance, mean = torch.var_mean(samples.cpu().double(), dim=0, correction=0)
        self.merge(len(samples), mean, variance)

    def merge(self, count: int, mean: Tensor, variance: Tensor) -> None:
        """Merge ``count`` samples by their mean and their (population) variance. Shapes: (*shape) both."""
        merged = merge_moments(self.count, self.mean, count, mean)
        self.count, self.mean = merged.count, merged.mean
        added = self._scatter.add(variance, alpha=count)
        self._scatter = added.addcmul_(merged.shift, merged.shift, value=merged.weight)
        if self.memory and self.count > self.memory:
            self._scatter = self._scatter * (self.memory / self.count)
            self.count = self.memory

    def state_dict(self) -> dict[str, Any]:
        """The count, the mean and the scatter."""
        return {"count": self.count, "mean": self.mean.clone(), "scatter": self._scatter.clone()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from a saved state."""
        state = require_same_layout(state, self.state_dict())
        self.count = state["count"]
        self.mean, self._scatter = state["mean"].clone(), state["scatter"].clone()


class Whitening:
    """Observations minus their running mean, over their running standard deviation, clipped: ``clip((x - mean) / sd)``.

    Paper: RND (Burda et al. 2018), section 2.4: clip 5. Statistics move only in ``update``.
    """

    def __init__(self, shape: tuple[int, ...], *, clip: float):
        if not clip > 0:
            raise ValueError(f"clip must be > 0, got {clip}: whitened observations lie in -clip .. clip")
        self.clip = clip
        self._moments = RunningMoments(shape)

    @property
    def count(self) -> int:
        """How many observations the statistics rest on."""
        return self._moments.count

    def whiten(self, observations: Tensor) -> Tensor:
        """Whitened and clipped observations, float32. Shapes: (n, *shape) -> (n, *shape)."""
        mean, deviation = self._moments.mean.float(), self._moments.deviation.float()
        return (observations.float() - mean).div_(deviation).clamp_(-self.clip, self.clip)

    def update(self, observations: Tensor) -> None:
        """Move the statistics. Shapes: observations (n, *shape)."""
        self._moments.update(observations)

    def fresh(self) -> "Whitening":
        """One of the same kind that has seen nothing."""
        return Whitening(tuple(self._moments.mean.shape), clip=self.clip)

    def merge(self, seen: "Whitening", ranks: Ranks) -> None:
        """Move the statistics by what the one called ``seen`` of every rank has seen."""
        of_this = seen._moments
        count, (mean,), (variance,) = pooled(ranks, of_this.count, [of_this.mean], [of_this.variance])
        if count:
            self._moments.merge(count, mean, variance)

    def state_dict(self) -> dict[str, Any]:
        """The running moments."""
        return self._moments.state_dict()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from a saved state."""
        self._moments.load_state_dict(state)


class ReturnScale:
    """The running standard deviation of the discounted sum of intrinsic rewards, by which they are divided.

    The sum of an environment runs forward over **time**, ``R_t = discount R_{t-1} + r_t``, is carried from one rollout
    to the next and never reset (intrinsic returns are non-episodic); the deviation is over all times and environments.
    RND updates with a rollout's rewards first and then normalizes them: ``update(r)``, then ``normalize(r)``.

    Paper: RND (Burda et al. 2018), section 2.4 and its code's forward filter; discount 0.99 there.
    Deviation: with ``memory_steps`` the deviation is that of about the last so many steps, counted over all
    environments: the scale follows the bonus down, so that it never wanes, as exploration without reward may want. And
    a reward of more than 200 times the root mean square of those before counts as 200 times; in the first rollout, of
    more than 200 times the median size of its own rewards, zeros left aside. ACB's feature jumps where
    the most likely action of its network is another one: on Breakout a single state among 22,000 had 40,000 times the
    bonus of the others, which then were nothing for as long as it was remembered. What leads to a new part of DeepSea,
    FrozenLake or MiniGrid had up to 174 times the others' in 200 runs.
    """

    def __init__(self, *, discount: float, memory_steps: int = 0):
        if not 0 <= discount < 1:
            raise ValueError(f"discount must lie in [0, 1), got {discount}: the discounted sum must stay finite")
        self.discount = discount
        self._returns = torch.zeros(0, dtype=torch.float64)  # R_t of every environment; sized by the first rollout
        self._moments = RunningMoments((), memory=memory_steps)
        self._squares = RunningMoments((), memory=memory_steps)
        self._limit = torch.tensor(torch.inf, dtype=torch.float64)  # of the rewards of the last rollout
        self._divisor: float | None = None  # a cache; not part of the state

    def normalize(self, rewards: Tensor) -> Tensor:
        """``rewards`` over the running deviation of their discounted sums; pure. Shapes: (T, N) -> (T, N)."""
        if self._divisor is None:
            self._divisor = self._deviation()
        return rewards.clamp(max=self._limit.item()) / self._divisor

    def _deviation(self) -> float:
        """The deviation of the sums, at least a thousandth of their root mean square: no unit of rewards is special."""
        variance, mean = self._moments.variance.item(), self._moments.mean.item()
        return math.sqrt(max(variance, SMALLEST_SHARE**2 * (mean * mean + variance))) or 1.0

    def update(self, rewards: Tensor) -> None:
        """Run the sums of every environment forward over a rollout. Shapes: rewards (T, N)."""
        if rewards.ndim != 2:
            raise ValueError(f"rewards must be (T, N), time first, got shape {tuple(rewards.shape)}")
        if not finite(rewards):
            raise ValueError("rewards must be finite, got NaN or infinity: nothing was changed")
        environments = len(self._returns) or rewards.shape[1]
        if rewards.shape[1] != environments:
            raise ValueError(f"rewards must be of {environments} environments as before, got {rewards.shape[1]}")
        current = self._returns if len(self._returns) else torch.zeros(environments, dtype=torch.float64)
        rewards = rewards.cpu().double()
        self._divisor = None
        if self._squares.mean > 0:
            self._limit = LARGEST_REWARD * self._squares.mean.sqrt()
        elif bool(rewards.any()):
            self._limit = LARGEST_REWARD * rewards[rewards != 0].abs().median()
        rewards = rewards.clamp(max=self._limit.item())
        self._squares.update(rewards.square().flatten())
        sums = []
        for reward in rewards:  # over time; each row holds all environments
            current = current * self.discount + reward
            sums.append(current)
        self._returns = current
        self._moments.update(torch.stack(sums).flatten())

    def state_dict(self) -> dict[str, Any]:
        """The running sums, their moments, and what limits the rewards."""
        return {
            "returns": self._returns.clone(),
            "moments": self._moments.state_dict(),
            "squares": self._squares.state_dict(),
            "limit": self._limit.clone(),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from a saved state."""
        state = require_same_layout(state, self.state_dict(), growing={"returns"})
        self._returns = state["returns"].clone()
        self._moments.load_state_dict(state["moments"])
        self._squares.load_state_dict(state["squares"])
        self._limit, self._divisor = state["limit"].clone(), None
