"""Calls are made again when their worker dies, as long as they get further; results do not depend on who made them."""

import pytest

from executor_calls import broken, doubled, dying_until
from optimist.studies.attempts import Status, attempted
from optimist.studies.executors import EngineFailed, InProcess, Processes, WorkerDied


def test_a_call_whose_worker_dies_is_made_again_and_the_others_are_not_touched(tmp_path):
    seen, attempts, told = [], [], tmp_path / "told"

    def submit(name, attempt):
        attempts.append((name, attempt))
        if name == "dies":
            return workers.submit(dying_until, str(tmp_path / name), 2, str(told))
        return workers.submit(dying_until, str(tmp_path / name), 0)

    def watch(status, running):
        seen.append((status, running))
        if running == ["dies"] and status.retried == 2:
            told.touch()  # the third attempt lasts until then

    with Processes(2) as workers:
        found = attempted(["dies", "lives"], submit, workers, retries=2, watch=watch)
        assert {name: future.result() for name, future in found} == {"dies": 3, "lives": 1}
    assert sorted(attempts) == [("dies", 1), ("dies", 2), ("dies", 3), ("lives", 1)]
    assert seen[-1] == (Status(0, 1, 2), [])
    assert told.exists()


@pytest.mark.parametrize(("gains", "attempts"), [([0] * 9, 3), ([5, 5, 6, 6, 6], 5), ([1, 2, 3, 4, 4, 4], 6)])
def test_it_is_given_up_when_as_many_attempts_as_allowed_got_no_further(gains, attempts):
    made = []

    def dead(name, attempt):
        made.append(attempt)
        return workers.submit(broken_worker)

    with InProcess() as workers:
        found = attempted(["it"], dead, workers, retries=2, reached=lambda _: gains[len(made) - 1])
        assert [type(future.exception()) for _, future in found] == [WorkerDied]
    assert made == list(range(1, attempts + 1))


def broken_worker():
    raise WorkerDied("gone")


def test_an_error_of_the_call_is_its_answer_and_a_cluster_that_fails_ends_all():
    with InProcess() as workers:
        ((_, future),) = attempted([1], lambda x, _: workers.submit(broken, x), workers, retries=3)
        assert isinstance(future.exception(), ValueError)

        def lost():
            raise EngineFailed("the head of the cluster is gone")

        with pytest.raises(EngineFailed, match="head of the cluster"):
            list(attempted([1, 2], lambda *_: workers.submit(lost), workers, retries=3))


def test_no_more_calls_are_handed_out_than_there_are_workers():
    with InProcess() as workers:
        made = []
        found = attempted(range(5), lambda x, _: made.append(x) or workers.submit(doubled, x), workers, retries=0)
        assert next(found)[1].result() == 0
        assert made == [0]
        assert [future.result() for _, future in found] == [2, 4, 6, 8]


@pytest.mark.parametrize(
    ("status", "words"),
    [
        (Status(), ""),
        (Status(1, 1), "1 running on 1 node"),
        (Status(7, 3, 2), "7 running on 3 nodes, 2 retried"),
        (Status(0, 0, 2), "2 retried"),
    ],
)
def test_a_status_says_running_nodes_and_retried(status, words):
    assert str(status) == words
