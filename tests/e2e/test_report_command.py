"""``optimist report`` in a subprocess: a run that was trained, a study that is committed, and what is refused."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

OPTIMIST = Path(sys.executable).with_name("optimist")
RESULTS = Path(__file__).parents[2] / "results"
TINY = ("--n-envs", 2, "--steps", 16, "--minibatches", 2, "--width", 8, "--total-steps", 96, "--threads", 1)


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


def test_only_regular_files_are_ever_replaced(tmp_path):
    os.mkfifo(tmp_path / "pipe")  # a device would do no better, and a test must not risk one
    (tmp_path / "loop").symlink_to("loop")
    for name in ("pipe", "loop", "loop/page.html"):
        told = optimist(
            "report", RESULTS / "figure2", "--out", tmp_path / name, code=2 if name != "loop/page.html" else 1
        )
        assert "Traceback" not in told
    assert (tmp_path / "pipe").is_fifo()
    assert (tmp_path / "loop").is_symlink()
    assert {path.name for path in tmp_path.iterdir()} == {"pipe", "loop"}


def test_a_star_may_name_a_readme_and_a_broken_run_makes_the_code_1(tmp_path):
    (tmp_path / "README.md").write_text("what this is")
    shutil.copytree(RESULTS / "figure2", tmp_path / "figure2")
    printed = optimist("report", *sorted(tmp_path.iterdir()), "--out", tmp_path / "page.html")
    assert "0 runs, 1 study, 1 note" in printed
    assert "README.md: passed over" in printed
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken/config.json").write_text('{"env": 3')
    told = optimist("report", *sorted(tmp_path.iterdir()), "--out", tmp_path / "page.html", code=1)
    assert "not all could be read" in told
    assert "broken" in told
    assert "Traceback" not in told
