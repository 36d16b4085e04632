"""What a policy would have earned, judged by the logs of another: importance weights, doubly robust, and replay.

    logs = evaluation.Logs(X, actions, rewards, probabilities)     # probabilities: those of the logged actions
    evaluation.doubly_robust(logs, policy)                         # 0.412, 95 % within 0.396 .. 0.428

A logged probability is what ``predict(..., return_probability=True)`` returns. Symbols: i decision, a action,
``w_i = pi(a_i | x_i) / p_i`` the importance weight of what was logged, q the model of the rewards.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from statistics import NormalDist
from typing import Any, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from optimist.bandits.greedy import Greedy
from optimist.bandits.inputs import finite_array
from optimist.bandits.policy import Policy
from optimist.bandits.probabilities import DRAWS
from optimist.bandits.rows import is_sparse
from optimist.checks import require_count, require_fraction, require_seed
from optimist.seeding import split

FloatArray = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Logs:
    """Decisions as they were made, and what each earned. Checked when it is made."""

    X: ArrayLike | Sequence[Any]
    """The actions of each decision, as ``predict`` takes a batch: (n, n_actions, d), (n, 1, d) with arms; or a list."""
    actions: NDArray[np.int64]
    """The action that was played, (n,)."""
    rewards: FloatArray
    """What it earned, (n,)."""
    probabilities: FloatArray
    """The probability with which it was played, in (0, 1], (n,)."""
    mask: NDArray[np.bool_] | None = None
    """Which actions might be played, (n, n_actions)."""
    n_arms: int | None = None
    """The number of arms, where every arm has a model of its own."""

    def __post_init__(self) -> None:
        float64 = np.dtype(np.float64)
        actions = np.asarray(self.actions)
        rewards, chances = (finite_array(name, getattr(self, name), float64) for name in ("rewards", "probabilities"))
        n = len(self.X)  # pyrefly: ignore[bad-argument-type]  (whatever predict takes has a length)
        if not n or any(array.shape != (n,) for array in (actions, rewards, chances)):
            shapes = f"{actions.shape}, {rewards.shape} and {chances.shape}"
            raise ValueError(f"logs need one action, reward and probability for each of {n} decisions, got {shapes}")
        if actions.dtype.kind not in "iu" or (actions < 0).any():
            raise ValueError(f"actions must be whole numbers >= 0, got {actions.dtype}, at least {actions.min()}")
        if (chances <= 0).any() or (chances > 1).any():
            i = int(np.argmax((chances <= 0) | (chances > 1)))
            raise ValueError(
                f"probabilities must be in (0, 1], got {chances[i]} in decision {i}: log those of the play"
            )
        if self.mask is not None and not np.asarray(self.mask)[np.arange(n), actions].all():
            raise ValueError("mask says of an action that was played that it might not be played")
        for name, array in (("actions", actions), ("rewards", rewards), ("probabilities", chances)):
            object.__setattr__(self, name, array)

    def __len__(self) -> int:
        return len(self.rewards)

    @cached_property
    def played(self) -> Any:
        """The features of the actions that were played, (n, d); sparse rows where X has them."""
        sets = cast(Sequence[Any], self.X)
        if not is_sparse(sets[0]):
            sets = [np.asarray(x) for x in sets]
        places = [
            0 if self.n_arms is not None and x.shape[0] == 1 else int(a)
            for x, a in zip(sets, self.actions, strict=True)
        ]
        rows = [x[place : place + 1] for x, place in zip(sets, places, strict=True)]
        if not is_sparse(rows[0]):
            return np.concatenate(rows)
        from scipy.sparse import vstack  # here, because it takes a tenth of a second to import

        return vstack(rows, format="csr")


@dataclass(frozen=True)
class Estimate:
    """A mean reward per decision with its uncertainty."""

    value: float
    standard_error: float
    low: float
    """The lower end of the confidence interval."""
    high: float
    """Its upper end."""
    effective_samples: float
    """``(sum w)^2 / sum w^2``: decisions of the judged policy itself that say as much. Below 100, trust no interval."""
    confidence: float
    """The share of such intervals that hold the truth, for many decisions."""

    def __str__(self) -> str:
        return f"{self.value:.4g}, {self.confidence:.0%} within {self.low:.4g} .. {self.high:.4g}"


def ips(logs: Logs, target: Policy | ArrayLike, *, confidence: float = 0.95, draws: int = DRAWS) -> Estimate:
    """Inverse propensity scores, ``mean_i w_i r_i``: unbiased, and of large variance where policies differ.

    ``target`` is a policy, judged as it stands, or its probabilities of every action, (n, n_actions).
    Reference: Horvitz and Thompson (1952).
    """
    weights = _weights(logs, target_probabilities(logs, target, draws))
    return _estimate(weights * logs.rewards, weights, confidence)


def snips(logs: Logs, target: Policy | ArrayLike, *, confidence: float = 0.95, draws: int = DRAWS) -> Estimate:
    """Self-normalized, ``sum_i w_i r_i / sum_i w_i``: a bias of order 1/n, less variance, never beyond the rewards.

    Its error is that of the linearized ratio. Reference: Swaminathan and Joachims (2015).
    """
    weights = _weights(logs, target_probabilities(logs, target, draws))
    if not weights.any():
        raise ValueError("the policy never plays what was logged: the logs say nothing about it")
    share = weights / weights.mean()
    value = float((share * logs.rewards).mean())
    return _estimate(value + share * (logs.rewards - value), weights, confidence)


def doubly_robust(
    logs: Logs,
    target: Policy | ArrayLike,
    *,
    confidence: float = 0.95,
    folds: int = 5,
    ridge: float = 1.0,
    draws: int = DRAWS,
    seed: int = 0,
) -> Estimate:
    """``mean_i sum_a pi(a | x_i) q(x_ia) + w_i (r_i - q(x_i a_i))``: unbiased whatever q is, the better q the closer.

    q is a ridge regression on the features, cross-fitted: the one that judges a decision was trained on the other
    ``folds``; on sparse rows it is fitted by descent, without a matrix.
    Reference: Dudik, Langford and Li (2011).
    """
    if require_count("folds", folds, least=2) > len(logs):
        raise ValueError(f"folds must be at most the {len(logs)} decisions of the logs, got {folds}")
    chances = target_probabilities(logs, target, draws)
    weights = _weights(logs, chances)
    fold = np.random.default_rng(split(require_seed(seed), "folds")).permutation(len(logs)) % folds
    scores = np.empty(len(logs))
    for k in range(folds):
        inside, model, level = fold == k, _reward_model(logs, fold != k, ridge), logs.rewards[fold != k].mean()
        q = level + model.mean(_select(logs.X, inside))
        played = q[np.arange(len(q)), logs.actions[inside]]
        scores[inside] = (chances[inside, : q.shape[1]] * q).sum(axis=1) + weights[inside] * (
            logs.rewards[inside] - played
        )
    return _estimate(scores, weights, confidence)


def replay(policy: Policy, logs: Logs, *, confidence: float = 0.95, seed: int = 0) -> Estimate:
    """What ``policy`` earns while it learns: the logged decisions in order, those kept that it would have made so too.

    A decision is kept if the policy plays what was logged, with probability ``min p / p_i`` where the logging was not
    uniform; the policy learns from those, and the mean of their rewards is the estimate. ``policy`` itself is left
    alone. Unbiased for logs of independent decisions; it uses about one in ``1 / min p`` of them.
    Reference: Li, Chu, Langford and Wang (2011).
    """
    learner, rewards = policy.copy(), []
    lots = np.random.default_rng(split(require_seed(seed), "replay")).random(len(logs))
    keep = lots < logs.probabilities.min() / logs.probabilities
    for i in np.flatnonzero(keep):
        x: Any = logs.X[i]  # pyrefly: ignore[bad-index]
        action = learner.predict(x, None if logs.mask is None else logs.mask[i])
        if action == logs.actions[i]:
            rewards.append(logs.rewards[i])
            arm = None if logs.n_arms is None else logs.actions[i : i + 1]
            learner.partial_fit(logs.played[i : i + 1], logs.rewards[i : i + 1], arm)
    if len(rewards) < 2:
        raise ValueError(f"the policy played what was logged {len(rewards)} times in {len(logs)}: log more decisions")
    return _estimate(np.array(rewards), np.ones(len(rewards)), confidence)


def replay_labeled(policy: Policy, contexts: ArrayLike, labels: ArrayLike, *, confidence: float = 0.95) -> Estimate:
    """The share of right labels that ``policy`` plays while it learns: each row once, in order, seeing its own reward.

    The policy has one arm per label, ``n_arms``, and is itself left alone. Shapes: contexts (n, d), labels (n,).
    """
    x, y = finite_array("contexts", contexts, np.dtype(policy.dtype)), np.asarray(labels)
    if policy.n_arms is None or x.ndim != 2 or y.shape != x.shape[:1] or y.dtype.kind not in "iu" or len(x) < 2:
        raise ValueError(
            "labeled data need a policy with n_arms, contexts (n, n_features) and as many whole numbers for labels; "
            f"got n_arms={policy.n_arms}, contexts {x.shape}, labels {y.shape} of {y.dtype}"
        )
    if y.min() < 0 or y.max() >= policy.n_arms:
        raise ValueError(f"labels must be in 0 .. {policy.n_arms - 1}, got {y.min()} .. {y.max()}")
    learner, rewards = policy.copy(), np.empty(len(x))
    for i, row in enumerate(x):
        arm = learner.predict(row[None])
        rewards[i] = arm == y[i]
        learner.partial_fit(row, rewards[i], arm)
    return _estimate(rewards, np.ones(len(x)), confidence)


def target_probabilities(logs: Logs, target: Policy | ArrayLike, draws: int = DRAWS) -> FloatArray:
    """The probability of every action under ``target``, (n, n_actions), checked against the logs."""
    chances = np.asarray(
        target.probabilities(logs.X, logs.mask, draws) if isinstance(target, Policy) else target, np.float64
    )
    if chances.ndim != 2 or len(chances) != len(logs) or not np.allclose(chances.sum(axis=1), 1):
        raise ValueError(
            f"target must be a policy, or probabilities ({len(logs)}, n_actions) with sums of 1, got {chances.shape}"
        )
    if logs.actions.max() >= chances.shape[1]:
        raise ValueError(f"the logs have action {logs.actions.max()}, the policy has {chances.shape[1]} actions")
    return chances


def _weights(logs: Logs, chances: FloatArray) -> FloatArray:
    """``pi(a_i | x_i) / p_i``, (n,)."""
    return chances[np.arange(len(logs)), logs.actions] / logs.probabilities


def _reward_model(logs: Logs, which: NDArray[np.bool_], ridge: float) -> Greedy:
    """The ridge regression of the rewards less their mean, on the decisions ``which``; of sparse rows by descent."""
    rewards = logs.rewards[which]
    solver = "sgd" if is_sparse(logs.played) else "exact"
    model = Greedy(logs.played.shape[1], ridge=ridge, solver=solver, n_arms=logs.n_arms)
    arm = None if logs.n_arms is None else logs.actions[which]
    return model.partial_fit(logs.played[which], rewards - rewards.mean(), arm)


def _select(X: Any, which: NDArray[np.bool_]) -> Any:
    return X[which] if isinstance(X, np.ndarray) else [X[i] for i in np.flatnonzero(which)]


def _estimate(scores: FloatArray, weights: FloatArray, confidence: float) -> Estimate:
    """The mean of independent scores with its normal interval."""
    require_fraction("confidence", confidence, "it is the share of intervals that hold the truth")
    if len(scores) < 2:
        raise ValueError("an interval needs at least two decisions")
    value = float(scores.mean())
    error = float(scores.std(ddof=1) / np.sqrt(len(scores)))
    reach = NormalDist().inv_cdf((1 + confidence) / 2) * error
    effective = float(weights.sum() ** 2 / (weights**2).sum()) if weights.any() else 0.0
    return Estimate(value, error, value - reach, value + reach, effective, confidence)
