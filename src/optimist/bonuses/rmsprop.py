"""Noise regression by RMSprop with averaged iterates: the paper's solver, in O(M d) time a state and O(M d) memory."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor

from optimist.bonuses.ensemble import count_numbers, member_slices, predictions
from optimist.bonuses.features.batch import FeatureBatch
from optimist.bonuses.solvers import (
    Averaging,
    IterateAverage,
    Minibatches,
    blocks_state,
    require_finite_predictions,
    restore_blocks,
)
from optimist.bonuses.state import require_same_layout

LossForm = Literal["sum", "mean"]


@dataclass(frozen=True)
class RMSpropSettings:
    """What `AveragedRMSprop` is told; the defaults live in `ACBConfig`, whose fields say what these mean."""

    step_size: float
    smoothing: float
    epsilon: float
    pull: float
    loss_form: LossForm
    affine: bool
    averaging: Averaging
    averaging_rate: float


class AveragedRMSprop:
    """RMSprop on ``sum_m |G w_m - y_m|^2 / n + pull |w_m - w_0m|^2``, and the average of its iterates.

    *sum* is that loss, Algorithm 2's; *mean* is the released code's, which averages squares over members and
    coordinates as well: ``mean_nm (w_m g_n - y_nm)^2 + pull mean_md (w - w_0)^2``. RMSprop takes a common factor out,
    so the two differ in the pull (by d) and in what ``epsilon`` is small against. The pull is towards ``w_0``, kept
    only if it is not zero.

    With ``affine``, features enter as ``gain g + shift``, trained along (batch normalisation's affine part); the
    average that the bonus reads never sees it, as in the released code.

    ``initial`` is taken over, not copied. Every block is worked through some members at a time: gradients are never
    held for all blocks.

    Paper: Algorithm 2, lines 10 and 11; section 4.
    """

    def __init__(self, initial: Sequence[Tensor], settings: RMSpropSettings):
        self._settings = settings
        self._iterate = list(initial)
        self._square = [torch.zeros_like(block) for block in initial]
        self._initial = [block.clone() for block in initial] if settings.pull else []
        self._average = IterateAverage(initial, averaging=settings.averaging, rate=settings.averaging_rate)
        rows = [block[:1] for block in initial] if settings.affine else []
        self._affine = {
            "gain": [torch.ones_like(row) for row in rows],
            "shift": [torch.zeros_like(row) for row in rows],
        }
        self._affine_square = {name: [torch.zeros_like(row) for row in rows] for name in self._affine}

    @property
    def weights(self) -> Sequence[Tensor]:
        """The averaged regressors."""
        return self._average.blocks

    def fit(self, minibatches: Minibatches) -> float:
        """The mean squared error before each step, over the minibatches."""
        losses = [self._step(features, targets) for features, targets in minibatches]
        return sum(losses) / max(len(losses), 1)

    def _step(self, features: FeatureBatch, targets: Tensor) -> float:
        n, m = targets.shape
        predicted = predictions(self._iterate, features) if not self._settings.affine else self._shifted(features)
        residuals = require_finite_predictions(predicted) - targets
        loss = residuals.square().mean().item()
        residuals *= 2 / (n * m) if self._settings.loss_form == "mean" else 2 / n
        self._average.advance()
        for k in range(len(self._iterate)):
            self._step_block(k, features, residuals)
        return loss

    def _step_block(self, k: int, features: FeatureBatch, residuals: Tensor) -> None:
        block, total = self._iterate[k], count_numbers(self._iterate)
        affine_gradient = {name: torch.zeros_like(rows[k]) for name, rows in self._affine.items() if rows}
        for members in member_slices(block, total):
            gradient = features.pullback(k, residuals[:, members])
            if affine_gradient:
                count = residuals[:, members].sum(0).reshape(-1, *[1] * (block.ndim - 1))
                affine_gradient["gain"] += (gradient * block[members]).sum(0, keepdim=True)
                affine_gradient["shift"] += (count * block[members]).sum(0, keepdim=True)
                gradient = gradient * self._affine["gain"][k] + count * self._affine["shift"][k]
            if self._initial:
                gradient.add_(block[members] - self._initial[k][members], alpha=self._pull_factor(total))
            self._descend(block[members], gradient, self._square[k][members])
            self._average.fold(k, members, block[members])
        for name, gradient in affine_gradient.items():
            self._descend(self._affine[name][k], gradient, self._affine_square[name][k])

    def _descend(self, value: Tensor, gradient: Tensor, square: Tensor) -> None:
        square.mul_(self._settings.smoothing).addcmul_(gradient, gradient, value=1 - self._settings.smoothing)
        # On a CPU the root takes 9 times as long at 0 and 35 times at denormals; beside epsilon neither is anything.
        root = square.clamp_min(torch.finfo(square.dtype).tiny).sqrt_().add_(self._settings.epsilon)
        value.addcdiv_(gradient, root, value=-self._settings.step_size)

    def _pull_factor(self, ensemble_numbers: int) -> float:
        return 2 * self._settings.pull / (ensemble_numbers if self._settings.loss_form == "mean" else 1)

    def _shifted(self, features: FeatureBatch) -> Tensor:
        """``<w_m, gain g_n + shift>``: the gain moves onto the weights, the shift is one number a member."""
        total, predicted = count_numbers(self._iterate), []
        for k, block in enumerate(self._iterate):
            gain, shift = self._affine["gain"][k], self._affine["shift"][k].flatten()
            parts = []
            for members in member_slices(block, total):
                offset = block[members].flatten(1) @ shift
                parts.append(features.readout(k, block[members] * gain) + offset)
            predicted.append(torch.cat(parts, 1))
        return torch.stack(predicted).sum(0)

    def state_dict(self) -> dict[str, Any]:
        """Iterate, mean squares of gradients, initial weights if there is a pull, average, affine part."""
        return {
            "iterate": blocks_state(self._iterate),
            "square": blocks_state(self._square),
            "initial": blocks_state(self._initial),
            "average": blocks_state(self._average.blocks),
            "count": self._average.count,
            "affine": {name: blocks_state(rows) for name, rows in self._affine.items()},
            "affine_square": {name: blocks_state(rows) for name, rows in self._affine_square.items()},
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue exactly where ``state`` was taken."""
        require_same_layout(state, self.state_dict())
        restore_blocks(self._iterate, state["iterate"])
        restore_blocks(self._square, state["square"])
        restore_blocks(self._initial, state["initial"])
        restore_blocks(self._average.blocks, state["average"])
        self._average.count = state["count"]
        for name in self._affine:
            restore_blocks(self._affine[name], state["affine"][name])
            restore_blocks(self._affine_square[name], state["affine_square"][name])
