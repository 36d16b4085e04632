"""The benchmark of the bonuses runs from end to end on a small network. Its numbers are not judged here."""

import csv
import math
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "bench_bonuses.py"


@pytest.mark.campaign
def test_a_quick_run_prints_and_writes_every_measurement(tmp_path):
    command = [sys.executable, str(SCRIPT), "--quick", "--out", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=600)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "bonuses.md").read_text() in done.stdout
    with (tmp_path / "bonuses.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert all(math.isfinite(float(row["value"])) and float(row["value"]) > 0 for row in rows)
    found = {(row["section"], row["what"], row["quantity"]) for row in rows}
    assert ("batch", "gradient", "compute speed over released") in found
    assert ("batch", "gradient", "update speed over bare") in found
    assert ("batch", "gradient bfloat16", "update speed over bare bfloat16") in found
    assert ("batch", "sketch", "compute and update speed over released") in found
    assert ("step", "sketch", "compute of 8 states, network 64 x 64") in found
    assert ("memory", "gradient", "peak over these") in found
    assert ("rollout", "sketch", "compute and update over PPO's four epochs") in found
    table = {what for section, what, _ in found if section == "vector of 16"}
    assert {"RND", "ICM", "E3B", "HashCount"} < table
    for name in table:
        assert f"| {name} |" in done.stdout
        for section in ("image 4 x 84 x 84", "vector of 16"):
            assert {(section, name, quantity) for quantity in ("compute", "update", "state")} <= found
