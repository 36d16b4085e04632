"""``optimist study`` as installed: a user's own bonus in a study, other seeds and formats, and a stop at any moment."""

import csv
import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from optimist.studies.registry import find_study

OPTIMIST = Path(sys.executable).with_name("optimist")
LONG = 300.0
"""Seconds after which a test gives up on a busy machine; nothing is measured."""
MODULE = """
import torch
from optimist import bonuses


class Constant(bonuses.Bonus):
    def __init__(self, height):
        self.height = height

    def compute(self, transitions):
        return torch.full(transitions.actions.shape[:2], float(self.height))

    def update(self, transitions):
        return {}

    def state_dict(self):
        return {}

    def load_state_dict(self, state):
        pass


def constant(task, *, height=1.0):
    return Constant(height)
"""


def rows(path):
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def study(*words, folder, code=0):
    done = subprocess.run(
        [OPTIMIST, "study", *map(str, words)], capture_output=True, text=True, cwd=folder, check=False, timeout=LONG
    )
    assert done.returncode == code, done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    return done.stdout + done.stderr


def test_a_users_own_bonus_is_a_learner_of_an_existing_study(tmp_path):
    """At smoke scale, in two processes, with no patching: the module is found in the current folder."""
    (tmp_path / "my_bonuses.py").write_text(MODULE)
    added = ("--bonus", "my_bonuses:constant", "--bonus", "high=my_bonuses:constant,height=9")
    common = ("frozen-lake", "--scale", "smoke", "--seeds", 3, "--workers", 2, "--out", "out")
    study(*common, folder=tmp_path)
    out = tmp_path / "out"
    before = {path: path.stat().st_mtime_ns for path in out.glob("runs/*/finished")}
    claims = [row["claim"] for row in rows(out / "verdicts.csv")]
    ours = {row["learner"] for row in rows(out / "runs.csv")}
    printed = study(*common, *added, "--format", "svg", folder=tmp_path)
    assert {path: path.stat().st_mtime_ns for path in before} == before  # what was trained is kept
    for table in ("runs", "summary", "curves"):
        assert {row["learner"] for row in rows(out / f"{table}.csv")} >= ours | {"constant", "high"}
    assert {row["seed"] for row in rows(out / "runs.csv")} == {"3"}
    assert [row["claim"] for row in rows(out / "verdicts.csv")] == claims  # no claim is about them
    assert "high" in (out / "success.svg").read_text()
    config = json.loads((out / "runs/frozenlake-8x8-high-seed-3/config.json").read_text())
    assert (config["bonus"], config["bonus_options"], config["seed"]) == ("my_bonuses:constant", ["height=9"], 3)
    record = json.loads((out / "record.json").read_text())
    assert record["settings"]["added"] == ["constant", "high"]
    assert "success.svg" in printed


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("ray",), "this needs the package ray: install it with  pip install 'optimist[ray]'"),
        (("ray", "--ray-address", "127.0.0.1:1"), "no Ray cluster answers at 127.0.0.1:1 ([Errno 111]"),
        (("ray", "--ray-address", "ray://head:1"), "--ray-address must be HOST:PORT of the cluster's head, or auto"),
        (("slurm",), "there is no Slurm on this machine (no command sbatch)"),
    ],
)
def test_a_cluster_that_is_not_there_is_told_in_one_line_and_leaves_nothing(words, told, tmp_path, monkeypatch):
    if words == ("ray",):
        (tmp_path / "sitecustomize.py").write_text("import sys; sys.modules['ray'] = None")  # as if not installed
        monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), *sys.path]))
    code = 2 if "ray://head:1" in words else 1
    printed = study("figure2", "--scale", "smoke", "--out", "out", "--executor", *words, folder=tmp_path, code=code)
    assert told in " ".join(printed.split("\n"))
    assert not (tmp_path / "out").exists()


def test_what_cannot_be_is_told_before_anything_is_made(tmp_path):
    told = study("deepsee", "--out", "out", folder=tmp_path, code=2)
    assert "there is no study 'deepsee': did you mean 'deepsea'?" in " ".join(told.split())
    assert not list(tmp_path.iterdir())


def started(folder, *words):
    return subprocess.Popen(
        [OPTIMIST, "study", *words], cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )


def processes_of(folder):
    """The processes whose current folder is ``folder``."""
    found = []
    for process in Path("/proc").iterdir():
        if process.name.isdigit() and process.name != str(os.getpid()):
            try:
                if (process / "cwd").readlink() == folder:
                    found.append((process / "cmdline").read_text())
            except OSError:
                continue
    return found


def is_under_way(out, runs):
    """Whether the study has begun, and has begun so many runs."""
    return out.is_dir() and len(list(out.glob("runs/*"))) >= runs


@pytest.mark.parametrize("workers", [pytest.param("1", marks=pytest.mark.campaign), "2"])
def test_a_study_ends_at_any_moment_and_goes_on(workers, tmp_path):
    """Signals at random moments; nothing is left running, nothing is lost."""
    words = ("deepsea", "--scale", "smoke", "--workers", workers, "--out", "out")
    rng = random.Random(int(workers))
    codes = {signal.SIGINT: 130, signal.SIGTERM: 143}
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGINT):
        process = started(tmp_path, *words)
        end = time.monotonic() + LONG
        aim = len(list(tmp_path.glob("out/runs/*"))) + rng.randint(0, 2)
        while process.poll() is None and not is_under_way(tmp_path / "out", aim):
            assert time.monotonic() < end
            time.sleep(0.02)
        time.sleep(rng.uniform(0.3, 1.5))
        process.send_signal(number)
        told, _ = process.communicate(timeout=60)  # the watchdog of the command line is at 20, on an idle machine
        assert process.returncode in (codes[number], 0), told
        assert "Traceback" not in told
        assert not processes_of(tmp_path)
    printed = study(*words, folder=tmp_path)
    assert "100 %" in printed
    runs = len(find_study("deepsea").scales["smoke"].jobs())
    assert len(list(tmp_path.glob("out/runs/*/finished"))) == runs
    assert len(rows(tmp_path / "out/runs.csv")) == runs
