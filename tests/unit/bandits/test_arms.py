"""Arms that come and go, and what there is to look at and to set on a policy in use."""

import numpy as np
import pytest
from lineup_cases import HAVE_BETA, VARIANTS, make

from optimist import memory
from optimist.bandits import ACB, DiagonalLinUCB, EpsilonGreedy, Greedy, LinUCB, load

every_policy = pytest.mark.parametrize("name", VARIANTS)


@pytest.fixture
def rng():
    return np.random.default_rng(0)


def with_arms(name, rng, n_arms=3):
    return make(name, n_arms=n_arms).partial_fit(
        rng.normal(size=(30, 4)), rng.normal(size=30), arm=np.arange(30) % n_arms
    )


@every_policy
def test_an_arm_is_added_without_a_change_to_the_others(name, rng, tmp_path):
    policy = with_arms(name, rng)
    user = rng.normal(size=(1, 4))
    theta, view = policy.coefficients, policy.snapshot()
    assert policy.add_arm() == 3
    assert policy.n_arms == 4
    assert policy.scores(user).shape == (4,)
    np.testing.assert_array_equal(policy.coefficients[:3], theta)
    assert not policy.coefficients[3].any()
    np.testing.assert_array_equal(policy.counts, [10, 10, 10, 0])
    policy.partial_fit(user[0], 1.0, arm=3)
    assert policy.coefficients[3].any()
    assert policy.counts[3] == 1
    assert view.n_arms == 3
    np.testing.assert_array_equal(view.coefficients, theta)
    policy.save(tmp_path / "policy.npz")
    again = load(tmp_path / "policy.npz")
    assert [again.predict(user) for _ in range(5)] == [policy.predict(user) for _ in range(5)]
    np.testing.assert_array_equal(again.counts, policy.counts)


@every_policy
def test_a_new_arm_may_know_what_another_knows(name, rng):
    policy = with_arms(name, rng)
    policy.add_arm(like=1)
    np.testing.assert_array_equal(policy.coefficients[3], policy.coefficients[1])
    for key, array in policy._ensemble.arrays.items():
        if array.ndim > 1:
            np.testing.assert_array_equal(array[:, 3], array[:, 1], err_msg=key)
    theta = policy.coefficients[1]
    policy.partial_fit(np.ones(4), 5.0, arm=3)
    np.testing.assert_array_equal(policy.coefficients[1], theta)
    assert (policy.coefficients[3] != theta).any()


@every_policy
def test_a_removed_arm_is_never_played_and_its_id_stays(name, rng, tmp_path):
    policy = with_arms(name, rng)
    users = rng.normal(size=(200, 1, 4))
    policy.remove_arm(1)
    np.testing.assert_array_equal(policy.arms, [0, 2])
    assert 1 not in policy.predict(users)
    assert not policy.probabilities(users[:5], draws=20)[:, 1].any()
    assert 1 not in policy.slate(users, 2)
    assert policy.add_arm() == 3
    policy.partial_fit(users[0, 0], 1.0, arm=1)  # a late reward
    assert policy.counts[1] == 11
    policy.save(tmp_path / "policy.npz")
    np.testing.assert_array_equal(load(tmp_path / "policy.npz").arms, [0, 2, 3])
    with pytest.raises(ValueError, match="mask leaves only arms that were removed"):
        policy.predict(users[0], [False, True, False, False])
    with pytest.raises(ValueError, match="it was removed before"):
        policy.remove_arm(1)


def test_what_arms_refuse():
    policy = ACB(2, n_arms=2)
    for wrong in (2, -1, 1.0, "0"):
        with pytest.raises(ValueError, match=r"arm must be the id of an arm, 0 \.\. 1"):
            policy.remove_arm(wrong)
        with pytest.raises(ValueError, match=r"like must be the id of an arm, 0 \.\. 1"):
            policy.add_arm(like=wrong)
    policy.remove_arm(0)
    with pytest.raises(ValueError, match="it is the last one"):
        policy.remove_arm(1)
    with pytest.raises(ValueError, match="arms come and go with n_arms"):
        ACB(2).add_arm()
    with pytest.raises(RuntimeError, match="a snapshot never changes"):
        policy.snapshot().add_arm()


def test_an_arm_that_cannot_fit_is_refused_before_it_is_made(monkeypatch):
    policy = LinUCB(100, n_arms=3)
    monkeypatch.setattr(memory, "available_memory", lambda: 300_000)
    with pytest.raises(ValueError, match="LinUCB with n_features=100, n_arms=4 needs"):
        policy.add_arm()
    assert policy.n_arms == 3
    assert policy.predict(np.ones((1, 100))) in (0, 1, 2)


