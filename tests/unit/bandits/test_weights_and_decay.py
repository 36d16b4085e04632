"""Sample weights, decay and large batches against refits written out in full and against one sample at a time."""

import numpy as np
import pytest
from lineup_cases import VARIANTS, make

from optimist.bandits import ACB, LinPHE, LinTS, LinUCB
from optimist.bandits.blocks import FEWEST
from optimist.bandits.compiled.streams import normals
from optimist.bandits.regression import CholeskyFactor, ExactLeastSquares

every_policy = pytest.mark.parametrize("name", VARIANTS)
D = 4


@pytest.fixture
def rng():
    return np.random.default_rng(5)


def weighted_refit(x, y, weights, prior, ridge):
    """Least squares on the warm-start rows ``sqrt(ridge) e_i`` and the rows ``sqrt(v) x``, solved anew."""
    rows = np.concatenate([np.sqrt(ridge) * np.eye(x.shape[1]), np.sqrt(weights)[:, None] * x])
    targets = np.concatenate([np.sqrt(ridge) * prior, y])
    return np.linalg.lstsq(rows, targets, rcond=None)[0]


@pytest.mark.parametrize("decay", [0.8, 0.99, 1.0])
@pytest.mark.parametrize("is_weighted", [False, True])
def test_decay_and_weights_equal_the_refit_with_these_weights(decay, is_weighted, rng):
    ridge, members, count = 0.7, 6, 40
    policy = ACB(D, ensemble_size=members, beta=1.0, ridge=ridge, decay=decay, seed=2)
    prior = policy.initial_columns()[0, 0].copy()
    x, reward = rng.normal(size=(count, D)), rng.normal(size=count)
    sample_weight = rng.uniform(0, 3, size=count) if is_weighted else np.ones(count)
    noise = normals(policy.streams, count * members).reshape(count, members)  # what the policy is about to draw
    for i in range(count):
        policy.partial_fit(x[i], reward[i], sample_weight=sample_weight[i] if is_weighted else None)
    weights = sample_weight * decay ** np.arange(count)[::-1]
    targets = np.concatenate([(np.sqrt(weights) * reward)[:, None], noise], axis=1)
    columns = weighted_refit(x, targets, weights, prior, ridge)
    question = rng.normal(size=(5, D))
    np.testing.assert_allclose(policy.mean(question), question @ columns[:, 0], atol=1e-9)
    np.testing.assert_allclose(policy.bonus(question), np.abs(question @ columns[:, 1:]).max(axis=1), atol=1e-9)
    sigma = ridge * np.eye(D) + (weights[:, None] * x).T @ x
    ucb = LinUCB(D, beta=1.0, ridge=ridge, decay=decay).partial_fit(x, reward, sample_weight=sample_weight)
    np.testing.assert_allclose(ucb.mean(question), question @ columns[:, 0], atol=1e-9)
    expected = np.sqrt(np.einsum("nd,nd->n", question, np.linalg.solve(sigma, question.T).T))
    np.testing.assert_allclose(ucb.bonus(question), expected, atol=1e-9)
    sampler = LinTS(D, ridge=ridge, decay=decay).partial_fit(x, reward, sample_weight=sample_weight)
    factor = sampler._ensemble.covariance.factor[0, 0]
    np.testing.assert_allclose(factor.T @ factor, sigma, atol=1e-9)
    perturbed = LinPHE(D, ridge=ridge, decay=decay).partial_fit(x, reward, sample_weight=sample_weight)
    factor = perturbed._ensemble.history.factor[0, 0]
    np.testing.assert_allclose(factor.T @ factor, sigma - ridge * np.eye(D), atol=1e-9)


def test_a_sample_ages_with_the_samples_of_its_own_arm_only(rng):
    policy, alone = (LinUCB(D, n_arms=n, decay=0.5) for n in (2, 1))
    x = rng.normal(size=(6, D))
    policy.partial_fit(x, np.ones(6), arm=[0, 1, 1, 0, 1, 1])
    alone.partial_fit(x[[0, 3]], np.ones(2), arm=[0, 0])
    np.testing.assert_allclose(policy.scores(x[:1])[0], alone.scores(x[:1])[0])


