"""`training.train` and `training.resume`: the command line as functions, callbacks, and objects of the user's own."""

import io
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from optimist import bonuses, training
from optimist.cli.train import TrainCommand, run_train
from optimist.training.environments.deep_sea import DeepSea
from optimist.training.runs import checkpoints
from optimist.training.runs.serialization import StateFile

SMALL = {"n_envs": 4, "steps": 8, "minibatches": 2, "epochs": 1, "warm_up_steps": 8, "threads": 1}
ROLLOUT = 32


def told(folder):
    """The rows of a run without its times."""
    columns = training.read_metrics(Path(folder) / "metrics.csv")
    return {name: values.tolist() for name, values in columns.items() if "second" not in name}


def last_state(folder):
    """All bytes of the newest checkpoint but the length of ``metrics.csv``, in which times are."""
    step, state = checkpoints.newest(Path(folder) / "checkpoints")
    file = io.BytesIO()
    StateFile(state["trainer"], {"step": str(step)}).write(file)
    return file.getvalue()


def same(one, other):
    np.testing.assert_equal(told(one), told(other))
    assert last_state(one) == last_state(other)


def test_the_function_makes_the_run_of_the_command_line(tmp_path, monkeypatch):
    from rich.console import Console

    monkeypatch.chdir(tmp_path)
    done = training.train(
        env="DeepSea-6",
        bonus="acb",
        total_steps=4 * ROLLOUT,
        bonus_options={"ensemble_size": 8, "preset": "paper"},
        extrinsic={"weight": 0.5},
        seed=3,
        **SMALL,
    )
    assert (done.folder, done.step, done.is_finished, done.reason) == (Path("runs/DeepSea-6-acb-3"), 128, True, "")
    assert done.metrics["step"].tolist() == [32, 64, 96, 128]
    words = "train --env DeepSea-6 --bonus acb --total-steps 128 --bonus-options ensemble_size=8 preset=paper"
    words += " --extrinsic.weight 0.5 --seed 3 --n-envs 4 --steps 8 --minibatches 2 --epochs 1 --warm-up-steps 8"
    from optimist.cli.commands import parse

    command = parse([*words.split(), "--threads", "1", "--out", "typed"]).command
    assert isinstance(command, TrainCommand)
    assert command.settings == done.config
    run_train(command, Console(quiet=True))
    same("runs/DeepSea-6-acb-3", "typed")


def test_a_configuration_is_taken_as_it_is_and_fields_replace_its_own(tmp_path):
    config = replace(training.defaults_for("DeepSea-6"), bonus="count", total_steps=ROLLOUT, **SMALL)
    done = training.train(config=config, seed=5, out=tmp_path / "run")
    assert done.config == replace(config, seed=5)
    with pytest.raises(ValueError, match="TrainConfig has no setting 'totalsteps': did you mean 'total_steps'"):
        training.train(env="DeepSea-6", totalsteps=5, out=tmp_path / "other")
    assert not (tmp_path / "other").exists()


def stop_at(step, reason="enough"):
    def callback(moment):
        assert moment.total_steps == 8 * ROLLOUT
        assert moment.metrics["steps_per_second"] > 0
        if moment.step == step:
            moment.stop(reason)

    return callback


@pytest.mark.parametrize("env", ["DeepSea-6", "CartPole-v1"])
def test_a_callback_stops_a_run_and_nothing_is_lost(env, tmp_path):
    settings = {"bonus": "acb", "total_steps": 8 * ROLLOUT, "checkpoint_every": 1_000_000, **SMALL}
    training.train(env=env, out=tmp_path / "whole", **settings)
    seen = []
    done = training.train(env=env, out=tmp_path / "run", callbacks=[stop_at(96), seen.append], **settings)
    assert (done.step, done.is_finished, done.reason) == (96, False, "enough")
    assert len(seen) == 3  # the others are told of the last rollout too
    done = training.resume(tmp_path / "run", callbacks=[stop_at(160, "")])
    assert (done.step, done.reason) == (160, "a callback asked for it")
    assert training.resume(str(tmp_path / "run")).is_finished
    same(tmp_path / "whole", tmp_path / "run")


def test_a_stop_in_the_last_rollout_is_the_end_of_the_run(tmp_path):
    settings = {"bonus": "none", "total_steps": 8 * ROLLOUT, **SMALL}
    assert training.train(env="DeepSea-6", out=tmp_path, callbacks=[stop_at(256)], **settings).is_finished


