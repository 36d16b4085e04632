"""Noise regression by RMSprop with averaged iterates: the paper's solver, O(M d) time per state and O(M d) memory."""

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from optimist.bonuses.acb.config import RMSprop
from optimist.bonuses.acb.ensemble import count_numbers, member_slices, predictions
from optimist.bonuses.acb.solvers.averaging import (
    IterateAverages,
    Minibatches,
    all_or_nothing,
    blocks_state,
    require_finite_predictions,
    restore_blocks,
)
from optimist.bonuses.acb.standardize import FeatureScale
from optimist.bonuses.checkpointing import require_same_layout
from optimist.bonuses.features.batch import FeatureBatch, Scratch


class RMSpropSolver:
    """RMSprop on ``sum_m |G w_m - y_m|^2 / n + pull |w_m - w_0m|^2``, and the average of its iterates.

    *sum* is that loss, Algorithm 2's; *mean* is the released code's, which averages squares over members and
    coordinates as well: ``mean_nm (w_m g_n - y_nm)^2 + pull mean_md (w - w_0)^2``. RMSprop takes a common factor out,
    so the two differ in the pull (by d) and in what ``optimizer_epsilon`` is small against. The pull is towards
    ``w_0``, kept only if it is not zero.

    With ``affine``, features enter as ``gain g + shift``, trained along (batch normalization's affine part); the
    average that the bonus reads never sees it, as in the released code.

    ``initial`` is taken over, not copied. Every block is worked through some members at a time: gradients are never
    held for all blocks. ``dtype`` is what predictions and gradients are multiplied in, if not the features' own.
    Nothing that is kept is rounded to it: a step of less than half a unit in the last place would be lost.

    Paper: Algorithm 2, lines 10 and 11; section 5.
    """

    def __init__(self, initial: Sequence[Tensor], config: RMSprop, dtype: torch.dtype | None = None):
        self._config = config
        self._dtype = dtype
        self._scratch = Scratch()
        self._iterate = list(initial)
        self._square = [torch.zeros_like(block) for block in initial]
        self._initial = [block.clone() for block in initial] if config.pull else []
        self._average = IterateAverages(initial, averaging=config.averaging, rate=config.averaging_rate, powers=())
        rows = [block[:1] for block in initial] if config.affine else []
        self._affine = {
            "gain": [torch.ones_like(row) for row in rows],
            "shift": [torch.zeros_like(row) for row in rows],
        }
        self._affine_square = {name: [torch.zeros_like(row) for row in rows] for name in self._affine}

    @property
    def ensembles(self) -> Sequence[Tensor]:
        """The averaged regressors, one ensemble."""
        return self._average.ensembles

    def fit(self, minibatches: Minibatches, scale: FeatureScale) -> float:
        """The mean squared error before each step, over the minibatches; all or nothing, by a copy of the state."""
        losses = []
        with all_or_nothing(self, minibatches) as steps:
            for features, targets in steps:
                scale.observe(features)
                x = scale.standardize(features)
                losses.append(self._step(x if self._dtype is None else x.in_precision(self._dtype), targets))
        return sum(losses) / max(len(losses), 1)

    def _step(self, features: FeatureBatch, targets: Tensor) -> float:
        n, m = targets.shape
        predicted = predictions(self._iterate, features) if not self._config.affine else self._shifted(features)
        residuals = require_finite_predictions(predicted) - targets
        loss = residuals.square().mean().item()
        residuals *= 2 / (n * m) if self._config.loss_form == "mean" else 2 / n
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
        square.mul_(self._config.smoothing).addcmul_(gradient, gradient, value=1 - self._config.smoothing)
        # On a CPU the root takes 9 times as long at 0 and 35 times at denormals; beside epsilon neither is anything.
        least = torch.finfo(square.dtype).tiny
        root = torch.clamp_min(square, least, out=self._scratch.like(square)).sqrt_()
        value.addcdiv_(gradient, root.add_(self._config.optimizer_epsilon), value=-self._config.learning_rate)

    def _pull_factor(self, ensemble_numbers: int) -> float:
        return 2 * self._config.pull / (ensemble_numbers if self._config.loss_form == "mean" else 1)

    def _shifted(self, features: FeatureBatch) -> Tensor:
        """``<w_m, gain g_n + shift>``: the gain moves onto the weights, the shift is one number per member."""
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
            "average": self._average.state_dict(),
            "affine": {name: blocks_state(rows) for name, rows in self._affine.items()},
            "affine_square": {name: blocks_state(rows) for name, rows in self._affine_square.items()},
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue exactly where ``state`` was taken."""
        require_same_layout(state, self.state_dict())
        restore_blocks(self._iterate, state["iterate"])
        restore_blocks(self._square, state["square"])
        restore_blocks(self._initial, state["initial"])
        self._average.load_state_dict(state["average"])
        for name in self._affine:
            restore_blocks(self._affine[name], state["affine"][name])
            restore_blocks(self._affine_square[name], state["affine_square"][name])
