"""Off-policy estimates by hand, and what they refuse. Against the truth: statistical/test_off_policy_estimates.py."""

import numpy as np
import pytest
import scipy.sparse

from optimist.bandits import ACB, Greedy, LinTS, LinUCB, Stochastic, evaluation
from optimist.bandits.evaluation import Logs

X = np.arange(24.0).reshape(4, 3, 2) % 5
ACTIONS = np.array([0, 2, 1, 0])
REWARDS = np.array([1.0, 0.0, 2.0, -1.0])
CHANCES = np.array([0.5, 0.25, 0.2, 0.5])
TARGET = np.array([[0.5, 0.5, 0.0], [0.0, 0.5, 0.5], [0.6, 0.4, 0.0], [0.0, 0.0, 1.0]])
WEIGHTS = np.array([1.0, 2.0, 2.0, 0.0])


@pytest.fixture
def logs():
    return Logs(X, ACTIONS, REWARDS, CHANCES)


def test_importance_weights_by_hand(logs):
    plain = evaluation.ips(logs, TARGET)
    assert plain.value == pytest.approx((1 + 0 + 4 + 0) / 4)
    error = np.std([1, 0, 4, 0], ddof=1) / 2
    assert plain.standard_error == pytest.approx(error)
    assert (plain.low, plain.high) == pytest.approx((1.25 - 1.959964 * error, 1.25 + 1.959964 * error))
    assert plain.effective_samples == pytest.approx(25 / 9)
    normalized = evaluation.snips(logs, TARGET, confidence=0.5)
    assert normalized.value == pytest.approx(5 / 5)
    residual = WEIGHTS * (REWARDS - 1) / 1.25
    assert normalized.standard_error == pytest.approx(np.std(residual, ddof=1) / 2)
    assert normalized.high - normalized.low == pytest.approx(2 * 0.67449 * normalized.standard_error)
    assert str(plain) == "1.25, 95% within -0.6051 .. 3.105"


def test_doubly_robust_by_hand():
    rng, n = np.random.default_rng(0), 40
    x, actions = rng.normal(size=(n, 3, 2)), rng.integers(3, size=n)
    rewards, target = rng.normal(size=n), rng.dirichlet(np.ones(3), size=n)
    many = Logs(x, actions, rewards, np.full(n, 1 / 3))
    found = evaluation.doubly_robust(many, target, folds=n, ridge=0.5)  # each decision judged by all others
    scores = np.empty(n)
    for i in range(n):
        rest = np.arange(n) != i
        rows, level = x[rest, actions[rest]], rewards[rest].mean()
        theta = np.linalg.solve(0.5 * np.eye(2) + rows.T @ rows, rows.T @ (rewards[rest] - level))
        q = level + x[i] @ theta
        scores[i] = target[i] @ q + target[i, actions[i]] * 3 * (rewards[i] - q[actions[i]])
    assert found.value == pytest.approx(scores.mean())
    assert found.standard_error == pytest.approx(scores.std(ddof=1) / np.sqrt(n))


def test_a_policy_is_judged_by_its_probabilities_and_left_alone(logs):
    policy = Stochastic(LinUCB(2).partial_fit(np.eye(2), [1.0, 2.0]), epsilon=0.5)
    before = {name: array.copy() for name, array in policy._arrays.items()}
    for method in (evaluation.ips, evaluation.snips, evaluation.doubly_robust):
        settings = {"folds": 2} if method is evaluation.doubly_robust else {}
        assert method(logs, policy, **settings) == method(logs, policy.probabilities(X), **settings)
    evaluation.replay(
        policy, Logs(np.tile(X, (20, 1, 1)), np.tile(ACTIONS, 20), np.tile(REWARDS, 20), np.full(80, 0.3))
    )
    for name, array in policy._arrays.items():
        np.testing.assert_array_equal(array, before[name])
    random = LinTS(2)
    assert evaluation.ips(logs, random, draws=7) == evaluation.ips(logs, random.probabilities(X, draws=7))


def test_lists_masks_and_arms():
    mask = np.array([[True, True, False]] * 3)
    masked = Logs(X[:3], np.array([0, 1, 1]), REWARDS[:3], CHANCES[:3], mask)
    assert evaluation.ips(masked, Greedy(2)).value == pytest.approx((1 / 2 / 0.5 + 0 + 2 / 2 / 0.2) / 3)  # all tie
    ragged = Logs([X[0, :2], X[1], X[2, :2]], np.array([0, 2, 1]), REWARDS[:3], CHANCES[:3])
    assert np.isfinite(evaluation.doubly_robust(ragged, Greedy(2), folds=3).value)
    arms = Logs(X[:, :1], ACTIONS, REWARDS, CHANCES, n_arms=3)
    np.testing.assert_array_equal(arms.played, X[:, 0])
    assert np.isfinite(evaluation.doubly_robust(arms, Greedy(2, n_arms=3), folds=2).value)


