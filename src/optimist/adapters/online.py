"""A bonus beside a host's own loop: scored as steps come, normalised, weighted, trained on a schedule of its own."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from optimist.adapters.pending import Pending
from optimist.adapters.saving import read_state, write_state
from optimist.bonuses.combination import Product, Sum
from optimist.bonuses.counts import HashCount
from optimist.bonuses.episodic import E3B
from optimist.bonuses.episodic_count import EpisodicCount
from optimist.bonuses.normalization import ReturnScale
from optimist.bonuses.protocol import Bonus, Transitions
from optimist.configuration import replaced, require_at_least
from optimist.seeding import require_seed

KIND = "intrinsic reward"
COUNTS = ("seed", "steps", "updates", "scored")
ENTRIES = {"bonus", "scale", "pending", *COUNTS}


@dataclass(frozen=True)
class IntrinsicConfig:
    """How a bonus becomes a reward, and when it learns. Steps are those of all environments together."""

    weight: float = 1.0
    """What the normalised bonus is multiplied with; 0 gives no reward at all."""
    normalise: bool = True
    """Whether bonuses are divided by the running deviation of their discounted sums."""
    discount: float = 0.99
    """The discount of those sums: RND's."""
    memory: int = 0
    """Steps that their deviation remembers; 0: all, as RND. See `ReturnScale`."""
    train_every: int = 1_024
    """Steps from one update of the bonus to the next, which learns from all of them, once."""
    batch_size: int = 1_024
    """Steps that one update is given at most; more are given in several, in their order."""
    learning_starts: int = 1_000
    """First steps, which earn nothing and teach nothing: they only set the observation statistics of RND and ICM."""

    def __post_init__(self) -> None:
        require_at_least(0, self, "memory", "learning_starts")
        require_at_least(1, self, "train_every", "batch_size")
        if not 0 <= self.weight < math.inf:
            raise ValueError(f"weight must be >= 0 and finite, got {self.weight}")
        if not 0 <= self.discount < 1:
            raise ValueError(f"discount must lie in [0, 1), got {self.discount}: discounted sums must stay finite")

    @property
    def settling(self) -> int:
        """Steps of every environment after which a discounted sum is full: before, its deviation means nothing."""
        return math.ceil(round(1 / (1 - self.discount), 6)) if self.normalise else 0


