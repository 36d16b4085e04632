"""The command that repeats a run: the command line reads it back as the same configuration."""

import shlex
from dataclasses import replace

import pytest
import tyro

from optimist.cli import Command, TrainCommand
from optimist.training.command import train_command
from optimist.training.presets import defaults_for

SEA = defaults_for("DeepSea-10")


@pytest.mark.parametrize(
    "config",
    [
        SEA,
        replace(SEA, bonus="acb*e3b", seed=7, threads=2, extrinsic_weight=0.0, total_steps=4096),
        replace(SEA, clip_rewards=True, normalise_advantages=False, learning_rate=1e-12, network="mlp"),
        replace(SEA, env_options=("mapping_seed=3",), bonus_options=("acb.preset=paper", "e3b.ridge=1e-2")),
        replace(SEA, bonus_options=("text=it's; a <b>$HOME</b>", "sizes=[1, 2]")),
        replace(defaults_for("my.module:make"), activation="relu", max_gradient_norm=0.0),
    ],
    ids=["defaults", "numbers", "flags", "options", "quoting", "another family"],
)
def test_the_command_line_reads_it_back_as_the_same_run(config, monkeypatch):
    words = shlex.split(train_command(config))
    monkeypatch.setattr("sys.argv", words)
    command = tyro.cli(Command, args=words[1:])
    assert isinstance(command, TrainCommand)
    assert command.config == config


def test_defaults_are_left_out():
    assert train_command(SEA) == "optimist train --env DeepSea-10"
    assert train_command(replace(SEA, seed=3)) == "optimist train --env DeepSea-10 --seed 3"
