"""What fits the regressors: `Solver`, and the running average of iterates that streaming solvers share."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, Protocol

from torch import Tensor

from optimist.bonuses.features.batch import FeatureBatch

Averaging = Literal["uniform", "polynomial", "exponential"]
POLYNOMIAL_POWER = 3
Minibatches = Iterable[tuple[FeatureBatch, Tensor]]


class Solver(Protocol):
    """M regressors that learn to predict noise. ``fit`` is the only mutation; the first weights are taken over."""

    @property
    def weights(self) -> Sequence[Tensor]:
        """The regressors that the bonus reads: block k is (m, *shapes[k])."""
        ...

    def fit(self, minibatches: Minibatches) -> float:
        """The mean squared error before each step, over a rollout's minibatches of n features, targets (n, m)."""
        ...

    def state_dict(self) -> dict[str, Any]:
        """Copies of everything that ``fit`` changes."""
        ...

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue exactly where ``state`` was taken."""
        ...


class IterateAverage:
    """The average of the iterates ``w_1, w_2, ...`` of a streaming solver; ``w_0`` until the first of them.

    *uniform* gives every iterate since the start the weight 1/k: over N samples its covariance is near ``Sigma^-1 /
    N``. ``w_0`` itself has no weight: where there is no data every iterate still holds it, and where there is, its
    weight of 1/k would outlive the data's own ``1 / sqrt N``. *exponential* moves by ``rate`` towards each iterate:
    it forgets, and its bonus stops falling.

    Paper: section 4, "a Polyak-averaged version of the ensemble".
    """

    def __init__(self, initial: Sequence[Tensor], *, averaging: Averaging, rate: float):
        self.blocks = [block.clone() for block in initial]
        self.count = 0
        self._averaging = averaging
        self._rate = rate

    def advance(self) -> None:
        """Count one iterate; every part of it is to be folded in before the next."""
        self.count += 1

    def fold(self, block: int, members: slice, iterate: Tensor) -> None:
        """Take in some members of a block of the current iterate."""
        match self._averaging:
            case "uniform":
                share = 1 / self.count
            case "polynomial":
                share = (POLYNOMIAL_POWER + 1) / (self.count + POLYNOMIAL_POWER)
            case "exponential":
                share = self._rate
        self.blocks[block][members].lerp_(iterate, share)


def blocks_state(blocks: Sequence[Tensor]) -> dict[str, Tensor]:
    """Copies of the blocks by their index."""
    return {str(k): block.clone() for k, block in enumerate(blocks)}


def restore_blocks(blocks: Sequence[Tensor], state: Mapping[str, Tensor]) -> None:
    """Write a saved copy back into the blocks."""
    for k, block in enumerate(blocks):
        block.copy_(state[str(k)])


def require_finite_predictions(predicted: Tensor) -> Tensor:
    """``predicted`` itself, or an error before anything is changed by it."""
    if not predicted.isfinite().all():
        raise ValueError(
            "the regressors' predictions are not finite: the features overflow, or the step size is too large; "
            "look at the policy network's parameters, lower step_size, or standardise the features"
        )
    return predicted
