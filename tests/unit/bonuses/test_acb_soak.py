"""ACB for a long time, on few states and many: finite, exact, falling as 1 / sqrt(n), going on from a saved state."""

import math

import pytest
import torch
from torch import nn

from optimist.bonuses import ACB, Transitions


def policy(inputs=4, width=64, seed=0):
    network = nn.Sequential(
        nn.Linear(inputs, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(), nn.Linear(width, 3)
    )
    generator = torch.Generator().manual_seed(seed)
    for parameter in network.parameters():
        nn.init.normal_(parameter, std=0.3, generator=generator)
    return network


def transitions_of(states):
    never = torch.zeros(states.shape[:2], dtype=torch.bool)
    return Transitions(states, never.long(), states, never, never)


@pytest.mark.parametrize("ridge", [0.01, 1.0])
@pytest.mark.parametrize("skewed", [False, True])
def test_few_states_leave_sigma_positive_definite(ridge, skewed):
    """In 0.1.0 sums of single precision: with a ridge of 0.01 the first update ended in an error of torch's."""
    bonus = ACB(policy(), torch.zeros(1, 4), sketch_size=16, ridge=ridge, ensemble_size=16)
    shares = torch.tensor([0.97, 0.01, 0.01, 0.01]) if skewed else torch.full((4,), 0.25)
    generator = torch.Generator().manual_seed(1)
    query = transitions_of(torch.eye(4)[:, None])
    for _ in range(6):
        drawn = torch.multinomial(shares, 2048, replacement=True, generator=generator)
        bonus.update(transitions_of(torch.eye(4)[drawn].unflatten(0, (128, 16))))
        assert bonus.compute(query).isfinite().all()


def exact_width(features, visits, epsilon=1e-3):
    """The elliptical width of every state in the coordinates of all visits, ridge 1, in float64. Shapes: -> (n,)."""
    g, share = features.double(), visits.double() / visits.sum()
    mean = share @ g
    variance = share @ (g - mean).square()
    x = (g - mean) / (variance + epsilon * variance.mean()).sqrt()
    sigma = (x * visits.unsqueeze(1)).T @ x + torch.eye(g.shape[1], dtype=torch.float64)
    return torch.linalg.solve_triangular(torch.linalg.cholesky(sigma), x.T, upper=False).square().sum(0).sqrt()


def soak(distinct, *, skewed, states, rollout, members, **settings):
    """Feeds ``states`` visits to two bonuses, the second loaded from the first half-way, and holds them against exact.

    Skewed: a state's index is ``distinct u^6`` of a uniform u, so that the first 1 % of the states has half the visits.
    """
    generator = torch.Generator().manual_seed(distinct)
    table = torch.randn(distinct, 6, generator=generator)
    bonus = ACB(policy(6), table[:1], ensemble_size=members, auxiliary_rate=0.0, **settings)
    visits = torch.zeros(distinct, dtype=torch.int64)
    some = torch.randperm(distinct, generator=generator)[:200]
    query, half, other = transitions_of(table[some, None]), None, None
    steps = states // rollout
    for step in range(1, steps + 1):
        u = torch.rand(rollout, generator=generator)
        drawn = (distinct * (u**6 if skewed else u)).long().clamp_max(distinct - 1)
        visits += torch.bincount(drawn, minlength=distinct)
        transitions = transitions_of(table[drawn].unflatten(0, (-1, 16)))
        metrics = bonus.update(transitions)
        assert math.isfinite(metrics["loss"])
        if other is not None:
            assert other.update(transitions) == metrics
        if step == steps // 2:
            half = visits.clone(), bonus.compute(query).flatten()
        if step == steps - 2:  # the last two steps in a copy that was loaded
            other = ACB(policy(6), table[:1], ensemble_size=members, auxiliary_rate=0.0, seed=9, **settings)
            other.load_state_dict(bonus.state_dict())
    width = bonus.compute(query).flatten()
    assert torch.equal(width, other.compute(query).flatten())
    features = bonus._sizing.regression_for(table[:, None]).features
    exact = exact_width(torch.cat([features(part).dense() for part in table.split(4096)]), visits)[some]
    # The rms of M exact draws has the relative sd 1 / sqrt(2 M): 6 sd, 200 states, a false alarm in 2 million.
    assert (width / exact - 1).abs().max() < 6 / math.sqrt(2 * members)
    often = half[0][some] > half[0].float().mean()
    fall = (width / half[1])[often] * (visits[some] / half[0][some])[often].sqrt()
    assert 0.7 < fall.median() < 1.4  # 1 / sqrt(n): both are rms of M draws, and a median over states tells them apart


@pytest.mark.parametrize("skewed", [False, True])
@pytest.mark.parametrize("distinct", [3, 50, 5_000])
def test_tens_of_thousands_of_states(distinct, skewed):
    soak(distinct, skewed=skewed, states=40_960, rollout=4_096, members=64, sketch_size=8)


@pytest.mark.campaign
@pytest.mark.parametrize("skewed", [False, True])
@pytest.mark.parametrize("distinct", [3, 50, 100_000])
def test_two_million_states_through_the_default(distinct, skewed):
    soak(distinct, skewed=skewed, states=2**21, rollout=16_384, members=128)
