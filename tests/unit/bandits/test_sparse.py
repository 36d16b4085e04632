"""Sparse rows against the same rows with their zeros, the table of columns against an array of all, large d."""

import tracemalloc

import numpy as np
import pytest
from lineup_cases import VARIANTS, make
from scipy import sparse, stats

from optimist import bandits
from optimist.bandits import ACB, DiagonalLinUCB, EnsembleSampling, EpsilonGreedy, Greedy, sgd
from optimist.bandits.compiled.streams import counted_normal, fill_counted

NATIVE = {
    "acb": lambda d, **rest: ACB(d, solver="sgd", **rest),
    "diagonal-linucb": DiagonalLinUCB,
    "greedy": lambda d, **rest: Greedy(d, solver="sgd", **rest),
    "epsilon-greedy": lambda d, **rest: EpsilonGreedy(d, solver="sgd", **rest),
    "ensemble-sampling": lambda d, **rest: EnsembleSampling(d, solver="sgd", **rest),
}
native = pytest.mark.parametrize("name", NATIVE)
D = 30


@pytest.fixture
def rng():
    return np.random.default_rng(8)


def actions(rng, n=5, d=D):
    return rng.normal(size=(n, d)) * (rng.random((n, d)) < 0.3)


def played(policy, rng, as_given, rounds=40, arm=False):
    """The actions of a run in which every set of actions passes through ``as_given``."""
    chosen = []
    for _ in range(rounds):
        x = actions(rng, 1 if arm else 5)
        action = policy.predict(as_given(x))
        row = x[[0 if arm else action]]
        reward = [float(row.sum() + (action if arm else 0))]
        policy.partial_fit(as_given(row), reward, [action] if arm else None, sample_weight=[1 + action / 2])
        chosen.append(action)
    return chosen


