"""The command that repeats a run."""

import shlex
from dataclasses import fields
from typing import Any

from optimist.training.config import TrainConfig
from optimist.training.presets import defaults_for


def train_command(config: TrainConfig) -> str:
    """``optimist train ...`` that makes the run of ``config``: only what differs from its environment's defaults."""
    defaults = defaults_for(config.env)
    words = ["optimist", "train", "--env", config.env]
    for field in fields(config):
        value = getattr(config, field.name)
        if field.name != "env" and value != getattr(defaults, field.name):
            words += _words(field.name.replace("_", "-"), value)
    return shlex.join(words)


def _words(option: str, value: Any) -> list[str]:
    if isinstance(value, bool):
        return [f"--{option}" if value else f"--no-{option}"]
    if isinstance(value, tuple):
        return [f"--{option}", *value]
    return [f"--{option}", str(value)]
