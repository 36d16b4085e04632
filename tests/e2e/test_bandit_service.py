"""The example service: late rewards, a kill at any moment, a restart that has lost nothing that was answered."""

import http.client
import importlib.util
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

from optimist import bandits

EXAMPLE = Path(__file__).parents[2] / "examples" / "bandit_service"
D, K = 3, 4
THETA = np.array([1.0, -0.5, 0.3])


def durable_module():
    spec = importlib.util.spec_from_file_location("durable", EXAMPLE / "durable.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules["durable"] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


durable = durable_module()


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Client:
    def __init__(self, port):
        self.address = f"http://127.0.0.1:{port}"

    def get(self, path):
        with urllib.request.urlopen(self.address + path, timeout=60) as answer:
            return answer.read().decode()

    def post(self, path, **body):
        """Status and answer; an OSError if nobody answers."""
        request = urllib.request.Request(
            self.address + path, json.dumps(body).encode(), {"content-type": "application/json"}
        )
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                return answer.status, json.loads(answer.read())
        except urllib.error.HTTPError as refusal:
            with refusal:
                return refusal.code, json.loads(refusal.read())

    def metric(self, name):
        return float(next(line.split()[1] for line in self.get("/metrics").splitlines() if line.startswith(name + " ")))


@contextmanager
def running(folder, *options):
    port = free_port()
    command = [sys.executable, EXAMPLE / "service.py", "--folder", folder, "--n-features", str(D), "--port", str(port)]
    process = subprocess.Popen([*command, *options], stderr=subprocess.PIPE, text=True)
    client = Client(port)
    try:
        for _ in range(1200):
            assert process.poll() is None, process.stderr.read()
            try:
                client.get("/health")
                break
            except OSError:
                time.sleep(0.05)
        yield process, client
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
        try:
            process.wait(60)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(60)
        process.stderr.close()


def play(client, rng, log):
    """Decisions whose rewards come three decisions later, until the service is gone. Fills ``log`` with what was
    answered: ("decision", number, row) and ("reward", number, value)."""
    waiting = []
    try:
        while True:
            actions = rng.normal(size=(K, D)).tolist()
            status, answer = client.post("/decide", actions=actions)
            assert status == 200, answer
            row = actions[answer["action"]]
            log.append(("decision", answer["decision"], row))
            waiting.append((answer["decision"], float(THETA @ row)))
            if len(waiting) > 3:
                number, reward = waiting.pop(0)
                log.append(("asked", number, reward))
                status, answer = client.post("/reward", decision=number, reward=reward)
                assert status == 200, answer
                log[-1] = ("reward", number, reward)
    except (OSError, http.client.HTTPException):  # killed before or in the middle of an answer
        return


def test_a_kill_loses_nothing_that_was_answered(tmp_path):
    rng, log = np.random.default_rng(0), []
    with running(tmp_path / "state", "--save-every", "15") as (process, client):
        killer = threading.Thread(target=lambda: (time.sleep(3), process.send_signal(signal.SIGKILL)))
        killer.start()
        play(client, rng, log)
        killer.join()
    assert process.returncode == -signal.SIGKILL

    decided = {number: row for kind, number, row in log if kind == "decision"}
    learned = [(number, reward) for kind, number, reward in log if kind == "reward"]
    in_flight = [(number, reward) for kind, number, reward in log if kind == "asked"]  # at most the very last request
    assert len(in_flight) <= 1
    assert len(learned) >= 5
    with running(tmp_path / "state") as (process, client):
        # The request that the kill interrupted may be on record, answered or not; everything answered must be.
        assert client.metric("bandit_decisions_total") - len(decided) in (0, 1)
        updates = client.metric("bandit_updates_total")
        assert updates - len(learned) in ((0, 1) if in_flight else (0,))
        if updates > len(learned):
            learned += in_flight
        assert client.post("/reward", decision=learned[0][0], reward=9.0)[0] == 409
        assert client.post("/reward", decision=10**9, reward=9.0)[0] == 404
        for number in decided.keys() - {number for number, _ in learned}:
            learned.append((number, float(THETA @ decided[number])))
            assert client.post("/reward", decision=number, reward=learned[-1][1])[0] == 200
    assert process.returncode in (0, -signal.SIGTERM)

    kept = [bandits.load(path) for path in (tmp_path / "state").glob("policy-*.npz")]
    assert len(kept) == 1
    oracle = bandits.ACB(D)
    for number, reward in learned:
        oracle.partial_fit(np.array(decided[number]), reward)
    np.testing.assert_array_equal(kept[0].coefficients, oracle.coefficients)
    assert kept[0].n_samples == len(learned)


def test_bad_requests_are_answered_in_words_and_change_nothing(tmp_path):
    with running(tmp_path / "state") as (_, client):
        for body, words in [
            ({"actions": [[1.0, 2.0]]}, "3"),
            ({"actions": [[1.0, 2.0, 3.0], [1.0]]}, "3"),
            ({"actions": []}, "at least 1"),
            ({"actions": [[1, 2, "x"]]}, "number"),
            ({"actions": [[1, 2, 3]], "mask": [False]}, "mask"),
            ({}, "required"),
        ]:
            status, answer = client.post("/decide", **body)
            assert status == 422, answer
            assert words in str(answer), answer
        assert client.metric("bandit_decisions_total") == 0


def test_a_folder_of_another_policy_is_refused(tmp_path):
    durable.DurablePolicy(tmp_path, bandits.ACB(D, beta=1.0)).close()
    command = [sys.executable, EXAMPLE / "service.py", "--folder", tmp_path, "--n-features", str(D)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 2
    assert "differs from what is asked for in beta" in done.stderr
    assert "Traceback" not in done.stderr


# The files themselves, without a server -------------------------------------------------------------------------------


def some_play(kept, rounds, rng):
    for i in range(rounds):
        number, _, probability = kept.decide(rng.normal(size=(K, D)))
        assert probability == 1
        if i % 3:
            kept.reward(number, float(i))


@pytest.mark.parametrize("saves", [0, 2])
def test_a_journal_cut_anywhere_loses_only_what_is_cut(tmp_path, saves):
    """A kill in the middle of a write, at every byte of the journal, also while a save is not complete yet."""
    kept = durable.DurablePolicy(tmp_path, bandits.ACB(D, ensemble_size=2))
    some_play(kept, 4, np.random.default_rng(0))
    for _ in range(saves):
        kept.begin_save()  # killed before it was written
        some_play(kept, 2, np.random.default_rng(1))
    files = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    last = max(name for name in files if name.startswith("journal"))
    whole = files[last]
    assert whole.count(b"\n") >= 3
    before = b"".join(content for name, content in files.items() if name.startswith("journal") and name != last)
    for length in range(0, len(whole) + 1, 3):
        for path in tmp_path.iterdir():
            path.unlink()
        for name, content in (files | {last: whole[:length]}).items():
            (tmp_path / name).write_bytes(content)
        again = durable.DurablePolicy(tmp_path, bandits.ACB(D, ensemble_size=2))
        entries = before.count(b"\n") + whole[:length].count(b"\n")
        assert again.counts.decisions + again.counts.updates == entries
        assert len(again.pending) == again.counts.decisions - again.counts.updates


def test_the_oldest_are_dropped_also_after_a_restart(tmp_path):
    kept = durable.DurablePolicy(tmp_path, bandits.ACB(D), max_pending=5)
    for _ in range(12):
        kept.decide(np.eye(K, D))
    again = durable.DurablePolicy(tmp_path, bandits.ACB(D), max_pending=5)
    assert list(again.pending) == list(kept.pending) == [7, 8, 9, 10, 11]
    assert again.counts.dropped == 7
    with pytest.raises(durable.Closed):
        again.reward(0, 1.0)


def test_a_damaged_line_is_named(tmp_path):
    some_play(durable.DurablePolicy(tmp_path, bandits.ACB(D)), 5, np.random.default_rng(0))
    journal = tmp_path / "journal-0.jsonl"
    lines = journal.read_bytes().splitlines(keepends=True)
    journal.write_bytes(b"".join([lines[0], b"nonsense\n", *lines[2:]]))
    with pytest.raises(ValueError, match=r"journal-0\.jsonl, line 2, is no line of a journal: b'nonsense'"):
        durable.DurablePolicy(tmp_path, bandits.ACB(D))


def test_a_full_disk_is_an_error_and_the_journal_stays_whole(tmp_path, monkeypatch):
    kept = durable.DurablePolicy(tmp_path, bandits.ACB(D))
    kept.decide(np.eye(K, D))
    write = os.write
    monkeypatch.setattr(os, "write", lambda opened, line: write(opened, line[:7]))
    with pytest.raises(OSError, match="disk full"):
        kept.decide(np.eye(K, D))
    monkeypatch.undo()
    kept.decide(np.eye(K, D))
    assert durable.DurablePolicy(tmp_path, bandits.ACB(D)).counts.decisions == 2
