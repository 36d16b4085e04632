"""Off-policy estimates against the truth on synthetic logs, their coverage; and frequencies of play against chances."""

import math

import numpy as np
import pytest

from optimist.bandits import ACB, EnsembleSampling, EpsilonGreedy, LinPHE, LinTS, LinUCB, Stochastic, evaluation

D, K, N, REPEATS = 4, 5, 400, 300
THETA = np.array([0.6, -0.4, 0.8, 0.2])


def logging_policy():
    rng = np.random.default_rng(1)
    x = rng.normal(size=(15, D))
    return Stochastic(LinUCB(D).partial_fit(x, x @ THETA + rng.normal(size=15)), epsilon=0.4)


def target_policy():
    rng = np.random.default_rng(2)
    x = rng.normal(size=(40, D))
    return EnsembleSampling(D, beta=0.5).partial_fit(x, x @ THETA + rng.normal(size=40))


def decisions(rng, n):
    return rng.normal(size=(n, K, D))


def expected(x):
    """A mean that is not linear in the features, so that the reward model of ``doubly_robust`` is wrong."""
    return x @ THETA + 0.3 * np.abs(x[..., 0])


def logs_of(policy, rng, n=N):
    x = decisions(rng, n)
    actions, chances = policy.predict(x, return_probability=True)
    mean = np.take_along_axis(expected(x), actions[:, None], axis=1)[:, 0]
    return evaluation.Logs(x, actions, mean + 0.5 * rng.normal(size=n), chances)


@pytest.fixture(scope="module")
def estimates():
    """Estimates from 300 independent logs by each method, and the truth from 400,000 decisions with its error."""
    rng = np.random.default_rng(0)
    target, logging = target_policy(), logging_policy()
    x = decisions(rng, 400_000)
    values = (target.probabilities(x) * expected(x)).sum(axis=1)
    methods = {"ips": evaluation.ips, "snips": evaluation.snips, "doubly_robust": evaluation.doubly_robust}
    found = {name: [] for name in methods}
    for _ in range(REPEATS):
        logs = logs_of(logging, rng)
        chances = target.probabilities(logs.X)
        for name, method in methods.items():
            found[name].append(method(logs, chances))
    return found, values.mean(), values.std() / math.sqrt(len(values))


@pytest.mark.parametrize("method", ["ips", "snips", "doubly_robust"])
def test_estimates_are_right_on_average_and_their_errors_are_honest(estimates, method):
    found, truth, error = estimates
    values = np.array([e.value for e in found[method]])
    sd = values.std(ddof=1)
    # The mean of 300 independent unbiased estimates: 5 sd, a false alarm in 2 million. The bias of snips is of the
    # order sd^2 / value, a hundredth of that bound's size for these numbers; it is allowed one part in n of the value.
    allowed = abs(truth) / N if method == "snips" else 0.0
    assert abs(values.mean() - truth) < 5 * math.hypot(sd / math.sqrt(REPEATS), error) + allowed
    # The mean of the standard errors against the deviation of the estimates, whose own relative sd is
    # 1 / sqrt(2 * 300) = 0.041: 5 of them, and 2 % for the errors' own bias.
    assert np.mean([e.standard_error for e in found[method]]) == pytest.approx(sd, rel=5 * 0.041 + 0.02)


@pytest.mark.parametrize("method", ["ips", "snips", "doubly_robust"])
def test_intervals_hold_the_truth_as_often_as_they_say(estimates, method):
    found, truth, _ = estimates
    covered = np.mean([e.low < truth < e.high for e in found[method]])
    # Binomial with 0.95 in 300: sd 0.0126; 4 sd, one false alarm in 30,000 for each of 3 methods, and 0.01 for the
    # skewness of the weights at n = 400.
    assert abs(covered - 0.95) < 4 * math.sqrt(0.95 * 0.05 / REPEATS) + 0.01


def test_the_reward_model_pays(estimates):
    # In truth the variances differ by a factor of about 3; the ratio of two sample variances of 300 has the relative sd
    # sqrt(4 / 300) = 0.115, so that a ratio above 1 / 1.5 is 5 sd away.
    found, _, _ = estimates
    variance = {name: np.var([e.value for e in of]) for name, of in found.items()}
    assert variance["doubly_robust"] < variance["ips"] / 1.5


