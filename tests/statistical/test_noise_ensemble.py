"""Regressors of noise have the law that makes their squares an elliptical bonus; the bounds follow from that law."""

import math

import pytest
import torch
from torch import nn

from optimist.bonuses.acb.bonus import ACB
from optimist.bonuses.acb.config import Exact, Proximal
from optimist.bonuses.acb.ensemble import draw_prior, predictions, squared_deviation
from optimist.bonuses.acb.solvers.exact import ExactSolver
from optimist.bonuses.acb.solvers.proximal import ProximalSolver
from optimist.bonuses.acb.standardize import Unscaled
from optimist.bonuses.features.batch import Dense
from optimist.bonuses.protocol import Transitions
from oracles import elliptical_bonuses

D, RIDGE = 12, 0.5


def correlated(seed, n):
    generator = torch.Generator().manual_seed(seed)
    mixing = torch.randn(D, D, generator=generator, dtype=torch.float64)
    return torch.randn(n, D, generator=generator, dtype=torch.float64) @ mixing * torch.logspace(-2, 1, D).double()


def exact_ensemble(history, members, *, seed):
    generator = torch.Generator().manual_seed(seed)
    initial = [
        block.double() for block in draw_prior([torch.Size([D])], members, "gaussian", RIDGE, generator=generator)
    ]
    solver = ExactSolver(initial, Exact(ridge=RIDGE))
    for part in history.split(50):
        solver.fit(
            [(Dense(part), torch.randn(len(part), members, generator=generator, dtype=torch.float64))], Unscaled()
        )
    return [block[0] for block in solver.ensembles]


def test_the_mean_square_of_the_exact_ensemble_is_the_elliptical_bonus():
    members, history, queries = 4000, correlated(0, 400), correlated(1, 40)
    predicted = predictions(exact_ensemble(history, members, seed=0), Dense(queries))
    ratio = squared_deviation(predicted, "rms") / elliptical_bonuses(history, queries, RIDGE)
    # w ~ N(0, Sigma^-1), so each ratio is chi^2_m / m with sd sqrt(2/m); 6 sd, 40 queries: a false alarm in 10 million.
    assert (ratio - 1).abs().max() < 6 * math.sqrt(2 / members)


def test_the_largest_square_has_the_law_of_the_largest_of_m_normals():
    members, history, queries = 128, correlated(0, 400), correlated(1, 40)
    predicted = predictions(exact_ensemble(history, members, seed=0), Dense(queries))
    ratio = squared_deviation(predicted, "max") / elliptical_bonuses(history, queries, RIDGE)
    # P(max z^2 <= t) = erf(sqrt(t/2))^m is uniform for each query: one of 40 is outside (p, 1 - p) with 80 p = 1e-6.
    level = torch.erf((ratio / 2).sqrt()) ** members
    p = 1e-6 / 80
    assert level.min() > p
    assert level.max() < 1 - p


class Fixed(nn.Module):
    """A policy whose penultimate feature is the observation itself."""

    def __init__(self):
        super().__init__()
        self.head = nn.Linear(D, 2).double()

    def forward(self, observations):
        return self.head(observations)


def test_acb_with_the_exact_solver_is_the_elliptical_bonus():
    def transitions(x):
        never = torch.zeros(x.shape[:2], dtype=torch.bool)
        return Transitions(x, torch.zeros(x.shape[:2], dtype=torch.int64), x, never, never)

    members = 4000
    history, queries = correlated(0, 400).reshape(4, 100, 1, D), correlated(1, 40).reshape(40, 1, D)
    bonus = ACB(
        Fixed(),
        torch.zeros(1, D).double(),
        features="penultimate",
        statistics="none",
        solver="exact",
        form="square",
        ridge=RIDGE,
        fraction=1.0,
        ensemble_size=members,
        seed=7,
    )
    for rollout in history:
        bonus.update(transitions(rollout))
    exact = elliptical_bonuses(history.reshape(-1, D), queries.reshape(-1, D), RIDGE)
    ratio = bonus.compute(transitions(queries)).flatten() / exact
    # chi^2_m / m again: 6 sd, 40 queries, a false alarm in 10 million.
    assert (ratio - 1).abs().max() < 6 * math.sqrt(2 / members)


@pytest.mark.parametrize("steps", [1, 10, 100])
def test_the_averaged_proximal_ensemble_has_its_derived_variance_on_a_repeated_state(steps):
    """One direction, n samples a step: ``w_k = a w_{k-1} + (1 - a) ybar_k``, ``a = ridge / (ridge + n)``, K steps.

    The average has the coefficient ``sum_k a^k / K`` at w_0 and ``(1 - a^(K-j+1)) / K`` at ybar_j, of variance 1/n.
    """
    members, n, ridge = 20_000, 8, 16.0
    generator = torch.Generator().manual_seed(steps)
    solver = ProximalSolver(
        [block.double() for block in draw_prior([torch.Size([1])], members, "gaussian", ridge, generator=generator)],
        Proximal(ridge=ridge),
    )
    state = Dense(torch.ones(n, 1, dtype=torch.float64))
    for _ in range(steps):
        solver.fit([(state, torch.randn(n, members, generator=generator, dtype=torch.float64))], Unscaled())
    a = ridge / (ridge + n)
    prior = sum(a**k for k in range(1, steps + 1)) / steps
    noise = [(1 - a ** (steps - j + 1)) / steps for j in range(1, steps + 1)]
    derived = prior**2 / ridge + sum(c**2 for c in noise) / n
    # Gaussian members: the sd of a sample variance is v sqrt(2/m); 5 sd, 1 in 2 million.
    observed = squared_deviation(predictions([block[0] for block in solver.ensembles], state), "rms")[0].item()
    assert observed == pytest.approx(derived, rel=5 * math.sqrt(2 / members))
    # and that is the elliptical bonus 1 / (ridge + n K) up to a factor of 1.2 either way, however long it runs
    assert 1 / 1.2 < derived * (ridge + n * steps) < 1.2
