"""The probability of each action: by hand where there is a formula, laws where there is none."""

import numpy as np
import pytest
from lineup_cases import VARIANTS, make
from scipy.stats import norm

from optimist import bandits
from optimist.bandits import ACB, EnsembleSampling, EpsilonGreedy, Greedy, LinTS, LinUCB, Stochastic, load

every_policy = pytest.mark.parametrize("name", VARIANTS)
COUNTED = {name for name in VARIANTS if name.startswith(("lints", "linphe", "acb-rerandomized", "acb-lazy"))}


@pytest.fixture
def rng():
    return np.random.default_rng(0)


def trained(policy, rng, n=20):
    return policy.partial_fit(rng.normal(size=(n, 4)), rng.normal(size=n))


@every_policy
def test_they_are_a_distribution_over_what_may_be_played_and_asking_changes_nothing(name, rng):
    policy = trained(make(name), rng)
    x, mask = rng.normal(size=(5, 6, 4)), rng.random((5, 6)) < 0.6
    mask[:, 0] = True
    before = {key: array.copy() for key, array in policy._arrays.items()}
    chances = policy.probabilities(x, mask, draws=50)
    np.testing.assert_array_equal(chances, policy.probabilities(x, mask, draws=50))
    for key, array in policy._arrays.items():
        np.testing.assert_array_equal(array, before[key])
    assert chances.shape == (5, 6)
    np.testing.assert_allclose(chances.sum(axis=1), 1)
    assert (chances >= 0).all()
    assert not chances[~mask].any()
    assert policy.probabilities(x[0]).shape == (6,)
    ragged = policy.probabilities([x[0, :2], x[1]], draws=50)
    assert ragged.shape == (2, 6)
    assert not ragged[0, 2:].any()


@every_policy
def test_a_decision_comes_with_its_probability(name, rng):
    policy, other = trained(make(name), rng), trained(make(name), np.random.default_rng(0))
    x = rng.normal(size=(6, 4))
    chances = policy.probabilities(x)
    action, probability = policy.predict(x, return_probability=True)
    assert isinstance(action, int)
    assert isinstance(probability, float)
    assert action == other.predict(x)  # the same random numbers are used up
    np.testing.assert_array_equal(policy.streams, other.streams)
    if name in COUNTED:
        assert probability == pytest.approx((1 + 1000 * chances[action]) / 1001)
    else:
        assert probability == chances[action]
    actions, several = policy.predict(np.stack([x, x + 1]), return_probability=True, draws=10)
    assert actions.shape == several.shape == (2,)
    assert ((several > 0) & (several <= 1)).all()
    with pytest.raises(ValueError, match="draws must be a whole number"):
        policy.probabilities(x, draws=0)


@pytest.mark.parametrize(
    "name", sorted(set(VARIANTS) - COUNTED - {"epsilon-greedy", "ensemble-sampling", "stochastic"})
)
def test_without_chance_the_best_action_is_certain_and_ties_share(name, rng):
    policy = trained(make(name), rng)
    x = rng.normal(size=(6, 4))
    np.testing.assert_array_equal(policy.probabilities(x), np.eye(6)[policy.scores(x).argmax()])
    twice = np.concatenate([x, x])
    np.testing.assert_array_equal(policy.probabilities(twice)[:6], np.eye(6)[policy.scores(x).argmax()] / 2)


def test_epsilon_greedy_by_hand(rng):
    policy = trained(EpsilonGreedy(4, epsilon=0.3), rng)
    x = rng.normal(size=(5, 4))
    best = policy.mean(x).argmax()
    np.testing.assert_allclose(policy.probabilities(x), 0.3 / 5 + 0.7 * np.eye(5)[best])
    mask = np.array([True, True, True, False, False])
    best = np.where(mask, policy.mean(x), -np.inf).argmax()
    np.testing.assert_allclose(policy.probabilities(x, mask), 0.1 * mask + 0.7 * np.eye(5)[best])
    np.testing.assert_allclose(EpsilonGreedy(4, epsilon=0.3).probabilities(x), 1 / 5)  # untrained, all tie


def test_ensemble_sampling_is_the_share_of_the_members(rng):
    policy = trained(EnsembleSampling(4, ensemble_size=50, beta=1.0), rng)
    x = rng.normal(size=(6, 4))
    columns = policy._arrays["columns"][0, 0]
    choices = (x @ (columns[:, :1] + columns[:, 1:])).argmax(axis=0)
    np.testing.assert_allclose(policy.probabilities(x), np.bincount(choices, minlength=6) / 50)


def test_lints_between_two_actions_is_a_gaussian_tail(rng):
    # P(first) = Phi(<x1 - x2, theta> / (beta |x1 - x2|_P)). 40,000 draws: 5 sd, a false alarm in 2 million.
    policy = trained(LinTS(4, beta=0.7), rng)
    x = rng.normal(size=(2, 4))
    gap = x[0] - x[1]
    width = LinUCB(4, beta=1.0)
    width._ensemble.regression.inverse[...] = policy._arrays["inverse"]
    exact = norm.cdf(policy.mean(gap[None])[0] / (0.7 * width.bonus(gap[None])[0]))
    counted = policy.probabilities(x, draws=40_000)[0]
    assert 0.02 < exact < 0.98
    assert abs(counted - exact) < 5 * np.sqrt(exact * (1 - exact) / 40_000)


