"""The command that repeats a run: the command line reads it back as the same configuration."""

import shlex
from dataclasses import replace

import pytest

from optimist.cli.commands import parse
from optimist.cli.train import TrainCommand
from optimist.training.config import Signal
from optimist.training.presets import defaults_for, train_command

SEA = defaults_for("DeepSea-10")


@pytest.mark.parametrize(
    "config",
    [
        SEA,
        replace(SEA, bonus="acb*e3b", seed=7, threads=2, extrinsic=Signal(0.0, 0.99, True), total_steps=4096),
        replace(SEA, clip_rewards=True, normalize_advantages=False, untrained=True, network="mlp"),
        replace(SEA, extrinsic=Signal(1.0, 0.99, False), intrinsic=Signal(0.5, 0.9, True), n_envs=4),
        replace(SEA, env_options=("mapping_seed=3",), bonus_options=("acb.preset=paper", "e3b.ridge=1e-2")),
        replace(SEA, bonus_options=("text=it's; a <b>$HOME</b>", "sizes=[1, 2]")),
        replace(defaults_for("my.module:make"), activation="relu", max_gradient_norm=0.0),
    ],
    ids=["defaults", "numbers", "flags", "signals", "options", "quoting", "another family"],
)
def test_the_command_line_reads_it_back_as_the_same_run(config):
    words = shlex.split(train_command(config))
    command = parse(words[1:]).command
    assert isinstance(command, TrainCommand)
    assert command.settings == config


def test_defaults_are_left_out():
    assert train_command(SEA) == "optimist train --env DeepSea-10"
    assert train_command(replace(SEA, seed=3)) == "optimist train --env DeepSea-10 --seed 3"
