"""The regression oracles without a matrix: the paper's averaged SGD, and descent whose steps the ensemble itself sizes.

The second, ``AdaptiveSGD``, is what ``solver="sgd"`` means unless the average is asked for; it takes sparse rows too.
Letters in shapes are those of ``compiled``.
"""

from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from optimist.bandits.compiled import descent, sparse
from optimist.bandits.compiled.streams import Streams, next_words
from optimist.bandits.regression import read_columns
from optimist.bandits.rows import SparseRows, as_sparse, nonzeros
from optimist.bandits.storage import Arrays
from optimist.compiling import Floats, Integers

Solver = Literal["exact", "sgd"]
"""Recursive least squares with a d x d matrix, or descent without one."""
DENSE_BYTES = 2**26
"""Coefficients that take up to this many bytes are all kept; of larger models, only those that were learned from."""


class PolyakSGD:
    """The paper's: the uniform average of descent iterates, at O(d m) per sample and in memory; no d x d matrix exists.

    The average starts at ``c_0`` with the weight ``ridge``, as the warm-start samples of Algorithm 1 do, and a
    coordinate is averaged over the samples in which it is not zero: over all of them for dense features (Polyak's
    average), over an arm's own pulls for one-hot ones.
    Paper: section 3, "Polyak-averaged SGD updates to each regressor". Deviation: implicit steps by default, which are
    stable for features of any length; see docs/deviations.md.
    """

    def __init__(self, initial: Floats, ridge: float, learning_rate: float, is_implicit: bool):
        self.iterates = initial.copy()
        self.columns = initial  # the averages
        self.weights = np.full(initial.shape[:3], ridge, initial.dtype)
        self.learning_rate = learning_rate
        self.is_implicit = is_implicit

    @property
    def arrays(self) -> Arrays:
        """Iterates, their averages and the weight of each coordinate's average."""
        return {"iterates": self.iterates, "averages": self.columns, "weights": self.weights}

    def theta(self) -> Floats:
        """The estimate of the rewards' coefficients, (l, a, d)."""
        return self.columns[..., 0].copy()

    def condition(self) -> Floats:
        """There is none to tell: an error that says so."""
        raise AttributeError("solver='sgd' keeps no covariance, so it has no condition number")

    def update(self, x: Floats, arms: Integers, targets: Floats) -> None:
        """Adds samples in their order. Shapes: x (l, s, d), arms (l, s), targets (l, s, m)."""
        descent.averaged_descent(
            self.iterates, self.columns, self.weights, x, arms, targets, self.learning_rate, self.is_implicit
        )


class Steps(NamedTuple):
    """The shape of a step; measured choices, see ``docs/deviations.md`` (B6)."""

    share: float
    """How much of a step goes along the plain approximation of ``P x``, the rest along the ensemble's."""
    gain: float
    """What the variance that sizes a step is multiplied by."""
    is_centered: bool
    """Whether the plain approximation knows the mean of the features, or the diagonal of Sigma only."""


ADAPTIVE = Steps(share=0.5, gain=1.25, is_centered=True)
DIAGONAL = Steps(share=1.0, gain=1.0, is_centered=False)
"""For no members: recursive least squares that keeps only the diagonal of Sigma."""