class IntrinsicReward:
    """Rewards of a ``bonus`` for what a host plays: `reward`, then `observe`, with every rollout; `step` with a step.

    A step is scored before it is learned from. Rewards are 0 in the first ``learning_starts`` steps, and then until the
    scale has seen ``1 / (1 - discount)`` steps of every environment. A bonus that counts, or looks within
    episodes, reads the steps since its last update again with every new one: a small ``train_every`` is cheaper there.
    With ``training`` off nothing moves: neither the bonus nor its scale. ``config`` owns every choice; single fields
    may be given by name. ``seed`` is the one the bonus was made from, None if unknown: what is drawn from it, a random
    network or a sketch, need not be part of a state, so that a state of another seed is refused.
    """

    def __init__(
        self, bonus: Bonus, *, seed: int | None = None, config: IntrinsicConfig | None = None, **overrides: Any
    ):
        self.config = replaced(config or IntrinsicConfig(), overrides)
        self._seed = -1 if seed is None else require_seed(seed)
        self.bonus = bonus
        self.training = True
        self.steps = 0
        """Steps observed so far, of all environments."""
        self.updates = 0
        """Updates of the bonus so far."""
        self.metrics: dict[str, float] = {}
        """What the bonus said about its last update."""
        self._scale = self._new_scale()
        self._scored = 0
        self._pending = Pending()
        self._replays = reads_earlier_steps(bonus)

    @property
    def warming_up(self) -> bool:
        """Whether these are still the first steps, which earn nothing."""
        return self.steps < self.config.learning_starts

    def raw(self, transitions: Transitions) -> Tensor:
        """The bonus as it is, neither normalised nor weighted; changes nothing. Shapes: -> (T, N)."""
        if not self._replays or not self._pending.steps:
            return self.bonus.compute(transitions).cpu()
        return self.bonus.compute(self._pending.followed_by(transitions))[-transitions.steps :].cpu()

    def reward(self, transitions: Transitions) -> Tensor:
        """The weighted, normalised bonus; moves the scale by it first. Shapes: -> (T, N)."""
        if self.warming_up:
            return torch.zeros(transitions.terminated.shape)
        raw = self.raw(transitions)
        if not self.config.normalise:
            return raw * self.config.weight
        if self.training:
            self._scale.update(raw)
            self._scored += len(raw)
        if self._scored < self.config.settling:
            return raw.new_zeros(raw.shape)
        return self._scale.normalise(raw) * self.config.weight

    def observe(self, transitions: Transitions) -> dict[str, float]:
        """The metrics of training if it was due with these steps; otherwise none."""
        if not self.training:
            return {}
        self.steps += self._pending.add(transitions)
        return self._learn() if self._due else {}

    def step(self, transitions: Transitions) -> Tensor:
        """The rewards of one more step of a host that goes step by step; learns first, if due, from those before it.

        So the latest step is never learned from yet, and `end_episodes` can still say that it was the last one.
        Shapes: -> (1, N).
        """
        if self.training and self._due:
            self._learn()
        rewards = self.reward(transitions)
        if self.training:
            self.steps += self._pending.add(transitions)
        return rewards

    def end_episodes(self, environments: Tensor) -> None:
        """Cut the episodes of the chosen environments after the latest `step`: the host resets them. Shapes: (N,)."""
        self._pending.cut(environments)

    @property
    def _pending_warms_up(self) -> bool:
        return self.steps - self._pending.steps < self.config.learning_starts

    @property
    def _due(self) -> bool:
        return self._pending.steps >= self.config.train_every or (self._pending_warms_up and not self.warming_up)

    def _learn(self) -> dict[str, float]:
        """The metrics of learning from all steps observed since the last time; their mean over several updates."""
        warms_up = self._pending_warms_up
        pieces = self._pending.taken(self.config.batch_size)
        if warms_up:
            for piece in pieces:
                self.bonus.warm_up(piece)
            return {}
        found = [metrics for piece in pieces if (metrics := self.bonus.update(piece))]
        self.updates += len(found)
        if found:
            self.metrics = {name: sum(metrics[name] for metrics in found) / len(found) for name in found[0]}
        return dict(self.metrics) if found else {}

    def state_dict(self) -> dict[str, Any]:
        """Everything: the bonus, its scale, the steps it has not learned from yet, the counts."""
        return {
            "bonus": self.bonus.state_dict(),
            "scale": self._scale.state_dict(),
            "pending": self._pending.state_dict(),
            "seed": self._seed,
            "steps": self.steps,
            "updates": self.updates,
            "scored": self._scored,
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue exactly where ``state`` was taken. A state that does not fit raises and changes nothing."""
        if state.keys() != ENTRIES or not all(isinstance(state[name], int) for name in COUNTS):
            raise ValueError(
                f"state must have the entries {sorted(ENTRIES)}, got {sorted(state)}: was it saved by an {KIND}?"
            )
        if state["seed"] != self._seed:
            raise ValueError(
                f"the bonus must be made from the seed saved, {_seed_named(state['seed'])}, "
                f"got one of {_seed_named(self._seed)}: build it again with that seed; nothing was changed"
            )
        scale, pending = self._new_scale(), Pending()
        scale.load_state_dict(state["scale"])
        pending.load_state_dict(state["pending"])
        self.bonus.load_state_dict(state["bonus"])
        self._scale, self._pending = scale, pending
        self.steps, self.updates, self._scored = state["steps"], state["updates"], state["scored"]

    def save(self, path: str | Path) -> None:
        """Write the state to one file, complete or not at all. Reading it executes no code."""
        write_state(Path(path), self.state_dict(), kind=KIND)

    def load(self, path: str | Path) -> None:
        """Continue exactly where `save` was called."""
        self.load_state_dict(read_state(Path(path), kind=KIND))

    def _new_scale(self) -> ReturnScale:
        return ReturnScale(discount=self.config.discount, memory=self.config.memory)


def looks_within_episodes(bonus: Bonus) -> bool:
    """Whether the bonus of a step depends on the earlier steps of its episode: E3B, episodic counts, pairs with one."""
    return any(isinstance(single, E3B | EpisodicCount) for single in _singles(bonus))


def reads_earlier_steps(bonus: Bonus) -> bool:
    """Whether the bonus of a step depends on steps before it that were not learned from yet: those, and all counts."""
    return any(isinstance(single, E3B | EpisodicCount | HashCount) for single in _singles(bonus))


def _singles(bonus: Bonus) -> list[Bonus]:
    if not isinstance(bonus, Product | Sum):
        return [bonus]
    return [single for part in bonus.parts for single in _singles(part)]


def _seed_named(seed: int) -> str:
    return "none (a ready bonus)" if seed < 0 else str(seed)