def test_sparse_rows_are_judged_as_dense_ones_are():
    rng, n = np.random.default_rng(1), 60
    x = rng.normal(size=(n, 3, 5)) * (rng.random((n, 3, 5)) < 0.5)
    actions, rewards, target = (
        rng.integers(3, size=n),
        rng.normal(size=n),
        Greedy(5).partial_fit(x[:, 0], rng.normal(size=n)),
    )
    dense = Logs(x, actions, rewards, np.full(n, 1 / 3))
    sparse = Logs([scipy.sparse.csr_array(rows) for rows in x], actions, rewards, np.full(n, 1 / 3))
    np.testing.assert_array_equal(sparse.played.toarray(), dense.played)
    assert evaluation.ips(sparse, target).value == pytest.approx(evaluation.ips(dense, target).value)
    judged = [evaluation.doubly_robust(logs, target) for logs in (sparse, dense)]  # q by descent, and exact
    assert abs(judged[0].value - judged[1].value) < judged[1].standard_error
    assert evaluation.replay(target, sparse) == evaluation.replay(target, dense)


def test_replay_keeps_what_the_policy_would_have_played():
    # Greedy on one-hot actions goes on with the first one that paid; the others are skipped.
    x = np.tile(np.eye(3), (6, 1, 1))
    logs = Logs(x, np.array([0, 0, 1, 0, 2, 0]), np.array([1.0, 3.0, 9.0, 5.0, 9.0, 3.0]), np.full(6, 1 / 3))
    start = Greedy(3).partial_fit(np.eye(3)[0], 1.0)
    found = evaluation.replay(start, logs)
    assert found.value == 3.0
    assert found.effective_samples == 4
    with pytest.raises(ValueError, match="played what was logged 1 times in 2"):
        evaluation.replay(start, Logs(x[:2], np.array([0, 1]), np.zeros(2), np.full(2, 1 / 3)))


def test_labeled_data_are_played_row_by_row():
    rng = np.random.default_rng(0)
    labels = rng.integers(3, size=600)
    contexts = np.eye(3)[labels] + 0.1 * rng.normal(size=(600, 3))
    policy = ACB(3, n_arms=3, beta=0.3)
    found = evaluation.replay_labeled(policy, contexts, labels)
    assert found.value > 0.9
    assert policy.n_samples == 0
    learner, right = policy.copy(), 0
    for row, label in zip(contexts, labels, strict=True):
        arm = learner.predict(row[None])
        learner.partial_fit(row, float(arm == label), arm)
        right += arm == label
    assert found.value == pytest.approx(right / 600)
    for policy_, rows, y, message in [
        (ACB(3), contexts, labels, "need a policy with n_arms"),
        (policy, contexts, labels + 1, r"labels must be in 0 \.\. 2, got 1 \.\. 3"),
        (policy, contexts, labels[:-1], "as many whole numbers"),
        (policy, contexts, labels / 2, "as many whole numbers"),
    ]:
        with pytest.raises(ValueError, match=message):
            evaluation.replay_labeled(policy_, rows, y)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"actions": ACTIONS[:3]}, "one action, reward and probability for each of 4 decisions"),
        ({"actions": ACTIONS - 1}, "actions must be whole numbers >= 0"),
        ({"actions": ACTIONS * 1.0}, "actions must be whole numbers >= 0"),
        ({"rewards": [1, 2, 3, np.nan]}, "rewards must be finite"),
        ({"probabilities": [0.5, 0, 0.1, 1]}, r"must be in \(0, 1\], got 0.0 in decision 1"),
        ({"probabilities": [0.5, 0.5, 0.1, 1.5]}, r"must be in \(0, 1\], got 1.5 in decision 3"),
        ({"mask": np.zeros((4, 3), bool)}, "that it might not be played"),
    ],
)
def test_logs_that_cannot_be(change, message):
    whole = {"X": X, "actions": ACTIONS, "rewards": REWARDS, "probabilities": CHANCES}
    with pytest.raises(ValueError, match=message):
        Logs(**whole | change)


def test_targets_and_settings_that_cannot_be(logs):
    for target, message in [
        (TARGET[:3], "with sums of 1"),
        (TARGET * 2, "with sums of 1"),
        (np.tile([0.5, 0.5], (4, 1)), "the logs have action 2, the policy has 2 actions"),
    ]:
        with pytest.raises(ValueError, match=message):
            evaluation.ips(logs, target)
    with pytest.raises(ValueError, match="folds must be at most the 4 decisions"):
        evaluation.doubly_robust(logs, TARGET)
    with pytest.raises(ValueError, match="folds must be a whole number >= 2"):
        evaluation.doubly_robust(logs, TARGET, folds=1)
    with pytest.raises(ValueError, match="confidence must be in"):
        evaluation.ips(logs, TARGET, confidence=95)
    never = np.eye(3)[[1, 0, 0, 1]]
    assert evaluation.ips(logs, never).value == 0
    with pytest.raises(ValueError, match="never plays what was logged"):
        evaluation.snips(logs, never)
