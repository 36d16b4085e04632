"""Many threads on one policy without a lock of the caller's: nothing is torn, lost or done twice."""

import copy
import itertools
import pickle
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import scipy.sparse
from lineup_cases import VARIANTS, make

from optimist.bandits import ACB, LinTS, LinUCB, load
from optimist.bandits.locking import ReadersWriterLock

THREADS, D = 4, 60
every_policy = pytest.mark.parametrize("name", VARIANTS)


def at_once(*tasks):
    """Runs the tasks in threads that start together; an error in one of them is raised here."""
    barrier = threading.Barrier(len(tasks))

    def run(task):
        barrier.wait(timeout=60)
        return task()

    with ThreadPoolExecutor(len(tasks)) as pool:
        return [future.result(timeout=120) for future in [pool.submit(run, task) for task in tasks]]


def distance_from_inverse(policy, x):
    """Max |P Sigma - I|, Sigma summed from the samples."""
    lower = np.tril(policy._arrays["inverse"][0, 0])
    inverse = lower + np.tril(lower, -1).T
    return np.abs(inverse @ (policy.ridge * np.eye(x.shape[1]) + x.T @ x) - np.eye(x.shape[1])).max()


def test_updates_from_many_threads_are_all_there_and_whole():
    # Without the lock 1e-4 to 0.1 on two cores; by one thread 1e-14. The estimates are those of the normal equations.
    rng, d = np.random.default_rng(0), 200  # an update of 100 rows takes milliseconds, so that updates meet
    x = rng.normal(size=(THREADS, 12, 100, d))
    rewards = rng.normal(size=(THREADS, 12, 100))
    policy = LinUCB(d)
    question = rng.normal(size=(10, d))

    def learn(i):
        for rows, values in zip(x[i], rewards[i], strict=True):
            policy.partial_fit(rows, values)
            policy.predict(question)

    at_once(*(lambda i=i: learn(i) for i in range(THREADS)))
    rows = x.reshape(-1, d)
    assert policy.n_samples == len(rows)
    assert distance_from_inverse(policy, rows) < 1e-10
    gram = np.eye(d) + rows.T @ rows
    np.testing.assert_allclose(policy.coefficients, np.linalg.solve(gram, rows.T @ rewards.ravel()), atol=1e-10)


@pytest.mark.parametrize("name", ["acb", "acb-sgd", "acb-rerandomized", "lints", "ensemble-sampling"])
def test_the_state_is_that_of_some_order_of_the_updates(name):
    # Bit by bit: the noise of an update depends on its place in the order. Two threads with 3 updates have 20 orders.
    x = np.random.default_rng(1).normal(size=(2, 3, D))
    expected = set()
    for first in itertools.combinations(range(6), 3):
        policy = make(name, n_features=D)
        queues = [iter(x[0]), iter(x[1])]
        for turn in range(6):
            policy.partial_fit(next(queues[turn not in first]), 1.0)
        expected.add(policy._arrays["columns"].tobytes())
    for _ in range(20):
        policy = make(name, n_features=D)
        at_once(*(lambda p=policy, rows=rows: [p.partial_fit(row, 1.0) for row in rows] for rows in x))
        assert policy._arrays["columns"].tobytes() in expected


@every_policy
def test_decisions_and_updates_at_once_leave_every_policy_sound(name):
    rng = np.random.default_rng(2)
    policy = make(name, n_features=D)
    x = rng.normal(size=(THREADS, 40, 10, D)) / np.sqrt(D)

    def serve(sets):
        for rows in sets:
            action = policy.predict(rows)
            policy.partial_fit(rows[action], float(rows[action, 0]))
            policy.probabilities(rows, draws=2)
            policy.scores(rows)

    at_once(*(lambda sets=sets: serve(sets) for sets in x))
    assert policy.n_samples == THREADS * 40
    assert all(np.isfinite(array).all() for array in policy._arrays.values())


def test_concurrent_decisions_of_a_randomized_policy_draw_numbers_of_their_own():
    # The same numbers twice would be the same scores, and so the same decision, in every pair.
    x = np.random.default_rng(3).normal(size=(50, D))
    policy = LinTS(D, beta=1.0)
    runs = at_once(*(lambda: [policy.predict(x) for _ in range(200)] for _ in range(THREADS)))
    assert all(a != b for a, b in itertools.combinations(runs, 2))


def test_one_thread_alone_never_forks():
    x = np.random.default_rng(3).normal(size=(50, 20, 4))
    policy, other = LinTS(4), LinTS(4)
    before = policy.streams
    assert [policy.predict(rows) for rows in x] == list(other.predict(x))
    assert (policy.streams != before).any()
    np.testing.assert_array_equal(policy.streams, other.streams)


