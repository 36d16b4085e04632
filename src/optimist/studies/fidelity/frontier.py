"""ACB against the exact elliptical bonus on a moving frontier: a walk that goes further from rollout to rollout.

On a fixed stream every state is seen all along. A learning policy leaves old states and finds new ones, which is where
an average over the past goes wrong: often-seen, rarely seen and never-seen states are measured apart.
"""

from copy import deepcopy
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from optimist.bonuses import ACB, Bonus, Discrete, Elliptical, EllipticalConfig, features
from optimist.bonuses.acb.config import ACBConfig
from optimist.bonuses.checkpointing import seeded_generator
from optimist.studies.fidelity.measurement import as_transitions, correlation
from optimist.studies.fidelity.policies import Policy, trained_policy
from optimist.training.agent import make_agent

OFTEN, RARELY = 2 / 3, 1 / 3
"""Quantiles of the visits of seen states above and below which a state is seen often and rarely."""


@dataclass(frozen=True)
class Frontier:
    """Walks down a DeepSea of ``size`` rows, left or right at each, that tend further to the right with time."""

    size: int = 30
    """Rows; there are ``size (size + 1) / 2`` states."""
    sketch_size: int = 16
    """Of the sketched gradient of the policy network."""
    rollouts: int = 30
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
    policy: str = "random"  # as tables of before it was a column have it


class Walk:
    """The states of the walk, rollout by rollout, the network that reads them, and how often each was seen.

    The walk is the same whatever the ``policy``: its network is a fresh one, or one that was trained with ACB on this
    DeepSea for ``training_steps`` steps.
    """

    def __init__(self, frontier: Frontier, policy: Policy = "random", training_steps: int = 0):
        self.frontier, self.policy = frontier, policy
        n = frontier.size
        self.every = torch.tensor([row * n + column for row in range(n) for column in range(row + 1)])
        generator = seeded_generator(frontier.seed, "frontier walk")
        steps = torch.linspace(frontier.first, frontier.last, frontier.rollouts)
        self.rollouts = [walked(n, frontier.episodes, float(p), generator=generator) for p in steps]
        self.visits = torch.bincount(torch.cat(self.rollouts).flatten(), minlength=n * n)[self.every]

        self._network = self._fresh() if policy == "random" else self._trained(training_steps)
        self._exact: dict[tuple[object, ...], Tensor] = {}

    def network(self) -> nn.Module:
        """A copy of the policy network."""
        return deepcopy(self._network)

    def _fresh(self) -> nn.Module:
        """As ``optimist train`` makes it for DeepSea."""
        generator = seeded_generator(self.frontier.seed, "frontier policy")
        shape = Discrete(self.frontier.size**2)
        agent = make_agent(shape, 2, network="auto", activation="leaky-relu", width=64, generator=generator)
        return agent.policy

    def _trained(self, steps: int) -> nn.Module:
        return trained_policy(f"DeepSea-{self.frontier.size}", seed=self.frontier.seed, total_steps=steps)

    def exact(self, config: ACBConfig, replicate: int) -> tuple[Tensor, int]:
        """The exact widths of every state at the end of the walk, in what ``config`` makes of features, and d.

        They are computed once for each kind of features, of standardization and of ridge.
        """
        frontier = self.frontier
        feature_map = features.make(
            "sketch",
            self.network(),
            torch.zeros(1, dtype=torch.int64),
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
        key = (replicate, config.feature_loss, config.weighting, own)
        if key not in self._exact:
            reference = Elliptical(feature_map, Discrete(frontier.size**2), config=own)
            for states in self.rollouts:
                reference.update(as_transitions(states))
            self._exact[key] = self.read(reference)
        return self._exact[key], d

    def read(self, bonus: Bonus) -> Tensor:
        """The bonus of every state, (n,), float64."""
        return bonus.compute(as_transitions(self.every.unsqueeze(1))).flatten().double()


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
    learner = ACB(walk.network(), torch.zeros(1, dtype=torch.int64), seed=replicate, config=config)
    for states in walk.rollouts:
        learner.update(as_transitions(states))
    width, (exact, d) = walk.read(learner), walk.exact(config, replicate)
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
        policy=walk.policy,
    )


def _median(ratio: Tensor, chosen: Tensor) -> float:
    return ratio[chosen].median().item() if bool(chosen.any()) else float("nan")
