"""The adaptive descent against its definition, written out, and against the exact solver."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from optimist.bandits import ACB, ChangingActions, Greedy, LinUCB, simulate
from optimist.bandits.compiled.streams import make_streams
from optimist.bandits.sgd import ADAPTIVE, DIAGONAL, AdaptiveSGD


def plain_step(columns, moments, mass, x, y, share, gain, is_centered):
    """A step of ``AdaptiveSGD`` for one model, by member, with matrices.

    Shapes: columns (d, m), moments (d, 2), x (d,), y (m,).
    """
    answers, support = x @ columns, np.flatnonzero(x)
    square, total = moments[support].T
    sigma = np.diag(square)
    if is_centered and mass:
        sigma = np.diag(np.maximum(square - total**2 / mass, 1e-6 * square)) + np.outer(total, total) / mass
    plain = np.zeros_like(x)
    plain[support] = np.linalg.solve(sigma, x[support])
    spread = x @ plain
    new = columns.copy()
    for m in range(len(y)):
        others = [j for j in range(1, len(y)) if j != m]
        squares = sum(answers[j] ** 2 for j in others)
        variance = gain * (squares + spread) / (len(others) + 1)
        direction = plain / spread
        if others and share < 1:
            product = sum(columns[:, j] * answers[j] for j in others)
            direction = share * direction + np.where(x != 0, 1 - share, trust(columns, x)) * product / squares
        np.testing.assert_allclose(x @ direction, 1)
        new[:, m] += variance / (1 + variance) * (y[m] - answers[m]) * direction
    return new, moments + np.stack([x * x, x], axis=1)


def trust(columns, x):
    """How much of the ensemble's covariance counts where x is zero, (d,)."""
    members = columns[:, 1:]
    answers, count = x @ members, members.shape[1]
    excess = max(0.0, 1 - count / (answers @ answers))
    correlation = members @ answers / np.sqrt((members**2).sum(axis=1) * (answers @ answers))
    return excess * np.maximum(0, 1 - 1 / (count * correlation**2))


