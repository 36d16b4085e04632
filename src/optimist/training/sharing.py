"""What a rank must know of a rollout of all ranks to learn from its own part of it as if it learned from all."""

from dataclasses import dataclass

import torch
from torch import Tensor

from optimist.bonuses.transitions import Transitions
from optimist.ranks import ALONE, Ranks, SharedRows


@dataclass(frozen=True, eq=False)
class Share:
    """This rank's part of the ``total`` rows that minibatches are drawn from; all of them if it is alone.

    A row is a valid step or, for a recurrent policy, an environment with all its steps. Shapes: steps (total,), how
    many valid steps a row has; valid and advantages (T, N), of all ranks.
    """

    total: int
    ranks: Ranks = ALONE
    rows: SharedRows | None = None
    steps: Tensor | None = None
    valid: Tensor | None = None
    all_advantages: Tensor | None = None
    by_environment: bool = False

    def own(self, index: Tensor) -> Tensor:
        """Those of the rows ``index`` that are in this rank's part, by their places there."""
        return index if self.rows is None else self.rows.own(index)

    def weight(self, index: Tensor) -> float:
        """Which share of the valid steps of the rows ``index`` is this rank's: what its means count for."""
        if self.rows is None or self.steps is None:
            return 1.0
        steps = self.steps[index]
        return int(self.rows.kept(index, steps).sum()) / int(steps.sum())

    def advantages(self, index: Tensor) -> Tensor | None:
        """The advantages of the rows ``index`` on all ranks; None alone, where the minibatch has them itself."""
        if self.all_advantages is None or self.valid is None:
            return None
        if self.by_environment:
            return self.all_advantages[:, index][self.valid[:, index]]
        return self.all_advantages[self.valid][index]


def share_of(transitions: Transitions, advantages: Tensor, *, by_environment: bool, ranks: Ranks) -> Share:
    """This rank's share of a rollout, with the advantages (T, N) of its own part."""
    valid = torch.ones_like(transitions.terminated) if transitions.valid is None else transitions.valid
    if ranks.alone:
        return Share(valid.shape[1] if by_environment else int(valid.sum()))
    rows = SharedRows(torch.ones_like(valid[:1]) if by_environment else valid, ranks)
    valid = ranks.gather(valid, 1)
    steps = valid.sum(0) if by_environment else torch.ones(rows.total, dtype=torch.int64)
    return Share(rows.total, ranks, rows, steps, valid, ranks.gather(advantages, 1), by_environment)
