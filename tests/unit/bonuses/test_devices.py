"""Every bonus beside a network on another device, without float64 there: the same numbers, and states that move."""

import copy

import pytest
import torch
from torch import nn

from optimist import bonuses
from optimist.bonuses import DiscreteActions, ReturnScale, Transitions
from optimist.bonuses.acb.config import Proximal
from standin_device import DEVICE, Remote, StandIn

STREAM = {"feature_loss": "fisher", "floor": "layer", "solver": Proximal(averaging="narrowest"), "ensemble_size": 8}
CASES = {
    "acb proximal": ("acb", STREAM),
    "acb streaming": ("acb", {"solver": "streaming", "rank": 12, "ensemble_size": 8}),
    "acb exact": ("acb", {"solver": "exact", "ensemble_size": 8}),
    "acb gradient": ("acb", STREAM | {"features": "gradient"}),
    "acb gradient, rounded": ("acb", STREAM | {"features": "gradient", "precision": "bfloat16"}),
    "acb rmsprop": ("acb", {"solver": "rmsprop", "statistics": "batch", "features": "last-layer", "ensemble_size": 8}),
    "acb vectors": ("acb", STREAM | {"features": "observations"}),
    "elliptical": ("elliptical", {"sketch_size": 4}),
    "rnd": ("rnd", {"n_features": 8, "minibatches": 2}),
    "icm": ("icm", {"n_features": 8, "minibatches": 2}),
    "e3b": ("e3b", {"n_features": 4, "minibatches": 2}),
    "count": ("count", {}),
    "episodic-count": ("episodic-count", {}),
    "acb*e3b": ("acb*e3b", {"acb.ensemble_size": 8, "e3b.n_features": 4}),
}


def network():
    made = nn.Sequential(nn.Linear(5, 8), nn.Tanh(), nn.Linear(8, 3))
    generator = torch.Generator().manual_seed(0)
    for parameter in made.parameters():
        nn.init.normal_(parameter, generator=generator)
    return made


def rollout(seed):
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(7, 3, 5, generator=generator)
    ended = torch.rand(6, 3, generator=generator) < 0.2
    actions = torch.randint(3, (6, 3), generator=generator)
    return Transitions(x[:-1].clone(), actions, x[1:].clone(), ended, torch.zeros_like(ended))


def partly_valid(transitions):
    valid = torch.ones_like(transitions.terminated)
    valid[2, 1] = False
    parts = {name: value for name, value in vars(transitions).items() if name in Transitions.__dataclass_fields__}
    return Transitions(**(parts | {"valid": valid}))


def make(case, device):
    name, settings = CASES[case]
    policy = network().to(device)
    task = {"observation_shape": (5,), "actions": DiscreteActions(3), "policy_network": policy}
    return bonuses.make(name, seed=0, **task, **settings)


def away(transitions):
    return transitions.mapped(lambda part: part.to(DEVICE))


def on(device, state):
    return {
        key: on(device, value) if isinstance(value, dict) else _moved(value, device) for key, value in state.items()
    }


def _moved(value, device):
    # What is in float64 stays on the CPU, as a host's map_location must leave it there for mps.
    return value.to(device) if isinstance(value, torch.Tensor) and value.dtype != torch.float64 else value


def test_the_stand_in_device_refuses_what_a_real_one_would():
    with StandIn():
        here, there = torch.ones(3), torch.ones(3, device=DEVICE)
        assert isinstance(there, Remote)
        assert (there + torch.tensor(1.0)).cpu().tolist() == [2.0, 2.0, 2.0]
        for mixed in (
            lambda: here + there,
            lambda: there @ here,
            lambda: torch.cat([here, there]),
            lambda: there[here > 0],
        ):
            with pytest.raises(RuntimeError, match="same device"):
                mixed()
        for double in (there.double, lambda: torch.zeros(2, dtype=torch.float64, device=DEVICE)):
            with pytest.raises(TypeError, match="no float64"):
                double()


@pytest.mark.parametrize("case", CASES)
def test_a_bonus_beside_a_network_on_another_device_is_the_bonus_on_the_cpu(case):
    plain = make(case, "cpu")
    with StandIn():
        moved = make(case, DEVICE)
        for seed in range(2):
            here = rollout(seed) if case == "acb rmsprop" else partly_valid(rollout(seed))
            there, expected = away(here), plain.compute(here)
            for given in (here, there):  # hosts that keep transitions on the CPU, and hosts that do not
                bonus = moved.compute(given)
                assert bonus.device == given.terminated.device
                torch.testing.assert_close(bonus.cpu(), expected, rtol=1e-4, atol=1e-6)
            metrics = moved.update(there if seed else here)
            assert metrics == pytest.approx(plain.update(here), rel=1e-3)


@pytest.mark.parametrize("case", CASES)
def test_a_state_saved_on_one_device_loads_on_another(case):
    plain = make(case, "cpu")
    plain.update(rollout(0))
    with StandIn():
        moved = make(case, DEVICE)
        for state in (plain.state_dict(), on(DEVICE, plain.state_dict())):
            moved.load_state_dict(state)
            torch.testing.assert_close(moved.compute(rollout(1)), plain.compute(rollout(1)), rtol=1e-4, atol=1e-6)
        moved.update(rollout(1))
        back = make(case, "cpu")
        back.load_state_dict(moved.state_dict())
        plain.update(rollout(1))
        torch.testing.assert_close(back.compute(rollout(2)), plain.compute(rollout(2)), rtol=1e-3, atol=1e-5)
        back.update(rollout(2))


def test_regressors_and_sketches_are_kept_beside_the_network_and_exact_numbers_where_they_can_be():
    with StandIn():
        bonus = make("acb proximal", DEVICE)
        bonus.update(rollout(0))
        state = bonus.state_dict()
    assert isinstance(state["solver"]["iterate"]["0"], Remote)
    assert isinstance(state["example"]["tensor"], Remote)
    assert not isinstance(state["scale"]["mean"]["0"], Remote)
    assert all(average.dtype == torch.float64 for average in state["auxiliary"]["average"].values())


def test_the_return_scale_takes_rewards_from_any_device():
    rewards = torch.rand(20, 3, generator=torch.Generator().manual_seed(0))
    plain = ReturnScale(discount=0.9)
    with StandIn():
        moved = copy.deepcopy(plain)
        moved.update(rewards.to(DEVICE))
        plain.update(rewards)
        given = moved.normalize(rewards.to(DEVICE))
        assert given.device == DEVICE
        assert torch.equal(given.cpu(), plain.normalize(rewards))
