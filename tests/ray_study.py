"""What the tests of Ray run in a process of its own: a cluster of two nodes, one of which is killed in mid-run.

Called with a folder, in which it writes what it saw, as ``seen.json``.
"""

import json
import os
import re
import sys
import time
from dataclasses import replace
from pathlib import Path

from executor_calls import broken, doubled, dying_until
from optimist.bandits import FixedActions
from optimist.studies.bandits.comparison import Budget, compare
from optimist.studies.executors import InProcess
from optimist.studies.study import Session
from optimist.studies.training.runs import Job, train_all
from optimist.training.config import TrainConfig

PAGE = Path(__file__).parents[1] / "docs/cluster.md"
ROLLOUT = 64
TINY = TrainConfig(
    env="DeepSea-4", bonus="count", total_steps=60 * ROLLOUT, n_envs=4, steps=ROLLOUT // 4, warm_up_steps=0,
    checkpoint_every=8 * ROLLOUT, width=8, device="cpu",
)  # fmt: skip
JOBS = [Job("sea", "count", replace(TINY, seed=seed)) for seed in range(4)]
PROBLEM = FixedActions.random(5, 3, seed=0)
BUDGET = Budget(horizon=30, trials=6, selection_trials=4, seed=1, betas=(0.3, 1.0))
NAMES = ("acb", "greedy")


def main(folder: Path) -> None:
    """Plays everything on Ray, and what docs/cluster.md has in Python as it stands there."""
    from ray.cluster_utils import Cluster

    from optimist.studies.engines.ray_tasks import ray_cluster

    nodes = Cluster()
    nodes.add_node(num_cpus=1, node_ip_address="127.0.0.1", include_dashboard=False)
    second = nodes.add_node(num_cpus=1, node_ip_address="127.0.0.1")
    seen: dict = {"labels": [], "killed": False}

    def kill_second(done: int, total: int, label: str) -> None:
        """Both nodes play, and every run on them has taken steps: one node goes, with its workers."""
        seen["labels"].append(label)
        playing = [run for run in (folder / "ray/runs").glob("*") if (run / "owner.json").exists()]
        if not seen["killed"] and len([run for run in playing if (run / "metrics.csv").exists()]) == 2:
            seen["killed"] = [run.name for run in playing]
            nodes.remove_node(second, allow_graceful=False)

    session = Session(folder / "ray", None, kill_second, lambda workers: ray_cluster(nodes.address, workers, {}))
    results = train_all(JOBS, session)
    seen["results"] = [type(result).__name__ for result in results]

    with ray_cluster(nodes.address, 3, {"num_cpus": 0.3}) as workers:
        seen["doubled"] = workers.submit(doubled, 4).result()
        seen["broken"] = str(workers.submit(broken, 3).exception())
        death = workers.submit(dying_until, folder / "deaths", 1).exception()
        seen["death"] = type(death).__name__
        entries = compare(PROBLEM, PROBLEM, NAMES, BUDGET, workers, lambda *_: None)
        alone = compare(PROBLEM, PROBLEM, NAMES, BUDGET, InProcess(), lambda *_: None)
        pairs = [(entry.policy, entry.beta, entry.simulation.regret.tolist()) for entry in entries]
        seen["compared"] = pairs == [(e.policy, e.beta, e.simulation.regret.tolist()) for e in alone]

    def stop(done: int, total: int, label: str) -> None:
        if (folder / "stopped/runs/sea-count-seed-0/metrics.csv").exists():
            raise KeyboardInterrupt

    session = Session(folder / "stopped", 1, stop, lambda workers: ray_cluster(nodes.address, workers, {}))
    start = time.monotonic()
    try:
        train_all(JOBS[:1], session)
    except KeyboardInterrupt:
        seen["stopped"] = time.monotonic() - start
    seen["owner"] = (folder / "stopped/runs/sea-count-seed-0/owner.json").exists()

    os.environ["RAY_ADDRESS"] = nodes.address
    os.chdir(folder)
    namespace: dict = {"__name__": "docs"}
    for code in re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.M | re.S):
        exec(code, namespace)
    outcome = namespace["outcome"]
    seen["documented"] = [row["learner"] for row in outcome.tables["runs"]]
    seen["written"] = sorted(str(path.relative_to(folder)) for path in (folder / "runs/lake").glob("*.*"))
    nodes.shutdown()
    (folder / "seen.json").write_text(json.dumps(seen))


if __name__ == "__main__":
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    main(Path(sys.argv[1]))
