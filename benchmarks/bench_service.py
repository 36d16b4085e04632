"""The example service under load on loopback, beside the bare policy: decisions per second, median and p99.

Clients keep a connection each and send a decision and its reward in turn, as fast as they are answered. The service
saves every 1,000 updates, so that the largest delays include those of saving.

Threads that share a policy wait for each other only while Python itself runs: small decisions are nearly all Python,
large ones nearly all compiled loops, which run side by side. Both are timed, with one thread and with two.

    python benchmarks/bench_service.py [--quick] [--out results/benchmarks]
"""

import argparse
import csv
import http.client
import json
import os
import platform
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import numpy as np

from optimist import bandits

SERVICE = Path(__file__).parents[1] / "examples" / "bandit_service" / "service.py"
D, K = 20, 10


def bare(rounds: int) -> list[float]:
    """Seconds of every decision of the policy itself; it learns in between."""
    rng, policy, seconds = np.random.default_rng(0), bandits.ACB(D), []
    policy.partial_fit(np.ones(D), 0.0)
    policy.predict(np.ones((K, D)), return_probability=True)  # compiles
    for _ in range(rounds):
        actions = rng.normal(size=(K, D))
        start = time.perf_counter()
        action, _ = policy.predict(actions, return_probability=True)
        seconds.append(time.perf_counter() - start)
        policy.partial_fit(actions[action], 1.0)
    return seconds


def shared(d: int, threads: int, duration: float, is_snapshot: bool) -> list[float]:
    """Seconds of every decision of one LinUCB that so many threads ask at once."""
    policy, actions = bandits.LinUCB(d), np.random.default_rng(0).normal(size=(K, d))
    policy.partial_fit(actions[0], 0.0)
    served = policy.snapshot() if is_snapshot else policy
    served.predict(actions)  # compiles
    lists: list[list[float]] = [[] for _ in range(threads)]
    until = time.perf_counter() + duration

    def ask(seconds: list[float]) -> None:
        while not seconds or time.perf_counter() < until:
            start = time.perf_counter()
            served.predict(actions)
            seconds.append(time.perf_counter() - start)

    asking = [threading.Thread(target=ask, args=(seconds,)) for seconds in lists]
    for thread in asking:
        thread.start()
    for thread in asking:
        thread.join()
    return [value for own in lists for value in own]


def client(port: int, until: float, seconds: list[float]) -> None:
    """Decides and rewards in turn until the time is over; notes how long each decision took to come back."""
    rng = np.random.default_rng(threading.get_ident())
    bodies = [json.dumps({"actions": rng.normal(size=(K, D)).tolist()}) for _ in range(50)]
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    connection.connect()
    connection.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    while time.perf_counter() < until:
        start = time.perf_counter()
        answer = post(connection, "/decide", bodies[len(seconds) % 50])
        seconds.append(time.perf_counter() - start)
        post(connection, "/reward", json.dumps({"decision": answer["decision"], "reward": 1.0}))
    connection.close()


def post(connection: http.client.HTTPConnection, path: str, body: str) -> dict[str, int]:
    """The answer, decoded."""
    connection.request("POST", path, body, {"content-type": "application/json"})
    with connection.getresponse() as answer:
        content = answer.read()
        if answer.status != 200:
            raise RuntimeError(f"{path} was answered with {answer.status}: {content[:200]!r}")
    return json.loads(content)


def served(clients: int, duration: float, fsync: bool) -> tuple[list[float], float]:
    """Seconds of every decision of a service with so many clients, and the CPU seconds of the service per decision."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, SERVICE, "--folder", folder, "--n-features", D, "--port", port]
        process = subprocess.Popen([*map(str, command), *(["--fsync"] if fsync else [])])
        try:
            wait_for(port, process)
            lists: list[list[float]] = [[] for _ in range(clients)]
            before, until = cpu_seconds(process.pid), time.perf_counter() + duration
            threads = [threading.Thread(target=client, args=(port, until, seconds)) for seconds in lists]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            used = cpu_seconds(process.pid) - before
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(60)
    seconds = [value for own in lists for value in own]
    return seconds, used / len(seconds)


def wait_for(port: int, process: subprocess.Popen) -> None:
    """Returns when the service listens."""
    for _ in range(2400):
        if process.poll() is not None:
            raise RuntimeError(f"the service ended with {process.returncode}")
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
            return
        except OSError:
            time.sleep(0.05)
    raise RuntimeError("the service did not start within two minutes")


def cpu_seconds(pid: int) -> float:
    """User and system time of a process so far, from /proc; not a number elsewhere than on Linux."""
    stat = Path(f"/proc/{pid}/stat")
    if not stat.exists():
        return float("nan")
    fields = stat.read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def main() -> None:
    """Measures, prints, writes ``service.csv`` and ``service.md``."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="a second each: a smoke test")
    parser.add_argument("--out", type=Path, default=Path("results/benchmarks"))
    options = parser.parse_args()
    load, duration = os.getloadavg()[0], 1.0 if options.quick else 10.0
    rows = [row("bare policy", alone := bare(200 if options.quick else 20_000), sum(alone), float("nan"))]
    for d in (D, 1_000):
        for threads, is_snapshot in [(1, False), (2, False), (2, True)]:
            name = f"{'snapshot of ' if is_snapshot else ''}LinUCB, d = {d:,}, threads: {threads}"
            rows.append(row(name, shared(d, threads, duration / 4, is_snapshot), duration / 4, float("nan")))
    for clients, fsync in [(1, False), (4, False), (4, True)]:
        seconds, used = served(clients, duration, fsync)
        name = f"service, {clients} client{'s' if clients > 1 else ''}{', --fsync' if fsync else ''}"
        rows.append(row(name, seconds, duration, used))
    options.out.mkdir(parents=True, exist_ok=True)
    with (options.out / "service.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, rows[0])
        writer.writeheader()
        writer.writerows(rows)
    names = list(rows[0])
    table = [names, ["---"] * len(names), *([str(value) for value in r.values()] for r in rows)]
    conditions = (
        f"{K} actions of {D} features, a reward after every decision, {duration:g} s each, clients in one process on "
        f"the same machine; {os.cpu_count()} cores, {platform.system()}, Python {platform.python_version()}, load "
        f"average {load:.1f} at the start and {os.getloadavg()[0]:.1f} at the end. With a load above "
        f"{os.cpu_count()} others took most of the processor: rates and p99 of an idle machine are better, and the CPU "
        "time of the service per decision (its reward included) is the number to compare."
    )
    text = "\n".join(["# The bandit service under load", "", conditions, "", *(f"| {' | '.join(r)} |" for r in table)])
    (options.out / "service.md").write_text(text + "\n")
    print(text)


def row(name: str, seconds: list[float], duration: float, used: float) -> dict[str, object]:
    """One line of the table."""
    median, p99 = np.quantile(seconds, [0.5, 0.99])
    return {
        "what": name,
        "decisions": len(seconds),
        "decisions per second": round(len(seconds) / duration),
        "median ms": f"{1000 * median:.3f}",
        "p99 ms": f"{1000 * p99:.3f}",
        "service CPU ms per decision": "" if np.isnan(used) else f"{1000 * used:.3f}",
    }


if __name__ == "__main__":
    main()