# Stochastic play --------------------------------------------------------------------------------------------------


def test_stochastic_mixes_the_policy_with_uniform_play(rng):
    inside = trained(LinUCB(4), rng)
    policy = Stochastic(inside, epsilon=0.2)
    x = rng.normal(size=(5, 4))
    np.testing.assert_allclose(policy.probabilities(x), 0.2 / 5 + 0.8 * inside.probabilities(x))
    mask = np.array([True, False, True, False, True])
    np.testing.assert_allclose(policy.probabilities(x, mask), mask * 0.2 / 3 + 0.8 * inside.probabilities(x, mask))
    assert policy.n_samples == 20
    np.testing.assert_array_equal(policy.coefficients, inside.coefficients)
    assert repr(policy) == "Stochastic(LinUCB(n_features=4), epsilon=0.2)  # 20 samples"


def test_stochastic_learns_apart_from_the_policy_it_was_made_from(rng):
    inside = trained(ACB(4), rng)
    twin, theta = inside.copy(), inside.coefficients
    policy = Stochastic(inside, epsilon=0.5)
    x, r = rng.normal(size=(7, 4)), rng.normal(size=7)
    view = policy.policy
    policy.partial_fit(x, r)
    np.testing.assert_array_equal(inside.coefficients, theta)
    np.testing.assert_array_equal(view.coefficients, theta)
    assert (view.n_samples, policy.policy.n_samples) == (20, 27)
    np.testing.assert_array_equal(policy.coefficients, twin.partial_fit(x, r).coefficients)  # the very random numbers
    np.testing.assert_array_equal(policy.policy.bonus(x), twin.bonus(x))


def test_stochastic_from_a_file_and_in_a_simulation(rng, tmp_path):
    policy = trained(Stochastic(EpsilonGreedy(4, epsilon=0.1, seed=5), epsilon=0.4), rng)
    policy.save(tmp_path / "policy.npz")
    again = load(tmp_path / "policy.npz")
    x = rng.normal(size=(50, 6, 4))
    np.testing.assert_array_equal(again.predict(x), policy.predict(x))
    problem = bandits.FixedActions.random(6, 4, noise=0.1, seed=0)
    plain, mixed = (bandits.simulate(p, problem, horizon=100, trials=4) for p in (ACB(4), Stochastic(ACB(4))))
    assert (mixed.final > plain.final).all()


def test_what_stochastic_refuses():
    with pytest.raises(ValueError, match="holds an action for many rounds"):
        Stochastic(ACB(3, history="lazy"))
    with pytest.raises(ValueError, match="policy must be one of ACB"):
        Stochastic(Stochastic(ACB(3)))
    with pytest.raises(ValueError, match="policy must be one of ACB"):
        Stochastic("acb")
    with pytest.raises(ValueError, match="epsilon must be"):
        Stochastic(ACB(3), epsilon=1.5)


# Slates -----------------------------------------------------------------------------------------------------------


@every_policy
def test_a_slate_has_no_action_twice_and_obeys_the_mask(name, rng):
    policy = trained(make(name), rng)
    x, mask = rng.normal(size=(8, 6, 4)), rng.random((8, 6)) < 0.5
    mask[:, :3] = True
    slates = policy.slate(x, 3, mask)
    assert slates.shape == (8, 3)
    for slate, may in zip(slates, mask, strict=True):
        assert len(set(slate)) == 3
        assert may[slate].all()
    assert sorted(policy.slate(x[0], 6)) == list(range(6))
    with pytest.raises(ValueError, match="a slate of k=7 needs as many actions, decision 0 has 6"):
        policy.slate(x, 7)
    with pytest.raises(ValueError, match="k must be a whole number"):
        policy.slate(x, 0)


@pytest.mark.parametrize("name", ["linucb", "acb", "greedy", "acb-lazy"])
def test_without_chance_a_slate_is_the_best_by_score(name, rng):
    policy = trained(make(name), rng)
    x = rng.normal(size=(6, 4))
    policy.predict(x)  # the lazy one then holds its draws
    best = np.argsort(-policy.scores(x))[:4]
    np.testing.assert_array_equal(policy.slate(x, 4), best)


@pytest.mark.parametrize("name", ["lints", "epsilon-greedy", "ensemble-sampling", "acb-rerandomized", "stochastic"])
def test_with_chance_a_slate_is_one_decision_after_the_other(name, rng):
    policy = trained(make(name), rng)
    other = policy.copy()
    x, mask, one_by_one = rng.normal(size=(6, 4)), np.ones(6, bool), []
    for _ in range(4):
        one_by_one.append(other.predict(x, mask))
        mask[one_by_one[-1]] = False
    np.testing.assert_array_equal(policy.slate(x, 4), one_by_one)


def test_greedy_ties_in_a_slate_are_broken_at_random():
    slates = {tuple(Greedy(2, seed=seed).slate(np.ones((4, 2)), 2)) for seed in range(60)}
    assert len(slates) == 12  # all ordered pairs; one of them is missed with probability 12 (11/12)^60 = 0.07