def test_replay_is_what_playing_earns():
    # Uniform logs: what is kept are decisions as if the policy had played itself. A policy that hardly learns is
    # judged, so that the kept rewards are independent with a known mean; 5 sd of both means.
    rng = np.random.default_rng(3)
    logs = logs_of(Stochastic(LinUCB(D), epsilon=1.0), rng, n=6_000)
    fixed = LinUCB(D, beta=0.0, ridge=1e9)
    fixed._ensemble.regression.columns[0, 0, :, 0] = THETA
    found = evaluation.replay(fixed, logs)
    x = decisions(rng, 200_000)
    values = np.take_along_axis(expected(x), (x @ THETA).argmax(axis=1)[:, None], axis=1)
    assert abs(found.value - values.mean()) < 5 * found.standard_error
    kept = found.effective_samples
    assert abs(kept - len(logs) / K) < 5 * math.sqrt(len(logs) * (1 / K) * (1 - 1 / K))


# Frequencies of play ----------------------------------------------------------------------------------------------

POLICIES = {
    "epsilon-greedy": EpsilonGreedy(D, epsilon=0.4),
    "ensemble-sampling": EnsembleSampling(D, beta=1.0, ensemble_size=8),
    "lints": LinTS(D, beta=1.0),
    "linphe": LinPHE(D, beta=2.0),
    "acb-rerandomized": ACB(D, history="rerandomized", beta=1.0, ensemble_size=3),
    "acb-rerandomized-rms": ACB(D, history="rerandomized", beta=1.0, ensemble_size=3, aggregate="rms"),
    "acb-lazy": ACB(D, history="lazy", beta=1.0, ensemble_size=3, gamma=1e-9),
    "stochastic": Stochastic(ACB(D, beta=1.0), epsilon=0.3),
    "stochastic-lints": Stochastic(LinTS(D, beta=1.0), epsilon=0.3),
    "linucb": LinUCB(D),
}


@pytest.mark.parametrize("n_actions", [3, 6])  # fewer than features, and more: another way to draw
@pytest.mark.parametrize("name", POLICIES)
def test_frequencies_of_play_are_the_probabilities(name, n_actions):
    rng = np.random.default_rng(5)
    x, r = rng.normal(size=(12, D)), rng.normal(size=12)
    policy = POLICIES[name].copy().partial_fit(x, r)
    rows = rng.normal(size=(n_actions, D))
    rows[2] = rows[1]  # a tie
    plays, draws = 4_000, 20_000
    chances = policy.probabilities(rows, draws=draws)
    played = [policy.predict(rows) for _ in range(plays)]
    frequency = np.bincount(played, minlength=n_actions) / plays
    # Two binomial means, of plays and of draws: 5 sd, one false alarm in 2 million for each of 90 numbers. A
    # probability of p = 0 or 1 must be met exactly.
    sd = np.sqrt(chances * (1 - chances) * (1 / plays + 1 / draws)) + 1e-12
    assert (np.abs(frequency - chances) <= 5 * sd + 3 / plays * (chances > 0) * (chances < 1)).all()


@pytest.mark.parametrize("name", ["lints", "linphe", "acb-rerandomized"])
def test_frequencies_of_arms_with_models_of_their_own(name):
    rng = np.random.default_rng(6)
    parameters = POLICIES[name].parameters | {"n_arms": 3}
    policy = type(POLICIES[name])(**parameters).partial_fit(
        rng.normal(size=(12, D)), rng.normal(size=12), np.arange(12) % 3
    )
    user = rng.normal(size=(1, D))
    plays, draws = 4_000, 20_000
    chances = policy.probabilities(user, draws=draws)
    frequency = np.bincount([policy.predict(user) for _ in range(plays)], minlength=3) / plays
    sd = np.sqrt(chances * (1 - chances) * (1 / plays + 1 / draws))  # as above
    assert (np.abs(frequency - chances) <= 5 * sd + 3 / plays).all()


def test_weights_of_counted_probabilities_are_unbiased():
    # The logged probability (1 + k) / (1 + draws) has E[1 / p_logged | a] = (1 - (1 - p)^(draws + 1)) / p, so that the
    # sum over actions of played / p_logged has the mean sum_a 1 - (1 - p_a)^(draws + 1), however few the draws.
    rng = np.random.default_rng(7)
    policy = LinTS(D, beta=1.0).partial_fit(rng.normal(size=(12, D)), rng.normal(size=12))
    rows, draws, plays = rng.normal(size=(4, D)), 20, 4_000
    exact = policy.probabilities(rows, draws=200_000)
    weights = np.zeros((plays, 4))
    for i in range(plays):
        action, probability = policy.predict(rows, return_probability=True, draws=draws)
        weights[i, action] = 1 / probability
    expectation = 1 - (1 - exact) ** (draws + 1)
    # 5 sd of the mean, and what an error of 5 sd in the 200,000 draws of the exact ones makes at most.
    sd = weights.std(axis=0) / math.sqrt(plays)
    slack = (draws + 1) * (1 - exact) ** draws * 5 * np.sqrt(exact * (1 - exact) / 200_000)
    assert (np.abs(weights.mean(axis=0) - expectation) < 5 * sd + slack).all()
