"""One ensemble against the exact elliptical bonus, on states that a random or a trained policy visits."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import torch
from scipy.stats import spearmanr
from torch import Tensor, nn

from optimist.bonuses import features as feature_maps
from optimist.bonuses.acb.bonus import ACB
from optimist.bonuses.acb.config import ACBConfig, Aggregate
from optimist.bonuses.acb.ensemble import expected_maximum, squared_deviation
from optimist.bonuses.acb.standardize import Floor, RunningScale
from optimist.bonuses.checkpointing import seeded_generator
from optimist.bonuses.features.batch import Dense
from optimist.bonuses.protocol import Transitions
from optimist.studies.fidelity.policies import Policy, random_play, trained_play

AGGREGATES: tuple[Aggregate, ...] = ("max", "rms")


@dataclass(frozen=True)
class Ground:
    """What all ensembles of a study share: how much is seen, and what they are held against."""

    parallel: int = 16
    """Environments stepped side by side; the last quarter of them is held out."""
    rollout: int = 125
    """Steps between two updates, also of training."""
    training_steps: int = 16_000
    """Steps of all environments with ACB that have made a trained policy."""
    checkpoints: tuple[int, ...] = (1, 3, 6)
    """After how many rollouts the fidelity is measured."""
    queries: int = 1000
    """Held-out states, evenly spaced in time."""
    ceiling_draws: int = 8
    """Ensembles of fresh exact draws whose mean fidelity is the ceiling."""
    epsilon: float = ACBConfig().epsilon
    """Relative epsilon of the whitening, common to all."""
    common_ridge: float = 1.0
    """The ridge of the reference that is the same for all variants."""
    seed: int = 0
    """Of environments, actions, training, networks and projections."""

    def __post_init__(self) -> None:
        if self.parallel < 4:
            raise ValueError(
                f"parallel must be at least 4, got {self.parallel}: a quarter of the environments is held out"
            )
        if not self.checkpoints or sorted(set(self.checkpoints)) != list(self.checkpoints) or self.checkpoints[0] < 1:
            raise ValueError(f"checkpoints must be rising numbers of rollouts, at least 1, got {self.checkpoints}")


@dataclass(frozen=True)
class Fit:
    """One measurement. ``scale`` is the median of ACB over exact, a maximum being divided by its expectation first.

    ``reference`` is "own" against the exact bonus with the ridge that the variant's first weights stand for, "common"
    against that with one small ridge for all, which is nearly free of the prior.
    """

    environment: str
    features: str
    dimensions: int
    variant: str
    ensemble_size: int
    aggregate: str
    replicate: int
    states: int
    reference: str
    ridge: float
    correlation: float
    scale: float
    ceiling: float
    policy: str = "random"  # as tables of before it was a column have it

    @property
    def gap(self) -> float:
        """How far the rank correlation is below the ceiling at the same ensemble size and aggregate."""
        return self.ceiling - self.correlation


@dataclass(frozen=True)
class Stream:
    """Features of the states of a policy's play: rollouts (R, T, N, d) to learn, held-out queries (Q, d)."""

    environment: str
    features: str
    rollouts: Tensor
    queries: Tensor
    policy: Policy = "random"


def streams(env: str, policy: Policy, maps: tuple[tuple[str, int], ...], ground: Ground) -> Iterator[Stream]:
    """The features of the states that a policy visits under every feature map, with the size of its sketch."""
    rollouts, held_out = ground.checkpoints[-1], ground.parallel // 4
    steps, parallel, seed = rollouts * ground.rollout, ground.parallel, ground.seed
    if policy == "random":
        states, network = random_play(env, steps=steps, parallel=parallel, seed=seed)
    else:
        training = {"training_steps": ground.training_steps, "rollout": ground.rollout}
        states, network = trained_play(env, steps=steps, parallel=parallel, seed=seed, **training)
    for name, size in maps:
        chosen = feature_maps.make(name, network, states[0, :1], seed=ground.seed, sketch_size=size or 1)
        parts = [chosen(chunk).dense() for chunk in states.flatten(0, 1).split(256)]
        features = torch.cat(parts).reshape(*states.shape[:2], -1)
        unseen = features[:, -held_out:].flatten(0, 1)
        spaced = torch.linspace(0, len(unseen) - 1, min(ground.queries, len(unseen))).long()
        learned = features[:, :-held_out].unflatten(0, (rollouts, ground.rollout))
        yield Stream(env, f"{name} {size}" if size else name, learned, unseen[spaced], policy)


