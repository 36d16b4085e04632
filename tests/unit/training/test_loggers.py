"""Loggers beside ``metrics.csv``: Weights & Biases, offline. TensorBoard's tests are in test_metrics_files.py."""

import json
import os
import struct
import subprocess
import sys
from pathlib import Path

import pytest

from optimist import training
from optimist.training.config import TrainConfig
from optimist.training.runs import loggers

SCRIPT = """
from optimist import training
settings = dict(env="DeepSea-6", bonus="count", total_steps=128, n_envs=4, steps=8, minibatches=2, epochs=1, threads=1)
training.train(
    **settings, loggers=("wandb",), eval_every=64, out="run", callbacks=[lambda now: now.step == 64 and now.stop()]
)
training.resume("run")
"""


def records(path):
    """The records of an offline run: LevelDB's log format, after a header of 7 bytes."""
    held, place, found, part = path.read_bytes(), 7, [], b""
    assert held[:4] == b":W&B"
    while place + 7 <= len(held):
        if 32768 - place % 32768 < 7:  # no record begins in the last bytes of a block
            place += 32768 - place % 32768
            continue
        length, kind = struct.unpack_from("<xxxxHB", held, place)
        part += held[place + 7 : place + 7 + length]
        place += 7 + length
        if kind in (1, 4):  # whole, or the last part
            found.append(part)
            part = b""
    return found


def test_wandb_is_given_every_row_and_a_resumed_run_is_the_same_one(tmp_path):
    """In a process of its own, offline, at home in a folder of its own: nothing talks to anybody."""
    pb = pytest.importorskip("wandb.proto.wandb_internal_pb2")
    offline = {
        "WANDB_MODE": "offline",
        "WANDB_PROJECT": "tests",
        "HOME": str(tmp_path),
        "WANDB_ERROR_REPORTING": "false",
    }
    subprocess.run([sys.executable, "-c", SCRIPT], cwd=tmp_path, env=os.environ | offline, check=True, timeout=300)
    rows, ids, settings = {}, set(), {}
    for path in sorted((tmp_path / "run/wandb").rglob("*.wandb")):
        for held in records(path):
            record = pb.Record()
            record.ParseFromString(held)
            if record.HasField("run"):
                ids.add((record.run.run_id, record.run.project))
                settings |= {one.key: json.loads(one.value_json) for one in record.run.config.update}
            elif record.HasField("history"):
                row = {one.key or one.nested_key[0]: json.loads(one.value_json) for one in record.history.item}
                rows[row["_step"]] = row
    assert ids == {((tmp_path / "run/wandb-id.txt").read_text(), "tests")}
    assert settings["env"] == "DeepSea-6"
    assert settings["extrinsic.weight"] == 1.0
    told = training.read_metrics(tmp_path / "run/metrics.csv")
    assert sorted(rows) == told["step"].tolist() == [32, 64, 96, 128]
    for k, step in enumerate(told["step"]):
        assert rows[step]["train/unique_states"] == told["unique_states"][k]
        assert ("evaluation/greedy_return" in rows[step]) == (step in (64, 128))
    assert not (tmp_path / "run/tensorboard").exists()


def test_a_logger_that_is_not_installed_is_refused_before_anything_is_made(tmp_path, monkeypatch):
    monkeypatch.setattr(loggers, "find_spec", lambda name: None)
    with pytest.raises(ModuleNotFoundError, match=r"logger wandb needs .* pip install 'optimist\[wandb\]'"):
        training.train(env="DeepSea-6", loggers=("wandb",), out=tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_loggers_are_known_names_and_none_is_a_choice(tmp_path):
    with pytest.raises(ValueError, match=r"loggers must be .*'mlflow'"):
        TrainConfig(loggers=("mlflow",))
    settings = {"n_envs": 4, "steps": 8, "minibatches": 2, "warm_up_steps": 0, "threads": 1, "total_steps": 32}
    training.train(env="DeepSea-6", bonus="none", loggers=(), out=tmp_path / "run", **settings)
    assert {path.name for path in Path(tmp_path / "run").iterdir()} == {"config.json", "metrics.csv", "checkpoints"}
