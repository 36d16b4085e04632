"""PPO's losses of a minibatch, the update that descends them, and the units of the value heads."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from optimist.bonuses.distinct import distinct_rows
from optimist.bonuses.learned.trainer import minibatches
from optimist.bonuses.observations import Observations, map_observations
from optimist.ranks import sum_gradients
from optimist.training.agent import Agent
from optimist.training.config import TrainConfig
from optimist.training.distributions import Distribution
from optimist.training.recurrence import SequenceBatch, Sequences
from optimist.training.rollout import NotFinite
from optimist.training.sharing import Share

HEADS = ("extrinsic", "intrinsic")
MEASURES = ("policy_loss", *(f"value_loss_{head}" for head in HEADS), "entropy", "kl", "clipped")
"""What `ppo_loss` measures, by the column in ``metrics.csv``."""
SMALLEST_DEVIATION = 1e-4  # of returns: heads that learn nothing but zeros keep finite units


@dataclass(frozen=True, eq=False)
class Batch:
    """The steps that the agent learns from. Shapes: (n, ...); returns (n, 2), one column per value head.

    Observations that occur several times, as in grids and tabular tasks, are held and read once: ``observations``
    (u, ...), and ``which`` (n,) of them each step has seen. None: each its own.
    """

    observations: Observations
    actions: Tensor
    log_probabilities: Tensor
    advantages: Tensor
    returns: Tensor
    which: Tensor | None = None

    @classmethod
    def of(cls, observations: Observations, *steps: Tensor) -> "Batch":
        """A batch of one observation per step, of which equal ones are found. Shapes: (n, ...)."""
        distinct = distinct_rows(observations)
        if distinct is None:
            return cls(observations, *steps)
        return cls(distinct.of(observations), *steps, which=distinct.which)

    def __len__(self) -> int:
        return len(self.actions)

    def evaluated_by(self, agent: Agent) -> tuple[Tensor, Tensor]:
        """The outputs and the values of every step."""
        outputs, values = agent(self.observations)
        if self.which is None:
            return outputs, values
        return outputs.index_select(0, self.which), values.index_select(0, self.which)

    def rows(self, index: Tensor, device: torch.device) -> "Batch":
        """The chosen steps, on ``device``."""
        steps = (self.actions, self.log_probabilities, self.advantages, self.returns)
        states, which = (index, None) if self.which is None else self.which[index].unique(return_inverse=True)
        seen = map_observations(lambda part: part[states].to(device), self.observations)
        chosen = (part[index].to(device) for part in steps)
        return Batch(seen, *chosen, which=None if which is None else which.to(device))


def ppo_loss(
    agent: Agent,
    batch: Batch | SequenceBatch,
    config: TrainConfig,
    distribution: Distribution,
    heads: Tensor,
    entropy_weight: float,
    all_advantages: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """The loss of a minibatch, ``policy + c_V sum_h value_h - c_H entropy``, and its `MEASURES`, (6,), detached.

    ``heads``, (2,), is 1 for the value heads that are trained: a signal of weight 0 must not reach the shared trunk.
    ``all_advantages`` are those of the minibatch on all ranks, by whose moments they are normalized; None: its own.
    """
    outputs, values = batch.evaluated_by(agent)
    log_ratio = distribution.log_probability(outputs, batch.actions) - batch.log_probabilities
    gain = batch.advantages
    if config.normalize_advantages:
        among = gain if all_advantages is None else all_advantages.to(gain)
        gain = (gain - among.mean()) / (among.std(correction=0) + 1e-8)
    policy_loss = clipped_surrogate(log_ratio, gain, config.clip)
    value_losses = ((values - batch.returns) / agent.value_deviation).square().mean(0) * heads
    entropy = distribution.entropy(outputs).mean()
    loss = policy_loss + config.value_weight * value_losses.sum() - entropy_weight * entropy
    with torch.no_grad():
        kl = (log_ratio.exp() - 1 - log_ratio).mean()
        clipped = ((log_ratio.exp() - 1).abs() > config.clip).float().mean()
        measures = torch.stack([policy_loss, value_losses[0], value_losses[1], entropy, kl, clipped])
    return loss, measures


def clipped_surrogate(log_ratio: Tensor, advantages: Tensor, clip: float) -> Tensor:
    """``-mean min(r A, clamp(r, 1 - clip, 1 + clip) A)`` with ``r = exp(log_ratio)``.

    Paper: Schulman et al. 2017, equation 7.
    """
    ratio = log_ratio.exp()
    return -torch.minimum(ratio * advantages, ratio.clamp(1 - clip, 1 + clip) * advantages).mean()


@torch.enable_grad()
def update_agent(
    agent: Agent,
    optimizer: torch.optim.Optimizer,
    batch: Batch | Sequences,
    config: TrainConfig,
    distribution: Distribution,
    *,
    heads: tuple[bool, bool],
    entropy_weight: float,
    generator: torch.Generator,
    check: Callable[[], object] = lambda: None,
    share: Share | None = None,
) -> dict[str, float]:
    """The mean `MEASURES` over the minibatches of a rollout, ``epochs`` passes of ``minibatches`` each, and how many
    ``updates``, steps of Adam, there were: fewer where the policy is ``target_kl`` away from the one that played.

    ``heads`` says which value heads are trained. An agent that stays ``untrained`` is only measured, in one pass.
    ``check`` is called before every step of Adam. ``batch`` is this rank's ``share`` of the rollout: minibatches are
    drawn from all of it, and a step descends the mean over the minibatch of all ranks.
    """
    share = share or Share(len(batch))
    if share.total < config.minibatches:
        raise ValueError(
            f"a rollout had {share.total} valid steps (in the others an environment only reset), too few for "
            f"{config.minibatches} minibatches: choose fewer minibatches, or more steps"
        )
    device = agent.values.weight.device
    trained = torch.tensor(heads, dtype=torch.float32).to(device)
    measured: list[Tensor] = []
    updates = 0
    epochs = 1 if config.untrained else config.epochs
    for index in minibatches(share.total, epochs=epochs, count=config.minibatches, generator=generator):
        check()
        loss, weight = None, share.weight(index)
        measures = torch.zeros(len(MEASURES), device=device)
        if weight:  # else no step of this minibatch is this rank's: its gradient is 0
            own, advantages = batch.rows(share.own(index), device), share.advantages(index)
            loss, measures = ppo_loss(agent, own, config, distribution, trained, entropy_weight, advantages)
        measured.append(measures * weight)
        if config.untrained:
            continue
        if config.target_kl and share.ranks.sum(measured[-1])[MEASURES.index("kl")] > config.target_kl:
            break
        optimizer.zero_grad()
        if loss is not None:
            (loss * weight).backward()
        sum_gradients(agent.parameters(), share.ranks)
        if config.max_gradient_norm:
            nn.utils.clip_grad_norm_(agent.parameters(), config.max_gradient_norm)
        optimizer.step()
        updates += 1
    sums = share.ranks.sum(sum(measured, start=torch.zeros(len(MEASURES), device=device)))
    if not all(bool(part.isfinite().all()) for part in (sums, *agent.parameters())):
        raise NotFinite("a loss of PPO, or a weight that it moved, is not finite")
    return dict(zip(MEASURES, (sums / len(measured)).cpu().tolist(), strict=True)) | {"updates": float(updates)}


@torch.no_grad()
def track_returns(agent: Agent, returns: Tensor, rate: Tensor, least: Tensor) -> None:
    """Move the units of the value heads towards the mean and deviation of ``returns``, (n, 2), by ``rate``.

    The units are at least ``least``. Shapes: rate and least (2,).

    Paper: van Hasselt et al. 2016 (PopArt), equations 6 to 8. A bonus falls by orders of magnitude while a run lasts;
    in fixed units Adam's steps become too coarse for it.
    """
    mean = agent.value_mean + rate * (returns.mean(0) - agent.value_mean)
    square = agent.value_deviation.square() + agent.value_mean.square()
    square = square + rate * (returns.square().mean(0) - square)
    deviation = (square - mean.square()).clamp_min(0).sqrt()
    agent.rescale_values(mean, torch.maximum(deviation, torch.where(least > 0, least, SMALLEST_DEVIATION)))


def explained_variance(values: Tensor, returns: Tensor) -> float:
    """``1 - Var(returns - values) / Var(returns)``: 1 is perfect, 0 as good as a constant; NaN for constant returns."""
    variance = returns.var(correction=0)
    return float(1 - (returns - values).var(correction=0) / variance) if variance > 0 else float("nan")
