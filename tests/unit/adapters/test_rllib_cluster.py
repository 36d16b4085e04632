"""RLlib with processes: remote runners, two learners that stay in step, saving and restoring; the page, the example.

Each runs in a process of its own: Ray keeps what it has read from the home folder as long as its process lives.
"""

import csv
import os
import re
import subprocess
import sys
from pathlib import Path

import gymnasium
import pytest

pytest.importorskip("ray.rllib")

ROOT = Path(__file__).parents[3]


def run(tmp_path, *arguments, timeout=None):
    """What Python prints with ``arguments`` in ``tmp_path``, which is also the home into which Ray writes its token."""
    environment = os.environ | {
        "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",  # loopback stays loopback
        "HOME": str(tmp_path),
        "RAY_USAGE_STATS_ENABLED": "0",
        "RAY_worker_niceness": "0",  # else its workers starve on a busy machine
        "OMP_NUM_THREADS": "1",
        "PYTHONPATH": os.pathsep.join([str(ROOT / "tests"), os.environ.get("PYTHONPATH", "")]),
    }
    done = subprocess.run(
        [sys.executable, *map(str, arguments)],
        cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=timeout, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


def test_two_learners_fed_by_remote_runners_hold_one_bonus_which_is_saved_and_restored(tmp_path):
    run(tmp_path, ROOT / "tests" / "rllib_cluster.py", tmp_path, timeout=600)


def test_every_snippet_of_the_page_runs(tmp_path):
    text = (ROOT / "docs" / "adapters" / "rllib.md").read_text(encoding="utf-8")
    snippets = re.findall(r"^```python\n(.*?)^```$", text, re.M | re.S)
    assert len(snippets) == text.count("```python") == 2
    # An episode of CartPole has at least 8 steps, and each pays 1; the bonus is beside it.
    checks = "assert extrinsic >= 8, extrinsic\nassert intrinsic > 0, intrinsic\n"
    (tmp_path / "page.py").write_text("\n".join([*snippets, checks]), encoding="utf-8")
    run(tmp_path, tmp_path / "page.py", timeout=600)


@pytest.mark.campaign
def test_the_lake_of_rllibs_own_example_is_crossed_with_the_bonus_and_not_played_twice(tmp_path):
    words = ["--sizes", 8, "--bonuses", "acb", "--seeds", 100, "--out", tmp_path / "played"]
    for told in ("0 runs are there, 1 are to be played", "1 runs are there, 0 are to be played"):
        assert told in run(tmp_path, ROOT / "benchmarks" / "rllib_lakes.py", *words)
    (row,) = csv.DictReader((tmp_path / "played/runs.csv").open(encoding="utf-8"))
    assert row["solved"] == "True"
    assert float(row["return"]) >= 0.99
    assert f"| 8x8 | ACB | 1 of 1 | **{int(row['steps']):,}** |" in (tmp_path / "played/README.md").read_text()


def test_an_episode_of_the_example_ends_where_its_limit_would_cut_it(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "examples")
    from rllib_frozen_lake import MAPS, EndsAtLimit

    lake = EndsAtLimit(gymnasium.make("FrozenLake-v1", desc=MAPS[8], is_slippery=False, max_episode_steps=2))
    lake.reset(seed=0)
    assert lake.step(0)[2:4] == (False, False)
    assert lake.step(0)[2:4] == (True, False)
