"""Rows given by their non-zeros, from scipy.sparse or from dense arrays, in the one form that the kernels read."""

from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from optimist.bandits.compiled.sparse import fault
from optimist.compiling import Floats


@dataclass(frozen=True)
class SparseRows:
    """The features of the actions of a batch of decisions, or of samples; stands where a dense (b, r, d) array does.

    Row i has ``values[indptr[i] : indptr[i + 1]]`` in the columns ``indices[...]``, which ascend and come once.
    """

    indptr: NDArray[np.int64]
    indices: NDArray[np.int64]
    values: Floats
    n_decisions: int
    n_rows: int
    """Rows of each decision."""
    d: int

    def __getitem__(self, axis: None) -> Self:
        """``x[None]`` gives a dense array the axis of learners, which these rows have already: (1, b, r, d)."""
        return self

    @property
    def shape(self) -> tuple[int, int, int, int]:
        """(1, b, r, d): one learner."""
        return 1, self.n_decisions, self.n_rows, self.d

    def scaled(self, factors: Floats) -> Any:
        """Every row times its factor. Shapes: factors (rows,)."""
        values = self.values * np.repeat(factors, np.diff(self.indptr))
        return replace(self, values=values.astype(self.values.dtype, copy=False))

    def dense(self) -> Floats:
        """The same rows with their zeros, (b, r, d)."""
        out = np.zeros((self.n_decisions * self.n_rows, self.d), self.values.dtype)
        out[np.repeat(np.arange(len(out)), np.diff(self.indptr)), self.indices] = self.values
        return out.reshape(self.n_decisions, self.n_rows, self.d)


def as_sparse(x: object) -> SparseRows | None:
    """``x`` if it is sparse rows, None if it is a dense array: between inputs and kernels, both pass as Floats."""
    return x if isinstance(x, SparseRows) else None


def is_sparse(value: object) -> bool:
    """Whether ``value`` is a matrix or array of scipy.sparse; SciPy is not imported for the question."""
    return hasattr(value, "tocsr") and hasattr(value, "nnz")


def nonzeros(x: Floats) -> SparseRows:
    """The non-zeros of dense rows. Shapes: x (b, r, d)."""
    rows = x.reshape(-1, x.shape[-1])
    where, indices = np.nonzero(rows)
    indptr = np.zeros(len(rows) + 1, np.int64)
    np.cumsum(np.bincount(where, minlength=len(rows)), out=indptr[1:])
    return SparseRows(
        indptr, indices.astype(np.int64, copy=False), rows[where, indices], x.shape[0], x.shape[1], x.shape[2]
    )


def from_scipy(name: str, value: Any, n_features: int, dtype: np.dtype) -> SparseRows:
    """One decision with the rows of a scipy.sparse matrix (n, d) of any format, or (d,); it is not written to.

    Indices of either width, unsorted ones and duplicates, which are summed, are all right.
    """
    matrix = value if value.ndim == 2 and value.format == "csr" else value.reshape((-1, value.shape[-1])).tocsr()
    if matrix.shape[1] != n_features:
        raise ValueError(f"{name} must be (n, {n_features}), got a sparse matrix of shape {value.shape}")
    if not matrix.has_canonical_format:
        matrix = matrix.copy()
        matrix.sum_duplicates()
    try:
        values = np.asarray(matrix.data, dtype, order="C")
    except (TypeError, ValueError):
        raise ValueError(f"{name} must hold numbers, got a sparse matrix of {matrix.dtype}") from None
    indptr, indices = matrix.indptr.astype(np.int64, copy=False), matrix.indices.astype(np.int64, copy=False)
    if found := fault(indices, values, n_features):
        if found == 1:
            raise ValueError(f"{name} has column indices outside 0 .. {n_features - 1}: build the matrix anew")
        raise ValueError(f"{name} must be finite, got {values[~np.isfinite(values)][0]}: clean it before the call")
    return SparseRows(indptr, indices, values, 1, matrix.shape[0], n_features)


def stacked(sets: list[SparseRows]) -> tuple[SparseRows, NDArray[np.bool_]]:
    """Decisions of different sizes as one batch, the shorter filled up with empty rows, and which rows are real."""
    n = max(rows.n_rows for rows in sets)
    counts = np.zeros((len(sets), n), np.int64)
    real = np.zeros((len(sets), n), bool)
    for i, rows in enumerate(sets):
        counts[i, : rows.n_rows] = np.diff(rows.indptr)
        real[i, : rows.n_rows] = True
    indptr = np.concatenate([[0], np.cumsum(counts.ravel())])
    indices = np.concatenate([rows.indices for rows in sets])
    values = np.concatenate([rows.values for rows in sets])
    return SparseRows(indptr, indices, values, len(sets), n, sets[0].d), real