def test_readers_do_not_wait_for_each_other_and_a_writer_waits_for_all():
    lock, inside, leave, log = ReadersWriterLock(), threading.Barrier(3), threading.Event(), []

    def read():
        with lock.reading:
            inside.wait(timeout=30)  # passes only when both readers and this test are here at once
            leave.wait(timeout=30)
            log.append("read")

    def write():
        with lock.writing:
            log.append("write")

    def read_late():
        with lock.reading:
            log.append("late")

    with ThreadPoolExecutor(4) as pool:
        readers = [pool.submit(read) for _ in range(2)]
        inside.wait(timeout=30)
        writer = pool.submit(write)
        while not lock.is_writer_here:
            pass
        late = pool.submit(read_late)
        assert not writer.done()
        leave.set()
        for future in (*readers, writer, late):
            future.result(timeout=30)
    assert log == ["read", "read", "write", "late"]
    assert not lock.inside
    assert not lock.is_writer_here


def test_what_ctrl_c_left_behind_stops_nobody():
    # It may strike after a lock was taken and before ``with`` knows it: as if these lines had been the last ones.
    policy = LinTS(3)
    expected = LinTS(3).partial_fit(np.ones(3), 1.0).predict(np.random.default_rng(0).normal(size=(9, 3)))
    policy._lock.inside.append(threading.get_ident())
    policy._lock.draws.acquire()
    policy._lock.gate.acquire()
    policy._lock.is_writer_here = True
    policy.partial_fit(np.ones(3), 1.0)
    policy._lock.inside.append(threading.get_ident())
    assert policy.predict(np.random.default_rng(0).normal(size=(9, 3))) == expected
    at_once(lambda: policy.partial_fit(np.ones(3), 1.0), lambda: policy.predict(np.eye(3)))
    assert policy.n_samples == 2


def test_an_error_lets_go_of_the_lock():
    policy = ACB(3)
    with pytest.raises(RuntimeError, match="never changes"):
        policy.snapshot().partial_fit(np.ones(3), 1.0)
    policy._ensemble.regression.columns[...] = np.nan
    with pytest.raises(FloatingPointError, match="not finite"):
        policy.predict(np.eye(3))
    policy.partial_fit(np.ones(3), 1.0)
    assert at_once(lambda: policy._lock.draws.acquire(blocking=False)) == [True]  # free for another thread
    with policy._lock.writing:
        pass


def test_an_action_whose_score_is_not_finite_is_not_silently_passed_over():
    policy = ACB(3)
    policy._ensemble.regression.columns[0, 0, 1] = np.inf
    with pytest.raises(FloatingPointError, match="not finite"):
        policy.predict(np.eye(3))
    assert policy.predict(np.eye(3), mask=[True, False, True]) in (0, 2)


# Snapshots and copies ---------------------------------------------------------------------------------------------


@every_policy
def test_a_snapshot_stands_still_while_the_policy_learns(name):
    rng = np.random.default_rng(4)
    x, r = rng.normal(size=(30, 4)), rng.normal(size=30)
    policy = make(name).partial_fit(x[:10], r[:10])
    policy.predict(x)
    view = policy.snapshot()
    theta, mean = policy.coefficients, policy.mean(x)
    assert all(np.shares_memory(a, view._ensemble.arrays[key]) for key, a in policy._ensemble.arrays.items())
    policy.partial_fit(x[10:], r[10:])
    np.testing.assert_array_equal(view.coefficients, theta)
    np.testing.assert_array_equal(view.mean(x), mean)
    assert (policy.coefficients != theta).all()
    assert view.n_samples == 10
    assert 0 <= view.predict(x) < 30
    with pytest.raises(RuntimeError, match="a snapshot never changes"):
        view.partial_fit(x[0], 1.0)
    np.testing.assert_array_equal(view.coefficients, theta)


@every_policy
def test_a_copy_goes_on_as_the_policy_does(name):
    rng = np.random.default_rng(5)
    x, r = rng.normal(size=(30, 4)), rng.normal(size=30)
    policy = make(name).partial_fit(x[:10], r[:10])
    others = [policy.copy(), policy.snapshot(), copy.deepcopy(policy), pickle.loads(pickle.dumps(policy))]
    others[1] = others[1].copy()  # of a snapshot: learns again, with random numbers of its own
    for p in (policy, *others):
        p.partial_fit(x[10:], r[10:])
        if p is not others[1] or "sgd" not in name or ("averaging" in policy.parameters and p.averaging == "uniform"):
            np.testing.assert_allclose(p.coefficients, policy.coefficients)  # steps of sgd depend on the noise
    for p in (others[0], *others[2:]):
        assert p.predict(x) == policy.copy().predict(x)
        for key, array in p._ensemble.arrays.items():
            assert not np.shares_memory(array, policy._ensemble.arrays[key])


