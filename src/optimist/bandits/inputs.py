"""Checks of the arrays that users pass in. An error says what was expected, what came, what to do."""

import math
from collections.abc import Sequence
from typing import cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from optimist.bandits.rows import SparseRows, from_scipy, is_sparse, stacked
from optimist.compiling import Floats, Integers


def finite_array(name: str, value: ArrayLike, dtype: np.dtype) -> Floats:
    """``value`` as a finite array of ``dtype``, in rows; never the caller's own memory written to."""
    try:
        array = np.asarray(value, dtype, order="C")
    except (TypeError, ValueError, OverflowError):
        raise ValueError(f"{name} must be an array of numbers, got {type(value).__name__}: {_short(value)}") from None
    if not np.isfinite(array).all():
        where = tuple(int(i) for i in np.argwhere(~np.isfinite(np.atleast_1d(array)))[0])
        raise ValueError(
            f"{name} must be finite, got {np.atleast_1d(array)[where]} at {where}: clean it before the call"
        )
    return array


def action_features(
    value: ArrayLike, mask: ArrayLike | None, n_features: int, n_arms: int | None, dtype: np.dtype
) -> tuple[Floats, NDArray[np.bool_], bool]:
    """The features of the actions, which of them may be played, and whether a batch of decisions was asked for.

    Shapes: (n, d), or (b, n, d), or a list of b arrays (n_i, d) -> x (b, n, d), allowed (b|1, n). With arms, (1, d)
    or (b, 1, d) is a context that all arms share. A scipy.sparse matrix (n, d), or a list of them, stays sparse.
    """
    if is_sparse(value):
        rows = _sparse("X", value, n_features, n_arms, dtype)
        return cast(Floats, rows), _allowed(mask, (1, n_arms or rows.n_rows), is_batch=False), False
    if isinstance(value, list | tuple) and any(is_sparse(rows) for rows in value):
        return _sparse_sets(value, mask, n_features, n_arms, dtype)
    if isinstance(value, list | tuple) and len({np.shape(rows) for rows in value}) > 1:
        return _ragged(value, mask, n_features, n_arms, dtype)
    x = finite_array("X", value, dtype)
    is_batch = x.ndim == 3
    if x.ndim not in (2, 3) or x.shape[-1] != n_features or x.size == 0:
        raise ValueError(
            f"X must be (n_actions, {n_features}) or (batch, n_actions, {n_features}) with at least one action, "
            f"got shape {x.shape}"
        )
    x = x if is_batch else x[None]
    if n_arms is not None and x.shape[1] not in (1, n_arms):
        raise ValueError(f"X must have one row for each of the {n_arms} arms, or one for all, got {x.shape[1]} rows")
    return x, _allowed(mask, (x.shape[0], n_arms or x.shape[1]), is_batch), is_batch


def _ragged(
    value: Sequence[ArrayLike], mask: ArrayLike | None, n_features: int, n_arms: int | None, dtype: np.dtype
) -> tuple[Floats, NDArray[np.bool_], bool]:
    """Action sets of different sizes, padded with rows that may not be played."""
    if mask is not None or n_arms is not None:
        raise ValueError(
            "a list of action sets of different sizes takes neither a mask nor arms: leave actions out of it"
        )
    sets = [finite_array(f"X[{i}]", rows, dtype) for i, rows in enumerate(value)]
    for i, rows in enumerate(sets):
        if rows.ndim != 2 or rows.shape[1] != n_features or not len(rows):
            raise ValueError(
                f"X[{i}] must be (n_actions, {n_features}) with at least one action, got shape {rows.shape}"
            )
    x = np.zeros((len(sets), max(map(len, sets)), n_features), dtype)
    allowed = np.zeros(x.shape[:2], bool)
    for i, rows in enumerate(sets):
        x[i, : len(rows)] = rows
        allowed[i, : len(rows)] = True
    return x, allowed, True


def _sparse(name: str, value: object, n_features: int, n_arms: int | None, dtype: np.dtype) -> SparseRows:
    """The action set of a scipy.sparse matrix."""
    rows = from_scipy(name, value, n_features, dtype)
    if not rows.n_rows:
        raise ValueError(f"{name} must be (n_actions, {n_features}) with at least one action, got none")
    if n_arms is not None and rows.n_rows not in (1, n_arms):
        raise ValueError(f"{name} must have one row for each of the {n_arms} arms, or one for all: {rows.n_rows}")
    return rows


