"""One decision and one update, K = 10 actions: Optimist beside mabwiser, coba and Vowpal Wabbit's --rnd 32.

Every contestant sees the same features; what is timed is choosing an action and learning its reward, text or lists in
the contestant's own format being made beforehand. Contestants take turns within one run, and the median of their CPU
time in one thread is reported, which others on the machine hardly move. A contestant stops where one round takes
longer than PATIENCE seconds, or its matrix would not fit.

The sparse case has hashed features, 50 of them not zero: VW gets its text, and examples that were parsed beforehand,
which is not timed; Optimist gets scipy.sparse rows, and the row that was played is cut out before the clock runs, as
VW's label is written. VW keeps its weights in float32, Optimist in float64 unless told otherwise: both are timed. The
aims: 10 times as fast as VW with text, as fast as VW with parsed examples, and the same time at any d.

The batch case is a warm start from logs, 10,000 rows at d = 1,000, beside the normal equations of one regression, in
turns; the aim is 1.3 times their time.

    python benchmarks/bench_bandits.py [--quick] [--only sparse|batch|dense] [--out results/benchmarks]
"""

import argparse
import csv
import os
import platform
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
from scipy import sparse
from threadpoolctl import threadpool_limits

from optimist import bandits
from optimist.reporting.figures.bandits import draw_costs

K, M = 10, 32
PATIENCE = 5.0
TURN = 5  # rounds that a contestant plays in a row
SPARSE_TURN = 50  # the same of the shorter rounds on sparse rows
WARMING = 10  # rounds before them that are not counted
NONZEROS = 50
Step = Callable[[int], None]
Timed = Callable[[int], float]
"""Plays round i and returns the seconds that count."""
clock = time.process_time
"""CPU seconds of this process, in which every contestant runs in one thread."""


def ours(policy: bandits.Policy, contexts: np.ndarray) -> Step:
    """One shared model over the features of the actions."""

    def step(i: int) -> None:
        x = contexts[i]
        policy.partial_fit(x[policy.predict(x)], 1.0)

    return step


def ours_disjoint(policy: bandits.Policy, contexts: np.ndarray) -> Step:
    """One model per arm over a shared context: mabwiser's model."""

    def step(i: int) -> None:
        context = contexts[i, :1]
        policy.partial_fit(context[0], 1.0, arm=policy.predict(context))

    return step


def mabwiser_linucb(contexts: np.ndarray) -> Step:
    """mabwiser: one model per arm."""
    from mabwiser.mab import MAB, LearningPolicy

    mab = MAB(list(range(K)), LearningPolicy.LinUCB(alpha=1.0, l2_lambda=1.0))
    mab.fit(list(range(K)), [0.0] * K, contexts[0])

    def step(i: int) -> None:
        context = contexts[i, :1]
        mab.partial_fit([mab.predict(context)], [1.0], context)

    return step


def coba_linucb(contexts: np.ndarray) -> Step:
    """coba: one shared model over the features of the actions."""
    from coba.learners import LinUCBLearner

    learner = LinUCBLearner(features=["a"])
    lists = [[tuple(row) for row in x.tolist()] for x in contexts]

    def step(i: int) -> None:
        action = learner.predict(None, lists[i])[0]
        learner.learn(None, action, 1.0, 1.0)

    return step


def vw_rnd(contexts: np.ndarray) -> Step:
    """Vowpal Wabbit: one shared model, 32 noise regressors by SGD: the nearest relative of ACB with solver="sgd"."""
    from vowpalwabbit import Workspace

    workspace = Workspace(f"--cb_explore_adf --rnd {M} --quiet -b {max(18, int(np.log2(contexts.shape[2])) + 8)}")
    rows = [["| " + " ".join(f"{j}:{v:.6f}" for j, v in enumerate(row)) for row in x.tolist()] for x in contexts]
    labeled = [["0:-1.0:1.0 " + row for row in x] for x in rows]

    def step(i: int) -> None:
        probabilities = workspace.predict(rows[i])
        chosen = int(np.argmax(probabilities))
        workspace.learn([labeled[i][a] if a == chosen else rows[i][a] for a in range(K)])

    return step


