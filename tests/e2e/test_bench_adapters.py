"""The benchmark of the adapters runs from end to end on tiny iterations. Its numbers are not judged here."""

import csv
import importlib.util
import math
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "bench_adapters.py"


@pytest.mark.parametrize(
    ("host", "needs", "cases"),
    [
        ("cleanrl", "gymnasium", ["overhead"]),
        ("gymnasium", "gymnasium", ["overhead", "rnd"]),
        ("rlexplore", "gymnasium", ["overhead"]),
        ("sb3", "stable_baselines3", ["overhead", "wrapper"]),
        ("torchrl", "torchrl", ["overhead", "transform"]),
    ],
)
def test_a_quick_run_prints_and_writes_every_measurement(host, needs, cases, tmp_path):
    if importlib.util.find_spec(needs) is None:
        pytest.skip(f"{needs} is not installed")
    command = [sys.executable, str(SCRIPT), "--quick", "--host", host, "--out", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "adapters.md").read_text() in done.stdout
    with (tmp_path / "adapters.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [(row.pop("host"), row.pop("case")) for row in rows] == [(host, case) for case in cases]
    for row in rows:
        assert all(math.isfinite(float(value)) and float(value) > 0 for value in row.values())
