"""How closely ACB follows the exact elliptical bonus: rank correlation and scale, for every solver."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from itertools import product
from statistics import mean, stdev
from typing import Any, Self

import torch

from optimist.bonuses.acb.config import DEFAULT, Streaming, with_settings
from optimist.reporting.figures.fidelity import draw_fidelity, draw_frontier
from optimist.studies.fidelity.frontier import Frontier, FrontierFit, Walk, measure_frontier
from optimist.studies.fidelity.measurement import Fit, Ground, Reference, streams
from optimist.studies.fidelity.measurement import measure as measure_one
from optimist.studies.fidelity.policies import Policy
from optimist.studies.study import Draw, Measurement, Progress, Session, Study, Tables, Verdict, require_seeds

# ---- What ------------------------------------------------------------------------------------------------------------


def measure(settings: "FidelitySettings", session: Session) -> Measurement:
    """The measurements, and the judgement of every variant. ``workers`` is the number of torch's threads."""
    if session.workers is not None:
        torch.set_num_threads(session.workers)
    before = n_fits(settings)
    total = before + n_frontier_fits(settings)
    fits = measurements(settings, lambda done, _, label: session.progress(done, total, label))
    moving = frontier_measurements(settings, lambda done, _, label: session.progress(before + done, total, label))
    session.progress(total, total, "done")
    judgements = [asdict(verdict) for verdict in (*judge_fits(fits), *judge_frontier(moving))]
    tables = {"fidelity": [asdict(fit) for fit in fits], "frontier": [asdict(fit) for fit in moving]}
    return Measurement(tables | {"judgements": judgements})


def measurements(settings: "FidelitySettings", progress: Progress) -> list[Fit]:
    """The rows of environments x policies x features x variants x ensemble sizes x replicates x checkpoints x ..."""
    runs = list(product(settings.variants, settings.ensemble_sizes, range(settings.replicates)))
    places = list(product(settings.environments, settings.policies))
    total, fits = n_fits(settings), list[Fit]()
    done = 0
    for env, policy in places:
        progress(done, total, f"{env}, the play of a {policy} policy")
        for stream in streams(env, policy, settings.features, settings.ground):
            reference = Reference(stream, settings.ground)
            for variant, members, replicate in runs:
                progress(done, total, f"{env} {policy} {stream.features} {variant.name} M={members}")
                config = with_settings(DEFAULT, dict(variant.fields) | {"ensemble_size": members})
                fits += measure_one(stream, reference, variant.name, config, replicate, settings.ground)
                done += 1
    return fits


def n_fits(settings: "FidelitySettings") -> int:
    """How many solvers are fitted to fixed streams."""
    each = len(settings.variants) * len(settings.ensemble_sizes) * settings.replicates
    return len(settings.environments) * len(settings.policies) * len(settings.features) * each


def n_frontier_fits(settings: "FidelitySettings") -> int:
    """How many follow a moving frontier."""
    return len(settings.frontiers) * len(settings.policies) * len(settings.moving) * settings.replicates


def frontier_measurements(settings: "FidelitySettings", progress: Progress) -> list[FrontierFit]:
    """The rows of frontiers x policies x moving variants x replicates, with the largest ensemble."""
    members, training_steps = max(settings.ensemble_sizes), settings.ground.training_steps
    runs = list(product(settings.moving, range(settings.replicates)))
    places = list(product(settings.frontiers, settings.policies))
    total, fits = n_frontier_fits(settings), list[FrontierFit]()
    for frontier, policy in places:
        progress(len(fits), total, f"moving frontier of DeepSea-{frontier.size}, a {policy} policy")
        walk = Walk(frontier, policy, training_steps)
        for variant, replicate in runs:
            progress(len(fits), total, f"moving frontier of DeepSea-{frontier.size} {policy} {variant.name}")
            config = with_settings(DEFAULT, dict(variant.fields) | {"ensemble_size": members})
            fits.append(measure_frontier(walk, variant.name, config, replicate))
    return fits


def figures(tables: Tables) -> Mapping[str, Draw]:
    """Against the exact bonus of each variant's own ridge, and against that of a common one; the moving frontiers."""
    rows, moving = tables["fidelity"], tables.get("frontier", ())
    result: dict[str, Draw] = {
        f"fidelity_{name}_ridge": partial(draw_fidelity, rows, name) for name in ("own", "common")
    }
    return result | ({"frontier": partial(draw_frontier, moving)} if moving else {})


# ---- Settings --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Variant:
    """A solver under test: the settings in which it differs from the preset DEFAULT."""

    name: str
    fields: tuple[tuple[str, Any], ...]


def _variant(name: str, **fields: Any) -> Variant:
    return Variant(name, tuple(fields.items()))


def _rmsprop(learning_rate: float, epochs: int, averaging: str = "uniform") -> Variant:
    suffix = "" if averaging == "uniform" else f" {averaging}"
    return _variant(
        f"rmsprop {learning_rate:g} x{epochs}{suffix}",
        solver="rmsprop",
        prior="uniform",
        learning_rate=learning_rate,
        minibatch_size=128,
        epochs=epochs,
        averaging=averaging,
    )


