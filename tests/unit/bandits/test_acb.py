"""ACB against Algorithm 1 and Algorithm 3 as the paper writes them."""

import inspect
import tracemalloc

import numpy as np
import pytest

from optimist.bandits import ACB, FixedActions, MultiArmed, simulate
from optimist.bandits.acb import LazyEnsemble
from optimist.bandits.compiled.streams import normals
from optimist.bandits.ensembles import RerandomizedEnsemble
from optimist.bandits.regression import ExactLeastSquares
from optimist.bandits.sgd import PolyakSGD


def literal_ensemble(x, y, warm_targets, ridge):
    """Line 6 of Algorithm 1: least squares on the warm-start samples and the history, solved anew. -> (d, M)."""
    features = np.concatenate([np.sqrt(ridge) * np.eye(x.shape[1]), x])
    return np.linalg.lstsq(features, np.concatenate([warm_targets, y]), rcond=None)[0]


@pytest.mark.parametrize("ridge", [0.1, 1.0, 5.0])
def test_incremental_equals_the_refit_on_the_recorded_history(ridge):
    rng = np.random.default_rng(0)
    theta = rng.normal(size=5)
    policy = ACB(5, ensemble_size=8, beta=0.7, ridge=ridge, seed=3)
    warm_targets = np.sqrt(ridge) * policy.initial_columns()[0, 0, :, 1:]
    xs, rewards, targets = np.empty((0, 5)), np.empty(0), np.empty((0, 8))
    for t in range(60):
        actions = rng.normal(size=(7, 5))
        ensemble = literal_ensemble(xs, targets, warm_targets, ridge)
        estimate = np.linalg.solve(ridge * np.eye(5) + xs.T @ xs, xs.T @ rewards)
        np.testing.assert_allclose(policy.mean(actions), actions @ estimate, atol=1e-9)
        np.testing.assert_allclose(policy.bonus(actions), 0.7 * np.abs(actions @ ensemble).max(axis=1), atol=1e-9)
        chosen = actions[policy.predict(actions)]
        targets = np.concatenate([targets, normals(policy.streams, 8)])  # what the policy is about to draw
        xs, rewards = np.concatenate([xs, chosen[None]]), np.append(rewards, chosen @ theta + rng.normal())
        policy.partial_fit(chosen, rewards[-1])
        assert len(xs) == t + 1


def test_descent_with_step_one_on_one_hot_features_is_the_exact_fit():
    # The average of the targets themselves, begun with weight ridge at w_0, is the ridge fit: same bits, same draws.
    exact, descent = (
        ACB(6, ensemble_size=4, ridge=0.5, solver=solver, averaging="uniform", learning_rate=1.0, is_implicit=False)
        for solver in ("exact", "sgd")
    )
    rng = np.random.default_rng(0)
    for _ in range(50):
        x, reward = np.eye(6)[rng.integers(6)], rng.normal()
        exact.partial_fit(x, reward)
        descent.partial_fit(x, reward)
    np.testing.assert_allclose(descent.scores(np.eye(6)), exact.scores(np.eye(6)), rtol=1e-9)


def test_a_million_features_need_no_matrix():
    d, members = 1_000_000, 4
    tracemalloc.start()
    try:
        policy = ACB(d, solver="sgd", ensemble_size=members, dtype="float32")
        rng = np.random.default_rng(0)
        x = rng.normal(size=(2, d)).astype(np.float32) / np.float32(np.sqrt(d))
        before = policy.scores(x)
        action = policy.predict(x)
        policy.partial_fit(x[action], 1.0)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    # iterates, averages and prior draws: a few times (1 + M) d numbers. A d x d matrix would be 4 TB.
    assert peak < 8 * 4 * (1 + members) * d
    assert policy.mean(x)[action] > 0
    assert policy.bonus(x)[action] < before[action]


def test_descent_never_holds_anything_quadratic():
    policy = ACB(3_000, solver="sgd", ensemble_size=2)
    assert max(array.size for array in policy._arrays.values()) == 3 * 3_000


