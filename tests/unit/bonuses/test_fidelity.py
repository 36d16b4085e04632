"""The fidelity study: its reference is the oracle's, its rows are complete and seeded, its verdict can go every way."""

import dataclasses

import pytest
import torch

from optimist.bonuses.presets import DEFAULT
from optimist.studies.fidelity.measurement import Row
from optimist.studies.fidelity.settings import LAPTOP, SCALES, SMOKE, FidelitySettings
from optimist.studies.fidelity.study import Reference, Stream, measurements
from optimist.studies.fidelity.verdict import judge
from oracles import elliptical_bonuses, standardise

TINY = dataclasses.replace(
    SMOKE, features=(("last-layer", 0),), variants=SMOKE.variants[1:2], checkpoints=(1,), rollout=16
)


def silent(done, total, label):
    """Nobody watches."""


@pytest.fixture(scope="module")
def smoke_rows():
    return measurements(SMOKE, silent)


def test_the_smoke_study_gives_every_row(smoke_rows):
    sizes = (SMOKE.environments, SMOKE.features, SMOKE.variants, SMOKE.ensemble_sizes, SMOKE.checkpoints)
    expected = 2 * 2 * SMOKE.replicates  # aggregates and references
    for size in sizes:
        expected *= len(size)
    assert len(smoke_rows) == expected
    assert {row.states for row in smoke_rows} == {32 * 6, 64 * 6}  # a quarter of 8 environments is held out
    assert all(-1 <= row.correlation <= 1 and row.scale > 0 for row in smoke_rows)


def test_exact_draws_follow_the_exact_bonus_and_so_does_the_recursive_solver(smoke_rows):
    recursive = [
        row for row in smoke_rows if (row.variant, row.aggregate, row.reference) == ("recursive 100", "rms", "own")
    ]
    assert recursive
    assert all(row.correlation > 0.85 and row.ceiling > 0.85 for row in recursive)
    assert all(0.5 < row.scale < 2 for row in recursive)


def test_the_study_is_seeded_and_reports_progress():
    steps = []
    first = measurements(TINY, lambda done, total, label: steps.append((done, total)))
    assert first == measurements(TINY, silent)
    assert first != measurements(dataclasses.replace(TINY, seed=1), silent)
    assert steps == [(0, 1), (1, 1)]


def test_the_reference_is_the_exact_bonus_in_the_whitened_space():
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(2, 10, 3, 6, generator=generator, dtype=torch.float64) * torch.logspace(-2, 2, 6) + 1
    queries = torch.randn(20, 6, generator=generator, dtype=torch.float64)
    reference = Reference(Stream("", "", x, queries), TINY)
    for rollouts in (1, 2):
        history = x[:rollouts].reshape(-1, 6)
        mean, variance = history.mean(0), history.var(0, correction=0)
        epsilon = TINY.epsilon * variance.mean()
        seen, asked = (standardise(part, mean, variance, epsilon) for part in (history, queries))
        torch.testing.assert_close(
            reference.exact(rollouts, 3.0), elliptical_bonuses(seen, asked, 3.0), rtol=1e-6, atol=0
        )


def test_a_large_ensemble_of_exact_draws_has_a_ceiling_near_one():
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(1, 40, 3, 6, generator=generator)
    reference = Reference(Stream("", "", x, torch.randn(200, 6, generator=generator)), TINY)
    ceilings = [reference.ceiling(1, 1.0, members, "rms") for members in (4, 64, 4096)]
    assert ceilings == sorted(ceilings)
    assert ceilings[-1] > 0.99


def row(replicate, correlation, scale):
    return Row("e", "f", 10, "v", 16, "max", replicate, 100, "own", 1.0, correlation, scale, ceiling=0.95)


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
    assert [verdict.judgement for verdict in judge(rows)] == [judgement]


def test_settings_that_cannot_work_say_why():
    with pytest.raises(ValueError, match="held out"):
        FidelitySettings(parallel=3)
    with pytest.raises(ValueError, match="rising"):
        FidelitySettings(checkpoints=(3, 1))


def test_the_default_preset_is_among_the_variants_that_were_measured():
    measured = [dict(variant.fields) for variant in LAPTOP.variants]
    default = dataclasses.asdict(DEFAULT)
    assert any(fields.items() <= default.items() for fields in measured)
    assert DEFAULT.features in dict(LAPTOP.features)
    assert DEFAULT.epsilon == LAPTOP.epsilon


def test_the_scales_differ_in_numbers_alone():
    assert set(SCALES) == {"smoke", "laptop", "paper"}
    assert all(type(settings) is FidelitySettings for settings in SCALES.values())
