"""Bonuses by name: each is what its constructor makes, and a wrong name says which one was near."""

import pytest
import torch
from torch import nn

from optimist.bonuses import (
    ACB,
    E3B,
    ICM,
    RND,
    DiscreteActions,
    Elliptical,
    HashCount,
    InverseDynamics,
    RNDConfig,
    Transitions,
    make,
)


def task():
    network = nn.Sequential(nn.Linear(3, 8), nn.ReLU(), nn.Linear(8, 2))
    for parameter in network.parameters():
        nn.init.normal_(parameter, generator=torch.Generator().manual_seed(0))
    return {"observation_shape": (3,), "actions": DiscreteActions(2), "policy_network": network, "seed": 0}


def rollout():
    x = torch.randn(4, 2, 3, generator=torch.Generator().manual_seed(0))
    ended = torch.zeros(4, 2, dtype=torch.bool)
    return Transitions(x, ended.long(), x + 1, ended, ended)


@pytest.mark.parametrize(
    ("name", "kind"),
    [("acb", ACB), ("rnd", RND), ("icm", ICM), ("e3b", E3B), ("elliptical", Elliptical), ("count", HashCount)],
)
def test_one_call_serves_every_name(name, kind):
    bonus = make(name, **task())
    assert type(bonus) is kind
    assert bonus.compute(rollout()).shape == (4, 2)


def test_settings_replace_the_configuration():
    assert make("rnd", **task(), features=7, epochs=1).config == RNDConfig(features=7, epochs=1)
    made = make("e3b", **task(), ridge=0.5, features=7)
    assert made.config.ridge == 0.5
    assert made.state_dict()["inverses"].shape == (0, 7, 7)
    made = make("elliptical", **task(), features="penultimate", ridge=3.0)
    assert made.state_dict()["scatter"].shape == (8, 8)
    assert made.config.ridge == 3.0


def test_what_is_made_is_what_the_constructor_makes():
    x = rollout()
    assert torch.equal(make("rnd", **task()).compute(x), RND((3,), seed=0).compute(x))
    embedding = InverseDynamics((3,), DiscreteActions(2), seed=0)
    assert torch.equal(make("e3b", **task()).compute(x), E3B(embedding).compute(x))


def test_the_features_of_the_elliptical_bonus_do_not_move_with_the_policy():
    arguments = task()
    bonus = make("elliptical", **arguments)
    before = bonus.compute(rollout())
    with torch.no_grad():
        for parameter in arguments["policy_network"].parameters():
            parameter.mul_(2)
    assert torch.equal(bonus.compute(rollout()), before)


@pytest.mark.parametrize(
    ("name", "changes", "message"),
    [
        ("rdn", {}, "no bonus 'rdn': did you mean 'rnd'?"),
        ("counts", {}, "did you mean 'count'?"),
        ("xyz", {}, "choose one of acb, count, e3b, elliptical, icm, rnd"),
        ("icm", {"actions": None}, r"the bonus 'icm' needs actions: pass make\('icm', actions=..., seed=...\)"),
        ("elliptical", {"policy_network": None}, "needs policy_network"),
        ("rnd", {"learnig_rate": 1.0}, "RNDConfig has no setting 'learnig_rate': did you mean 'learning_rate'?"),
        ("e3b", {"ridges": 1.0}, "did you mean 'ridge'?|choose one of"),
        ("rnd", {"seed": -1}, "seed must be a non-negative integer"),
    ],
)
def test_a_wrong_call_says_what_to_do(name, changes, message):
    with pytest.raises(ValueError, match=message):
        make(name, **(task() | changes))