def test_fresh_targets_for_the_whole_past_need_the_exact_solver():
    for history in ("rerandomized", "lazy"):
        with pytest.raises(ValueError, match="solver='sgd' needs history='incremental'"):
            ACB(3, history=history, solver="sgd")


def test_lazy_holds_its_action_for_omega_rounds_and_then_draws_anew():
    x = np.random.default_rng(1).normal(size=(5, 3))
    policy = ACB(3, history="lazy", beta=0.2, gamma=0.5, seed=2)
    rng = np.random.default_rng(0)
    for expected_draws in range(1, 15):
        scores, bonus = policy.scores(x), policy.bonus(x)
        action = policy.predict(x)
        assert policy.rerandomizations == expected_draws
        omega = int(np.ceil(0.5 / bonus[action] ** 2))
        for _ in range(omega - 1):
            policy.partial_fit(x[action], rng.normal())
            np.testing.assert_array_equal(policy.scores(x), scores)
            assert policy.predict(x) == action
        policy.partial_fit(x[action], rng.normal())
        assert (policy.scores(x) != scores).any()


def test_lazy_takes_the_theorems_gamma_and_needs_a_bonus():
    policy = ACB(3, history="lazy", beta=0.4)
    assert policy._ensemble.gamma == pytest.approx(0.4**2 * np.pi * np.log(2) / 2)
    with pytest.raises(ValueError, match="needs beta > 0"):
        ACB(3, history="lazy", beta=0.0)
    with pytest.raises(AttributeError, match="counted for history='lazy'"):
        _ = ACB(3).rerandomizations


def test_rms_is_the_root_of_the_mean_square():
    x = np.random.default_rng(0).normal(size=(6, 4))
    policy = ACB(4, aggregate="rms", beta=0.5, ensemble_size=7)
    members = policy.initial_columns()[0, 0, :, 1:]
    np.testing.assert_allclose(policy.bonus(x), 0.5 * np.sqrt(((x @ members) ** 2).mean(axis=1)))


def test_more_features_than_samples_and_duplicate_actions_do_no_harm():
    policy = ACB(40, seed=1)
    x = np.repeat(np.random.default_rng(0).normal(size=(1, 40)), 3, axis=0)
    for _ in range(5):
        policy.partial_fit(x[policy.predict(x)], 1.0)
    assert np.isfinite(policy.scores(x)).all()


def test_explicit_steps_that_diverge_are_reported_not_played():
    policy = ACB(2, solver="sgd", averaging="uniform", is_implicit=False, learning_rate=10.0)
    x = np.array([[30.0, 0.0], [0.0, 30.0]])
    with np.errstate(all="ignore"):
        policy.partial_fit(np.repeat(x, 200, axis=0), np.ones(400))
        with pytest.raises(FloatingPointError, match="lower learning_rate"):
            policy.predict(x)


def test_the_defaults_are_the_contracts_and_stand_in_one_place():
    defaults = {name: p.default for name, p in inspect.signature(ACB).parameters.items() if name != "n_features"}
    contract = {"history": "incremental", "ensemble_size": 32, "beta": 0.3, "ridge": 1.0, "solver": "exact"}
    assert (contract | {"aggregate": "max", "seed": 0}).items() <= defaults.items()
    assert ACB(3).parameters == {"n_features": 3} | defaults
    for function in (PolyakSGD, ExactLeastSquares, RerandomizedEnsemble, LazyEnsemble):  # below it, no defaults
        assert all(p.default is p.empty for p in inspect.signature(function).parameters.values())


def test_the_policy_given_to_simulate_is_not_touched():
    policy = ACB(5)
    before = {name: array.copy() for name, array in policy._arrays.items()}
    simulate(policy, FixedActions.random(4, 5, seed=0), horizon=20, trials=2, seed=0)
    simulate(ACB(3), MultiArmed([0.1, 0.2, 0.3]), horizon=20, trials=2, seed=0)
    for name, array in policy._arrays.items():
        np.testing.assert_array_equal(array, before[name])