class Reference:
    """The exact elliptical bonus of the queries after some rollouts, whitened by what was seen till then."""

    def __init__(self, stream: Stream, ground: Ground):
        self._stream = stream
        self._ground = ground
        self._ceilings: dict[tuple[int, float, int, str], float] = {}
        self._exact: dict[tuple[int, float], Tensor] = {}
        self._factors: dict[tuple[int, float], Tensor] = {}
        self._whitened: dict[int, tuple[Tensor, Tensor]] = {}

    def exact(self, rollouts: int, ridge: float) -> Tensor:
        """``g' (ridge I + sum g g')^-1 g`` of every query, (Q,)."""
        if (rollouts, ridge) not in self._exact:
            queries, gram = self._space(rollouts)
            factor = torch.linalg.cholesky(gram + ridge * torch.eye(len(gram), dtype=gram.dtype))
            solved = torch.linalg.solve_triangular(factor, queries.T, upper=False)
            self._exact[rollouts, ridge] = solved.square().sum(0)
            self._factors[rollouts, ridge] = factor
        return self._exact[rollouts, ridge]

    def ceiling(self, rollouts: int, ridge: float, members: int, aggregate: Aggregate) -> float:
        """The mean rank correlation that ``members`` fresh draws of N(0, Sigma^-1) reach."""
        key = (rollouts, ridge, members, aggregate)
        if key not in self._ceilings:
            exact, queries = self.exact(rollouts, ridge), self._space(rollouts)[0]
            generator = seeded_generator(self._ground.seed, "fidelity ceiling")
            shape = (queries.shape[1], members * self._ground.ceiling_draws)
            noise = torch.randn(shape, generator=generator, dtype=queries.dtype)
            weights = torch.linalg.solve_triangular(self._factors[rollouts, ridge].T, noise, upper=True)
            drawn = [squared_deviation(part, aggregate) for part in (queries @ weights).split(members, 1)]
            self._ceilings[key] = sum(correlation(bonus, exact) for bonus in drawn) / len(drawn)
        return self._ceilings[key]

    def _space(self, rollouts: int) -> tuple[Tensor, Tensor]:
        if rollouts not in self._whitened:
            history = Dense(self._stream.rollouts[:rollouts].flatten(0, 2).double())
            scale = RunningScale(history.shapes, Floor(self._ground.epsilon, relative=True))
            scale.observe(history)
            seen = scale.standardize(history).dense()
            self._whitened[rollouts] = scale.standardize(Dense(self._stream.queries.double())).dense(), seen.T @ seen
        return self._whitened[rollouts]


def measure(
    stream: Stream, reference: Reference, variant: str, config: ACBConfig, replicate: int, ground: Ground
) -> Iterator[Fit]:
    """The rows of one ensemble, ``config`` called ``variant``, that learns the stream.

    It is the ACB that ships, on a policy network whose penultimate feature is its input: features stand still here.
    """
    d = stream.queries.shape[1]
    config = replace(config, features="penultimate", epsilon=ground.epsilon, form="square")
    members = config.ensemble_size
    # w_0 is the prior, so the ridge to compare with is its precision: 1 / variance.
    ridge = config.solver.ridge if config.solver.prior == "gaussian" else 3.0 * d
    network = nn.Linear(d, 2)
    readers = {
        a: ACB(network, stream.queries[:1], seed=replicate, config=replace(config, aggregate=a)) for a in AGGREGATES
    }
    learner = readers["rms"]
    queries = as_transitions(stream.queries[:, None])
    for rollouts, observations in enumerate(stream.rollouts, start=1):
        learner.update(as_transitions(observations))
        if rollouts not in ground.checkpoints:
            continue
        readers["max"].load_state_dict(learner.state_dict())
        for aggregate, reader in readers.items():
            bonus = reader.compute(queries).flatten().double()
            unit = expected_maximum(members) if aggregate == "max" else 1.0
            for name, compared in {"own": ridge, "common": ground.common_ridge}.items():
                exact = reference.exact(rollouts, compared)
                yield Fit(
                    environment=stream.environment,
                    features=stream.features,
                    dimensions=d,
                    variant=variant,
                    ensemble_size=members,
                    aggregate=aggregate,
                    replicate=replicate,
                    states=stream.rollouts[:rollouts, ..., 0].numel(),
                    reference=name,
                    ridge=compared,
                    correlation=correlation(bonus, exact),
                    scale=(bonus / unit / exact).median().item(),
                    ceiling=reference.ceiling(rollouts, compared, members, aggregate),
                    policy=stream.policy,
                )


def correlation(bonus: Tensor, exact: Tensor) -> float:
    """Spearman's rank correlation."""
    return float(spearmanr(bonus.numpy(), exact.numpy()).statistic)


def as_transitions(states: Tensor) -> Transitions:
    """Transitions from ``states`` (T, N, d) to themselves; actions do not matter here."""
    leading = states.shape[:2]
    never = torch.zeros(leading, dtype=torch.bool)
    return Transitions(states, torch.zeros(leading, dtype=torch.int64), states, never, never)
