"""What every policy must do, and the mistakes found in peers (FACTS.md, section 5) that none may make."""

import numpy as np
import pytest
from lineup_cases import HAVE_BETA, RANDOMIZED, VARIANTS, WITHOUT_MATRIX, make

from optimist import bandits

THETA = np.array([0.5, -0.3, 0.8, 0.1])
every_policy = pytest.mark.parametrize("name", VARIANTS)


@pytest.fixture
def rng():
    return np.random.default_rng(7)


def train(policy, rng, rounds=25):
    for _ in range(rounds):
        x = rng.normal(size=(6, 4))
        action = policy.predict(x)
        policy.partial_fit(x[action], x[action] @ THETA + 0.1 * rng.normal())
    return policy


def state(policy):
    return {name: array.copy() for name, array in policy._arrays.items()}


def assert_same_state(a, b):
    assert a.keys() == b.keys()
    for name in a:
        np.testing.assert_array_equal(a[name], b[name], err_msg=name)


@every_policy
def test_scores_are_what_predict_maximizes_and_looking_moves_nothing(name, rng):
    policy = make(name)
    for _ in range(30):
        x = rng.normal(size=(6, 4))
        before = state(policy)
        scores = policy.scores(x)
        np.testing.assert_array_equal(scores, policy.scores(x))
        np.testing.assert_allclose(scores, policy.mean(x) + policy.bonus(x))
        assert_same_state(before, state(policy))
        action = policy.predict(x)
        assert isinstance(action, int)
        assert scores[action] == scores.max()
        policy.partial_fit(x[action], x[action] @ THETA)


@every_policy
def test_a_batch_of_decisions_is_the_decisions_one_by_one(name, rng):
    policy, other = (train(make(name), np.random.default_rng(3)) for _ in range(2))
    x = rng.normal(size=(5, 6, 4))
    batch = policy.predict(x)
    assert batch.shape == (5,)
    assert policy.scores(x).shape == (5, 6)
    if name not in (
        "acb-lazy",
        "epsilon-greedy",
        "stochastic",
    ):  # they draw a decision's numbers in another order for a batch
        np.testing.assert_array_equal(batch, [other.predict(rows) for rows in x])


@every_policy
def test_a_batch_of_samples_is_the_samples_one_by_one(name, rng):
    policy, other = make(name), make(name)
    x, reward = rng.normal(size=(8, 4)), rng.normal(size=8)
    policy.partial_fit(x, reward)
    for row, value in zip(x, reward, strict=True):
        other.partial_fit(row, value)
    question = rng.normal(size=(6, 4))
    np.testing.assert_allclose(policy.mean(question), other.mean(question), rtol=1e-9, atol=1e-12)
    assert_same_state(state(policy), state(other))


@every_policy
def test_masks_and_ragged_sets_are_obeyed(name, rng):
    policy = train(make(name), rng)
    x = rng.normal(size=(40, 6, 4))
    mask = rng.random((40, 6)) < 0.4
    mask[:, 2] = True
    chosen = policy.predict(x, mask)
    assert mask[np.arange(40), chosen].all()
    assert policy.predict(x[0], [False, False, False, True, False, False]) == 3
    sets = [rng.normal(size=(n, 4)) for n in (1, 3, 6, 2)]
    ragged = policy.predict(sets)
    assert all(0 <= action < len(rows) for action, rows in zip(ragged, sets, strict=True))


@every_policy
def test_it_goes_on_from_a_file_exactly_where_it_stopped(name, rng, tmp_path):
    policy = train(make(name, seed=3), rng)
    policy.save(tmp_path / "policy.npz")
    again = bandits.load(tmp_path / "policy.npz")
    assert type(again) is type(policy)
    assert again.parameters == policy.parameters
    seeds = np.random.default_rng(5), np.random.default_rng(5)
    assert_same_state(state(train(policy, seeds[0])), state(train(again, seeds[1])))
    assert list(tmp_path.iterdir()) == [tmp_path / "policy.npz"]


@every_policy
def test_same_seed_same_run(name):
    a, b = (train(make(name, seed=11), np.random.default_rng(0)) for _ in range(2))
    assert_same_state(state(a), state(b))


@pytest.mark.parametrize("name", RANDOMIZED)
def test_the_seed_is_used(name):
    x = np.random.default_rng(0).normal(size=(6, 4))
    runs = []
    for seed in range(12):
        policy = make(name, seed=seed).partial_fit(x, np.zeros(6))
        runs.append(policy.scores(x))
    assert len({tuple(scores) for scores in runs}) > 1


