"""What the fidelity study measures: rank correlation and scale of ACB against the exact elliptical bonus."""

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from itertools import product
from pathlib import Path

import torch
from scipy.stats import spearmanr
from torch import Tensor, nn

from optimist.bonuses import features as feature_maps
from optimist.bonuses.acb import ACB
from optimist.bonuses.acb_config import ACBConfig
from optimist.bonuses.ensemble import Aggregate, expected_maximum, squared_deviation
from optimist.bonuses.feature_scale import RunningScale
from optimist.bonuses.features.batch import Dense
from optimist.bonuses.protocol import Transitions
from optimist.bonuses.state import seeded_generator
from optimist.reporting import tables
from optimist.reporting.fidelity import draw_fidelity
from optimist.studies.fidelity.measurement import Row
from optimist.studies.fidelity.settings import FidelitySettings, Variant
from optimist.studies.fidelity.states import fresh_policy, random_play
from optimist.studies.fidelity.verdict import judge
from optimist.studies.outcome import Outcome, Progress

AGGREGATES: tuple[Aggregate, ...] = ("max", "rms")


@dataclass(frozen=True)
class Stream:
    """Features of the states of random play: rollouts (R, T, N, d) to learn, held-out queries (Q, d)."""

    environment: str
    features: str
    rollouts: Tensor
    queries: Tensor


def run(
    settings: FidelitySettings, progress: Progress, workers: int | None = None, folder: Path | None = None
) -> Outcome:
    """The measurements, a verdict on the preset DEFAULT, and the judgement of every variant as a table.

    ``workers`` is the number of torch's threads.
    """
    if workers is not None:
        torch.set_num_threads(workers)
    rows = measurements(settings, progress)
    table: list[tables.Row] = [dataclasses.asdict(row) for row in rows]
    return Outcome(
        tables={"fidelity": table, "judgements": [dataclasses.asdict(verdict) for verdict in judge(rows)]},
        verdicts=judge([row for row in rows if row.variant == "DEFAULT"]),
        figures={
            "fidelity_own_ridge": partial(draw_fidelity, table, "own"),
            "fidelity_common_ridge": partial(draw_fidelity, table, "common"),
        },
    )


def measurements(settings: FidelitySettings, progress: Progress) -> list[Row]:
    """The rows of environments x features x variants x ensemble sizes x replicates x checkpoints x aggregates.

    The features of all states are computed once and then learned by the ACB that ships, through a policy network
    whose penultimate feature is its input. A network does not learn here, so features stand still.
    """
    runs = list(product(settings.variants, settings.ensemble_sizes, range(settings.replicates)))
    total = len(settings.environments) * len(settings.features) * len(runs)
    rows: list[Row] = []
    done = 0
    for stream in streams(settings):
        reference = Reference(stream, settings)
        for variant, members, replicate in runs:
            progress(done, total, f"{stream.environment} {stream.features} {variant.name} M={members}")
            rows += measure(stream, reference, variant, members, replicate, settings)
            done += 1
    progress(total, total, "done")
    return rows


def streams(settings: FidelitySettings) -> Iterator[Stream]:
    """The features of every environment under every feature map."""
    rollouts, held_out = settings.checkpoints[-1], settings.parallel // 4
    for environment in settings.environments:
        images, actions = random_play(
            environment, steps=rollouts * settings.rollout, parallel=settings.parallel, seed=settings.seed
        )
        network = fresh_policy(environment, actions, generator=seeded_generator(settings.seed, "fidelity policy"))
        for name, side in settings.features:
            chosen = feature_maps.make(name, network, images[0, :1], seed=settings.seed, side=side or 1)
            parts = [chosen(chunk).dense() for chunk in images.flatten(0, 1).split(256)]
            features = torch.cat(parts).reshape(*images.shape[:2], -1)
            unseen = features[:, -held_out:].flatten(0, 1)
            spaced = torch.linspace(0, len(unseen) - 1, min(settings.queries, len(unseen))).long()
            learned = features[:, :-held_out].unflatten(0, (rollouts, settings.rollout))
            yield Stream(environment, f"{name} {side}" if side else name, learned, unseen[spaced])


