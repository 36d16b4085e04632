"""The fidelity study: its reference is the oracle's, its rows are complete and seeded, its verdict can go every way."""

import dataclasses

import pytest
import torch

from optimist.bonuses.acb.config import DEFAULT
from optimist.studies.fidelity.fidelity import (
    LAPTOP,
    SCALES,
    SMOKE,
    FidelitySettings,
    frontier_measurements,
    judge_fits,
    judge_frontier,
    measure,
    measurements,
)
from optimist.studies.fidelity.frontier import Frontier, FrontierFit, Walk, walked
from optimist.studies.fidelity.measurement import Fit, Ground, Reference, Stream
from optimist.studies.fidelity.policies import trained_policy
from optimist.studies.study import Session
from oracles import elliptical_bonuses, standardize

TINY = dataclasses.replace(
    SMOKE,
    policies=("random",),
    features=(("last-layer", 0),),
    variants=SMOKE.variants[1:2],
    ground=dataclasses.replace(SMOKE.ground, checkpoints=(1,), rollout=16),
)


def silent(done, total, label):
    """Nobody watches."""


@pytest.fixture(scope="module")
def smoke_rows():
    return measurements(SMOKE, silent)


def test_the_smoke_study_gives_every_row(smoke_rows):
    sizes = (SMOKE.environments, SMOKE.policies, SMOKE.features, SMOKE.variants, SMOKE.ensemble_sizes)
    expected = 2 * 2 * SMOKE.replicates * len(SMOKE.ground.checkpoints)  # aggregates and references
    for size in sizes:
        expected *= len(size)
    assert len(smoke_rows) == expected
    assert {row.states for row in smoke_rows} == {32 * 6, 64 * 6}  # a quarter of 8 environments is held out
    assert all(-1 <= row.correlation <= 1 and row.scale > 0 for row in smoke_rows)


def test_exact_draws_follow_the_exact_bonus_and_so_does_the_exact_solver(smoke_rows):
    solved = [row for row in smoke_rows if (row.variant, row.aggregate, row.reference) == ("exact 100", "rms", "own")]
    assert solved
    assert all(row.correlation > 0.85 and row.ceiling > 0.85 for row in solved)
    assert all(0.5 < row.scale < 2 for row in solved)


def test_the_study_is_seeded_and_reports_progress():
    steps = []
    first = measurements(TINY, lambda done, total, label: steps.append((done, total)))
    assert first == measurements(TINY, silent)
    assert first != measurements(TINY.with_seeds([1]), silent)
    assert steps == [(0, 1), (0, 1)]  # the play, the variant


def test_progress_ends_once_when_the_frontiers_are_done_too(tmp_path):
    steps = []
    settings = dataclasses.replace(TINY, moving=SMOKE.moving[:1])
    measure(settings, Session(tmp_path, None, lambda done, total, label: steps.append((done, total, label))))
    assert [step[:2] for step in steps] == [(0, 2), (0, 2), (1, 2), (1, 2), (2, 2)]
    assert "moving frontier" in steps[2][2]
    assert steps[-1][2] == "done"


def test_the_reference_is_the_exact_bonus_in_the_whitened_space():
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(2, 10, 3, 6, generator=generator, dtype=torch.float64) * torch.logspace(-2, 2, 6) + 1
    queries = torch.randn(20, 6, generator=generator, dtype=torch.float64)
    reference = Reference(Stream("", "", x, queries), TINY.ground)
    for rollouts in (1, 2):
        history = x[:rollouts].reshape(-1, 6)
        mean, variance = history.mean(0), history.var(0, correction=0)
        epsilon = TINY.ground.epsilon * variance.mean()
        seen, asked = (standardize(part, mean, variance, epsilon) for part in (history, queries))
        torch.testing.assert_close(
            reference.exact(rollouts, 3.0), elliptical_bonuses(seen, asked, 3.0), rtol=1e-6, atol=0
        )


def test_a_large_ensemble_of_exact_draws_has_a_ceiling_near_one():
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(1, 40, 3, 6, generator=generator)
    reference = Reference(Stream("", "", x, torch.randn(200, 6, generator=generator)), TINY.ground)
    ceilings = [reference.ceiling(1, 1.0, members, "rms") for members in (4, 64, 4096)]
    assert ceilings == sorted(ceilings)
    assert ceilings[-1] > 0.99


def row(replicate, correlation, scale):
    return Fit("e", "f", 10, "v", 16, "max", replicate, 100, "own", 1.0, correlation, scale, ceiling=0.95)


@pytest.mark.parametrize(
    ("rows", "judgement"),
    [
        ([row(0, 0.949, 1.1), row(1, 0.951, 1.2)], "holds"),
        ([row(0, 0.949, 1.1), row(1, 0.951, 2.2)], "does not hold"),
        ([row(0, 0.949, 1.1), row(1, 0.951, 0.4)], "does not hold"),
        ([row(0, 0.900, 1.0), row(1, 0.901, 1.0)], "does not hold"),
        ([row(0, 0.90, 1.0), row(1, 0.97, 1.0)], "not enough data"),
        ([row(0, 0.95, 1.0)], "not enough data"),
    ],
)
def test_the_verdict(rows, judgement):
    assert [verdict.judgement for verdict in judge_fits(rows)] == [judgement]


