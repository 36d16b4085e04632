"""``optimist play`` in a subprocess: what it writes and prints, and what it refuses."""

import csv
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from optimist.training.config import TrainConfig
from optimist.training.runs.run import train

OPTIMIST = Path(sys.executable).with_name("optimist")
SEA = TrainConfig(
    env="DeepSea-8", bonus="acb", total_steps=256, n_envs=4, steps=16, minibatches=2, width=8, threads=1,
    device="cpu", warm_up_steps=0,
)  # fmt: skip


def optimist(*arguments, code=0):
    command = [OPTIMIST, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300, env=os.environ)
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout if code == 0 else done.stderr + done.stdout


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs") / "deep <b>sea"
    train(SEA, folder)
    return folder


def test_play_writes_a_strip_a_video_a_page_and_a_table_and_tells_the_drop(run, tmp_path):
    printed = optimist("play", run, "--steps", 50, "--games", 2, "--seed", 3)
    assert {path.name for path in (run / "play").iterdir()} == {
        "film_strip.png", "play.mp4", "player.html", "bonus.csv", "map.png",
    }  # fmt: skip
    assert "before an end" in printed
    assert "of 12 ends" in printed  # 50 steps are 6 episodes of 8 and a bit, twice
    assert str(run / "play" / "player.html") in printed
    with (run / "play" / "bonus.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [sum(int(row["terminated"]) for row in rows if row["game"] == game) for game in "01"] == [6, 6]
    again = tmp_path / "again"
    optimist("play", run, "--steps", 50, "--games", 2, "--seed", 3, "--out", again)
    assert (again / "bonus.csv").read_bytes() == (run / "play" / "bonus.csv").read_bytes()
    assert (again / "film_strip.png").read_bytes() == (run / "play" / "film_strip.png").read_bytes()


def test_play_refuses_what_it_cannot_show(tmp_path):
    assert "there is no run in" in optimist("play", tmp_path / "nowhere", code=1)
    assert not (tmp_path / "nowhere").exists()


def test_a_run_without_a_bonus_is_watched_too_with_the_value_of_every_step(tmp_path):
    run = tmp_path / "plain"
    train(replace(SEA, bonus="none"), run)
    printed = optimist("play", run, "--steps", 20)
    assert {path.name for path in (run / "play").iterdir()} == {
        "film_strip.png", "play.mp4", "player.html", "value.csv", "map.png",
    }  # fmt: skip
    assert "at the end of an episode" not in printed
    with (run / "play" / "value.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 20
    assert all(float(row["value"]) == 0 for row in rows if row["terminated"] == "1")
    assert len({row["value"] for row in rows}) > 2
    page = (run / "play" / "player.html").read_text()
    assert '"shows": "value"' in page
    assert '"judgement": ""' in page
