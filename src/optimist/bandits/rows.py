"""Rows given by their non-zeros, from scipy.sparse or from dense arrays, in the one form that the kernels read."""

from typing import Any, Self, final

import numpy as np
from numpy.typing import NDArray

from optimist.bandits.compiled.sparse import fault
from optimist.compiling import Floats, Integers


@final
class SparseRows:
    """The features of the actions of a batch of decisions, or of samples; stands where a dense (b, r, d) array does.

    Row i has ``values[indptr[i] : indptr[i + 1]]`` in the columns ``indices[...]``, which ascend and come once. A
    decision has ``n_rows`` rows. Not to be changed: the arrays may be the user's.
    """

    __slots__ = ("d", "indices", "indptr", "n_decisions", "n_rows", "values")

    def __init__(self, indptr: Integers, indices: Integers, values: Floats, n_decisions: int, n_rows: int, d: int):
        self.indptr, self.indices, self.values = indptr, indices, values
        self.n_decisions, self.n_rows, self.d = n_decisions, n_rows, d

    def __getitem__(self, axis: None) -> Self:
        """``x[None]`` gives a dense array the axis of learners, which these rows have already: (1, b, r, d)."""
        return self

    @property
    def shape(self) -> tuple[int, int, int, int]:
        """(1, b, r, d): one learner."""
        return 1, self.n_decisions, self.n_rows, self.d

    def scaled(self, factors: Floats) -> Any:
        """Every row times its factor. Shapes: factors (rows,)."""
        values = self.values[: self.indptr[-1]] * np.repeat(factors, np.diff(self.indptr))
        values = values.astype(self.values.dtype, copy=False)
        return SparseRows(self.indptr, self.indices, values, self.n_decisions, self.n_rows, self.d)

    def dense(self) -> Floats:
        """The same rows with their zeros, (b, r, d)."""
        out = np.zeros((self.n_decisions * self.n_rows, self.d), self.values.dtype)
        filled = slice(self.indptr[-1])  # there may be room for more
        out[np.repeat(np.arange(len(out)), np.diff(self.indptr)), self.indices[filled]] = self.values[filled]
        return out.reshape(self.n_decisions, self.n_rows, self.d)


def as_sparse(x: object) -> SparseRows | None:
    """``x`` if it is sparse rows, None if it is a dense array: between inputs and kernels, both pass as Floats."""
    return x if isinstance(x, SparseRows) else None


def is_sparse(value: object) -> bool:
    """Whether ``value`` is a matrix or array of scipy.sparse; SciPy is not imported for the question."""
    return hasattr(value, "tocsr")


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
    matrix = value if value.format == "csr" and value.ndim == 2 else value.reshape((-1, value.shape[-1])).tocsr()
    n_rows, d = matrix.shape
    if d != n_features:
        raise ValueError(f"{name} must be (n, {n_features}), got a sparse matrix of shape {value.shape}")
    if matrix.data.dtype.kind not in "fiub":
        raise ValueError(f"{name} must hold real numbers, got a sparse matrix of {matrix.dtype}")
    indptr, indices, values = matrix.indptr, matrix.indices, matrix.data.astype(dtype, copy=False)
    if found := fault(indptr, indices, values, n_rows, d):
        raise ValueError(f"{name} {_said(found, values, d)}")
    if not matrix.has_canonical_format:
        matrix = matrix.copy()
        matrix.sum_duplicates()  # which trusts what was checked above
        indptr, indices, values = matrix.indptr, matrix.indices, matrix.data.astype(dtype, copy=False)
    return SparseRows(indptr, indices, values, 1, n_rows, d)


def _said(found: int, values: Floats, d: int) -> str:
    """What ``compiled.sparse.fault`` found, in words."""
    if found == 1:
        return f"has column indices outside 0 .. {d - 1}: build the matrix anew"
    if found == 2:
        return f"must be finite, got {values[~np.isfinite(values)][0]}: clean it before the call"
    return "has row pointers that do not fit its indices: build the matrix anew"


def stacked(sets: list[SparseRows]) -> tuple[SparseRows, NDArray[np.bool_]]:
    """Decisions of different sizes as one batch, the shorter filled up with empty rows, and which rows are real."""
    n = max(rows.n_rows for rows in sets)
    counts = np.zeros((len(sets), n), np.int64)
    real = np.zeros((len(sets), n), bool)
    for i, rows in enumerate(sets):
        counts[i, : rows.n_rows] = np.diff(rows.indptr)
        real[i, : rows.n_rows] = True
    indptr = np.concatenate([np.zeros(1, np.int64), np.cumsum(counts.ravel())])
    indices = np.concatenate([rows.indices[: rows.indptr[-1]] for rows in sets])
    values = np.concatenate([rows.values[: rows.indptr[-1]] for rows in sets])
    return SparseRows(indptr, indices, values, len(sets), n, sets[0].d), real