# --- the moving frontier


def test_a_walk_goes_down_one_row_at_a_time_and_further_right_with_time():
    states = walked(6, 50, 0.5, generator=torch.Generator().manual_seed(0))
    rows, columns = states // 6, states % 6
    assert (rows == torch.arange(6)[:, None]).all()
    assert (columns <= rows).all()
    assert ((columns[1:] - columns[:-1]).abs() <= 1).all()
    walk = Walk(Frontier(size=6, rollouts=3, episodes=50, first=0.1, last=0.9))
    reached = [(states % 6).double().mean() for states in walk.rollouts]
    assert reached == sorted(reached)
    assert walk.visits.sum() == 3 * 50 * 6
    assert len(walk.visits) == 21


def test_a_trained_policy_is_another_network_on_other_states(smoke_rows):
    """It has left its first weights, and plays its own actions: not one number is that of the random policy."""
    by_policy = {policy: [row for row in smoke_rows if row.policy == policy] for policy in SMOKE.policies}
    random, trained = ([(row.correlation, row.scale) for row in rows] for rows in by_policy.values())
    assert len(random) == len(trained) > 0
    assert not set(random) & set(trained)
    short = {"total_steps": 64, "n_envs": 8, "steps": 8}
    fresh = trained_policy("DeepSea-6", seed=3, untrained=True, **short)
    learned, again = (trained_policy("DeepSea-6", seed=3, **short) for _ in range(2))
    assert all(torch.equal(a, b) for a, b in zip(learned.parameters(), again.parameters(), strict=True))
    assert not any(torch.equal(a, b) for a, b in zip(fresh.parameters(), learned.parameters(), strict=True))


@pytest.fixture(scope="module")
def frontier_rows():
    rows = frontier_measurements(dataclasses.replace(SMOKE, policies=("random",)), silent)
    return {row.variant: row for row in rows}


def test_on_a_moving_frontier_the_narrowest_average_follows_the_exact_bonus(frontier_rows):
    exact, uniform, narrowest, streaming = frontier_rows.values()
    assert list(frontier_rows) == [variant.name for variant in SMOKE.moving]
    assert exact.correlation > 0.98
    assert narrowest.correlation > 0.95
    assert narrowest.correlation > uniform.correlation
    for row in (narrowest, streaming):
        assert row.correlation > 0.985
        assert all(0.5 < scale < 2 for scale in (row.often, row.rarely, row.never))
    assert narrowest.often < 1.5  # 1.95 if weights were not carried into the coordinates that moved
    assert streaming.often < 1.2  # it remembers 48 directions of 69 states, the strongest
    assert uniform.rarely > 1.5 * narrowest.rarely  # the first weights outlive the first visits of what is found late


def test_the_moving_frontier_is_seeded(frontier_rows):
    settings = dataclasses.replace(SMOKE, policies=("random",), moving=SMOKE.moving[:1])
    assert frontier_measurements(settings, silent) == [frontier_rows["DEFAULT"]]
    assert frontier_measurements(settings.with_seeds([1]), silent) != [frontier_rows["DEFAULT"]]


def test_on_a_moving_frontier_a_trained_network_reads_the_same_walk(frontier_rows):
    settings = dataclasses.replace(SMOKE, policies=("trained",), moving=(SMOKE.moving[0], SMOKE.moving[-1]))
    exact, streaming = frontier_measurements(settings, silent)
    random = frontier_rows["DEFAULT"]
    assert (exact.policy, exact.states, exact.distinct) == ("trained", random.states, random.distinct)
    assert exact.correlation != random.correlation
    assert exact.correlation > 0.98
    assert streaming.correlation > 0.95


def frontier_row(correlation=0.96, often=1.1, rarely=1.2, never=1.0):
    return FrontierFit("e", "f", 10, "v", 16, 0, 100, 50, correlation, often, rarely, never)


@pytest.mark.parametrize(
    ("rows", "judgement"),
    [
        ([frontier_row(), frontier_row(never=float("nan"))], "holds"),
        ([frontier_row(), frontier_row(correlation=0.94)], "does not hold"),
        ([frontier_row(rarely=2.1)], "does not hold"),
        ([frontier_row(often=0.4)], "does not hold"),
    ],
)
def test_the_verdict_on_a_moving_frontier(rows, judgement):
    assert [verdict.judgement for verdict in judge_frontier(rows)] == [judgement]


def test_settings_that_cannot_work_say_why():
    with pytest.raises(ValueError, match="held out"):
        Ground(parallel=3)
    with pytest.raises(ValueError, match="rising"):
        Ground(checkpoints=(3, 1))


def test_the_default_preset_is_among_the_variants_that_were_measured():
    measured = [dict(variant.fields) for variant in LAPTOP.variants]
    default = dataclasses.asdict(DEFAULT)
    assert any(fields.items() <= default.items() for fields in measured)
    assert DEFAULT.features in dict(LAPTOP.features)
    assert DEFAULT.epsilon == LAPTOP.ground.epsilon


def test_the_scales_differ_in_numbers_alone():
    assert set(SCALES) == {"smoke", "laptop", "paper"}
    assert all(type(settings) is FidelitySettings for settings in SCALES.values())