@pytest.mark.parametrize("name", HAVE_BETA)
def test_beta_scales_the_bonus(name, rng):
    x = rng.normal(size=(6, 4))
    narrow, wide = (make(name, beta=beta).partial_fit(x, x @ THETA) for beta in (0.2, 0.6))
    assert (narrow.bonus(x) != 0).all()
    np.testing.assert_allclose(3 * narrow.bonus(x), wide.bonus(x), rtol=1e-9)
    np.testing.assert_allclose(narrow.mean(x), wide.mean(x))


def test_epsilon_is_the_rate_of_exploring(rng):
    x = rng.normal(size=(2_000, 5, 4))
    assert not make("epsilon-greedy", epsilon=0.0).bonus(x).any()
    assert make("epsilon-greedy", epsilon=1.0).bonus(x).any(axis=1).all()


@pytest.mark.parametrize("ridge", [0.25, 4.0])
def test_a_cold_elliptical_bonus_is_the_norm_over_the_root_of_ridge(ridge, rng):
    # A peer starts from lambda I where I / lambda belongs.
    x = rng.normal(size=(6, 4))
    for name in ("linucb", "diagonal-linucb"):
        policy = make(name, ridge=ridge, beta=1.0)
        np.testing.assert_allclose(policy.bonus(x), np.linalg.norm(x, axis=1) / np.sqrt(ridge))


def test_the_ridge_is_added_once_not_at_every_update(rng):
    x, r = rng.normal(size=(50, 4)), rng.normal(size=50)
    policy = make("linucb", ridge=2.0, beta=1.0).partial_fit(x, r)
    gram = 2.0 * np.eye(4) + x.T @ x
    question = rng.normal(size=(3, 4))
    np.testing.assert_allclose(
        policy.bonus(question) ** 2, np.einsum("nd,nd->n", question, np.linalg.solve(gram, question.T).T)
    )
    np.testing.assert_allclose(policy.mean(question), question @ np.linalg.solve(gram, x.T @ r))


@every_policy
@pytest.mark.parametrize("ridge", [0.0, -1.0, np.nan, np.inf])
def test_a_ridge_that_is_not_positive_is_refused(name, ridge):
    with pytest.raises(ValueError, match="ridge must be > 0"):
        make(name, ridge=ridge)


@every_policy
def test_bad_input_is_refused_and_changes_nothing(name, rng):
    policy = train(make(name), rng)
    before = state(policy)
    good = rng.normal(size=(6, 4))
    poisoned = good.copy()
    poisoned[2, 1] = np.nan
    for bad, message in [
        (poisoned, r"X must be finite, got nan at \(2, 1\)"),
        (np.full((6, 4), np.inf), "must be finite"),
        (good[:, :3], r"X must be \(n_actions, 4\)"),
        (good[0], r"X must be \(n_actions, 4\)"),
        (np.empty((0, 4)), "at least one action"),
        ("nonsense", "array of numbers"),
        ([good, good[:0]], "at least one action"),
    ]:
        with pytest.raises(ValueError, match=message):
            policy.predict(bad)
    for mask, message in [
        (np.zeros(6, bool), "leaves no action"),
        (np.ones(6), "mask must be boolean"),
        (np.ones(5, bool), "mask must be boolean of shape"),
    ]:
        with pytest.raises(ValueError, match=message):
            policy.predict(good, mask)
    for x, reward, message in [
        (good[0], np.nan, "reward must be finite"),
        (good[0], np.inf, "reward must be finite"),
        (poisoned, np.zeros(6), "x must be finite"),
        (good, np.zeros(5), "one for each row of x"),
        (good[0, :2], 1.0, r"x must be \(4,\)"),
    ]:
        with pytest.raises(ValueError, match=message):
            policy.partial_fit(x, reward)
    with pytest.raises(ValueError, match="arm must be given with n_arms and only then"):
        policy.partial_fit(good[0], 1.0, arm=0)
    assert_same_state(before, state(policy))


@every_policy
def test_inputs_are_never_written_to(name, rng):
    policy = make(name)
    x, reward = rng.normal(size=(6, 4)), rng.normal(size=6)
    x.flags.writeable = reward.flags.writeable = False
    policy.predict(x)
    policy.partial_fit(x, reward)


@every_policy
def test_arms_with_models_of_their_own_are_the_block_diagonal_model(name, rng):
    policy = make(name, n_arms=3)
    contexts = rng.normal(size=(30, 4))
    for context in contexts:
        arm = policy.predict(context[None])
        policy.partial_fit(context, context @ THETA + arm, arm=arm)
    scores = policy.scores(contexts[:1])
    assert scores.shape == (3,)
    np.testing.assert_array_equal(policy.mean(np.repeat(contexts[:1], 3, axis=0)), policy.mean(contexts[:1]))
    assert policy.predict(contexts[:, None]).shape == (30,)
    with pytest.raises(ValueError, match="one row for each of the 3 arms"):
        policy.predict(contexts[:2])
    with pytest.raises(ValueError, match=r"arm must be a whole number in 0 \.\. 2"):
        policy.partial_fit(contexts[0], 1.0, arm=3)