@every_policy
def test_a_weight_of_one_is_no_weight_and_zero_teaches_nothing(name, rng):
    plain, ones, zeros, fresh = (make(name) for _ in range(4))
    x, reward = rng.normal(size=(9, D)), rng.normal(size=9)
    plain.partial_fit(x, reward)
    ones.partial_fit(x, reward, sample_weight=np.ones(9))
    np.testing.assert_array_equal(plain.mean(x), ones.mean(x))
    zeros.partial_fit(x, reward, sample_weight=np.zeros(9))
    np.testing.assert_array_equal(zeros.mean(x), fresh.mean(x))


@pytest.mark.parametrize("name", ["linucb", "greedy", "lints", "linphe"])
def test_a_weight_of_two_is_the_sample_twice(name, rng):
    weighted, repeated = make(name), make(name)
    x, reward = rng.normal(size=(9, D)), rng.normal(size=9)
    weighted.partial_fit(x, reward, sample_weight=np.full(9, 2.0))
    repeated.partial_fit(np.repeat(x, 2, axis=0), np.repeat(reward, 2))
    np.testing.assert_allclose(weighted.scores(x), repeated.scores(x), rtol=1e-9)


@every_policy
@pytest.mark.parametrize("weight", [-1.0, np.nan, [1.0, 2.0], "much"])
def test_bad_weights_are_refused(name, weight):
    with pytest.raises(ValueError, match="sample_weight must be"):
        make(name).partial_fit(np.ones(D), 1.0, sample_weight=weight)


@pytest.mark.parametrize("decay", [0.0, -0.5, 1.1, np.nan, None])
def test_decay_lies_between_zero_and_one(decay):
    with pytest.raises(ValueError, match="decay must be"):
        LinUCB(3, decay=decay)


def test_old_samples_are_forgotten_and_the_prior_is_not(rng):
    policy = LinUCB(D, decay=0.5, beta=1.0, ridge=2.0)
    policy.partial_fit(np.eye(D)[0], 10.0)
    policy.partial_fit(np.tile(np.eye(D)[1], (80, 1)), np.ones(80))
    assert policy.mean(np.eye(D))[0] == pytest.approx(0, abs=1e-9)
    assert policy.bonus(np.eye(D))[0] == pytest.approx(1 / np.sqrt(2))


@pytest.mark.parametrize("name", sorted(name for name in VARIANTS if "sgd" not in name and "diagonal" not in name))
@pytest.mark.parametrize("n_arms", [None, 2])
def test_a_large_batch_equals_the_same_samples_one_by_one(name, n_arms, rng):
    count = 4 * FEWEST
    block, steps = make(name, n_arms=n_arms), make(name, n_arms=n_arms)
    x, reward = rng.normal(size=(2 * count, D)), rng.normal(size=2 * count)
    arm = None if n_arms is None else (rng.random(2 * count) < 0.05).astype(int)  # few samples of the second arm
    for start in (0, count):  # from the prior, and from what was learned before
        part = slice(start, start + count)
        block.partial_fit(x[part], reward[part], None if arm is None else arm[part])
        for i in range(start, start + count):
            steps.partial_fit(x[i], reward[i], None if arm is None else arm[i])
    question = rng.normal(size=(2, D))
    np.testing.assert_allclose(block.scores(question), steps.scores(question), rtol=1e-8, atol=1e-8)
    for key, array in steps._arrays.items():
        if key != "inverse":  # of which only the lower triangle is kept up
            np.testing.assert_allclose(block._arrays[key], array, rtol=1e-8, atol=1e-8, err_msg=key)


def test_a_large_batch_of_dependent_features_still_has_its_factor(rng):
    x = rng.normal(size=(1, 200, 2)) @ rng.normal(size=(2, 5))  # rank 2 in 5 dimensions
    arms = np.zeros((1, 200), np.int64)
    factor = CholeskyFactor(1, 1, 5, 0.0, 1.0)
    factor.update(x, arms)
    np.testing.assert_allclose(factor.factor[0, 0].T @ factor.factor[0, 0], x[0].T @ x[0], atol=1e-9)
    nearly = x + 1e-5 * rng.normal(size=x.shape)
    tiny_ridge = ExactLeastSquares(np.zeros((1, 1, 5, 1)), 1e-3)
    tiny_ridge.update(nearly, arms, np.ones((1, 200, 1)))
    expected = np.linalg.inv(1e-3 * np.eye(5) + nearly[0].T @ nearly[0])
    np.testing.assert_allclose(np.tril(tiny_ridge.inverse[0, 0]), np.tril(expected), rtol=1e-8, atol=1e-8)
