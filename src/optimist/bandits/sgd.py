"""Regression without a matrix: descent whose steps are sized by the ensemble itself, on dense or sparse rows.

Letters in shapes are those of ``compiled``.
"""

from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from optimist.bandits.compiled import sparse
from optimist.bandits.compiled.streams import Streams, next_words
from optimist.bandits.regression import read_columns
from optimist.bandits.rows import SparseRows, as_sparse, nonzeros
from optimist.bandits.storage import Arrays
from optimist.compiling import Floats, Integers

Solver = Literal["exact", "sgd"]
"""Recursive least squares with a d x d matrix, or descent without one."""
DENSE_BYTES = 2**26
"""Coefficients that take up to this many bytes are all kept; of larger models, only those that were learned from."""


class Steps(NamedTuple):
    """The shape of a step; measured choices, see ``docs/deviations.md`` (B6)."""

    share: float
    """How much of a step goes along ``D^-1 x``, the rest along the ensemble's covariance times x."""
    gain: float
    """What the variance that sizes a step is multiplied by."""


ADAPTIVE = Steps(share=0.5, gain=1.25)
DIAGONAL = Steps(share=1.0, gain=1.0)
"""For no members: recursive least squares that keeps only the diagonal of Sigma."""


class AdaptiveSGD:
    """A step per sample, as long as the present uncertainty at x asks for: O(m) per non-zero of x, no average.

    The exact step is ``c += k (y - <x, c>)`` with ``k = P x / (1 + x' P x)`` and ``P = Sigma^-1``. The members are
    draws of N(0, P), so their mean square at x estimates ``v = x' P x``, and ``W W' x / M`` estimates ``P x``. Here
    ``k = v / (1 + v) g`` with ``<x, g> = 1``: half of g along that estimate, on the non-zeros of x, half along
    ``D^-1 x``, where D is the diagonal of Sigma. A member's own share is left out of the estimates that move it,
    or the ensemble would believe itself too much; and ``x' D^-1 x`` counts as one member more, so that with no
    members at all this is the diagonal recursive least squares, exact for one-hot features.
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
        if self.is_sparse:
            self.dtype = np.dtype(dtype)
            self.count = 0  # slots taken
            self.table = np.full((64, 2), -1)
            self._allocate(16)
        else:
            self.table = np.empty((0, 2), np.int64)
            self.columns = np.empty((learners, arms, d, targets), dtype)
            for learner in range(learners):
                sparse.fill_prior(self.columns[learner].reshape(-1, targets), self.prior_keys[learner], ridge)
            self.diagonal = np.full((learners, arms, d), ridge)
            self.last = np.zeros((learners, arms, d if decay < 1 else 0), np.int64)

    @property
    def arrays(self) -> Arrays:
        """The coefficients and the diagonal of the covariance, and what the prior and the fading are made of."""
        own: Arrays = {"prior_keys": self.prior_keys}
        if self.decay < 1:
            own |= {"clocks": self.clocks}
        if not self.is_sparse:
            return own | {"columns": self.columns, "diagonal": self.diagonal} | self._ages(self.last)
        n = self.count
        own |= {"keys": self.keys[:n], "rows": self.rows[:n], "row_diagonal": self.row_diagonal[:n]}
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
        theta, spread = self.rows[: self.count, 0], self.row_diagonal[: self.count]
        if self.decay == 1:
            return theta
        power = self.decay ** (self.clocks[0, self.keys[: self.count] // self.d] - self.row_last[: self.count])
        return power * spread * theta / (self.ridge + power * (spread - self.ridge))

    # Reading ------------------------------------------------------------------------------------------------------

    def read(self, x: Floats, arms: Integers) -> Floats:
        """``<x, c_m>``. Shapes: x (l|1, b, n|1, d), arms (n,) -> (l, b, n, m)."""
        if self.is_sparse or as_sparse(x) is not None:
            return self._read_sparse(x, arms)[0]
        return read_columns(x, arms, self._now()[0][:, None])

    def elliptical_norms(self, x: Floats, arms: Integers) -> Floats:
        """``sqrt(x' D^-1 x)``. Shapes: x (l|1, b, n|1, d), arms (n,) -> (l, b, n)."""
        if self.is_sparse or as_sparse(x) is not None:
            return np.sqrt(self._read_sparse(x, arms)[1])
        return np.sqrt((x * x / self._now()[1][:, None, arms]).sum(-1))

    def _read_sparse(self, x: Floats, arms: Integers) -> tuple[Floats, Floats]:
        rows = as_sparse(x) or nonzeros(x[0])
        state = (*self._slots(), self.clocks[0], self.prior_keys[0], self.ridge, self.decay, self.d)
        answers, norms = sparse.read(
            self.table, *state, rows.indptr, rows.indices, rows.values, rows.n_rows, arms.astype(np.int64, copy=False)
        )
        shape = (1, rows.n_decisions, arms.size)
        return answers.reshape(*shape, self.targets), norms.reshape(shape)

    def _now(self) -> tuple[Floats, Floats]:
        """All coefficients, (l, a, d, m), and the diagonal, (l, a, d), as they have faded up to now."""
        if self.decay == 1:
            return self.columns, self.diagonal
        keys, ridge, decay = self.prior_keys, self.ridge, self.decay
        return sparse.faded(self.columns, self.diagonal, self.last, self.clocks, keys, ridge, decay)

    # Learning -----------------------------------------------------------------------------------------------------

    def update(self, x: Floats, arms: Integers, targets: Floats) -> None:
        """Adds samples in their order. Shapes: x (l, s, d), arms (l, s), targets (l, s, m)."""
        if self.is_sparse or as_sparse(x) is not None:
            self._update_sparse(as_sparse(x) or nonzeros(x), arms[0], targets[0])
            return
        state = (self.columns, self.diagonal, self.last, self.clocks, self.prior_keys, self.ridge, self.decay)
        sparse.descend_dense(*state, x, arms, targets, *self.steps)

    def _update_sparse(self, x: SparseRows, arms: NDArray[np.int64], targets: Floats) -> None:
        if self.is_sparse:
            self._make_slots(x, arms)
        state = (*self._slots(), self.clocks[0], self.prior_keys[0], self.ridge, self.decay, self.d)
        sparse.descend(self.table, *state, x.indptr, x.indices, x.values, arms, targets, *self.steps)

    def _slots(self) -> tuple[Floats, Floats, NDArray[np.int64]]:
        """Coefficients (slots, m), diagonal and ages (slots,), of one learner."""
        if self.is_sparse:
            return self.rows, self.row_diagonal, self.row_last
        return self.columns[0].reshape(-1, self.targets), self.diagonal[0].reshape(-1), self.last[0].reshape(-1)

    def _make_slots(self, x: SparseRows, arms: NDArray[np.int64]) -> None:
        """Gives every key of the samples a slot."""
        sample = 0
        while True:
            kept = (self.table, self.keys, self.count, *self._slots(), self.prior_keys[0], self.ridge, self.d)
            self.count, sample = sparse.insert(*kept, x.indptr, x.indices, arms, sample)
            if sample == len(arms):
                return
            self._allocate(2 * len(self.keys))

    def _allocate(self, slots: int) -> None:
        """Makes room for so many keys, those that are there being kept."""
        n = self.count
        old = (self.keys[:n], self.rows[:n], self.row_diagonal[:n], self.row_last[:n]) if n else None
        self.keys = np.empty(slots, np.int64)
        self.rows = np.empty((slots, self.targets), self.dtype)
        self.row_diagonal = np.empty(slots)
        self.row_last = np.zeros(slots, np.int64)
        if old is not None:
            self.keys[:n], self.rows[:n], self.row_diagonal[:n], self.row_last[:n] = old
        self.table = np.full((max(64, 1 << (2 * slots - 1).bit_length()), 2), -1)
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
            fresh = np.full((learners, 1, d), self.ridge)
            if like is not None:
                is_seen = self.diagonal[:, like] > self.ridge
                columns[:, arms][is_seen] = self.columns[:, like][is_seen]
            self.columns = columns
            self.diagonal = np.append(self.diagonal, fresh if like is None else self.diagonal[:, [like]], axis=1)
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
        for array in (self.rows, self.row_diagonal, self.row_last):
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
        np.maximum.at(most[0], arms, self.row_diagonal[: self.count])
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
