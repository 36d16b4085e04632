"""``optimist report`` in a subprocess: a run that was trained, a study that is committed, and what is refused."""

import subprocess
import sys
from pathlib import Path

OPTIMIST = Path(sys.executable).with_name("optimist")
RESULTS = Path(__file__).parents[2] / "results"
TINY = ("--environments", 2, "--steps", 16, "--minibatches", 2, "--width", 8, "--total-steps", 96, "--threads", 1)


def optimist(*arguments, code=0):
    done = subprocess.run([OPTIMIST, *map(str, arguments)], capture_output=True, text=True, check=False, timeout=600)
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout if code == 0 else done.stderr


def test_a_trained_run_and_a_committed_study_become_one_page(tmp_path):
    run, page = tmp_path / "sea", tmp_path / "report.html"
    optimist("train", "--env", "DeepSea-4", "--bonus", "count", *TINY, "--out", run)
    printed = optimist("report", run, RESULTS / "figure2", "--out", page)
    assert "1 run, 1 study, 0 notes" in printed
    assert str(page) in printed
    text = page.read_text()
    assert 4_000_000 < len(text) < 12_000_000
    for expected in ("Figure 2: up to a point", "optimist train --env DeepSea-4 --bonus count", "data:image/png"):
        assert expected in text


def test_what_is_no_run_is_bad_usage_and_writes_nothing(tmp_path):
    page = tmp_path / "report.html"
    assert "is neither a run" in optimist("report", tmp_path, "--out", page, code=2)
    assert "there is no folder" in optimist("report", tmp_path / "nowhere", "--out", page, code=2)
    optimist("report", "--out", page, code=2)
    page.write_text("my notes")
    assert "is not a report" in optimist("report", RESULTS / "figure2", "--out", page, code=2)
    assert page.read_text() == "my notes"
