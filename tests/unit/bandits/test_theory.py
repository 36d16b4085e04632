"""The paper's formulas, computed here once more by hand from paper.tex."""

import math

import numpy as np
import pytest

from optimist.bandits import theory

PROBLEM = {"horizon": 10_000, "n_features": 20, "n_actions": 100, "delta": 0.05, "sigma": 0.5, "theta_norm": 2.0}


def test_the_stated_ensemble_sizes():
    assert theory.acb_parameters(**PROBLEM, history="rerandomized").ensemble_size == math.ceil(math.log(400_000))
    arms = PROBLEM | {"n_features": 100}
    assert theory.acb_parameters(**arms, history="incremental").ensemble_size == math.ceil(math.log(200_000))
    assert theory.acb_parameters(**PROBLEM, history="lazy").ensemble_size == math.ceil(math.log(20_000_000))


def test_ridge_width_and_gamma():
    fresh = theory.acb_parameters(**PROBLEM, history="rerandomized")
    assert fresh.ridge == 0.0625
    width = 0.25 * 2 + math.sqrt(2) * 0.5 * math.sqrt(20 * math.log(1 + 10_000 / (0.0625 * 20)) + math.log(200_000))
    assert fresh.beta == pytest.approx(width)
    assert fresh.gamma is None
    lazy = theory.acb_parameters(**PROBLEM, history="lazy")
    assert lazy.beta == pytest.approx(width * math.sqrt(2 / (math.pi * math.log(2))))
    assert lazy.gamma == pytest.approx(width**2)  # beta^2 pi log(2) / 2 with that beta


def test_the_sufficient_ensemble_gives_the_lower_bound_of_the_proof_and_the_stated_one_does_not():
    parameters = theory.acb_parameters(**PROBLEM, history="rerandomized")
    failure = 0.05 / (2 * 10_000)
    needed = math.sqrt(math.pi * math.log(2) / 2)
    assert theory.gaussian_maximum_lower(parameters.sufficient_ensemble_size, failure) >= needed
    assert theory.gaussian_maximum_lower(parameters.sufficient_ensemble_size - 1, failure) < needed
    assert theory.gaussian_maximum_lower(parameters.ensemble_size, failure) == 0


def test_lemma_1_by_hand():
    assert theory.gaussian_maximum_lower(100, 0.1) == pytest.approx(
        math.sqrt(math.pi / 2) * math.sqrt(math.log(50) - math.log(math.log(10)))
    )
    assert theory.gaussian_maximum_upper(100, 0.1) == pytest.approx(
        math.sqrt(2) * (math.sqrt(math.log(200)) + math.sqrt(math.log(10)))
    )


def test_regret_bounds_by_hand():
    lazy = theory.acb_parameters(**PROBLEM, history="lazy")
    log_det = 20 * math.log(1 + 10_000 / (0.0625 * 20))
    most = math.sqrt(8 * math.log(2 * 100 * 10_000 / 0.05)) + math.sqrt(math.pi * math.log(2) / 2)
    assert lazy.regret_bound == pytest.approx(2 * math.e * most * lazy.beta * math.sqrt(2 * 10_000 * log_det))
    growth = math.log(1 + math.pi * math.log(2) / (16 * math.log(2 * 100 * 10_000 / 0.05)))
    assert lazy.max_rerandomizations == 1 + int(2 * log_det / growth)
    fresh = theory.acb_parameters(**PROBLEM, history="rerandomized")
    upper = theory.gaussian_maximum_upper(fresh.sufficient_ensemble_size, 0.05 / (2 * 100 * 10_000))
    assert fresh.regret_bound == pytest.approx((upper + 1) * fresh.beta * math.sqrt(2 * 10_000 * log_det))


def test_the_determinant_needs_the_square_of_the_feature_norm():
    # Features of norm B = 3 along the axes: log det(Sigma / ridge) is d log(1 + T B^2 / (ridge d)) exactly, which the
    # paper's T B would miss.
    d, ridge, repeats = 4, 2.0, 50
    features = 3 * np.tile(np.eye(d), (repeats, 1))
    log_det = np.linalg.slogdet((ridge * np.eye(d) + features.T @ features) / ridge)[1]
    assert theory.log_det_bound(d * repeats, d, ridge, 3.0) == pytest.approx(log_det)
    assert d * math.log1p(d * repeats * 3 / (ridge * d)) < log_det


def test_bad_problems_are_refused():
    with pytest.raises(ValueError, match=r"delta must be in \(0, 1\)"):
        theory.acb_parameters(**PROBLEM | {"delta": 1.0})
    with pytest.raises(ValueError, match="open question"):
        theory.acb_parameters(**PROBLEM, history="incremental")
    with pytest.raises(ValueError, match="horizon must be a whole number"):
        theory.acb_parameters(**PROBLEM | {"horizon": 0})
    with pytest.raises(ValueError, match="sigma must be > 0"):
        theory.acb_parameters(**PROBLEM | {"sigma": 0.0})


@pytest.mark.parametrize(
    "change", [{"sigma": 1e-200}, {"sigma": 1e200}, {"theta_norm": 1e-300}, {"delta": 1e-320}, {"horizon": 10**400}]
)
@pytest.mark.parametrize("history", ["rerandomized", "lazy"])
def test_numbers_beyond_floating_point_are_refused_in_words(change, history):
    with pytest.raises(ValueError, match="too large or too small for floating-point numbers"):
        theory.acb_parameters(**PROBLEM | change, history=history)


def test_the_bounds_hold_with_one_minus_two_delta():
    assert theory.acb_parameters(**PROBLEM).confidence == pytest.approx(0.9)


@pytest.mark.parametrize("history", ["rerandomized", "incremental", "lazy"])
def test_a_ridge_below_the_square_of_the_feature_norm_is_told(history):
    problem = PROBLEM | {"n_features": 100, "history": history}
    for sigma, feature_norm, is_covered in [(2.0, 1.0, True), (1.99, 1.0, False), (2.0, 1.01, False), (4.0, 2.0, True)]:
        found = theory.acb_parameters(**problem | {"sigma": sigma, "feature_norm": feature_norm})  # W = 2
        assert found.is_potential_covered is is_covered
        assert any("below B^2" in said for said in found.caveats) is not is_covered


def test_the_potential_lemma_fails_below_that_ridge():
    # sum |x|^2_{Sigma^-1} <= 2 log det(Sigma_T / ridge): for a small ridge the first sample, of norm B, breaks it.
    for ridge, holds in [(1.0, True), (0.1, False)]:
        potential, log_det = 1 / ridge, math.log1p(1 / ridge)
        assert (potential <= 2 * log_det) is holds


def test_a_bound_that_says_nothing_is_told():
    found = theory.acb_parameters(**PROBLEM)
    assert found.regret_bound > 2 * 2.0 * 1.0 * 10_000  # 2 W B T
    assert found.is_vacuous
    assert any("vacuous" in said for said in found.caveats)
    long = theory.acb_parameters(**PROBLEM | {"horizon": 10**9, "sigma": 2.0})
    assert long.regret_bound < 2 * 2.0 * 10**9
    assert not long.is_vacuous
    assert long.caveats == ()
    assert theory.acb_parameters(**PROBLEM | {"horizon": 10**9, "sigma": 2.0, "delta": 0.5}).is_vacuous
