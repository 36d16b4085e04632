"""Two bonuses as one: a product (life-long times episodic) or a weighted sum."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from torch import Tensor

from optimist.bonuses.protocol import Bonus, Transitions
from optimist.bonuses.state import require_same_layout


class Product:
    """The bonus ``first * second``: new over a lifetime and within its episode."""

    def __init__(self, first: Bonus, second: Bonus):
        self._pair = Pair(first, second)

    @property
    def parts(self) -> tuple[Bonus, Bonus]:
        """Both bonuses, in their order."""
        return self._pair.first, self._pair.second

    def compute(self, transitions: Transitions) -> Tensor:
        """The product, (T, N); changes nothing."""
        first, second = self._pair.compute(transitions)
        return first * second

    def update(self, transitions: Transitions) -> dict[str, float]:
        """Update both; metrics carry ``first/`` and ``second/`` before their names."""
        return self._pair.update(transitions)

    def warm_up(self, transitions: Transitions) -> None:
        """Warm both up."""
        self._pair.warm_up(transitions)

    def state_dict(self) -> dict[str, Any]:
        """Both states."""
        return self._pair.state_dict()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue exactly where ``state`` was taken."""
        self._pair.load_state_dict(state)


class Sum:
    """The bonus ``weights[0] * first + weights[1] * second``."""

    def __init__(self, first: Bonus, second: Bonus, *, weights: tuple[float, float] = (1.0, 1.0)):
        if len(weights) != 2 or not all(0 <= w < float("inf") for w in weights):
            raise ValueError(f"weights must be two finite numbers >= 0, got {weights}")
        self.weights = weights
        self._pair = Pair(first, second)

    @property
    def parts(self) -> tuple[Bonus, Bonus]:
        """Both bonuses, in their order."""
        return self._pair.first, self._pair.second

    def compute(self, transitions: Transitions) -> Tensor:
        """The weighted sum, (T, N); changes nothing."""
        first, second = self._pair.compute(transitions)
        return self.weights[0] * first + self.weights[1] * second

    def update(self, transitions: Transitions) -> dict[str, float]:
        """Update both; metrics carry ``first/`` and ``second/`` before their names."""
        return self._pair.update(transitions)

    def warm_up(self, transitions: Transitions) -> None:
        """Warm both up."""
        self._pair.warm_up(transitions)

    def state_dict(self) -> dict[str, Any]:
        """Both states."""
        return self._pair.state_dict()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue exactly where ``state`` was taken."""
        self._pair.load_state_dict(state)


class Pair:
    """Two bonuses that are updated, saved and loaded together: what either refuses, neither takes.

    Each refuses whole by itself; so only the first, which has already taken what the second refuses, is put back, from
    a copy of its state. Where states are large, as with exact gradients, put the smaller one first.
    """

    def __init__(self, first: Bonus, second: Bonus):
        self.first = first
        self.second = second

    def compute(self, transitions: Transitions) -> tuple[Tensor, Tensor]:
        """Both bonuses, each (T, N)."""
        return self.first.compute(transitions), self.second.compute(transitions)

    def update(self, transitions: Transitions) -> dict[str, float]:
        """The metrics of both."""
        with self._first_restored():
            first, second = self.first.update(transitions), self.second.update(transitions)
        return {f"first/{k}": v for k, v in first.items()} | {f"second/{k}": v for k, v in second.items()}

    def warm_up(self, transitions: Transitions) -> None:
        """Warm up both or neither."""
        with self._first_restored():
            self.first.warm_up(transitions)
            self.second.warm_up(transitions)

    def state_dict(self) -> dict[str, Any]:
        """Both states, by position."""
        return {"first": self.first.state_dict(), "second": self.second.state_dict()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Load both or neither."""
        require_same_layout(dict.fromkeys(state, ""), {"first": "", "second": ""})
        with self._first_restored():
            self.first.load_state_dict(state["first"])
            self.second.load_state_dict(state["second"])

    @contextmanager
    def _first_restored(self) -> Iterator[None]:
        """The first bonus is as it was before if anything inside fails."""
        before = self.first.state_dict()
        try:
            yield
        except Exception:
            self.first.load_state_dict(before)
            raise