def _sparse_sets(
    value: Sequence[object], mask: ArrayLike | None, n_features: int, n_arms: int | None, dtype: np.dtype
) -> tuple[Floats, NDArray[np.bool_], bool]:
    """Action sets of scipy.sparse matrices, those of different sizes filled up with rows that may not be played."""
    if not all(is_sparse(rows) for rows in value):
        raise ValueError("X must be a list of sparse matrices only, or of dense arrays only, got both")
    sets = [_sparse(f"X[{i}]", rows, n_features, n_arms, dtype) for i, rows in enumerate(value)]
    x, real = stacked(sets)
    if real.all():
        return cast(Floats, x), _allowed(mask, (len(sets), n_arms or x.n_rows), is_batch=True), True
    if mask is not None or n_arms is not None:
        raise ValueError(
            "a list of action sets of different sizes takes neither a mask nor arms: leave actions out of it"
        )
    return cast(Floats, x), real, True


def _allowed(mask: ArrayLike | None, shape: tuple[int, int], is_batch: bool) -> NDArray[np.bool_]:
    if mask is None:
        return np.ones((1, shape[1]), bool)
    allowed = np.asarray(mask)
    expected = {(shape[1],), shape} if is_batch else {(shape[1],)}
    if allowed.dtype != bool or allowed.shape not in expected:
        raise ValueError(
            f"mask must be boolean of shape {' or '.join(map(str, sorted(expected)))}, "
            f"got {allowed.dtype} of shape {allowed.shape}: True marks an action that may be played"
        )
    allowed = np.atleast_2d(allowed)
    if not allowed.any(axis=1).all():
        raise ValueError(f"mask leaves no action to play in decision {int(np.argmin(allowed.any(axis=1)))}")
    return allowed


def samples(
    x: ArrayLike, reward: ArrayLike, arm: ArrayLike | None, n_features: int, n_arms: int | None, dtype: np.dtype
) -> tuple[Floats, Integers, Floats]:
    """The samples to learn from. Shapes: x (d,) or (s, d), reward and arm () or (s,) -> (1, s, d), (1, s), (1, s).

    A scipy.sparse matrix (s, d) stays sparse; if it has one row, the reward may be a number.
    """
    if type(reward) is float and math.isfinite(reward):  # one sample at a time: the inner loop of a server
        rewards = np.array(reward)
    else:
        rewards = finite_array("reward", reward, np.dtype(np.float64))
    if is_sparse(x):
        rows = from_scipy("x", x, n_features, dtype)
        shape = () if rows.n_rows == 1 and rewards.ndim == 0 else (rows.n_rows,)
        features = cast(Floats, rows)
    else:
        features = finite_array("x", x, dtype)
        if features.ndim not in (1, 2) or features.shape[-1] != n_features:
            raise ValueError(f"x must be ({n_features},) or (n, {n_features}), got shape {features.shape}")
        shape, features = features.shape[:-1], features.reshape(1, -1, n_features)
    if rewards.shape != shape:
        raise ValueError(f"reward must have the shape {shape}, one for each row of x, got {rewards.shape}")
    if (arm is None) != (n_arms is None):
        raise ValueError(f"arm must be given with n_arms and only then; got arm={_short(arm)} and n_arms={n_arms}")
    if arm is None:
        return features, np.zeros((1, rewards.size), np.int64), rewards.reshape(1, -1)
    arms = np.asarray(arm)
    if arms.dtype.kind not in "iu" or arms.shape != rewards.shape or (arms < 0).any() or (arms >= (n_arms or 1)).any():
        raise ValueError(f"arm must be a whole number in 0 .. {(n_arms or 1) - 1} for each row of x, got {_short(arm)}")
    return features, arms.reshape(1, -1).astype(np.int64), rewards.reshape(1, -1)


def sample_weights(value: ArrayLike | None, shape: tuple[int, ...]) -> Floats | None:
    """How much each sample counts, (1, s); None for all alike. ``shape`` is that of the rewards, () or (s,)."""
    if value is None:
        return None
    weights = finite_array("sample_weight", value, np.dtype(np.float64))
    if weights.shape != shape or (weights < 0).any():
        raise ValueError(
            f"sample_weight must be {shape} numbers >= 0, one for each reward, got {_short(value)}: "
            "give None if all samples count alike"
        )
    return weights.reshape(1, -1)


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."