def _proximal(ridge: float, minibatch_size: int, epochs: int = 1) -> Variant:
    return _variant(
        f"proximal {ridge:g} n={minibatch_size} x{epochs}",
        solver="proximal",
        ridge=ridge,
        minibatch_size=minibatch_size,
        epochs=epochs,
    )


def _moving(averaging: str, **fields: Any) -> Variant:
    """A proximal stream of ridge 1 and large minibatches, which follow the exact bonus best on a moving frontier."""
    others = "".join(f" {value}" for value in fields.values())
    name = f"proximal 1 n=2048 {averaging}{others}"
    return _variant(name, solver="proximal", minibatch_size=2048, averaging=averaging, **fields)


def _default(fraction: float = DEFAULT.fraction) -> Variant:
    """The preset DEFAULT as it stands, or on a share of the states."""
    return _variant("DEFAULT" if fraction == 1 else f"DEFAULT on {fraction:g}", fraction=fraction)


def _rounded() -> Variant:
    """The preset DEFAULT, multiplied in bfloat16."""
    return _variant("DEFAULT bfloat16", precision="bfloat16")


def _streaming(rank: int = Streaming().rank) -> Variant:
    return _variant(f"streaming rank {rank}", solver="streaming", rank=rank)


def _exact(ridge: float) -> Variant:
    return _variant(f"exact {ridge:g}", solver="exact", ridge=ridge)


@dataclass(frozen=True)
class FidelitySettings:
    """One run of the study. Every variant meets every environment, feature and ensemble size."""

    environments: tuple[str, ...] = ("Breakout-v5", "MiniGrid-MultiRoom-N4-S5-v0")
    """Environments whose states the policies visit."""
    policies: tuple[Policy, ...] = ("random", "trained")
    """random: a fresh network, and uniformly random actions; trained: one that was trained with ACB for a short while,
    and its own actions."""
    features: tuple[tuple[str, int], ...] = (("sketch", 16), ("last-layer", 0))
    """Feature maps of the policy network with the size of the sketch, which the others do not have."""
    variants: tuple[Variant, ...] = (
        _rmsprop(1e-4, 4),
        _rmsprop(1e-3, 4),
        _proximal(1000.0, 512),
        _default(),
        _default(fraction=0.25),
        _rounded(),
        _streaming(),
        _exact(100.0),
    )
    """The solvers under test."""
    moving: tuple[Variant, ...] = (
        _default(),
        _rounded(),
        _moving("polynomial"),
        _moving("narrowest"),
        _streaming(384),
        _streaming(),
        _rmsprop(1e-3, 4),
    )
    """The solvers under test on the moving frontiers."""
    frontiers: tuple[Frontier, ...] = (Frontier(), Frontier(size=50, sketch_size=24, rollouts=20))
    """The moving frontiers, of 465 states in 544 dimensions and of 1,275 states in 1,200, read by the networks of the
    same policies; the walk is not theirs."""
    ensemble_sizes: tuple[int, ...] = (128,)
    """M."""
    replicates: int = 2
    """Seeds of the ensemble; the states and the network stay the same."""
    ground: Ground = field(default_factory=Ground)
    """What all of them share."""
    default: dict[str, Any] = field(default_factory=lambda: asdict(DEFAULT) | {"solver": repr(DEFAULT.solver)})
    """The preset that rows called DEFAULT are of; kept in the record, for it may change later."""

    def with_seeds(self, seeds: Sequence[int]) -> Self:
        """The same study on other states, networks and projections."""
        seed = require_seeds(seeds, most=1)[0]
        frontiers = tuple(replace(frontier, seed=seed) for frontier in self.frontiers)
        return replace(self, ground=replace(self.ground, seed=seed), frontiers=frontiers)


LAPTOP = FidelitySettings()
SMOKE = replace(
    LAPTOP,
    environments=("MiniGrid-MultiRoom-N4-S5-v0",),
    features=(("sketch", 4), ("last-layer", 0)),
    variants=(_rmsprop(1e-3, 4), _default(), _exact(100.0)),
    ensemble_sizes=(64,),
    replicates=1,
    ground=Ground(parallel=8, rollout=32, training_steps=512, checkpoints=(1, 2), queries=60, ceiling_draws=2),
    moving=(_default(), _moving("uniform"), _moving("narrowest"), _streaming(48)),
    frontiers=(Frontier(size=12, sketch_size=8, rollouts=16, episodes=32, first=0.2, last=0.5),),
)
PAPER = replace(
    LAPTOP,
    variants=(
        *LAPTOP.variants,
        _rmsprop(1e-3, 4, "exponential"),
        _rmsprop(1e-3, 20),
        _rmsprop(1e-2, 4),
        _proximal(10.0, 512),
        _proximal(100.0, 512),
        _proximal(100.0, 128),
        _proximal(100.0, 512, epochs=4),
        _proximal(1000.0, 128),
        _exact(1.0),
        _exact(1000.0),
    ),
    features=(*LAPTOP.features, ("penultimate", 0)),
    ground=Ground(parallel=128, rollout=128, checkpoints=(1, 3, 10, 30)),
    ensemble_sizes=(16, 64, 128, 512),
    replicates=5,
)
SCALES = {"smoke": SMOKE, "laptop": LAPTOP, "paper": PAPER}