def test_a_snapshot_serves_in_threads_while_the_policy_learns_and_is_saved(tmp_path):
    rng = np.random.default_rng(6)
    x = rng.normal(size=(20, D))
    policy = ACB(D).partial_fit(x, x[:, 0])
    view = policy.snapshot()
    expected = view.scores(x)

    def serve():
        return [np.array_equal(view.scores(x), expected) and view.predict(x) == expected.argmax() for _ in range(200)]

    def learn():
        for i in range(100):
            policy.partial_fit(rng.normal(size=(2, D)), rng.normal(size=2))
            if i % 10 == 0:
                policy.save(tmp_path / "policy.npz")
                saved = load(tmp_path / "policy.npz")
                assert saved.n_samples == 20 + 2 * (i + 1)
        return [True]

    assert all(map(all, at_once(serve, serve, learn)))


def test_snapshots_draw_other_numbers_than_the_policy_and_each_other():
    x = np.random.default_rng(7).normal(size=(200, 30, 4))
    policy = LinTS(4)
    decisions = [tuple(p.predict(x)) for p in (policy.snapshot(), policy.snapshot(), policy)]
    assert len(set(decisions)) == 3
    policy = LinTS(4)
    again = [tuple(p.predict(x)) for p in (policy.snapshot(), policy.snapshot(), policy)]
    assert again == decisions  # the same seed, the same run


def test_workers_that_were_forked_from_one_process_give_their_snapshots_seeds():
    # A fork copies the policy, its lock's counters included: a pickled copy stands for it here.
    x = np.random.default_rng(7).normal(size=(200, 30, 4))
    workers = [pickle.loads(pickle.dumps(LinTS(4))) for _ in range(2)]
    same = [tuple(p.snapshot().predict(x)) for p in workers]
    assert same[0] == same[1]
    seeded = [tuple(p.snapshot(seed=i).predict(x)) for i, p in enumerate(workers)]
    assert len({*same, *seeded}) == 3
    assert tuple(LinTS(4).snapshot(seed=1).predict(x)) == seeded[1]
    with pytest.raises(ValueError, match="seed must be a non-negative integer"):
        workers[0].snapshot(seed=-1)


def test_decisions_of_one_policy_meet_inside(monkeypatch):
    # Each waits within the decision for the other: if one waited for the other's end, the barrier would break.
    inside, evaluate = threading.Barrier(2), LinUCB._evaluate

    def meet(self, *arguments):
        inside.wait(timeout=30)
        return evaluate(self, *arguments)

    policy = LinUCB(3).partial_fit(np.ones(3), 1.0)
    monkeypatch.setattr(LinUCB, "_evaluate", meet)
    for served in (policy, policy.snapshot()):
        at_once(*(lambda p=served: p.predict(np.eye(3)) for _ in range(2)))


def test_a_snapshot_is_read_without_a_lock():
    view = LinUCB(3).snapshot()
    with view._lock.writing:  # nobody has a reason to take it; a reader would wait for ever
        assert at_once(lambda: view.predict(np.eye(3)[:1])) == [0]
    lazy = ACB(3, history="lazy").snapshot()  # its decisions change what it remembers
    assert type(lazy._lock.reading) is type(ACB(3)._lock.reading)


def test_a_policy_that_keeps_only_the_columns_it_has_seen_is_shared_and_copied_too():
    # Its table of columns grows as it learns: a decision beside that would read what is being moved.
    rng, d = np.random.default_rng(8), 2**22
    rows = scipy.sparse.random_array((THREADS * 50 * 10, d), density=20 / d, format="csr", rng=rng)
    policy = ACB(d, solver="sgd", ensemble_size=4)
    assert policy._ensemble.regression.is_sparse
    first = rows[:10]
    policy.partial_fit(first, np.ones(10))
    view = policy.snapshot()
    scores = view.scores(first)

    def serve(i):
        for k in range(50):
            actions = rows[(50 * i + k) * 10 : (50 * i + k + 1) * 10]
            action, probability = policy.predict(actions, return_probability=True)
            assert 0 < probability <= 1
            policy.partial_fit(actions[action : action + 1], np.ones(1))
            assert len(set(policy.slate(actions, 3))) == 3

    at_once(*(lambda i=i: serve(i) for i in range(THREADS)))
    assert policy.n_samples == 10 + THREADS * 50
    np.testing.assert_array_equal(view.scores(first), scores)
    kept = policy._arrays["keys"]
    assert len(set(kept.tolist())) == len(kept)  # no column twice
    assert np.isfinite(policy._arrays["rows"]).all()
