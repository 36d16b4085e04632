"""ACB on few states, again and again. `benchmarks/soak.py` has two million, and `test_benchmarks` a short one."""

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
    nudges = 1e-3  # so that no two are the same, and none are added up before their products are
    shares = torch.tensor([0.97, 0.01, 0.01, 0.01]) if skewed else torch.full((4,), 0.25)
    generator = torch.Generator().manual_seed(1)
    query = transitions_of(torch.eye(4)[:, None])
    for _ in range(6):
        drawn = torch.multinomial(shares, 2048, replacement=True, generator=generator)
        states = torch.eye(4)[drawn] + nudges * torch.rand(2048, 1, generator=generator)
        bonus.update(transitions_of(states.unflatten(0, (128, 16))))
        assert bonus.compute(query).isfinite().all()
    regression = bonus._sizing.regression_for(query.next_observations)
    sigma = regression.solver._moments.gram(regression.scale.today()) + ridge * torch.eye(bonus._sizing.dimensions)
    assert torch.linalg.eigvalsh(sigma)[0] > 0.99 * ridge  # the lower triangle is read
