"""ACB against the exact elliptical bonus on a moving frontier: a walk that goes further from rollout to rollout.

On a fixed stream every state is seen all along. A learning policy leaves old states and finds new ones, which is where
an average over the past goes wrong: often-seen, rarely seen and never-seen states are measured apart.
"""

from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from optimist.bonuses import ACB, Discrete, Elliptical, EllipticalConfig, features
from optimist.bonuses.acb.config import ACBConfig
from optimist.bonuses.checkpointing import seeded_generator
from optimist.studies.fidelity.measurement import as_transitions, correlation
from optimist.training.agent import make_agent

OFTEN, RARELY = 2 / 3, 1 / 3
"""Quantiles of the visits of seen states above and below which a state is seen often and rarely."""


@dataclass(frozen=True)
class Frontier:
    """Walks down a DeepSea of ``size`` rows, left or right at each, that tend further to the right with time."""

    size: int = 30
    """Rows; there are ``size (size + 1) / 2`` states."""
    sketch_size: int = 16
    """Of the sketched gradient of a fresh policy network."""
    rollouts: int = 60
    """Updates."""
    episodes: int = 68
    """Walks in a rollout."""
    first: float = 0.3
    """The probability of a step to the right in the first rollout."""
    last: float = 0.6
    """And in the last one; in between it grows evenly."""
    seed: int = 0
    """Of the walks and of the policy network."""


@dataclass(frozen=True)
class FrontierFit:
    """One ensemble at the end of the walk, by the width. The last three: its median over the exact one's."""

    environment: str
    features: str
    dimensions: int
    variant: str
    ensemble_size: int
    replicate: int
    states: int
    distinct: int
    correlation: float
    often: float
    rarely: float
    never: float


class Walk:
    """The states of the walk, rollout by rollout, the network that reads them, and how often each was seen."""

    def __init__(self, frontier: Frontier):
        self.frontier = frontier
        n = frontier.size
        self.every = torch.tensor([row * n + column for row in range(n) for column in range(row + 1)])
        generator = seeded_generator(frontier.seed, "frontier walk")
        steps = torch.linspace(frontier.first, frontier.last, frontier.rollouts)
        self.rollouts = [walked(n, frontier.episodes, float(p), generator=generator) for p in steps]
        self.visits = torch.bincount(torch.cat(self.rollouts).flatten(), minlength=n * n)[self.every]

    def network(self) -> nn.Module:
        """A fresh policy network, the same at every call, as ``optimist train`` makes it for DeepSea."""
        generator = seeded_generator(self.frontier.seed, "frontier policy")
        shape = Discrete(self.frontier.size**2)
        agent = make_agent(shape, 2, network="auto", activation="leaky-relu", width=64, generator=generator)
        return agent.policy


def walked(size: int, episodes: int, right: float, *, generator: torch.Generator) -> Tensor:
    """The states ``row * size + column`` of so many walks down from the upper left corner, (size, episodes)."""
    column, states = torch.zeros(episodes, dtype=torch.int64), []
    for row in range(size):
        states.append(row * size + column)
        goes_right = torch.rand(episodes, generator=generator) < right
        column = torch.where(goes_right, column + 1, (column - 1).clamp_min(0))
    return torch.stack(states)


def measure_frontier(walk: Walk, variant: str, config: ACBConfig, replicate: int) -> FrontierFit:
    """The row of one ensemble, ``config`` called ``variant``, that learns the walk beside the exact bonus.

    Both read the same sketch, drawn from the replicate's seed, of a network that stands still.
    """
    frontier = walk.frontier
    config = replace(config, features="sketch", sketch_size=frontier.sketch_size, form="width", auxiliary_rate=0.0)
    example = torch.zeros(1, dtype=torch.int64)
    learner = ACB(walk.network(), example, seed=replicate, config=config)
    feature_map = features.make(
        "sketch",
        walk.network(),
        example,
        seed=replicate,
        feature_loss=config.feature_loss,
        weighting=config.weighting,
        sketch_size=frontier.sketch_size,
    )
    d = sum(shape.numel() for shape in feature_map.shapes)
    ridge = config.solver.ridge if config.solver.prior == "gaussian" else 3.0 * d
    own = EllipticalConfig(
        ridge=ridge, epsilon=config.epsilon, epsilon_form=config.epsilon_form, floor=config.floor, form="width"
    )
    reference = Elliptical(feature_map, Discrete(frontier.size**2), config=own)
    for states in walk.rollouts:
        learner.update(as_transitions(states))
        reference.update(as_transitions(states))
    asked = as_transitions(walk.every.unsqueeze(1))
    width, exact = (bonus.compute(asked).flatten().double() for bonus in (learner, reference))
    seen = walk.visits > 0
    visits = walk.visits.double()
    often = visits > visits[seen].quantile(OFTEN)
    rarely = seen & (visits <= visits[seen].quantile(RARELY))
    return FrontierFit(
        environment=f"DeepSea-{frontier.size}",
        features=f"sketch {frontier.sketch_size}",
        dimensions=d,
        variant=variant,
        ensemble_size=config.ensemble_size,
        replicate=replicate,
        states=int(walk.visits.sum()),
        distinct=int(seen.sum()),
        correlation=correlation(width, exact),
        often=_median(width / exact, often),
        rarely=_median(width / exact, rarely),
        never=_median(width / exact, ~seen),
    )


def _median(ratio: Tensor, chosen: Tensor) -> float:
    return ratio[chosen].median().item() if bool(chosen.any()) else float("nan")
