"""Many samples of one model at once: their Gram matrix by BLAS and one factorization, in place of a step per sample.

A warm start from logs is a batch of thousands of rows. Taken one after the other they cost O(d^2) of memory traffic
each; as a block they cost one matrix product and two factorizations, and the result is the same to rounding.
Letters in shapes are those of ``compiled``.
"""

from collections.abc import Iterator
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from optimist.compiling import Floats, Integers

FEWEST = 64
"""Smaller batches are learned sample by sample, whatever d is."""


class Block:
    """The samples of one model of one learner, in their order."""

    def __init__(self, learner: int, arm: int, places: NDArray[np.int64], rows: Floats):
        self.learner, self.arm = learner, arm
        self.places = places  # which of the batch's samples these are, (s,)
        self.rows = rows  # (s, d)
        self.is_large = len(rows) >= max(FEWEST, rows.shape[1])
        self.sigma: Factorized | None = None  # of its model with the block learned, once a regression has it

    @cached_property
    def gram(self) -> Floats:
        """``sum x x'``, (d, d); computed once, however many regressions learn from the block."""
        return self.rows.T @ self.rows


def blocks(x: Floats, arms: Integers) -> list[Block]:
    """The batch by learner and model; none if it is too small for any to be large. Shapes: x (l, s, d), arms (l, s)."""
    return list(_split(x, arms)) if x.shape[1] >= max(FEWEST, x.shape[2]) else []


def _split(x: Floats, arms: Integers) -> Iterator[Block]:
    for learner in range(x.shape[0]):
        for arm in np.unique(arms[learner]):
            places = np.flatnonzero(arms[learner] == arm)
            rows = x[learner] if len(places) == x.shape[1] else x[learner, places]
            yield Block(learner, int(arm), places, rows.astype(np.float64, copy=False))


class Factorized:
    """``Sigma = R'R``, and what follows from R; ``covariance`` is overwritten. Shapes: (d, d) each.

    Raises FloatingPointError where Sigma is not positive definite.
    """

    def __init__(self, covariance: Floats):
        from scipy.linalg import lapack  # here, because it takes a tenth of a second to import

        # LAPACK reads columns where NumPy has rows, so the transpose is what it takes as it is, without a copy.
        self.factor, failed = lapack.dpotrf(covariance.T, lower=0, clean=1, overwrite_a=1)  # pyrefly: ignore
        if failed:
            raise FloatingPointError("the covariance is no longer positive definite: use a larger ridge")

    @property
    def log_det(self) -> float:
        """``log det(Sigma)``."""
        return 2 * float(np.log(np.diag(self.factor)).sum())

    def solve(self, right: Floats) -> Floats:
        """``Sigma^-1 z``. Shapes: (d, m) -> (d, m)."""
        from scipy.linalg import lapack

        return lapack.dpotrs(self.factor, right, lower=0)[0]  # pyrefly: ignore

    def inverse(self) -> Floats:
        """``Sigma^-1``, its lower triangle only."""
        from scipy.linalg import lapack

        return lapack.dpotri(self.factor, lower=0)[0].T  # pyrefly: ignore


def inverse(matrix: Floats) -> Floats:
    """The inverse of a symmetric positive definite matrix given by its lower triangle; whole. Shapes: (d, d)."""
    lower = Factorized(np.array(matrix)).inverse()
    return lower + np.tril(lower, -1).T