def test_the_lazy_history_draws_anew_for_a_new_arm():
    policy = ACB(2, n_arms=2, history="lazy", beta=1.0).partial_fit(
        np.ones((50, 2)), np.zeros(50), arm=np.arange(50) % 2
    )
    policy.predict(np.ones((1, 2)))
    drawn = policy.rerandomizations
    policy.predict(np.ones((1, 2)))
    assert policy.rerandomizations == drawn
    policy.add_arm()
    assert policy.predict(np.ones((1, 2))) == 2  # of which nothing is known
    assert policy.rerandomizations == drawn + 1


# To look at -------------------------------------------------------------------------------------------------------


@every_policy
def test_what_is_looked_at_cannot_be_written_to(name, rng):
    policy = with_arms(name, rng)
    policy.predict(rng.normal(size=(5, 1, 4)))
    shown = [policy.coefficients, policy.counts, policy.last_bonuses]
    if "sgd" not in name:
        shown.append(policy.condition)
    for array in shown:
        with pytest.raises(ValueError, match="read-only"):
            array[...] = 0
    assert [array.shape for array in shown[:3]] == [(3, 4), (3,), (5, 3)]
    assert make(name).last_bonuses is None


def test_coefficients_condition_and_bonuses_by_hand(rng):
    x, r = rng.normal(size=(20, 4)), rng.normal(size=20)
    gram = 0.5 * np.eye(4) + x.T @ x
    policy = LinUCB(4, ridge=0.5).partial_fit(x, r)
    np.testing.assert_allclose(policy.coefficients, np.linalg.solve(gram, x.T @ r))
    assert policy.condition == pytest.approx(np.linalg.cond(gram))
    assert LinUCB(4, ridge=0.5, decay=0.999999).partial_fit(x, r).condition == pytest.approx(
        np.linalg.cond(gram), rel=1e-3
    )
    expected = policy.bonus(x)
    policy.predict(x)
    np.testing.assert_array_equal(policy.last_bonuses, expected)
    diagonal = np.diag(gram)
    assert DiagonalLinUCB(4, ridge=0.5).partial_fit(x, r).condition == pytest.approx(diagonal.max() / diagonal.min())
    np.testing.assert_array_equal(policy.counts, [20])
    with pytest.raises(AttributeError, match="solver='sgd' keeps no covariance"):
        ACB(4, solver="sgd").condition  # noqa: B018  (a property that raises)


# To set -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", HAVE_BETA)
def test_beta_can_be_set_and_is_checked_as_in_the_constructor(name, rng):
    x = rng.normal(size=(6, 4))
    policy = make(name).partial_fit(x, x[:, 0])
    other = make(name, beta=0.7).partial_fit(x, x[:, 0])
    policy.beta = 0.7
    np.testing.assert_array_equal(policy.scores(x), other.scores(x))
    for wrong in (-1, np.nan, "large"):
        with pytest.raises(ValueError, match="beta must be a finite number >= 0"):
            policy.beta = wrong
    assert policy.beta == 0.7
    with pytest.raises(RuntimeError, match="a snapshot never changes"):
        policy.snapshot().beta = 1.0


@every_policy
def test_what_the_state_was_made_with_is_fixed_and_typos_are_named(name):
    policy = make(name)
    for fixed in ("n_features", "ridge", "seed") if name != "stochastic" else ("policy",):
        with pytest.raises(AttributeError, match=f"{fixed} is fixed when a policy is made"):
            setattr(policy, fixed, 3)
    with pytest.raises(AttributeError, match="has no parameter 'betta'"):
        policy.betta = 1.0
    with pytest.raises(AttributeError, match="has no parameter 'n_samples'"):
        policy.n_samples = 1
    assert policy.n_features == 4


def test_settings_reach_what_keeps_them(rng):
    x, r = rng.normal(size=(9, 4)), rng.normal(size=9)
    policy, other = (
        ACB(4, solver="sgd", averaging="uniform", learning_rate=rate, is_implicit=implicit)
        for rate, implicit in ((1.0, True), (0.2, False))
    )
    policy.learning_rate, policy.is_implicit, policy.aggregate, other.aggregate = 0.2, False, "rms", "rms"
    np.testing.assert_array_equal(policy.partial_fit(x, r).scores(x), other.partial_fit(x, r).scores(x))
    lazy = ACB(4, history="lazy", beta=0.1)
    lazy.beta = 0.4
    assert lazy._ensemble.gamma == ACB(4, history="lazy", beta=0.4)._ensemble.gamma
    lazy.gamma = 3.0
    assert lazy._ensemble.gamma == 3.0
    coin = EpsilonGreedy(4)
    coin.epsilon = 0.5
    assert coin.epsilon == 0.5
    with pytest.raises(ValueError, match="epsilon must be"):
        coin.epsilon = 2
    with pytest.raises(AttributeError, match="what can be set: none"):
        Greedy(4).ridge = 2.0