@pytest.mark.parametrize("name", ["linucb", "greedy", "diagonal-linucb"])
def test_disjoint_arms_equal_one_model_over_the_blocks(name, rng):
    # LinUCB with theory's width is left out: its width follows each model's own determinant.
    disjoint, whole = make(name, n_arms=3), make(name, n_features=12)
    blocks = lambda context: np.kron(np.eye(3), context)  # noqa: E731  (named for what it returns)
    for context in rng.normal(size=(20, 4)):
        arm, reward = int(rng.integers(3)), float(rng.normal())
        disjoint.partial_fit(context, reward, arm=arm)
        whole.partial_fit(blocks(context)[arm], reward)
    question = rng.normal(size=4)
    np.testing.assert_allclose(disjoint.scores(question[None]), whole.scores(blocks(question)), rtol=1e-9)


@every_policy
def test_float32_follows_float64_over_a_long_run(name):
    # Sherman and Morrison's formula drifts in float32, so the inverse is kept in float64 whatever the dtype.
    rng = np.random.default_rng(2)
    x, r = rng.normal(size=(3_000, 4)), rng.normal(size=3_000)
    single, double = (make(name, dtype=dtype).partial_fit(x, r) for dtype in ("float32", "float64"))
    question = rng.normal(size=(5, 4))
    np.testing.assert_allclose(single.mean(question), double.mean(question), atol=2e-3)
    np.testing.assert_allclose(single.bonus(question), double.bonus(question), atol=2e-3)


@every_policy
def test_it_learns_the_best_action(name):
    x = np.random.default_rng(4).normal(size=(6, 4))
    policy = make(name, seed=1)
    rng = np.random.default_rng(0)
    for _ in range(400):
        action = policy.predict(x)
        policy.partial_fit(x[action], x[action] @ THETA + 0.05 * rng.normal())
    if name not in ("epsilon-greedy", "stochastic"):
        assert (x @ THETA)[policy.predict(x)] > np.sort(x @ THETA)[-2] - 0.2


@every_policy
def test_its_text_is_the_call_that_made_it_and_how_much_it_learned(name, rng):
    policy = train(make(name, ridge=0.5), rng)
    text = repr(policy)
    assert text.endswith("  # 25 samples")
    again = eval(text, vars(bandits))
    assert type(again) is type(policy)
    assert again.parameters == policy.parameters
    assert "seed" not in text  # what is left at its default is not said


def test_the_text_of_many_learners_says_how_many():
    policy = make("acb").spawn(np.repeat(make("acb").streams, 3, axis=0))
    assert repr(policy) == "ACB(n_features=4)  # 0 samples in each of 3 learners"


@every_policy
@pytest.mark.parametrize("n_arms", [None, 3])
def test_the_estimate_of_memory_is_that_of_its_arrays(name, n_arms):
    policy = make(name, n_features=200, n_arms=n_arms)
    held = sum(array.nbytes for array in policy._arrays.values())
    assert policy.state_bytes() == pytest.approx(held, rel=0.02)
    assert policy.state_bytes(learners=7) == 7 * policy.state_bytes()


@pytest.mark.parametrize("name", sorted(set(VARIANTS) - WITHOUT_MATRIX))
def test_a_matrix_that_cannot_fit_is_refused_before_it_is_asked_for(name):
    message = r"n_features=100,000,000 needs .* of memory, and .* are available: .*solver='sgd'"
    with pytest.raises(ValueError, match=message):
        make(name, n_features=100_000_000)


def test_what_needs_no_matrix_is_refused_only_where_its_columns_cannot_fit():
    with pytest.raises(ValueError, match="use fewer features or a smaller ensemble"):
        make("acb-sgd-uniform", n_features=10**12)
    policy = make("acb-sgd", n_features=10**12)  # keeps only the columns that it has learned from
    with pytest.raises(ValueError, match="learners=2 needs"):
        policy.spawn(np.repeat(policy.streams, 2, axis=0))


@pytest.mark.parametrize("delta", [0.0, 1.0, 2, -0.1, np.nan, "0.1", True])
def test_delta_is_a_probability(delta):
    with pytest.raises(ValueError, match=r"delta must be in \(0, 1\)"):
        bandits.LinUCB(3, beta="theory", delta=delta)


@pytest.mark.parametrize("name", HAVE_BETA)
@pytest.mark.parametrize("beta", [-1, np.nan, np.inf, "large", None, np.zeros(2)])
def test_beta_is_a_number_from_0_on(name, beta):
    with pytest.raises(ValueError, match="beta must be a finite number >= 0"):
        make(name, beta=beta)
