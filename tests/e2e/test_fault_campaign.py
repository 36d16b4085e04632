"""A small fault campaign: runs that are killed, damaged, crowded and starved of disk end as if nothing had happened."""

import csv
import subprocess
import sys
from pathlib import Path

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "fault_campaign.py"


def test_runs_end_as_if_nothing_had_happened(tmp_path):
    command = [sys.executable, str(SCRIPT), "--kills", "6", "--tasks", "sea", "pole", "--out", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=600)
    assert done.returncode == 0, done.stdout + done.stderr
    with (tmp_path / "campaign.csv").open() as file:
        sea, pole = csv.DictReader(file)
    for fault in ("SIGKILL", "SIGTERM", "SIGINT"):
        assert int(sea[fault]) + int(pole[fault]) == 2
    for row in (sea, pole):
        assert row["crowded"] == row["no room"] == "1"
        assert int(row["compared"]) == int(row["identical"]) >= 1
    assert (tmp_path / "campaign.md").read_text() in done.stdout