# ---- Verdict ---------------------------------------------------------------------------------------------------------

LARGEST_GAP = 0.02
"""Rank correlation below the ceiling of exact draws with the same ensemble size and aggregate."""
LARGEST_FACTOR = 2.0
"""Median scale against the exact bonus, either way."""
MOVING_CORRELATION = 0.95
"""Rank correlation with the exact bonus on the moving frontier, at least."""
SIGNIFICANT = 2.0
"""Standard errors over replicates."""

Key = tuple[str, str, str, str, int, str]


def judge(tables: Tables) -> list[Verdict]:
    """Whether the preset DEFAULT follows the exact bonus; what the other variants do is a table."""
    fixed = judge_fits([Fit(**row) for row in tables["fidelity"] if row["variant"] == "DEFAULT"])
    moving = [FrontierFit(**row) for row in tables.get("frontier", []) if row["variant"] == "DEFAULT"]
    return [*fixed, *judge_frontier(moving)]


def judge_fits(rows: Sequence[Fit]) -> list[Verdict]:
    """A verdict for every environment, policy, feature, variant, ensemble size and aggregate, at its worst checkpoint.

    Against the exact bonus of the variant's own ridge; the common reference is for the table.
    """
    groups: dict[Key, list[Fit]] = {}
    for row in [row for row in rows if row.reference == "own"]:
        key = (row.environment, row.policy, row.features, row.variant, row.ensemble_size, row.aggregate)
        groups.setdefault(key, []).append(row)
    return [judge_variant(key, group) for key, group in groups.items()]


def judge_variant(key: Key, rows: Sequence[Fit]) -> Verdict:
    """Holds if the mean gap is significantly within 0.02 and every median scale within a factor of 2."""
    environment, policy, features, variant, members, aggregate = key
    gap, error = max(mean_gap([r for r in rows if r.states == states]) for states in {r.states for r in rows})
    factor = max(math.exp(abs(math.log(row.scale))) if row.scale > 0 else math.inf for row in rows)
    claim = (
        f"{variant}, M = {members}, {aggregate}, {features} features of {environment}{_trained(policy)}: "
        f"within {LARGEST_GAP} of the ceiling and a factor of {LARGEST_FACTOR:g} of the scale"
    )
    measured = f"gap {gap:.3f} ± {error:.3f} at the worst checkpoint, scale off by a factor of {factor:.2f} at most"
    if factor > LARGEST_FACTOR or gap - SIGNIFICANT * error > LARGEST_GAP:
        return Verdict(claim, measured, "does not hold")
    if gap + SIGNIFICANT * error <= LARGEST_GAP:
        return Verdict(claim, measured, "holds")
    return Verdict(claim, measured, "not enough data")


def judge_frontier(rows: Sequence[FrontierFit]) -> list[Verdict]:
    """A verdict for every variant on every moving frontier: its worst rank correlation and its worst scale."""
    groups: dict[tuple[str, str, str], list[FrontierFit]] = {}
    for row in rows:
        groups.setdefault((row.environment, row.policy, row.variant), []).append(row)
    verdicts = []
    for (environment, policy, variant), mine in groups.items():
        least = min(row.correlation for row in mine)
        scales = [scale for row in mine for scale in (row.often, row.rarely, row.never) if not math.isnan(scale)]
        factor = max(math.exp(abs(math.log(scale))) if scale > 0 else math.inf for scale in scales)
        claim = (
            f"{variant}, M = {mine[0].ensemble_size}, moving frontier of {environment}{_trained(policy)}: rank "
            f"correlation of at least {MOVING_CORRELATION:g}, scales of often, rarely and never seen states within "
            f"{LARGEST_FACTOR:g}"
        )
        holds = least >= MOVING_CORRELATION and factor <= LARGEST_FACTOR
        measured = f"rank correlation {least:.3f} at least, scale off by a factor of {factor:.2f} at most"
        verdicts.append(Verdict(claim, measured, "holds" if holds else "does not hold"))
    return verdicts


def _trained(policy: str) -> str:
    return ", a trained policy" if policy == "trained" else ""


def mean_gap(rows: Sequence[Fit]) -> tuple[float, float]:
    """The mean gap to the ceiling and its standard error over replicates, infinite if there is only one."""
    gaps = [row.gap for row in rows]
    return mean(gaps), stdev(gaps) / math.sqrt(len(gaps)) if len(gaps) > 1 else math.inf


STUDY = Study(SCALES, measure, judge, figures, spreads=False)
