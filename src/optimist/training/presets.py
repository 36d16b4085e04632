"""What a family of environments is trained with: `TrainConfig` with other numbers, and why."""

import shlex
from dataclasses import replace
from typing import Any

from optimist.config import leaves
from optimist.training.config import Signal, TrainConfig

ATARI = TrainConfig()
"""RND's own numbers."""

GRID = TrainConfig(
    extrinsic=Signal(
        weight=1.0,  # as much as the bonus: balanced mixing has a unit for each
        discount=0.99,  # episodes of hundreds of steps at most
        episodic=True,
    ),
    mixing="balanced",  # rewards of any size, costs among them
    clip_rewards=False,  # balanced mixing has a unit for them
    n_envs=16,
    steps=128,
    minibatches=8,
    learning_rate=1e-3,  # a network of 40,000 weights
    clip=0.2,
    entropy_weight=0.01,
    value_scale_rate=0.1,  # bonuses fall by orders of magnitude within a short run
    normalize_advantages=True,  # no clipped rewards that would set the scale
    max_gradient_norm=0.5,
    warm_up_steps=128,
    checkpoint_every=200_000,
)
"""MiniGrid and other small grids. Ours, after the numbers usual for them (rl-starter-files, SB3's zoo)."""

VECTOR = replace(GRID, normalize_observations=True)
"""Vectors and discrete states: classic control, FrozenLake, the combination lock."""

DEEP_SEA = replace(VECTOR, n_envs=32, steps=64)
"""DeepSea: episodes are short, so are rollouts."""


def defaults_for(env: str) -> TrainConfig:
    """The numbers of the family that ``env`` belongs to, with ``env`` set."""
    name = env.rpartition(":")[2] if env.startswith(("envpool:", "gymnasium:")) else env
    if name.startswith("DeepSea"):
        family = DEEP_SEA
    elif name.startswith(("MiniGrid", "BabyAI")):
        family = GRID
    elif is_atari(name):
        family = ATARI
    else:
        family = VECTOR
    return replace(family, env=env)


def is_atari(env: str) -> bool:
    """Whether ``env`` is one of EnvPool's Atari games."""
    if not env.endswith("-v5"):
        return False
    from optimist.training.environments.envpool_pool import stacks_frames  # slow to import, and rarely needed

    return stacks_frames(env)


def train_command(config: TrainConfig) -> str:
    """``optimist train ...`` that makes the run of ``config``: only what differs from its environment's defaults."""
    defaults = leaves(defaults_for(config.env))
    words = ["optimist", "train", "--env", config.env]
    for name, value in leaves(config).items():
        if name != "env" and value != defaults[name]:
            words += _words(name.replace("_", "-"), value)
    return shlex.join(words)


def folder_name(config: TrainConfig) -> str:
    """The name of a run's folder: ENV-BONUS-SEED, with what may not stand in the name of a file replaced."""
    name = f"{config.env}-{config.bonus}-{config.seed}".replace("*", "-times-")
    return "".join(letter if letter.isalnum() or letter in "-_." else "-" for letter in name)[-200:]


def _words(option: str, value: Any) -> list[str]:
    if isinstance(value, bool):
        outer, dot, name = option.rpartition(".")
        return [f"--{option}" if value else f"--{outer}{dot}no-{name}"]
    if isinstance(value, tuple):
        return [f"--{option}", *value]
    return [f"--{option}", str(value)]