def test_a_callback_that_fails_loses_nothing(tmp_path):
    def fail(moment):
        if moment.step == 96:
            raise KeyError("mine")

    settings = {"env": "DeepSea-6", "bonus": "count", "total_steps": 8 * ROLLOUT, **SMALL}
    training.train(out=tmp_path / "whole", **settings)
    with pytest.raises(KeyError, match="mine"):
        training.train(out=tmp_path / "run", callbacks=[fail], **settings)
    assert checkpoints.newest(tmp_path / "run/checkpoints")[0] == 96
    training.resume(tmp_path / "run")
    same(tmp_path / "whole", tmp_path / "run")


class Pay(bonuses.Bonus):
    """``amount`` over the root of how many steps it has learned from."""

    def __init__(self, amount):
        self.amount, self.steps = amount, 0

    def compute(self, transitions):
        return torch.full(transitions.terminated.shape, self.amount / (1 + self.steps) ** 0.5)

    def update(self, transitions):
        self.steps += transitions.terminated.numel()
        return {"steps": float(self.steps)}

    def state_dict(self):
        return {"amount": self.amount, "steps": self.steps}

    def load_state_dict(self, state):
        self.amount, self.steps = state["amount"], state["steps"]


def paying(task, amount=1.0):
    """A factory that can be imported."""
    return Pay(amount)


class Eyes(nn.Module):
    def __init__(self, states=37, width=8):
        super().__init__()
        self.table = nn.Embedding(states, width)

    def forward(self, observations):
        return self.table(observations.long()).flatten(1)


def sea(n_envs, size=6):
    return DeepSea(size, n_envs=n_envs)


def ways():
    """Objects that cannot be imported, and functions that can, by what they are called in the configuration."""
    eyes = Eyes()
    return {
        "bonus object": ({"bonus": Pay(2.0)}, {"bonus": "given:Pay"}),
        "bonus function": ({"bonus": lambda task: Pay(2.0)}, {"bonus": "given:ways.<locals>.<lambda>"}),
        "bonus by name": ({"bonus": paying}, {"bonus": f"{__name__}:paying"}),
        "network": ({"network": eyes}, {"network": "given:Eyes"}),
        "network function": ({"network": lambda shape, outputs: Eyes()}, {"network": "given:ways.<locals>.<lambda>"}),
        "environments": ({"env": lambda n: sea(n)}, {"env": "given:ways.<locals>.<lambda>"}),
        "environments by name": ({"env": sea}, {"env": f"{__name__}:sea"}),
    }


@pytest.mark.parametrize("way", ways())
def test_objects_of_ones_own_take_the_place_of_names(way, tmp_path):
    given, names = ways()[way]
    settings = {"env": "DeepSea-6", "bonus": "count", "total_steps": 8 * ROLLOUT, **SMALL} | given
    training.train(out=tmp_path / "whole", **settings)
    done = training.train(out=tmp_path / "run", callbacks=[stop_at(96)], **settings)
    stored = json.loads((tmp_path / "run/config.json").read_text())
    assert {name: stored[name] for name in names} == names
    if way.endswith("by name"):
        training.resume(tmp_path / "run")
    else:
        with pytest.raises(ValueError, match=r"was passed from Python .* pass it again, as optimist.training.resume"):
            training.resume(tmp_path / "run")
        assert checkpoints.newest(tmp_path / "run/checkpoints")[0] == done.step
        training.resume(tmp_path / "run", **given)
    same(tmp_path / "whole", tmp_path / "run")


def test_a_given_bonus_and_network_stay_as_they_were_and_are_used(tmp_path):
    bonus, eyes = Pay(2.0), Eyes()
    before = eyes.table.weight.detach().clone()
    trainer = training.Trainer(training.TrainConfig(env="DeepSea-6", **SMALL), bonus=bonus, network=eyes)
    trainer.start()
    assert trainer.iterate()["bonus_mean"] == 2.0
    assert bonus.steps == 0
    assert torch.equal(eyes.table.weight, before)
    assert torch.allclose(trainer.agent.policy.trunk.table.weight, before, atol=1e-2)
    assert not torch.equal(trainer.agent.policy.trunk.table.weight, before)


def test_what_is_no_bonus_is_refused_and_leaves_nothing(tmp_path):
    with pytest.raises(ValueError, match="your bonus"):
        training.train(env="DeepSea-6", bonus=3, out=tmp_path / "run", **SMALL)
    assert not (tmp_path / "run").exists()
