"""A bonus of your own: how far a state is from everything seen so far.

python examples/own_bonus.py                                                   # in Python
cd examples && optimist train --env CartPole-v1 --bonus own_bonus:distance     # on the command line
cd examples && optimist study deepsea --bonus own_bonus:distance               # beside the others, in a study
Needs: pip install 'optimist[rl,cli]'
"""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from optimist import bonuses


class Distance(bonuses.Bonus):
    """The distance of the next observation from the mean of all that were learned from.

    It is a life-long bonus that looks at each state by itself, so it has all traits by default. One that remembers the
    running episode says ``is_episodic = True`` and has `forget_episodes`; one that counts says
    ``depends_on_order = True``.
    """

    def __init__(self, size: int, power: float = 1.0):
        self.power = power
        self.count, self.total = 0, torch.zeros(size)

    def compute(self, transitions: bonuses.Transitions) -> Tensor:
        """One number per step, (T, N); changes nothing."""
        rows = _rows(transitions)
        return (rows - self.total / max(1, self.count)).norm(dim=-1) ** self.power

    def update(self, transitions: bonuses.Transitions) -> dict[str, float]:
        """Learn from a rollout; what is returned is logged as ``bonus/seen``."""
        rows = _rows(transitions)
        self.count += rows.shape[0] * rows.shape[1]
        self.total = self.total + rows.sum((0, 1))
        return {"seen": float(self.count)}

    def state_dict(self) -> dict[str, Any]:
        """Everything that changes: a run that was killed goes on exactly."""
        return {"count": self.count, "total": self.total.clone()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue where ``state`` was taken."""
        self.count, self.total = int(state["count"]), state["total"].clone()


def _rows(transitions: bonuses.Transitions) -> Tensor:
    """The next observations as vectors, (T, N, size); discrete states come as (T, N)."""
    observations = transitions.next_observations
    return observations.float().reshape(*observations.shape[:2], -1)


def distance(task: bonuses.Task, power: float = 1.0) -> Distance:
    """What ``own_bonus:distance`` names. ``task`` says what is observed and done; settings come by name."""
    shape = task.require("observation_shape")
    size = 1 if isinstance(shape, bonuses.Discrete) else torch.Size(shape).numel()
    return Distance(size, power)


def main() -> None:
    """Score two rollouts, one learned and one far away."""
    bonus = bonuses.make("own_bonus:distance", observation_shape=(3,), power=2.0)
    never = torch.zeros(16, 4, dtype=torch.bool)
    near = torch.randn(16, 4, 3, generator=torch.Generator().manual_seed(0))
    learned = bonuses.Transitions(near, never.long(), near, never, never)
    bonus.update(learned)
    far = bonuses.Transitions(near + 5, never.long(), near + 5, never, never)
    print(
        f"mean bonus: {bonus.compute(learned).mean():.1f} where it has been, {bonus.compute(far).mean():.1f} far away"
    )


if __name__ == "__main__":
    main()
