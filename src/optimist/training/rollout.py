"""T steps of N environments under the current policy."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from optimist.bonuses.observations import Observations, label, map_observations, named
from optimist.bonuses.protocol import Transitions
from optimist.ranks import ALONE, Ranks
from optimist.training.agent import Agent
from optimist.training.distributions import Distribution
from optimist.training.environments.protocol import Arrays, Environments, Step, map_arrays, named_arrays
from optimist.training.recurrence import remembered
from optimist.training.runs.episodes import Episodes, Steps
from optimist.training.runs.timer import Timer


@dataclass(frozen=True, eq=False)
class Rollout:
    """What was seen and done. Shapes: transitions (T, N, ...); the others (T, N), values with a last axis of 2 heads.

    ``next_values`` are of what is acted on next, the first state of a new episode included; ``successor_values`` of
    what each action led to, which at a truncated step is the final observation. ``places`` (T, N, 2) are its rows and
    columns, where environments have a map. A recurrent policy has ``hidden`` and ``next_hidden`` (T, N, w), what it
    remembered before and after each observation, and ``hidden_after`` (N, w), before the observations to act on next.
    """

    transitions: Transitions
    rewards: Tensor
    log_probabilities: Tensor
    values: Tensor
    next_values: Tensor
    successor_values: Tensor
    places: np.ndarray | None
    hidden: Tensor | None = None
    next_hidden: Tensor | None = None
    hidden_after: Tensor | None = None

    @property
    def states(self) -> Transitions:
        """The transitions as a policy and its bonus read them: of a recurrent one with the hidden states."""
        if self.hidden is None or self.next_hidden is None:
            return self.transitions
        return remembered(self.transitions, self.hidden, self.next_hidden)


class NotFinite(ArithmeticError):
    """A number that is NaN or infinite came out of an environment or a loss: the run stops here."""


@torch.no_grad()
def collect(
    agent: Agent,
    environments: Environments,
    observations: Arrays,
    *,
    steps: int,
    cut: bool,
    distribution: Distribution,
    generator: torch.Generator,
    episodes: Episodes | Steps,
    timer: Timer,
    first_step: int,
    hidden: Tensor | None = None,
    check: Callable[[], object] = lambda: None,
    ranks: Ranks = ALONE,
) -> tuple[Rollout, Arrays]:
    """A rollout from ``observations`` on, and the observations to act on next.

    ``hidden`` is what a recurrent agent remembers before them; None: nothing, they are the first of their episodes.

    With ``cut`` the episodes that are still running are truncated after it: their environments will be restarted.
    ``check`` is called before every step, and may raise. Of several ``ranks`` each plays its part of the environments;
    actions are drawn for all of them, so that they do not depend on how many ranks there are.
    """
    n_envs, device = environments.n_envs, agent.values.weight.device
    seen, next_observations = _empty(observations, steps), _empty(observations, steps)
    rewards = torch.empty(steps, n_envs)
    ended = torch.zeros(2, steps, n_envs, dtype=torch.bool)
    valid = torch.ones(steps, n_envs, dtype=torch.bool)
    hidden = agent.first_hidden(n_envs) if hidden is None else hidden
    memories: list[tuple[Tensor, Tensor]] = []
    answers: list[tuple[Tensor, Tensor]] = []  # outputs and features
    actions: list[Tensor] = []
    places: list[np.ndarray] = []
    _require_finite("observation", observations, f"step {first_step:,}")
    for t in range(steps):
        check()
        with timer.time("inference"):
            now = map_observations(lambda part: part.to(device), _write(seen, t, observations))
            outputs, features, after = agent.step(now, hidden)
            answers.append((outputs, features))
            action = ranks.mine(distribution.sample(ranks.placed(outputs), generator=generator))
            actions.append(action.cpu())
        with timer.time("environment"):
            step = environments.step(actions[-1].numpy())
        with timer.time("bookkeeping"):
            _require_finite_step(step, f"step {first_step + (t + 1) * n_envs * ranks.count:,}")
            _write(next_observations, t, step.next_observations)
            rewards[t] = torch.from_numpy(step.rewards)
            ended[0, t], ended[1, t] = torch.from_numpy(step.terminated), torch.from_numpy(step.truncated)
            if step.valid is not None:
                valid[t] = torch.from_numpy(step.valid)
            if step.places is not None:
                places.append(step.places)
            episodes.add(step.rewards, step.terminated | step.truncated, step.valid)
            observations = step.observations
            if hidden is not None and after is not None:
                memories.append((hidden, after))
                forgets = ended[0, t] | ended[1, t] | ~valid[t]  # what is acted on next begins an episode
                hidden = after.masked_fill(forgets.unsqueeze(1).to(device), 0.0)
    terminated, truncated = ended
    if cut:
        truncated[-1] |= ~terminated[-1]
    with timer.time("inference"):
        # All steps at once: what need not be known for acting costs a hundred small calls less.
        outputs, features = (torch.stack(part).flatten(0, 1) for part in zip(*answers, strict=True))
        played = torch.stack(actions)
        logs = distribution.log_probability(outputs, played.flatten(0, 1).to(device)).reshape(steps, n_envs).cpu()
        values = agent.valued(features).reshape(steps, n_envs, 2).cpu()
        last = map_arrays(lambda part: torch.from_numpy(part).to(device), observations)
        last_values = agent.valued(agent.step(last, hidden)[1]).cpu()
        memory = tuple(torch.stack(part).cpu() for part in zip(*memories, strict=True)) or (None, None)
        next_values = following(values, last_values, valid)
        successor_values = next_values.clone()
        if bool(truncated.any()):
            finals = map_observations(lambda part: part[truncated].to(device), next_observations)
            then = None if memory[1] is None else memory[1][truncated].to(device)
            successor_values[truncated] = agent.valued(agent.step(finals, then)[1]).cpu()
    some_invalid = None if bool(valid.all()) else valid
    transitions = Transitions(seen, played, next_observations, terminated, truncated, some_invalid)
    reached = np.stack(places) if len(places) == steps else None
    measured = (rewards, logs, values, next_values, successor_values, reached)
    return Rollout(transitions, *measured, *memory, hidden_after=hidden), observations


def random_play(
    environments: Environments,
    observations: Arrays,
    *,
    steps: int,
    distribution: Distribution,
    generator: torch.Generator,
    ranks: Ranks = ALONE,
) -> tuple[Transitions, Arrays]:
    """The transitions of uniformly random (or standard normal) actions, and the observations after them."""
    indifferent = torch.zeros(environments.n_envs * ranks.count, distribution.outputs)
    seen, after, actions, answers = _empty(observations, steps), _empty(observations, steps), [], []
    _require_finite("observation", observations, "the start of random play")
    for t in range(steps):
        _write(seen, t, observations)
        actions.append(ranks.mine(distribution.sample(indifferent, generator=generator)))
        answers.append(environments.step(actions[-1].numpy()))
        _require_finite_step(answers[-1], f"step {(t + 1) * environments.n_envs:,} of random play")
        _write(after, t, answers[-1].next_observations)
        observations = answers[-1].observations
    valid = [np.ones(environments.n_envs, bool) if step.valid is None else step.valid for step in answers]
    flags = ([step.terminated for step in answers], [step.truncated for step in answers], valid)
    terminated, truncated, real = (torch.from_numpy(np.stack(flag)) for flag in flags)
    return Transitions(seen, torch.stack(actions), after, terminated, truncated, real), observations


def following(values: Tensor, last: Tensor, valid: Tensor) -> Tensor:
    """The values of what is acted on next, past steps that are not valid. Shapes: (T, N, 2), (N, 2) -> (T, N, 2)."""
    result = torch.cat([values[1:], last.unsqueeze(0)])
    if not bool(valid.all()):
        for t in range(len(values) - 2, -1, -1):
            result[t] = torch.where(valid[t + 1].unsqueeze(1), result[t], result[t + 1])
    return result


def _empty(observations: Arrays, steps: int) -> Observations:
    """Room for ``steps`` steps of observations like these. Shapes: (N, ...) -> (steps, N, ...)."""
    return map_arrays(
        lambda part: torch.empty((steps, *part.shape), dtype=torch.from_numpy(part[:0]).dtype), observations
    )


def _write(room: Observations, t: int, observations: Arrays) -> Observations:
    """Step ``t`` of ``room``, in which ``observations`` stand now."""
    for name, part in named_arrays(observations).items():
        named(room)[name][t] = torch.from_numpy(part)
    return map_observations(lambda part: part[t], room)


def _require_finite_step(step: Step, when: str) -> None:
    _require_finite("reward", step.rewards, when)
    _require_finite("observation", step.next_observations, when)
    if step.observations is not step.next_observations:
        _require_finite("observation", step.observations, when)


def _require_finite(what: str, arrays: Arrays, when: str) -> None:
    for name, values in named_arrays(arrays).items():
        if values.dtype.kind == "f" and not np.isfinite(values).all():
            where = np.argwhere(~np.isfinite(values))[0, 0]
            raise NotFinite(
                f"the {label(what, name)} of environment {where} is not finite at {when}: look into the environment; "
                "the run can be resumed from its last checkpoint"
            )
