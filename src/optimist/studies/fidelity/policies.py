"""The policies that fidelity is measured on, as drawn and as training leaves them, and the states they visit."""

from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor, nn

from optimist.bonuses.checkpointing import seeded_generator
from optimist.seeding import split
from optimist.training import environments
from optimist.training.agent import make_agent
from optimist.training.distributions import distribution_of
from optimist.training.ppo import Trainer
from optimist.training.presets import defaults_for

Policy = Literal["random", "trained"]
"""random: a fresh network reads the states of uniformly random actions; trained: a trained one reads those of its own
actions."""


def trained_policy(env: str, *, seed: int, total_steps: int, **settings: Any) -> nn.Module:
    """The policy network after ``optimist train`` with ACB, in whole rollouts.

    ``settings`` are fields of the environment's own `TrainConfig` that differ from its defaults.
    """
    fixed = replace(defaults_for(env), bonus="acb", device="cpu", threads=torch.get_num_threads())
    trainer = Trainer(replace(fixed, seed=seed, total_steps=total_steps, **settings))
    with closing(trainer.environments):
        trainer.start()
        while not trainer.is_finished:
            trainer.iterate()
    return trainer.agent.policy


def random_play(env: str, *, steps: int, parallel: int, seed: int) -> tuple[Tensor, nn.Module]:
    """The observations of uniformly random play, (steps, parallel, ...), and a fresh policy network to read them.

    Environment, preprocessing and network are those of ``optimist train``.
    """
    config = defaults_for(env)
    played = environments.make(env, n_envs=parallel)
    outputs = distribution_of(played.actions).outputs
    agent = make_agent(
        played.observation_shape,
        outputs,
        network=config.network,
        activation=config.activation,
        width=config.width,
        generator=seeded_generator(seed, "fidelity policy"),
    )
    return _observed(env, played, lambda _: torch.zeros(parallel, outputs), steps=steps, seed=seed), agent.policy


def trained_play(
    env: str, *, steps: int, parallel: int, seed: int, training_steps: int, rollout: int
) -> tuple[Tensor, nn.Module]:
    """The observations of a trained policy's own play, (steps, parallel, ...), and its network."""
    policy = trained_policy(env, seed=seed, total_steps=training_steps, n_envs=parallel, steps=rollout)
    played = environments.make(env, n_envs=parallel)
    return _observed(env, played, policy, steps=steps, seed=seed), policy


@torch.no_grad()
def _observed(
    env: str, played: environments.Environments, read: Callable[[Tensor], Tensor], *, steps: int, seed: int
) -> Tensor:
    """What is observed when actions are drawn from the outputs that ``read`` makes of observations."""
    distribution = distribution_of(played.actions)
    generator = seeded_generator(seed, f"fidelity actions {env}")
    with closing(played):
        observations = [played.reset(int(split(seed, f"fidelity {env}").generate_state(1)[0] % 2**31))]
        while len(observations) < steps:
            outputs = read(torch.from_numpy(observations[-1]))  # pyrefly: ignore
            actions = distribution.sample(outputs, generator=generator).numpy()
            observations.append(played.step(actions).observations)
    return torch.from_numpy(np.stack(observations))  # pyrefly: ignore