class AdaptiveSGD:
    """A step per sample, as long as the present uncertainty at x asks for: O(m) per non-zero of x, no average.

    The exact step is ``c += k (y - <x, c>)`` with ``k = P x / (1 + x' P x)`` and ``P = Sigma^-1``. The members are
    draws of N(0, P), so their mean square at x estimates ``v = x' P x``, and ``W W' x / M`` estimates ``P x``. Here
    ``k = v / (1 + v) g`` with ``<x, g> = 1``: half of g along that estimate, on the non-zeros of x, half along the
    plain one, ``(E + u u' / n)^-1 x``: u is the sum of the n features, E the diagonal of what is then left of Sigma.
    Features with a mean, a constant one for instance, are correlated, which a diagonal alone does not see.
    A member's own share is left out of the estimates that move it, or the ensemble would believe itself too much; and
    the plain estimate of v counts as one member more, so that with no members at all and without the mean this is the
    diagonal recursive least squares, exact for one-hot features.
    Dense rows with zeros: while v is above 1, the variance of a sample, a step also goes along the ensemble's
    estimate where x is zero (``descent._reach``), without decay. For sparse rows that would cost O(m d).
    Since the members suffer what theta suffers, their deviations are those of this estimator, not of the exact one.
    Paper: section 3 has Polyak-averaged SGD, which is ``PolyakSGD``. Deviation: B6 in docs/deviations.md.
    """

    def __init__(
        self,
        learners: int,
        arms: int,
        d: int,
        targets: int,
        ridge: float,
        decay: float,
        steps: Steps,
        dtype: str,
        streams: Streams,
    ):
        self.arms, self.d, self.targets = arms, d, targets
        self.ridge, self.decay, self.steps = ridge, decay, steps
        self.prior_keys: NDArray[np.uint64] = next_words(streams)  # all that the prior is made of, (l,)
        self.clocks = np.zeros((learners, arms), np.int64)  # samples of each model
        self.is_sparse = learners == 1 and is_kept_sparse(arms, d, targets, dtype)
        self.count = 0  # slots taken
        if self.is_sparse:
            self.dtype = np.dtype(dtype)
            self._allocate(16)
        else:
            self.table = np.empty(0, np.int32)
            self.columns = np.empty((learners, arms, d, targets), dtype)
            for learner in range(learners):
                sparse.fill_prior(self.columns[learner].reshape(-1, targets), self.prior_keys[learner], ridge)
            self.keys = np.empty(0, np.int64)
            self.moments = np.zeros((learners, arms, d, 2))  # the diagonal of Sigma, and the sum of the features
            self.moments[..., 0] = ridge
            self.last = np.zeros((learners, arms, d if decay < 1 else 0), np.int64)

    @property
    def arrays(self) -> Arrays:
        """The coefficients and the moments of the features, and what the prior and the fading are made of."""
        own: Arrays = {"prior_keys": self.prior_keys, "clocks": self.clocks}
        if not self.is_sparse:
            return own | {"columns": self.columns, "moments": self.moments} | self._ages(self.last)
        n = self.count
        own |= {"keys": self.keys[:n], "rows": self.rows[:n], "row_moments": self.row_moments[:n]}
        return own | self._ages(self.row_last[:n])

    def _ages(self, last: Integers) -> Arrays:
        return {"last": last} if self.decay < 1 else {}

    @property
    def n_columns(self) -> int:
        """How many coefficients of theta are kept."""
        return self.count if self.is_sparse else self.columns[..., 0].size

    def theta(self) -> Floats:
        """The estimate of the rewards' coefficients, (l, a, d)."""
        if not self.is_sparse:
            return self._now()[0][..., 0].copy()
        every = np.zeros(self.arms * self.d, self.dtype)
        every[self.keys[: self.count]] = self._kept_theta()
        return every.reshape(1, self.arms, self.d)

    def _kept_theta(self) -> Floats:
        """Theta of the keys that have a slot, as of now, (slots,)."""
        theta, spread = self.rows[: self.count, 0], self.row_moments[: self.count, 0]
        if self.decay == 1:
            return theta
        power = self.decay ** (self.clocks[0, self.keys[: self.count] // self.d] - self.row_last[: self.count])
        return power * spread * theta / (self.ridge + power * (spread - self.ridge))

    # Reading ------------------------------------------------------------------------------------------------------

    def read(self, x: Floats, arms: Integers) -> Floats:
        """``<x, c_m>``. Shapes: x (l|1, b, n|1, d), arms (n,) -> (l, b, n, m)."""
        rows = self._as_sparse(x)
        if rows is None:
            return read_columns(x, arms, self._now()[0][:, None])
        state = (*self._slots(), self.clocks[0], self.prior_keys[0], self.ridge, self.decay, self.d)
        answers = sparse.read(self.table, self.keys, *state, rows.indptr, rows.indices, rows.values, rows.n_rows, arms)
        return answers.reshape(1, rows.n_decisions, arms.size, self.targets)

    def elliptical_norms(self, x: Floats, arms: Integers) -> Floats:
        """``sqrt(x' D^-1 x)``. Shapes: x (l|1, b, n|1, d), arms (n,) -> (l, b, n)."""
        rows = self._as_sparse(x)
        if rows is None:
            return np.sqrt((x * x / self._now()[1][:, None, arms]).sum(-1))
        _, moments, last = self._slots()
        state = (self.table, self.keys, moments, last, self.clocks[0], self.ridge, self.decay, self.d)
        norms = sparse.diagonal_norms(*state, rows.indptr, rows.indices, rows.values, rows.n_rows, arms)
        return np.sqrt(norms).reshape(1, rows.n_decisions, arms.size)

    def _as_sparse(self, x: Floats) -> SparseRows | None:
        """The non-zeros of x, if they were given as such or are all that the state knows; else None."""
        given = as_sparse(x)
        return nonzeros(x[0]) if given is None and self.is_sparse else given

    def _now(self) -> tuple[Floats, Floats]:
        """All coefficients, (l, a, d, m), and the diagonal, (l, a, d), as they have faded up to now."""
        if self.decay == 1:
            return self.columns, self.moments[..., 0]
        keys, ridge, decay = self.prior_keys, self.ridge, self.decay
        return sparse.faded(self.columns, self.moments, self.last, self.clocks, keys, ridge, decay)

    # Learning -----------------------------------------------------------------------------------------------------

    def update(self, x: Floats, arms: Integers, targets: Floats) -> None:
        """Adds samples in their order. Shapes: x (l, s, d), arms (l, s), targets (l, s, m)."""
        rows = as_sparse(x)
        if rows is None and not self.is_sparse:
            state = (self.columns, self.moments, self.last, self.clocks, self.prior_keys, self.ridge, self.decay)
            descent.descend_dense(*state, x, arms, targets, *self.steps)
            return
        rows = nonzeros(x) if rows is None else rows
        samples = rows.indptr, rows.indices, rows.values, arms[0], targets[0]
        done = 0
        while True:
            state = (*self._slots(), self.clocks[0], self.prior_keys[0], self.ridge, self.decay, self.d)
            self.count, done = descent.descend(self.table, self.keys, self.count, *state, *samples, *self.steps, done)
            if done == arms.shape[1]:
                return
            self._allocate(2 * len(self.keys))

    def _slots(self) -> tuple[Floats, Floats, NDArray[np.int64]]:
        """Coefficients (slots, m), moments (slots, 2) and ages (slots,), of one learner."""
        if self.is_sparse:
            return self.rows, self.row_moments, self.row_last
        return self.columns[0].reshape(-1, self.targets), self.moments[0].reshape(-1, 2), self.last[0].reshape(-1)

    def _allocate(self, slots: int) -> None:
        """Makes room for so many keys, those that are there being kept."""
        n = self.count
        old = (self.keys[:n], self.rows[:n], self.row_moments[:n], self.row_last[:n]) if n else None
        self.keys = np.empty(slots, np.int64)
        self.rows = np.empty((slots, self.targets), self.dtype)
        self.row_moments = np.empty((slots, 2))
        self.row_last = np.zeros(slots, np.int64)
        self.table = np.full(1 << (4 * slots - 1).bit_length(), -1, np.int32)  # mostly free: short look-ups
        if old is not None:
            self.keys[:n], self.rows[:n], self.row_moments[:n], self.row_last[:n] = old
            sparse.rebuild(self.table, self.keys[:n])

    def add_arm(self, like: int | None) -> None:
        """One model more: its prior, or what the model ``like`` has learned where it has learned anything."""
        if self.is_sparse:
            self._add_sparse_arm(like)
        else:
            learners, arms, d, targets = self.columns.shape
            columns = np.empty((learners, arms + 1, d, targets), self.columns.dtype)
            for learner in range(learners):
                sparse.fill_prior(columns[learner].reshape(-1, targets), self.prior_keys[learner], self.ridge)
            columns[:, :arms] = self.columns
            fresh = np.zeros((learners, 1, d, 2))
            fresh[..., 0] = self.ridge
            if like is not None:
                is_seen = self.moments[:, like, :, 0] > self.ridge
                columns[:, arms][is_seen] = self.columns[:, like][is_seen]
            self.columns = columns
            self.moments = np.append(self.moments, fresh if like is None else self.moments[:, [like]], axis=1)
            none = np.zeros((learners, 1, self.last.shape[2]), np.int64)
            self.last = np.append(self.last, none if like is None else self.last[:, [like]], axis=1)
        clock = np.zeros((len(self.clocks), 1), np.int64) if like is None else self.clocks[:, [like]]
        self.clocks = np.append(self.clocks, clock, axis=1)
        self.arms += 1

    def _add_sparse_arm(self, like: int | None) -> None:
        if like is None:
            return
        n = self.count
        mine = np.flatnonzero(self.keys[:n] // self.d == like)
        total = n + len(mine)
        if total > len(self.keys):
            self._allocate(max(total, 2 * len(self.keys)))
        self.keys[n:total] = self.keys[mine] % self.d + self.arms * self.d
        for array in (self.rows, self.row_moments, self.row_last):
            array[n:total] = array[mine]
        self.count = total
        self.table[...] = -1
        sparse.rebuild(self.table, self.keys[:total])

    def condition(self) -> Floats:
        """The condition number of the diagonal, (l, a), if it is all there is; with members there is none to tell."""
        if self.targets > 1:
            raise AttributeError("solver='sgd' keeps no covariance, so it has no condition number")
        if not self.is_sparse:
            spread = self._now()[1]
            return spread.max(axis=-1) / spread.min(axis=-1)
        arms = self.keys[: self.count] // self.d
        most, least = np.full((1, self.arms), self.ridge), np.full((1, self.arms), self.ridge)
        np.maximum.at(most[0], arms, self.row_moments[: self.count, 0])
        return most / least

    def make_room(self, saved: Arrays) -> None:
        """Takes the keys of a saved state, so that the arrays have its layout; an error if they cannot be such keys."""
        if not self.is_sparse or "keys" not in saved:
            return
        keys = saved["keys"]
        is_valid = keys.ndim == 1 and keys.dtype == np.int64 and ((keys >= 0) & (keys < self.arms * self.d)).all()
        if not is_valid:
            raise ValueError(f"the saved keys must be whole numbers in 0 .. {self.arms * self.d - 1}")
        self.count = 0
        self._allocate(max(16, len(keys)))
        if not sparse.rebuild(self.table, keys):
            raise ValueError("the saved keys must be different from each other")
        self.count = len(keys)
        self.keys[: self.count] = keys


def is_kept_sparse(arms: int, d: int, targets: int, dtype: str) -> bool:
    """Whether only the coefficients that were learned from are kept."""
    return arms * d * targets * np.dtype(dtype).itemsize > DENSE_BYTES