@settings(deadline=None, max_examples=40)
@given(st.integers(1, 6), st.integers(1, 5), st.integers(1, 12), st.floats(0.01, 10), st.integers(0, 2**32 - 1))
def test_a_step_equals_its_definition(d, targets, count, ridge, seed):
    rng = np.random.default_rng(seed)
    steps = ADAPTIVE if targets > 1 else DIAGONAL
    streams = make_streams(np.random.SeedSequence(seed), [0, 1])
    fit = AdaptiveSGD(2, 2, d, targets, ridge, 1.0, steps, "float64", streams)
    expected = fit.columns.copy(), fit.moments.copy()
    mass = np.zeros((2, 2))
    x = rng.normal(1, 1, size=(2, count, d)) * rng.integers(0, 2, size=(2, count, d))
    arms, y = rng.integers(0, 2, size=(2, count)), rng.normal(size=(2, count, targets))
    fit.update(x, arms, y)
    for learner in range(2):
        for s in range(count):
            place = learner, arms[learner, s]
            if x[learner, s].any():
                row = expected[0][place], expected[1][place], mass[place], x[learner, s], y[learner, s]
                expected[0][place], expected[1][place] = plain_step(*row, *steps)
            mass[place] += 1
    np.testing.assert_allclose(fit.columns, expected[0], rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(fit.moments, expected[1])


def test_fading_is_exact_on_one_hot_features():
    # Where the diagonal is all of Sigma, decay without a matrix is the refit with weights decay^age.
    rng = np.random.default_rng(0)
    diagonal, exact = (
        AdaptiveSGD(1, 1, 5, 1, 0.7, 0.9, DIAGONAL, "float64", make_streams(np.random.SeedSequence(0), [0])),
        LinUCB(5, ridge=0.7, decay=0.9, beta=1.0),
    )
    x, r = np.eye(5)[rng.integers(0, 5, size=40)], rng.normal(size=40)
    diagonal.update(x[None], np.zeros((1, 40), np.int64), r[None, :, None])
    exact.partial_fit(x, r)
    question, arms = rng.normal(size=(3, 5)), np.zeros(3, np.int64)
    np.testing.assert_allclose(diagonal.read(question[None, None], arms)[0, 0, :, 0], exact.mean(question), rtol=1e-9)
    np.testing.assert_allclose(diagonal.elliptical_norms(question[None, None], arms)[0, 0], exact.bonus(question))


def correlated(rng):
    """100 actions in 20 dimensions with a common mean: the LinReBoot problem."""
    x = rng.uniform(size=(100, 20))
    return x / np.linalg.norm(x, axis=1, keepdims=True)


def with_few_nonzeros(rng):
    """60 actions with 4 of 40 features each: dense rows, most of them zero."""
    x = np.zeros((60, 40))
    for row in x:
        row[rng.choice(40, 4, replace=False)] = 0.5
    return x


@pytest.mark.parametrize("ridge", [0.01, 0.1, 1.0, 10.0])
@pytest.mark.parametrize(
    ("draw", "given"),
    [(correlated, np.asarray), (with_few_nonzeros, np.asarray), (with_few_nonzeros, sparse.csr_array)],
)
def test_the_bonus_on_actions_of_its_own_choice_is_within_a_factor_of_two_of_the_exact_one(draw, given, ridge):
    # The median over actions, 4 rounds and 4 runs of rms bonus over sqrt(x' Sigma^-1 x), Sigma of the same samples. The
    # rms of 32 members has a relative sd of 12.5 %, the median of hundreds a small part of that. Measured 0.97 to 1.4;
    # with the diagonal alone, and steps on the non-zeros only, 2.1 and 2.6 for a ridge of 0.01. Steps of sparse rows
    # stay on their non-zeros: with a ridge of 0.01 they miss the factor (2.7), which docs/guides/bandits.md says.
    most = 3 if given is sparse.csr_array and ridge == 0.01 else 2
    ratios = []
    for seed in range(4):
        rng = np.random.default_rng(seed)
        x = draw(rng)
        rows = given(x)
        means = x @ rng.normal(size=x.shape[1]) / 3
        descent = ACB(x.shape[1], ridge=ridge, beta=0.3, aggregate="rms", solver="sgd", seed=seed)
        exact = LinUCB(x.shape[1], ridge=ridge, beta=0.3)
        for t in range(1, 401):
            action = descent.predict(rows)
            reward = [means[action] + 0.3 * rng.normal()]
            descent.partial_fit(rows[[action]], reward)
            exact.partial_fit(x[[action]], reward)
            if t in (50, 100, 200, 400):
                ratios.append(descent.bonus(rows) / exact.bonus(x))
    assert 0.5 < np.median(ratios) < most


def test_its_regret_is_near_that_of_the_exact_solver():
    # Measured with 20 trials of 2,000 rounds: 1.1 times. Both have a standard error of 5 %: 1.5 is 5 of the ratio's.
    problem = ChangingActions(20, 10, 0.3, seed=31)
    exact, descent = (
        simulate(ACB(10, beta=0.3, solver=solver), problem, horizon=1_000, trials=20, seed=32).final
        for solver in ("exact", "sgd")
    )
    assert descent.mean() < 1.5 * exact.mean()


def test_greedy_without_a_matrix_estimates_what_the_exact_one_does():
    rng = np.random.default_rng(3)
    theta, x = rng.normal(size=8), rng.normal(size=(2_000, 8))
    r = x @ theta + 0.1 * rng.normal(size=2_000)
    policy = Greedy(8, solver="sgd").partial_fit(x, r)
    # The exact estimate errs by 0.1 sqrt(1 / 2,000) = 0.002 per coefficient.
    np.testing.assert_allclose(policy.coefficients, theta, atol=0.05)
