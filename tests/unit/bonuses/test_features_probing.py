"""Networks that behave otherwise on real states than at an example of zeros: adapted to, or refused, never silent."""

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from optimist.bonuses import ACB, Elliptical, Transitions, features
from oracles import state_gradients


def transitions_of(states):
    never = torch.zeros(states.shape[:2], dtype=torch.bool)
    return Transitions(states, never.long(), states, never, never)


def seeded(module):
    generator = torch.Generator().manual_seed(0)
    for parameter in module.parameters():
        nn.init.normal_(parameter, std=0.5, generator=generator)
    return module


class DeadAtZero(nn.Module):
    """A second use of a layer's weight that is dead for small states: at 5 and beyond it is not."""

    def __init__(self):
        super().__init__()
        self.trunk, self.actor = nn.Linear(3, 4), nn.Linear(4, 3)

    def forward(self, observations):
        again = F.relu(observations - 4) @ self.trunk.weight.T
        return self.actor(torch.tanh(self.trunk(observations) + again))


class Mixing(nn.Module):
    """A policy of integer states that centers its hidden layer over the batch."""

    def __init__(self):
        super().__init__()
        self.table, self.actor = nn.Embedding(9, 4), nn.Linear(4, 3)

    def forward(self, observations):
        hidden = self.table(observations)
        return self.actor(torch.tanh(hidden - hidden.mean(0)))


class Branching(nn.Module):
    """A policy with another layer for other states: at zeros only one of them is used."""

    def __init__(self):
        super().__init__()
        self.near, self.far, self.actor = nn.Linear(3, 4), nn.Linear(3, 7), nn.Linear(4, 3)

    def forward(self, observations):
        if bool((observations.abs() < 2).all()):
            return self.actor(torch.tanh(self.near(observations)))
        return self.actor(torch.tanh(self.far(observations))[:, :4])


def states(seed=0, shift=0.0):
    return 3 * torch.randn(16, 4, 3, generator=torch.Generator().manual_seed(seed)) + shift


@pytest.mark.parametrize("kind", ["gradient", "sketch"])
@pytest.mark.parametrize("sized", [True, False], ids=["sized", "unsized"])
def test_a_second_use_that_is_dead_at_the_example_is_found_on_real_states(kind, sized):
    network = seeded(DeadAtZero())
    bonus = ACB(network, torch.zeros(1, 3) if sized else None, features=kind, ensemble_size=4, sketch_size=64)
    rollout = transitions_of(states(shift=5.0))
    bonus.update(rollout)
    regression = bonus._sizing.regression_for(rollout.next_observations)
    probe = states(shift=5.0).flatten(0, 1)[:6]
    slow = state_gradients(network, regression.features.loss, probe)
    truth = torch.cat([slow[name].flatten(1) for name in regression.features.plan.shapes], 1)
    assert regression.features.plan.others  # trunk.weight goes through torch.func
    if kind == "gradient":
        torch.testing.assert_close(regression.features(probe).dense(), truth)
    else:  # a sketch of size 64 is exact here, in another order
        sketched = regression.features(probe).dense()
        torch.testing.assert_close(sketched @ sketched.T, truth @ truth.T)


def test_what_was_found_on_real_states_is_kept_in_the_state():
    bonus, other = (ACB(seeded(DeadAtZero()), torch.zeros(1, 3), ensemble_size=4, seed=k) for k in range(2))
    bonus.update(transitions_of(states(shift=5.0)))
    other.load_state_dict(bonus.state_dict())
    near = transitions_of(states(1, shift=5.0))
    assert torch.equal(bonus.compute(near), other.compute(near))
    assert bonus.update(near) == other.update(near)


def test_computing_before_the_first_update_adapts_and_changes_nothing():
    bonus = ACB(seeded(DeadAtZero()), torch.zeros(1, 3), ensemble_size=4)
    before = bonus.state_dict()
    rollout = transitions_of(states(shift=5.0))
    first = bonus.compute(rollout)
    assert torch.equal(first, bonus.compute(rollout))
    assert torch.equal(before["solver"]["weights"]["0"], bonus.state_dict()["solver"]["weights"]["0"])
    assert bonus.state_dict()["settled"] is False


@pytest.mark.parametrize("call", ["compute", "update"])
def test_mixing_over_a_batch_of_integer_states_is_refused_on_the_first_rollout(call):
    bonus = ACB(seeded(Mixing()), torch.zeros(1, dtype=torch.int64), ensemble_size=4)
    rollout = transitions_of(torch.arange(40).view(10, 4) % 9)
    with pytest.raises(ValueError, match="mixes the states of a batch"):
        getattr(bonus, call)(rollout)
    assert bonus.state_dict()["settled"] is False


def test_branches_that_the_example_does_not_take_count():
    bonus = ACB(seeded(Branching()), torch.zeros(1, 3), features="gradient", solver="proximal", ensemble_size=4)
    near = 3 * 4 + 4 + 4 * 3 + 3
    assert bonus._sizing.dimensions == near
    bonus.update(transitions_of(states(shift=9.0)))
    assert bonus._sizing.dimensions == near - (3 * 4 + 4) + 3 * 7 + 7
    with pytest.raises(ValueError, match=r"layers \['far'\] are not used exactly once for these observations"):
        bonus.compute(transitions_of(states() / 100))


def test_the_elliptical_bonus_refuses_what_its_features_were_not_made_for():
    network = seeded(DeadAtZero())
    bonus = Elliptical(features.make("sketch", network, torch.zeros(1, 3), seed=0), (3,))
    with pytest.raises(ValueError, match="make the features with real observations"):
        bonus.update(transitions_of(states(shift=5.0)))
    assert bonus.state_dict()["moments"]["count"] == 0
    real = states(shift=5.0)[:2].flatten(0, 1)
    Elliptical(features.make("sketch", network, real, seed=0), (3,)).update(transitions_of(states(shift=5.0)))


class Keeping(nn.Module):
    """A policy that keeps an activation of its last use."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(3, 2)

    def forward(self, observations):
        self.hidden = self.layer(observations)
        return self.hidden


def test_a_policy_that_keeps_an_activation_is_refused_with_its_name():
    network = Keeping()
    network(torch.zeros(1, 3))
    with pytest.raises(ValueError, match=r"its 'hidden' is a tensor with a graph: keep \.detach\(\) of it"):
        ACB(network)


@pytest.mark.filterwarnings("ignore:Lazy modules are a new feature")
def test_a_lazy_module_is_refused_before_it_has_a_size():
    network = nn.Sequential(nn.LazyLinear(4), nn.Tanh(), nn.Linear(4, 2))
    with pytest.raises(ValueError, match=r"'0\.weight' has no size yet \(a Lazy module\): run the network once"):
        ACB(network)
    network(torch.zeros(1, 3))
    assert ACB(network, torch.zeros(1, 3), ensemble_size=4).compute(transitions_of(states())).shape == (16, 4)