def contestants(d: int, contexts: np.ndarray) -> Iterator[tuple[str, Callable[[], Step]]]:
    """Whoever can hold its state at this d (a matrix of d x d numbers may take 4 GB)."""
    single = contexts.astype(np.float32)
    yield "optimist ACB sgd", lambda: ours(bandits.ACB(d, solver="sgd", ensemble_size=M), contexts)
    yield (
        "optimist ACB sgd float32",
        lambda: ours(bandits.ACB(d, solver="sgd", ensemble_size=M, dtype="float32"), single),
    )
    yield "vw --rnd 32", lambda: vw_rnd(contexts)
    if 8 * d * d <= 4e9:
        yield "optimist ACB exact", lambda: ours(bandits.ACB(d, ensemble_size=M), contexts)
        yield "optimist LinUCB", lambda: ours(bandits.LinUCB(d), contexts)
        yield "coba LinUCB", lambda: coba_linucb(contexts)
    if 8 * d * d * K <= 4e9:
        yield "optimist LinUCB, disjoint", lambda: ours_disjoint(bandits.LinUCB(d, n_arms=K), contexts)
        yield "mabwiser LinUCB, disjoint", lambda: mabwiser_linucb(contexts)


def milliseconds(d: int, rounds: int) -> dict[str, float]:
    """The median time of a round of every contestant, who take turns."""
    contexts = np.random.default_rng(0).normal(size=(rounds + 1, K, d)) / np.sqrt(d)
    steps, times = {}, {}
    for name, make in contestants(d, contexts):
        step = make()
        start = clock()
        step(0)  # compiles, allocates
        step(0)
        if clock() - start < 2 * PATIENCE:
            steps[name], times[name] = step, []
        print(f"  d = {d:,}: {name} ready")
    for turn in range(0, rounds, TURN):
        for name, step in steps.items():
            step(0)  # the caches are another contestant's
            for i in range(1 + turn, 1 + min(rounds, turn + TURN)):
                start = clock()
                step(i)
                times[name].append(1e3 * (clock() - start))
    return {name: float(np.median(values)) for name, values in times.items()}