class Reference:
    """The exact elliptical bonus of the queries after some rollouts, whitened by what was seen till then."""

    def __init__(self, stream: Stream, settings: FidelitySettings):
        self._stream = stream
        self._settings = settings
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
            generator = seeded_generator(self._settings.seed, "fidelity ceiling")
            shape = (queries.shape[1], members * self._settings.ceiling_draws)
            noise = torch.randn(shape, generator=generator, dtype=queries.dtype)
            weights = torch.linalg.solve_triangular(self._factors[rollouts, ridge].T, noise, upper=True)
            drawn = [squared_deviation(part, aggregate) for part in (queries @ weights).split(members, 1)]
            self._ceilings[key] = sum(correlation(bonus, exact) for bonus in drawn) / len(drawn)
        return self._ceilings[key]

    def _space(self, rollouts: int) -> tuple[Tensor, Tensor]:
        if rollouts not in self._whitened:
            history = Dense(self._stream.rollouts[:rollouts].flatten(0, 2).double())
            scale = RunningScale(history.shapes, epsilon=self._settings.epsilon, relative=True)
            scale.observe(history)
            seen = scale.standardise(history).dense()
            self._whitened[rollouts] = scale.standardise(Dense(self._stream.queries.double())).dense(), seen.T @ seen
        return self._whitened[rollouts]


def measure(
    stream: Stream, reference: Reference, variant: Variant, members: int, replicate: int, settings: FidelitySettings
) -> Iterator[Row]:
    """The rows of one ensemble that learns the stream."""
    d = stream.queries.shape[1]
    common = ACBConfig(features="penultimate", ensemble_size=members, epsilon=settings.epsilon, form="square")
    config = replace(common, **dict(variant.fields))
    # w_0 is the prior, so the ridge to compare with is its precision: 1 / variance.
    ridge = config.ridge if config.prior == "gaussian" else 3.0 * d
    network = nn.Linear(d, 2)
    readers = {
        a: ACB(network, stream.queries[:1], seed=replicate, config=replace(config, aggregate=a)) for a in AGGREGATES
    }
    learner = readers["rms"]
    queries = as_transitions(stream.queries[:, None])
    for rollouts, observations in enumerate(stream.rollouts, start=1):
        learner.update(as_transitions(observations))
        if rollouts not in settings.checkpoints:
            continue
        readers["max"].load_state_dict(learner.state_dict())
        for aggregate, reader in readers.items():
            bonus = reader.compute(queries).flatten().double()
            unit = expected_maximum(members) if aggregate == "max" else 1.0
            for name, compared in {"own": ridge, "common": settings.common_ridge}.items():
                exact = reference.exact(rollouts, compared)
                yield Row(
                    environment=stream.environment,
                    features=stream.features,
                    dimensions=d,
                    variant=variant.name,
                    ensemble_size=members,
                    aggregate=aggregate,
                    replicate=replicate,
                    states=stream.rollouts[:rollouts, ..., 0].numel(),
                    reference=name,
                    ridge=compared,
                    correlation=correlation(bonus, exact),
                    scale=(bonus / unit / exact).median().item(),
                    ceiling=reference.ceiling(rollouts, compared, members, aggregate),
                )


def correlation(bonus: Tensor, exact: Tensor) -> float:
    """Spearman's rank correlation."""
    return float(spearmanr(bonus.numpy(), exact.numpy()).statistic)


def as_transitions(successors: Tensor) -> Transitions:
    """Transitions whose states and successors are both ``successors`` (T, N, d); actions play no part."""
    leading = successors.shape[:2]
    never = torch.zeros(leading, dtype=torch.bool)
    return Transitions(successors, torch.zeros(leading, dtype=torch.int64), successors, never, never)
