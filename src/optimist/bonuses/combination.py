"""Two bonuses as one: a product (life-long times episodic) or a weighted sum."""

from abc import abstractmethod
from collections.abc import Mapping
from typing import Any, final

from torch import Tensor

from optimist.bonuses.checkpointing import require_same_layout, unchanged_on_error
from optimist.bonuses.protocol import Bonus
from optimist.bonuses.transitions import Transitions


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
