"""Bonuses as a user would write them: an episodic one, a counting one and a life-long one, each with its factory.

They say what they are by their traits alone: neither their names, nor their classes, nor the keys of their states look
like those of Optimist. A host that scores them right therefore reads the traits. ``tests/`` is on the path of every
test, so ``bonuses.make("own_bonuses:episodic")`` and ``--bonus own_bonuses:episodic`` work (the latter with ``tests/``
in PYTHONPATH).

All three tell states apart by the exact numbers of an observation and loop over steps in Python: obviously correct and
slow. So each has a known answer for any rollout.
"""

from collections import Counter
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from optimist.bonuses import Bonus, Task, Transitions

State = tuple[float, ...]


def states(transitions: Transitions) -> list[list[State]]:
    """The state after each step as a tuple of its numbers, by time and environment."""
    observations = transitions.next_observations
    parts = [observations] if isinstance(observations, Tensor) else [observations[key] for key in sorted(observations)]
    rows = torch.cat([part.flatten(0, 1).reshape(transitions.ended.numel(), -1).double() for part in parts], dim=1)
    flat = [tuple(row) for row in rows.tolist()]
    return [flat[t * transitions.n_envs : (t + 1) * transitions.n_envs] for t in range(transitions.steps)]


def is_valid(transitions: Transitions, t: int, n: int) -> bool:
    """Whether the step was a real one."""
    return transitions.valid is None or bool(transitions.valid[t, n])


class Revisits(Bonus):
    """The bonus ``1 / (1 + v)``, v the earlier visits to the state within the running episode of its environment."""

    is_episodic = True
    depends_on_order = True

    def __init__(self, scale: float = 1.0):
        self.scale = scale
        self.running: list[Counter[State]] = []

    def compute(self, transitions: Transitions) -> Tensor:
        """The bonus of every step, (T, N)."""
        return self._walked(transitions, [counter.copy() for counter in self.running])[0]

    def update(self, transitions: Transitions) -> dict[str, float]:
        """Remember the episodes that are still running."""
        _, self.running = self._walked(transitions, [counter.copy() for counter in self.running])
        return {"remembered": float(sum(map(len, self.running)))}

    def forget_episodes(self, which: Tensor | None = None) -> None:
        """Begin the chosen episodes anew."""
        if which is None:
            self.running = []
        else:
            self.running = [Counter() if gone else own for gone, own in zip(which.tolist(), self.running, strict=False)]

    def state_dict(self) -> dict[str, Any]:
        """The visits of every environment's running episode."""
        return {"walks": {str(n): _table(counter) for n, counter in enumerate(self.running)}}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from there."""
        self.running = [_counter(state["walks"][str(n)]) for n in range(len(state["walks"]))]

    def _walked(self, transitions: Transitions, running: list[Counter[State]]) -> tuple[Tensor, list[Counter[State]]]:
        running = running or [Counter() for _ in range(transitions.n_envs)]
        bonuses = torch.zeros(transitions.steps, transitions.n_envs)
        for t, row in enumerate(states(transitions)):
            for n, state in enumerate(row):
                if is_valid(transitions, t, n):
                    bonuses[t, n] = self.scale / (1 + running[n][state])
                    running[n][state] += 1
                if transitions.ended[t, n]:
                    running[n] = Counter()
        return bonuses, running


class Census(Bonus):
    """The bonus ``1 / n``, n the visits of all environments to the state, ever, this one included, in the order (t, n).

    Environments at the same step count one after the other, unlike in Optimist's own counts.
    """

    depends_on_order = True

    def __init__(self, scale: float = 1.0):
        self.scale = scale
        self.seen: Counter[State] = Counter()

    def compute(self, transitions: Transitions) -> Tensor:
        """The bonus of every step, (T, N)."""
        return self._walked(transitions, self.seen.copy())[0]

    def update(self, transitions: Transitions) -> dict[str, float]:
        """Count every step."""
        _, self.seen = self._walked(transitions, self.seen.copy())
        return {"distinct": float(len(self.seen))}

    def state_dict(self) -> dict[str, Any]:
        """The visits of every state."""
        return {"people": _table(self.seen)}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from there."""
        self.seen = _counter(state["people"])

    def _walked(self, transitions: Transitions, seen: Counter[State]) -> tuple[Tensor, Counter[State]]:
        bonuses = torch.zeros(transitions.steps, transitions.n_envs)
        for t, row in enumerate(states(transitions)):
            for n, state in enumerate(row):
                if is_valid(transitions, t, n):
                    seen[state] += 1
                    bonuses[t, n] = self.scale / seen[state]
        return bonuses, seen


class Novelty(Bonus):
    """The bonus ``1 / (1 + u)``, u the updates in which the state occurred: steps of one rollout are all scored alike.

    Life-long, and a step's bonus does not depend on the other steps that are scored with it: the default traits.
    """

    def __init__(self, scale: float = 1.0):
        self.scale = scale
        self.rollouts: Counter[State] = Counter()

    def compute(self, transitions: Transitions) -> Tensor:
        """The bonus of every step, (T, N)."""
        bonuses = torch.zeros(transitions.steps, transitions.n_envs)
        for t, row in enumerate(states(transitions)):
            for n, state in enumerate(row):
                if is_valid(transitions, t, n):
                    bonuses[t, n] = self.scale / (1 + self.rollouts[state])
        return bonuses

    def update(self, transitions: Transitions) -> dict[str, float]:
        """Mark every state of the rollout once."""
        rows = enumerate(states(transitions))
        met = {state for t, row in rows for n, state in enumerate(row) if is_valid(transitions, t, n)}
        self.rollouts = self.rollouts + Counter(met)
        return {"distinct": float(len(self.rollouts))}

    def state_dict(self) -> dict[str, Any]:
        """The updates in which every state occurred."""
        return {"met": _table(self.rollouts)}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from there."""
        self.rollouts = _counter(state["met"])


def episodic(task: Task, scale: float = 1.0) -> Bonus:
    """``--bonus own_bonuses:episodic``."""
    return Revisits(scale)


def counting(task: Task, scale: float = 1.0) -> Bonus:
    """``--bonus own_bonuses:counting``."""
    return Census(scale)


def lifelong(task: Task, scale: float = 1.0) -> Bonus:
    """``--bonus own_bonuses:lifelong``."""
    return Novelty(scale)


def _table(counter: Counter[State]) -> dict[str, Tensor]:
    """A counter as tensors, which every host can save."""
    return {
        "states": torch.tensor([list(state) for state in counter], dtype=torch.float64),
        "visits": torch.tensor(list(counter.values()), dtype=torch.int64),
    }


def _counter(table: Mapping[str, Tensor]) -> Counter[State]:
    rows = zip(table["states"].tolist(), table["visits"].tolist(), strict=True)
    return Counter({tuple(state): visits for state, visits in rows})
