"""Bonuses made of bonuses: a product (life-long times episodic), a weighted sum, the gain of one along a step."""

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, final

import torch
from torch import Tensor

from optimist.bonuses.checkpointing import require_same_layout, unchanged_on_error
from optimist.bonuses.observations import named
from optimist.bonuses.protocol import Bonus, shown
from optimist.bonuses.transitions import Transitions
from optimist.checks import require_fields
from optimist.ranks import ALONE


class Combination(Bonus):
    """Two bonuses that are updated, saved and loaded together: what either refuses, neither takes.

    Each refuses whole by itself; so only the first, which has already taken what the second refuses, is put back, from
    a copy of its state. Where states are large, as with exact gradients, put the smaller one first.
    """

    def __init__(self, first: Bonus, second: Bonus):
        self.first, self.second = first, second
        self.needs_warm_up = first.needs_warm_up or second.needs_warm_up
        self.reads_policy = first.reads_policy or second.reads_policy
        self.depends_on_order = first.depends_on_order or second.depends_on_order
        self.is_episodic = first.is_episodic or second.is_episodic
        self.reads_actions = first.reads_actions or second.reads_actions
        self.shares_ranks = all(getattr(part, "shares_ranks", False) for part in (first, second))

    @abstractmethod
    def combined(self, first: Tensor, second: Tensor) -> Tensor:
        """One bonus from two. Shapes: (T, N), (T, N) -> (T, N)."""

    @property
    def parts(self) -> tuple[Bonus, Bonus]:
        """Both bonuses, in their order."""
        return self.first, self.second

    def compute(self, transitions: Transitions) -> Tensor:
        """The combined bonus, (T, N); changes nothing."""
        return self.combined(self.first.compute(transitions), self.second.compute(transitions))

    def update(self, transitions: Transitions) -> dict[str, float]:
        """Update both or neither; metrics carry ``first/`` and ``second/`` before their names."""
        with unchanged_on_error(self.first):
            first, second = self.first.update(transitions), self.second.update(transitions)
        return {f"first/{k}": v for k, v in first.items()} | {f"second/{k}": v for k, v in second.items()}

    def warm_up(self, transitions: Transitions) -> None:
        """Warm up both or neither."""
        with unchanged_on_error(self.first):
            self.first.warm_up(transitions)
            self.second.warm_up(transitions)

    def forget_episodes(self, which: Tensor | None = None) -> None:
        """Both forget the running episodes of the chosen environments."""
        self.first.forget_episodes(which)
        self.second.forget_episodes(which)

    def state_dict(self) -> dict[str, Any]:
        """Both states, by position."""
        return {"first": self.first.state_dict(), "second": self.second.state_dict()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Load both or neither."""
        require_same_layout(dict.fromkeys(state, ""), {"first": "", "second": ""})
        with unchanged_on_error(self.first):
            self.first.load_state_dict(state["first"])
            self.second.load_state_dict(state["second"])


@final
class Product(Combination):
    """The bonus ``first * second``: new over a lifetime and within its episode."""

    def combined(self, first: Tensor, second: Tensor) -> Tensor:
        """The product."""
        return first * second

    def __repr__(self) -> str:
        return f"{self.first!r} * {self.second!r}"


@final
class Sum(Combination):
    """The bonus ``weights[0] * first + weights[1] * second``."""

    def __init__(self, first: Bonus, second: Bonus, *, weights: tuple[float, float] = (1.0, 1.0)):
        if len(weights) != 2 or not all(0 <= w < float("inf") for w in weights):
            raise ValueError(f"weights must be two finite numbers >= 0, got {weights}")
        super().__init__(first, second)
        self.weights = weights

    def combined(self, first: Tensor, second: Tensor) -> Tensor:
        """The weighted sum."""
        return self.weights[0] * first + self.weights[1] * second

    def __repr__(self) -> str:
        return f"Sum({self.first!r}, {self.second!r}, weights={self.weights})"


@dataclass(frozen=True)
class NoveltyGainConfig:
    """Every default of `NoveltyGain`."""

    alpha: float = 0.5
    """alpha, the share of the bonus of the state before a step that is taken off; 0.5 is NovelD's, 1 BeBold's."""

    def __post_init__(self) -> None:
        require_fields(self, "alpha", least=0)


@final
class NoveltyGain(Bonus):
    """The bonus ``max(b(s') - alpha b(s), 0)``: how far a step leads from the known into the new, b another bonus.

    b must score each state by itself, as ACB, RND and elliptical bonuses do. `Product` with `EpisodicCount`, whose form
    is "first-visit", is NovelD: the gain is paid at the first visit of the episode.

    Paper: NovelD (Zhang et al. 2021), without its episodic restriction.
    """

    reads_actions = True

    def __init__(self, bonus: Bonus, *, config: NoveltyGainConfig | None = None):
        wrong = [trait for trait in ("depends_on_order", "is_episodic", "reads_actions") if getattr(bonus, trait)]
        if wrong:
            raise ValueError(
                f"a gain of novelty needs a bonus that scores each state by itself, got {bonus!r} with "
                f"{' and '.join(wrong)}: choose acb, rnd or elliptical, and multiply with an episodic bonus outside"
            )
        self.config = config or NoveltyGainConfig()
        self.bonus = bonus
        self.needs_warm_up, self.reads_policy = bonus.needs_warm_up, bonus.reads_policy
        self.ranks, self.shares_ranks = getattr(bonus, "ranks", ALONE), getattr(bonus, "shares_ranks", False)

    def compute(self, transitions: Transitions) -> Tensor:
        """The gain of every step, (T, N); changes nothing."""
        # First the states that no step led to: a bonus may keep what it read last for its update.
        starts = started(transitions)
        times = self.ranks.gather(starts, 1).any(1).nonzero().squeeze(1)  # all ranks read the same times
        first = self._scored_before(transitions, times) if len(times) else None
        after = self.bonus.compute(transitions)
        before = torch.cat([torch.zeros_like(after[:1]), after[:-1]])
        if first is not None:
            before[times] = torch.where(starts[times], first, before[times])
        return (after - self.config.alpha * before).clamp_min(0)

    def _scored_before(self, transitions: Transitions, times: Tensor) -> Tensor:
        """The bonus of the states before the steps ``times``, (k, N)."""
        chosen = transitions.mapped(lambda part: part[times])
        return self.bonus.compute(replace(chosen, next_observations=chosen.observations))

    def update(self, transitions: Transitions) -> dict[str, float]:
        """Update the bonus; its metrics."""
        return self.bonus.update(transitions)

    def warm_up(self, transitions: Transitions) -> None:
        """Warm up the bonus."""
        self.bonus.warm_up(transitions)

    def state_dict(self) -> dict[str, Any]:
        """The state of the bonus."""
        return {"bonus": self.bonus.state_dict()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Load the state of the bonus."""
        require_same_layout(dict.fromkeys(state, ""), {"bonus": ""})
        self.bonus.load_state_dict(state["bonus"])

    def __repr__(self) -> str:
        return shown(self, self.bonus)


def started(transitions: Transitions) -> Tensor:
    """Where the state before a valid step is not the one that a valid step before it led to, (T, N): also at t = 0."""
    starts = torch.zeros_like(transitions.terminated)
    starts[0] = True
    after = named(transitions.next_observations)
    for name, part in named(transitions.observations).items():
        starts[1:] |= (part[1:] != after[name][:-1]).unsqueeze(-1).flatten(2).any(2)
    if transitions.valid is not None:
        starts[1:] |= ~transitions.valid[:-1]
        starts &= transitions.valid
    return starts
