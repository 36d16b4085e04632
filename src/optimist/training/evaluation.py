"""Evaluation episodes: the agent as it is, on environments of its own, while nothing learns."""

import math
import time
from collections.abc import Callable

import numpy as np
import torch
from numpy.typing import NDArray

from optimist.bonuses.checkpointing import seeded_generator
from optimist.bonuses.observations import map_observations
from optimist.seeding import stream_seed
from optimist.training.agent import Agent
from optimist.training.config import TrainConfig
from optimist.training.distributions import Distribution, Greedy
from optimist.training.environments.protocol import Environments, map_arrays

KINDS = ("greedy", "sampled")
"""How actions are chosen: the most likely one, or drawn as in training."""
MEASURES = ("return", "length", "success", "unfinished")
COLUMNS = (*(f"evaluation/{kind}_{measure}" for kind in KINDS for measure in MEASURES), "evaluation/seconds")
"""The columns in ``metrics.csv`` of a run that evaluates, empty in rows of rollouts after which it does not."""
MOST_STEPS = 10_000
"""Steps after which an episode is counted as it is, for those that never end."""


class Evaluation:
    """`eval_episodes` episodes of either kind whenever a multiple of `eval_every` steps is passed, and at the end.

    One episode per environment: the mean over the first to end would be that of the short ones. Both kinds meet the
    same starts, every evaluation others. Environments, starts and actions have streams of their own, named after the
    step, so training goes on as if nothing had been evaluated, and a resumed run evaluates in the same way.
    """

    def __init__(self, config: TrainConfig, make: Callable[[int], Environments]):
        self._config = config
        self._make = make
        self._environments: Environments | None = None

    def is_due(self, before: int, step: int, *, at_end: bool) -> bool:
        """Whether a rollout from ``before`` to ``step`` is followed by an evaluation."""
        every = self._config.eval_every
        return every > 0 and (at_end or step // every > before // every)

    def measure(
        self, agent: Agent, distribution: Distribution, step: int, *, check: Callable[[], object]
    ) -> dict[str, float]:
        """`COLUMNS` of the ``agent`` after ``step`` steps of training. ``check`` is called before every step."""
        start, result = time.perf_counter(), dict[str, float]()
        if self._environments is None:
            self._environments = self._make(self._config.eval_episodes)
        success_return = self._environments.success_return
        for kind in KINDS:
            returns, lengths, running = play_episodes(
                agent,
                self._environments,
                Greedy(distribution) if kind == "greedy" else distribution,
                seed=stream_seed(self._config.seed, f"evaluation environments {step}"),
                generator=seeded_generator(self._config.seed, f"evaluation actions {step}"),
                check=check,
            )
            success = math.nan if success_return is None else float(((returns > success_return) & ~running).mean())
            values = (float(returns.mean()), float(lengths.mean()), success, float(running.sum()))
            result |= {f"evaluation/{kind}_{name}": value for name, value in zip(MEASURES, values, strict=True)}
        return result | {"evaluation/seconds": time.perf_counter() - start}

    def close(self) -> None:
        """Close the environments."""
        if self._environments is not None:
            self._environments.close()


@torch.no_grad()
def play_episodes(
    agent: Agent,
    environments: Environments,
    distribution: Distribution,
    *,
    seed: int,
    generator: torch.Generator,
    check: Callable[[], object] = lambda: None,
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.bool_]]:
    """Return and length of the first episode of every environment, and whether it has not ended. Shapes: (N,) each."""
    observations, n_envs, device = environments.reset(seed), environments.n_envs, agent.values.weight.device
    hidden = agent.first_hidden(n_envs)
    returns, lengths, running = np.zeros(n_envs), np.zeros(n_envs), np.ones(n_envs, bool)
    for _ in range(MOST_STEPS):
        check()
        now = map_observations(lambda part: part.to(device), map_arrays(torch.from_numpy, observations))
        outputs, _, hidden = agent.step(now, hidden)
        answer = environments.step(distribution.sample(outputs, generator=generator).cpu().numpy())
        played = running if answer.valid is None else running & answer.valid
        returns[played] += answer.rewards[played]
        lengths += played
        running = running & ~(played & (answer.terminated | answer.truncated))
        if not running.any():
            break
        observations = answer.observations
    return returns, lengths, running
