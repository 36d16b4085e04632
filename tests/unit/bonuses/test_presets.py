"""The presets say what their sources say, and RELEASED does what the released code does."""

import dataclasses

import pytest
import torch
from torch import nn

from optimist.bonuses.acb import ACB
from optimist.bonuses.acb_config import ACBConfig
from optimist.bonuses.presets import DEFAULT, PAPER, PRESETS, RELEASED
from optimist.bonuses.protocol import Transitions
from optimist.bonuses.schedule import minibatch_rows
from oracles import ReleasedACB


class SmallPolicy(nn.Module):
    """Convolution, trunk, actor with the gain of 0.01, and a critic which must not count."""

    def __init__(self):
        super().__init__()
        self.convolution = nn.Conv2d(2, 3, 3, stride=2)
        self.trunk = nn.Linear(27, 8)
        self.critic = nn.Linear(8, 1)
        self.actor = nn.Linear(8, 4)
        generator = torch.Generator().manual_seed(0)
        for parameter in self.parameters():
            nn.init.normal_(parameter, std=0.3, generator=generator)

    def forward(self, observations):
        hidden = torch.relu(self.trunk(torch.relu(self.convolution(observations)).flatten(1)))
        self.critic(hidden)
        return self.actor(hidden)


def rollout(seed, steps=8, environments=32):
    generator = torch.Generator().manual_seed(seed)
    shape = (steps, environments, 2, 7, 7)
    observations, successors = (torch.randn(shape, generator=generator, dtype=torch.float64) for _ in range(2))
    never = torch.zeros(steps, environments, dtype=torch.bool)
    return Transitions(observations, torch.zeros(steps, environments, dtype=torch.int64), successors, never, never)


@pytest.mark.parametrize("scale", [1.0, 1e-3])
def test_released_does_what_the_released_code_does(scale):
    """Over three rollouts of 16 updates each, with gradients of common size and with those of the eps trap."""
    policy = SmallPolicy().double()
    policy.actor.weight.data *= scale
    bonus = ACB(policy, torch.zeros(1, 2, 7, 7).double(), config=RELEASED, seed=3, ensemble_size=16, minibatch_size=24)
    first = bonus.state_dict()
    weights = torch.cat([block.flatten(1) for block in first["solver"]["iterate"].values()], 1)
    slow = ReleasedACB(policy, weights)
    generator = torch.Generator()
    for seed in range(3):
        transitions = rollout(seed)
        generator.set_state(bonus.state_dict()["generator"])
        schedule = minibatch_rows(256, bonus.config, generator=generator)
        targets = torch.randn(256, 16, generator=generator).double()
        for rows in schedule:
            slow.step(transitions.observations.flatten(0, 1)[rows], targets[rows])
        bonus.update(transitions)
        expected = torch.stack([slow.bonus(states) for states in transitions.next_observations])
        torch.testing.assert_close(bonus.compute(transitions), expected, rtol=1e-6, atol=0)
    assert len(schedule) == 16
    assert not torch.allclose(weights, slow.averaged[1].weight, rtol=1e-2)  # the ensemble has moved at all


def test_released_targets_stay_with_their_state_for_all_passes():
    assert RELEASED.targets == "per-rollout"
    generator = torch.Generator().manual_seed(0)
    schedule = minibatch_rows(16_384, RELEASED, generator=generator)
    assert len(schedule) == RELEASED.passes * RELEASED.minibatches == 16
    assert {len(rows) for rows in schedule} == {128}
    for start in range(0, 16, 4):  # the minibatches of one pass share no state
        assert len(torch.cat(schedule[start : start + 4]).unique()) == 512


def test_released_moves_weights_of_the_auxiliary_network_and_never_biases():
    policy = SmallPolicy().double()
    bonus = ACB(policy, torch.zeros(1, 2, 7, 7).double(), config=RELEASED, ensemble_size=4, auxiliary_rate=0.5)
    before = bonus.state_dict()["auxiliary"]["average"]
    with torch.no_grad():
        for parameter in policy.parameters():
            parameter += 1
    bonus.update(rollout(0))
    after = bonus.state_dict()["auxiliary"]["average"]
    for name in before:
        moved = 0.0 if name.endswith("bias") else 0.5
        torch.testing.assert_close(after[name], before[name] + moved)


def test_the_numbers_of_the_paper():
    """Section 4 and appendix A.2 of the paper: M, lambda, step size, alpha, and the maximum of squares."""
    assert (PAPER.ensemble_size, PAPER.pull, PAPER.step_size, PAPER.auxiliary_rate) == (128, 1e3, 1e-4, 1e-6)
    assert (PAPER.features, PAPER.aggregate, PAPER.solver) == ("gradient", "max", "rmsprop")


def test_default_is_the_configurations_own_default():
    assert ACBConfig() == DEFAULT
    assert len({DEFAULT, PAPER, RELEASED}) == len(PRESETS) == 3


@pytest.mark.parametrize("name", PRESETS)
def test_every_preset_learns_on_a_small_network(name):
    bonus = ACB(SmallPolicy(), torch.zeros(1, 2, 7, 7), config=PRESETS[name], ensemble_size=8)
    transitions = rollout(0)
    transitions = dataclasses.replace(
        transitions,
        observations=transitions.observations.float(),
        next_observations=transitions.next_observations.float(),
    )
    before = bonus.compute(transitions)
    metrics = bonus.update(transitions)
    assert metrics["trained"] > 0
    assert (bonus.compute(transitions) != before).any()
    assert (before > 0).all()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"ridge": 0.0}, "ridge must be > 0"),
        ({"solver": "newton"}, "solver must be one of 'auto', 'recursive', 'proximal', 'rmsprop', got 'newton'"),
        ({"ensemble_size": 0}, "ensemble_size must be at least 1"),
        ({"fraction": 0.0}, "fraction must lie in"),
        ({"solver": "recursive", "passes": 2}, "counts a state once"),
        ({"solver": "recursive", "prior": "uniform"}, "prior='gaussian'"),
        ({"solver": "proximal", "pull": 1.0}, "belong to solver='rmsprop'"),
        ({"solver": "rmsprop", "affine": True, "statistics": "none"}, "batch normalisation"),
        ({"statistics": "batch", "minibatch_size": 1}, "one state has no variance"),
        ({"auxiliary_rate": 1.5}, "auxiliary_rate must lie in"),
        ({"epsilon": float("nan")}, "epsilon must be > 0 and finite"),
    ],
)
def test_a_configuration_that_cannot_work_says_why(changes, message):
    with pytest.raises(ValueError, match=message):
        ACBConfig(**changes)
