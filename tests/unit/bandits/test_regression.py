"""The oracles of regression against refits written out in full."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from optimist.bandits.compiled import linear
from optimist.bandits.compiled.streams import make_streams
from optimist.bandits.regression import CholeskyFactor, ExactLeastSquares, read_columns
from optimist.bandits.sgd import DIAGONAL, AdaptiveSGD, PolyakSGD

sizes = st.tuples(st.integers(1, 3), st.integers(1, 3), st.integers(1, 6), st.integers(1, 4), st.integers(1, 12))


def samples(rng, learners, arms, d, targets, count):
    x = rng.normal(size=(learners, count, d)) * rng.integers(0, 2, size=(learners, count, d))
    return x, rng.integers(0, arms, size=(learners, count)), rng.normal(size=(learners, count, targets))


def refit(x, y, initial, ridge):
    """Ridge regression towards ``initial``, solved anew: (ridge I + X'X)^-1 (ridge c_0 + X'y)."""
    gram = ridge * np.eye(x.shape[1]) + x.T @ x
    return np.linalg.solve(gram, ridge * initial + x.T @ y), gram


@settings(deadline=None, max_examples=40)
@given(sizes, st.floats(0.01, 10), st.integers(0, 2**32 - 1))
def test_recursive_least_squares_equals_the_refit(size, ridge, seed):
    learners, arms, d, targets, count = size
    rng = np.random.default_rng(seed)
    initial = rng.normal(size=(learners, arms, d, targets))
    x, arm, y = samples(rng, learners, arms, d, targets, count)
    fit = ExactLeastSquares(initial.copy(), ridge)
    fit.update(x, arm, y)
    question = rng.normal(size=(1, 1, arms, d))
    norms = fit.elliptical_norms(question, np.arange(arms))
    for learner in range(learners):
        for model in range(arms):
            mine = arm[learner] == model
            columns, gram = refit(x[learner, mine], y[learner, mine], initial[learner, model], ridge)
            np.testing.assert_allclose(fit.columns[learner, model], columns, rtol=1e-9, atol=1e-9)
            lower = np.tril(fit.inverse[learner, model])
            np.testing.assert_allclose(lower, np.tril(np.linalg.inv(gram)), rtol=1e-8, atol=1e-10)
            vector = rng.normal(size=(1, 1, 1, d))
            product = linear.multiply_symmetric(fit.inverse[learner, model][None, None], vector)
            np.testing.assert_allclose(product[0, 0, 0], np.linalg.solve(gram, vector[0, 0, 0]), rtol=1e-7, atol=1e-9)
            row = question[0, 0, model]
            assert norms[learner, 0, model] == pytest.approx(np.sqrt(row @ np.linalg.solve(gram, row)), rel=1e-9)
            log_det = np.linalg.slogdet(gram / ridge)[1]
            assert fit.log_det[learner, model] == pytest.approx(log_det, abs=1e-9)


def test_an_update_is_quadratic_it_never_inverts_or_solves(monkeypatch):
    def refuse(*_, **__):
        raise AssertionError("an O(d^3) routine was called")

    for name in ("inv", "solve", "cholesky", "lstsq", "pinv", "eigh", "svd"):
        monkeypatch.setattr(np.linalg, name, refuse)
    fit = ExactLeastSquares(np.zeros((1, 1, 5, 1)), 1.0)
    fit.update(np.ones((1, 3, 5)), np.zeros((1, 3), np.int64), np.ones((1, 3, 1)))
    factor = CholeskyFactor(1, 1, 5, 1.0, 1.0)
    factor.update(np.ones((1, 3, 5)), np.zeros((1, 3), np.int64))


def test_twice_the_data_at_half_the_ridge_is_another_scale_of_the_same_fit():
    rng = np.random.default_rng(0)
    x, arm, y = samples(rng, 1, 1, 4, 2, 10)
    once, twice = (ExactLeastSquares(np.zeros((1, 1, 4, 2)), ridge) for ridge in (0.5, 1.0))
    once.update(x, arm, y)
    for _ in range(2):
        twice.update(x, arm, y)
    np.testing.assert_allclose(once.columns, twice.columns, rtol=1e-9)
    np.testing.assert_allclose(np.tril(once.inverse[0, 0]), 2 * np.tril(twice.inverse[0, 0]), rtol=1e-9)


@settings(deadline=None, max_examples=40)
@given(sizes, st.sampled_from([0.0, 0.5, 2.0]), st.integers(0, 2**32 - 1))
def test_rotations_keep_the_cholesky_factor(size, start, seed):
    learners, arms, d, _, count = size
    rng = np.random.default_rng(seed)
    x, arm, _ = samples(rng, learners, arms, d, 1, count)
    factor = CholeskyFactor(learners, arms, d, start, 1.0)
    factor.update(x, arm)
    for learner in range(learners):
        for model in range(arms):
            mine = x[learner, arm[learner] == model]
            r = factor.factor[learner, model]
            np.testing.assert_allclose(r.T @ r, start * np.eye(d) + mine.T @ mine, atol=1e-12)
            assert (np.tril(r, -1) == 0).all()


@settings(deadline=None, max_examples=40)
@given(sizes, st.booleans(), st.sampled_from(["float64", "float32"]), st.integers(0, 2**32 - 1))
def test_averaged_descent_equals_its_definition(size, is_implicit, dtype, seed):
    learners, arms, d, targets, count = size
    rng = np.random.default_rng(seed)
    x, arm, y = samples(rng, learners, arms, d, targets, count)
    initial = rng.normal(size=(learners, arms, d, targets))
    rate, ridge = 0.3, 2.0
    fit = PolyakSGD(initial.astype(dtype), ridge, rate, is_implicit)
    fit.update(x.astype(dtype), arm, y)
    for learner in range(learners):
        for model in range(arms):
            iterates = [initial[learner, model]]
            touched = []
            for row, target in zip(x[learner, arm[learner] == model], y[learner, arm[learner] == model], strict=True):
                step = rate / (1 + rate * row @ row) if is_implicit else rate
                iterates.append(iterates[-1] + step * np.outer(row, target - row @ iterates[-1]))
                touched.append(row != 0)
            weight, average = np.full(d, ridge), ridge * initial[learner, model]
            for iterate, is_active in zip(iterates[1:], touched, strict=True):
                weight += is_active
                average = average + is_active[:, None] * iterate
            tolerance = 1e-9 if dtype == "float64" else 2e-4
            np.testing.assert_allclose(
                fit.columns[learner, model], average / weight[:, None], rtol=tolerance, atol=tolerance
            )


def test_diagonal_least_squares_is_exact_on_one_hot_features():
    rng = np.random.default_rng(1)
    x = np.eye(5)[rng.integers(0, 5, size=(2, 30))]
    y, arm = rng.normal(size=(2, 30, 1)), np.zeros((2, 30), np.int64)
    diagonal = AdaptiveSGD(2, 1, 5, 1, 0.7, 1.0, DIAGONAL, "float64", make_streams(np.random.SeedSequence(0), [0, 1]))
    exact = ExactLeastSquares(np.zeros((2, 1, 5, 1)), 0.7)
    diagonal.update(x, arm, y)
    exact.update(x, arm, y)
    np.testing.assert_allclose(diagonal.columns, exact.columns, rtol=1e-12)
    question = rng.normal(size=(1, 2, 3, 5))
    arms = np.zeros(3, np.int64)
    np.testing.assert_allclose(
        diagonal.elliptical_norms(question, arms), exact.elliptical_norms(question, arms), rtol=1e-12
    )


@settings(deadline=None, max_examples=40)
@given(
    st.integers(1, 3),
    st.integers(1, 3),
    st.integers(1, 4),
    st.integers(1, 70),
    st.booleans(),
    st.integers(0, 2**32 - 1),
)
def test_columns_are_read_as_the_einsum_says(learners, decisions, actions, d, has_own_columns, seed):
    rng = np.random.default_rng(seed)
    drawn = decisions if has_own_columns else 1
    columns = rng.normal(size=(learners, drawn, 2, d, 3))
    x = rng.normal(size=(learners, decisions, actions, d))
    arms = rng.integers(0, 2, size=actions)
    picked = np.broadcast_to(columns, (learners, decisions, 2, d, 3))[:, :, arms]
    np.testing.assert_allclose(
        read_columns(x, arms, columns), np.einsum("lbnd,lbndm->lbnm", x, picked), rtol=1e-9, atol=1e-9
    )
    shared = read_columns(x[:1, :, :1], arms, columns)
    np.testing.assert_allclose(shared, np.einsum("bd,lbndm->lbnm", x[0, :, 0], picked), rtol=1e-9, atol=1e-9)