@native
@pytest.mark.parametrize(
    "options", [{}, {"decay": 0.95}, {"n_arms": 3}, {"n_arms": 3, "decay": 0.9}, {"dtype": "float32"}]
)
@pytest.mark.parametrize("is_table", [False, True])
def test_sparse_rows_decide_and_learn_as_the_same_rows_with_zeros(name, options, is_table, rng, monkeypatch):
    options = options | {
        "ridge": 100.0
    }  # the prior does not outweigh a sample: see the test of the opposite in test_sgd
    dense, given_sparse, dense_in_table = (NATIVE[name](D, **options) for _ in range(3))
    if is_table:
        monkeypatch.setattr(sgd, "DENSE_BYTES", 0)
        given_sparse, dense_in_table = (NATIVE[name](D, **options) for _ in range(2))
        assert given_sparse._ensemble.regression.is_sparse
    runs = [
        played(policy, np.random.default_rng(1), as_given, arm="n_arms" in options)
        for policy, as_given in ((dense, np.array), (given_sparse, sparse.csr_matrix), (dense_in_table, np.array))
    ]
    assert runs[0] == runs[1] == runs[2]
    x = actions(rng, 1 if "n_arms" in options else 6)
    expected = dense.mean(x), dense.bonus(x)
    for policy, given in ((given_sparse, sparse.csr_array(x)), (dense_in_table, x), (dense, sparse.coo_matrix(x))):
        np.testing.assert_allclose(policy.mean(given), expected[0], rtol=1e-5 if options.get("dtype") else 1e-9)
        np.testing.assert_allclose(policy.bonus(given), expected[1], rtol=1e-5 if options.get("dtype") else 1e-9)
        np.testing.assert_allclose(policy.scores(given), sum(expected), rtol=1e-5 if options.get("dtype") else 1e-9)
    np.testing.assert_allclose(given_sparse.coefficients, dense.coefficients, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", VARIANTS)
def test_every_policy_takes_sparse_rows_those_with_a_matrix_with_their_zeros(name, rng):
    dense, given_sparse = make(name, ridge=10.0), make(name, ridge=10.0)
    for _ in range(10):
        x = actions(rng, d=4)
        action = dense.predict(x)
        assert action == given_sparse.predict(sparse.csr_matrix(x))
        dense.partial_fit(x[action], 1.0)
        given_sparse.partial_fit(sparse.csr_matrix(x[[action]]), 1.0)
    np.testing.assert_allclose(dense.scores(x), given_sparse.scores(sparse.csc_matrix(x)), rtol=1e-9)


@native
def test_lists_of_sets_masks_and_batches(name, rng):
    policy = NATIVE[name](D)
    played(policy, rng, sparse.csr_matrix, rounds=10)
    sets = [actions(rng, n) for n in (2, 5, 3)]
    given = [sparse.csr_matrix(rows) for rows in sets]
    dense_scores = policy.scores(sets)
    for i, rows in enumerate(sets):
        np.testing.assert_allclose(policy.scores(given)[i, : len(rows)], dense_scores[i, : len(rows)], rtol=1e-9)
    chosen = policy.predict(given)
    assert all(action < len(rows) for action, rows in zip(chosen, sets, strict=True))
    equal = [given[1], given[1]]
    mask = np.array([[False] * 4 + [True], [True] + [False] * 4])
    assert policy.predict(equal, mask).tolist() == [4, 0]
    with pytest.raises(ValueError, match="neither a mask nor arms"):
        policy.predict(given, mask)


def messy(x):
    """The same matrix with unsorted indices, every value in two halves, and stored zeros."""
    coo = sparse.coo_matrix(x)
    rows, columns = np.concatenate([coo.row, coo.row, [0]]), np.concatenate([coo.col, coo.col, [3]])
    values = np.concatenate([coo.data / 2, coo.data / 2, [0.0]])
    order = np.lexsort((-columns, rows))
    indptr = np.searchsorted(rows[order], np.arange(len(x) + 1))
    return sparse.csr_matrix((values[order], columns[order], indptr), shape=x.shape)


@pytest.mark.parametrize("index", [np.int32, np.int64])
@pytest.mark.parametrize("kind", [np.float32, np.float64, np.int8, bool])
def test_every_way_to_write_a_sparse_matrix_down_is_read_and_none_is_written_to(index, kind, rng):
    policy = ACB(D, solver="sgd")
    x = np.round(3 * actions(rng)).astype(kind)
    matrix = sparse.csr_matrix(x)
    matrix.indices, matrix.indptr = matrix.indices.astype(index), matrix.indptr.astype(index)
    np.testing.assert_array_equal(policy.scores(matrix), policy.scores(x.astype(float)))
    if kind is np.float64:
        before = messy(x)
        given = before.copy()
        np.testing.assert_allclose(policy.scores(given), policy.scores(x), rtol=1e-12)
        np.testing.assert_array_equal(given.indices, before.indices)


def test_scikit_learns_encoders_are_taken_as_they_come():
    from sklearn.feature_extraction import DictVectorizer, FeatureHasher
    from sklearn.preprocessing import OneHotEncoder

    users = [{"age": 31, "city": "Oslo"}, {"age": 7, "city": "Bergen"}, {"city": "Oslo"}]
    encoded = {
        "hashed": FeatureHasher(2**20, dtype=np.float32).transform(users),
        "named": DictVectorizer().fit_transform(users),
        "one-hot": OneHotEncoder().fit_transform([["a", "x"], ["b", "y"], ["a", "y"]]),
    }
    for rows in encoded.values():
        policy = ACB(rows.shape[1], solver="sgd", beta=0.0)
        for _ in range(60):
            policy.partial_fit(rows, [1.0, 0.0, 0.5])
        np.testing.assert_allclose(policy.mean(rows), [1.0, 0.0, 0.5], atol=0.3)
        assert policy.predict(rows) == 0


@native
def test_bad_sparse_input_is_refused_and_changes_nothing(name, rng):
    policy = NATIVE[name](D)
    played(policy, rng, sparse.csr_matrix, rounds=5)
    before = {key: array.copy() for key, array in policy._arrays.items()}
    good = sparse.csr_matrix(actions(rng))
    poisoned = good.copy()
    poisoned.data[3] = np.nan
    outside = good.copy()
    outside.indices = outside.indices + D
    torn, backward = good.copy(), good.copy()
    torn.indptr = torn.indptr + np.array([0, 0, 0, 0, 0, 99], torn.indptr.dtype)
    backward.indptr = backward.indptr[[0, 3, 2, 1, 4, 5]]
    for bad, message in [
        (good[:, :7], r"X must be \(n, 30\)"),
        (poisoned, "X must be finite, got nan"),
        (good[:0], "at least one action"),
        ([good, good.toarray()], "sparse matrices only"),
        (good * 1j, "must hold real numbers"),
        (outside, "column indices outside"),
        (torn, "row pointers that do not fit"),
        (backward, "row pointers that do not fit"),
    ]:
        with pytest.raises(ValueError, match=message):
            policy.predict(bad)
    with pytest.raises(ValueError, match="one for each row of x"):
        policy.partial_fit(good, 1.0)
    with pytest.raises(ValueError, match="x must be finite"):
        policy.partial_fit(poisoned, np.zeros(5))
    for key, array in policy._arrays.items():
        np.testing.assert_array_equal(array, before[key])


@native
def test_sixteen_million_features_cost_what_has_been_seen(name, rng, tmp_path):
    d, count = 2**24, 40
    columns = rng.integers(0, d, size=(count, 10, 50))
    sets = [sparse.csr_matrix((np.ones(500), rows.ravel(), np.arange(0, 501, 50)), shape=(10, d)) for rows in columns]
    tracemalloc.start()
    try:
        policy = NATIVE[name](d)
        for x in sets:
            policy.partial_fit(x[[policy.predict(x)]], [1.0])
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    # 2,000 columns of 33 numbers, kept in arrays that double, with a table: 4 MB. All columns would be 4 GB.
    assert peak < 10e6
    assert policy._ensemble.regression.n_columns <= 50 * count
    policy.save(tmp_path / "policy.npz")
    again = bandits.load(tmp_path / "policy.npz")
    np.testing.assert_array_equal(again.scores(sets[0]), policy.scores(sets[0]))
    again.partial_fit(sets[1], np.ones(10))
    policy.partial_fit(sets[1], np.ones(10))
    np.testing.assert_array_equal(again.scores(sets[1]), policy.scores(sets[1]))


def test_a_saved_table_with_impossible_keys_is_refused(tmp_path, monkeypatch, rng):
    monkeypatch.setattr(sgd, "DENSE_BYTES", 0)
    policy = ACB(D, solver="sgd")
    played(policy, rng, sparse.csr_matrix, rounds=5)
    arrays = dict(policy._arrays)
    for keys in (arrays["keys"] + D, -arrays["keys"] - 1, np.zeros_like(arrays["keys"]), arrays["keys"].astype(float)):
        with pytest.raises(ValueError, match="the saved keys must be"):
            ACB(D, solver="sgd").restore(arrays | {"keys": keys})


def test_arms_are_added_to_a_table(monkeypatch, rng):
    dense = ACB(D, solver="sgd", n_arms=2, ridge=100.0)
    monkeypatch.setattr(sgd, "DENSE_BYTES", 0)
    table = ACB(D, solver="sgd", n_arms=2, ridge=100.0)
    x = actions(rng, 20)
    for policy in (dense, table):
        policy.partial_fit(x, np.ones(20), np.arange(20) % 2)
        policy.add_arm(like=1)
        policy.add_arm()
        policy.partial_fit(x, np.ones(20), np.arange(20) % 4)
    np.testing.assert_allclose(table.scores(x[:1]), dense.scores(x[:1]), rtol=1e-9)


def test_the_counted_normals_are_normal_and_depend_on_key_and_index():
    draws = np.array([[counted_normal(np.uint64(key), index) for index in range(200)] for key in range(500)])
    # 100,000 draws: mean within 5 / sqrt(n), variance within 5 sqrt(2 / n): a false alarm in 1.7 million each.
    assert abs(draws.mean()) < 5 / np.sqrt(draws.size)
    assert abs(draws.var() - 1) < 5 * np.sqrt(2 / draws.size)
    # Correlations of neighbors in either direction: sd 1 / sqrt(n) each.
    for a, b in ((draws[1:], draws[:-1]), (draws[:, 1:], draws[:, :-1])):
        assert abs((a * b).mean()) < 5 / np.sqrt(a.size)
    # Kolmogorov and Smirnov: the steps of 1 / 4,096 are below what 100,000 draws resolve; p < 1e-6 once in a million.
    assert stats.kstest(draws.ravel(), "norm").pvalue > 1e-6
    row = np.empty(200)
    fill_counted(np.uint64(3), 2.0, row)
    np.testing.assert_array_equal(row, 2 * draws[3])
