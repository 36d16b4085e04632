"""What fits the regressors: `Solver`, and the running averages of iterates that streaming solvers share."""

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Protocol

from torch import Tensor

from optimist.bonuses.acb.config import ProximalAveraging
from optimist.bonuses.acb.standardize import FeatureScale
from optimist.bonuses.checkpointing import unchanged_on_error
from optimist.bonuses.features.batch import FeatureBatch
from optimist.bonuses.scaling import finite

POLYNOMIAL_POWER = 3
Minibatches = Iterable[tuple[FeatureBatch, Tensor]]


class Solver(Protocol):
    """M regressors that learn to predict noise. ``fit`` is the only mutation; the first weights are taken over."""

    @property
    def ensembles(self) -> Sequence[Tensor]:
        """The regressors that the bonus reads, p ensembles of m: block k is (p, m, *shapes[k]).

        Of several ensembles the one with the smallest deviation at a state counts there.
        """
        ...

    def fit(self, minibatches: Minibatches, scale: FeatureScale) -> float:
        """The mean squared error before each step, over a rollout's minibatches of n raw features, targets (n, m).

        ``scale`` observes each minibatch before it is read. All or nothing: after an error the solver is as before.
        """
        ...

    def state_dict(self) -> dict[str, Any]:
        """Copies of everything that ``fit`` changes."""
        ...

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue exactly where ``state`` was taken."""
        ...


class IterateAverages:
    """Averages of the iterates ``w_1, w_2, ...`` of a streaming solver; ``w_0`` until the first of them.

    *uniform* gives every iterate since the start the weight 1/k: over N samples its covariance is near ``Sigma^-1 /
    N``. ``w_0`` itself has no weight: where there is no data every iterate still holds it, and where there is, its
    weight of 1/k would outlive the data's own ``1 / sqrt N``. *polynomial* gives the t-th iterate a weight of about
    t^3: states that are found late are forgotten sooner as new. *exponential* moves by ``rate`` towards each iterate:
    it forgets, and its bonus stops falling.

    *narrowest* keeps one average for each of ``powers``, t^p. All are unbiased, and each is too wide somewhere: the
    uniform one at states found late, where it still holds ``w_0``; a high power at states seen often, where it averages
    fewer iterates. The smallest deviation of them is close to the exact one at both, for M d numbers more per power.

    Paper: section 5, "a Polyak-averaged version of the ensemble".
    """

    def __init__(self, initial: Sequence[Tensor], *, averaging: ProximalAveraging, rate: float, powers: Sequence[int]):
        self._powers = {"uniform": (0,), "polynomial": (POLYNOMIAL_POWER,), "narrowest": tuple(powers)}.get(averaging)
        self._rate = rate
        self._count = 0
        number = 1 if self._powers is None else len(self._powers)
        self.ensembles = [block.repeat(number, *[1] * block.ndim) for block in initial]

    def advance(self) -> None:
        """Count one iterate; every part of it is to be folded in before the next."""
        self._count += 1

    def fold(self, block: int, members: slice, iterate: Tensor) -> None:
        """Take in some members of a block of the current iterate."""
        shares = [self._rate] if self._powers is None else [(p + 1) / (self._count + p) for p in self._powers]
        averages = self.ensembles[block][:, members]
        for k, share in enumerate(shares):
            averages[k].lerp_(iterate, share)

    def state_dict(self) -> dict[str, Any]:
        """Copies of the averages, and how many iterates they are of."""
        return {"averages": blocks_state(self.ensembles), "count": self._count}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue exactly where ``state`` was taken."""
        restore_blocks(self.ensembles, state["averages"])
        self._count = state["count"]


@contextmanager
def all_or_nothing(solver: Solver, minibatches: Minibatches) -> Iterator[Minibatches]:
    """The minibatches; if a step raises, the solver is put back to a copy of its state from before the first.

    A step checks before it changes anything, so that a single one needs no copy, which may be as large as the ensemble.
    """
    remaining = iter(minibatches)
    ahead = list(itertools.islice(remaining, 2))
    with unchanged_on_error(*[solver] if len(ahead) > 1 else []):
        yield itertools.chain(ahead, remaining)


def blocks_state(blocks: Sequence[Tensor]) -> dict[str, Tensor]:
    """Copies of the blocks by their index."""
    return {str(k): block.clone() for k, block in enumerate(blocks)}


def restore_blocks(blocks: Sequence[Tensor], state: Mapping[str, Tensor]) -> None:
    """Write a saved copy back into the blocks."""
    for k, block in enumerate(blocks):
        block.copy_(state[str(k)])


def require_finite_predictions(predicted: Tensor) -> Tensor:
    """``predicted`` itself, or an error before anything is changed by it."""
    if not finite(predicted):
        raise ValueError(
            "the regressors' predictions are not finite: the features overflow, or the steps are too large; look at "
            "the policy network's parameters, lower RMSprop's learning_rate, or standardize the features"
        )
    return predicted