def hashed(rounds: int, d: int) -> list[sparse.csr_matrix]:
    """Sets of K actions with NONZEROS hashed features each, some of them often, most of them seldom."""
    rng = np.random.default_rng(0)
    often = rng.integers(0, d, size=1_000)
    starts = np.arange(0, K * NONZEROS + 1, NONZEROS)
    sets = []
    for _ in range(rounds):
        common = often[rng.integers(0, len(often), size=(K, NONZEROS // 2))]
        columns = np.concatenate([common, rng.integers(0, d, size=(K, NONZEROS - NONZEROS // 2))], axis=1)
        x = sparse.csr_matrix((np.ones(columns.size), columns.ravel(), starts), shape=(K, d))
        x.sum_duplicates()
        sets.append(x)
    return sets


def ours_sparse(policy: bandits.Policy, sets: list[sparse.csr_matrix]) -> Timed:
    """One shared model over sparse rows."""

    def step(i: int) -> float:
        start = clock()
        chosen = policy.predict(sets[i])
        elapsed = clock() - start
        row = sets[i][chosen]  # what was played, in the contestant's own format
        start = clock()
        policy.partial_fit(row, 1.0)
        return elapsed + clock() - start

    return step


def vw_sparse(options: str, sets: list[sparse.csr_matrix], is_parsed: bool) -> Timed:
    """Vowpal Wabbit with text, or with examples that were parsed before the clock runs."""
    from vowpalwabbit import Workspace

    workspace = Workspace(f"--cb_explore_adf {options} --quiet -b {int(np.log2(sets[0].shape[1]))}")
    rows = [["| " + " ".join(f"{j}:{v:g}" for j, v in zip(r.indices, r.data, strict=True)) for r in x] for x in sets]

    def step(i: int) -> float:
        given = workspace.parse(rows[i]) if is_parsed else rows[i]
        start = clock()
        chosen = int(np.argmax(workspace.predict(given)))
        elapsed = clock() - start
        labeled = [("0:-1.0:1.0 " if a == chosen else "") + row for a, row in enumerate(rows[i])]
        learned = workspace.parse(labeled) if is_parsed else labeled
        start = clock()
        workspace.learn(learned)
        elapsed += clock() - start
        if is_parsed:
            workspace.finish_example(given)
            workspace.finish_example(learned)
        return elapsed

    return step


def sparse_rows(quick: bool) -> list[dict[str, object]]:
    """The median time of a decision and its update on hashed features; contestants take turns."""
    rounds = 20 if quick else 400
    rows: list[dict[str, object]] = []
    for bits in (10, 12) if quick else (14, 18, 22, 24):
        d = 2**bits
        sets = hashed(rounds, d)
        steps = {"optimist ACB sgd": ours_sparse(bandits.ACB(d, solver="sgd", ensemble_size=M), sets)}
        small = bandits.ACB(d, solver="sgd", ensemble_size=M, dtype="float32")
        steps["optimist ACB sgd float32"] = ours_sparse(small, sets)
        steps["optimist DiagonalLinUCB"] = ours_sparse(bandits.DiagonalLinUCB(d), sets)
        if bits in (10, 18):
            steps[f"vw --rnd {M}, text"] = vw_sparse(f"--rnd {M}", sets, is_parsed=False)
            steps[f"vw --rnd {M}, parsed"] = vw_sparse(f"--rnd {M}", sets, is_parsed=True)
            steps["vw --squarecb, parsed"] = vw_sparse("--squarecb", sets, is_parsed=True)
        times: dict[str, list[float]] = {name: [] for name in steps}
        for turn in range(0, rounds, SPARSE_TURN):
            for name, step in steps.items():
                for i in range(WARMING):
                    step(i)  # the caches are another contestant's
                times[name] += [1e3 * step(i) for i in range(turn, min(rounds, turn + SPARSE_TURN))]
        medians = {name: float(np.median(values[rounds // 2 :])) for name, values in times.items()}
        ours = medians["optimist ACB sgd"]
        for name, value in medians.items():
            row = {"d": d, "nonzeros": NONZEROS, "contestant": name, "milliseconds": round(value, 4)}
            rows.append(row | {"times_acb_sgd": round(value / ours, 2)})
            print(f"d = 2^{bits}, {NONZEROS} non-zeros  {name:<26} {value:>8.3f} ms  {value / ours:>6.1f} x ACB sgd")
    return rows


def batch_rows(quick: bool) -> list[dict[str, object]]:
    """The median CPU time of one ``partial_fit`` of many rows beside that of the normal equations; they take turns."""
    n, d, turns = (500, 50, 2) if quick else (10_000, 1_000, 9)
    rng = np.random.default_rng(0)
    x, rewards = rng.normal(size=(n, d)) / np.sqrt(d), rng.normal(size=n)
    makers = {
        "LinUCB": bandits.LinUCB,
        "LinTS": bandits.LinTS,
        f"ACB, {M} members": bandits.ACB,
        "ACB re-randomized": lambda d: bandits.ACB(d, history="rerandomized"),
    }
    times: dict[str, list[float]] = {name: [] for name in ("normal equations", *makers)}
    for _ in range(turns + 1):  # the first compiles
        start = clock()
        np.linalg.solve(np.eye(d) + x.T @ x, x.T @ rewards)
        times["normal equations"].append(clock() - start)
        for name, make in makers.items():
            policy = make(d)
            start = clock()
            policy.partial_fit(x, rewards)
            times[name].append(clock() - start)
    medians = {name: 1e3 * float(np.median(values[1:])) for name, values in times.items()}
    rows = [
        {
            "rows": n,
            "d": d,
            "what": name,
            "CPU ms": round(value, 1),
            "ratio": round(value / medians["normal equations"], 3),
        }
        for name, value in medians.items()
    ]
    for row in rows:
        print("  ".join(str(value) for value in row.values()))
    return rows


def scaling(quick: bool) -> list[dict[str, object]]:
    """The time of ACB sgd against d at M = 32, and against M at d = 10,000."""
    rows = []
    dimensions = (100, 1_000) if quick else (100, 300, 1_000, 3_000, 10_000, 30_000, 100_000)
    members = (1, 4) if quick else (1, 4, 16, 32, 64, 128, 256)
    for axis, points in (
        ("d", [(d, M) for d in dimensions]),
        ("M", [(1_000 if quick else 10_000, m) for m in members]),
    ):
        for d, m in points:
            contexts = np.random.default_rng(0).normal(size=(4, K, d)) / np.sqrt(d)
            step = ours(bandits.ACB(d, solver="sgd", ensemble_size=m), contexts)
            step(0)
            times = []
            for i in range(12):
                start = clock()
                step(i % 4)
                times.append(1e3 * (clock() - start))
            rows.append({"axis": axis, "d": d, "M": m, "milliseconds": float(np.median(times))})
    return rows


def write(path: Path, rows: list[dict[str, object]]) -> None:
    """Writes rows as CSV."""
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def main() -> None:
    """Prints the table and the ratios, and writes them."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true", help="a smoke run: small d, few rounds")
    parser.add_argument("--out", type=Path, default=Path("results/benchmarks"))
    parser.add_argument("--only", choices=("sparse", "batch", "dense"), help="one case alone")
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    load = os.getloadavg()[0]
    with threadpool_limits(1):
        if arguments.only in (None, "sparse"):
            write(arguments.out / "bandits_sparse.csv", sparse_rows(arguments.quick))
        if arguments.only in (None, "batch"):
            write(arguments.out / "bandits_batch.csv", batch_rows(arguments.quick))
        if arguments.only in (None, "dense"):
            dense(arguments.quick, arguments.out)
    conditions = (
        "`bandits.csv`, `bandits_scaling.csv`, `bandits_sparse.csv`, `bandits_batch.csv`: medians of CPU time in one "
        f"thread; {os.cpu_count()} cores, {platform.system()}, Python {platform.python_version()}, NumPy "
        f"{np.__version__}, load average {load:.1f} at the start and {os.getloadavg()[0]:.1f} at the end.\n"
    )
    (arguments.out / "bandits.md").write_text("# A decision and its update\n\n" + conditions)
    print(conditions)


def dense(quick: bool, out: Path) -> None:
    """The dense case: the table, the costs against d and M, and their figure."""
    rows: list[dict[str, object]] = []
    for d, rounds in ((20, 3), (50, 3)) if quick else ((100, 200), (1_000, 40), (10_000, 9), (100_000, 3)):
        times = milliseconds(d, rounds)
        for name, value in times.items():
            reference = {"optimist ACB": "vw --rnd 32", "optimist Lin": "coba LinUCB"}.get(name[:12], name)
            reference = "mabwiser LinUCB, disjoint" if name == "optimist LinUCB, disjoint" else reference
            ratio = times.get(reference, float("nan")) / value
            rows.append(
                {
                    "d": d,
                    "contestant": name,
                    "milliseconds": round(value, 4),
                    "times_faster": round(ratio, 1),
                    "than": reference,
                }
            )
            print(f"d = {d:>7,}  {name:<28} {value:>10.3f} ms   {ratio:>7.1f} x {reference}")
    costs = scaling(quick)
    write(out / "bandits.csv", rows)
    write(out / "bandits_scaling.csv", costs)
    draw_costs(costs, out / "bandits_scaling.png")


if __name__ == "__main__":
    main()
