"""The agent's networks: shapes, sizes known from the literature, and a draw that depends on its generator alone."""

import numpy as np
import pytest
import torch
from torch import nn

from optimist.bonuses import Discrete
from optimist.training.agent import GridTrunk, MLPTrunk, chosen_network, make_agent

SHAPES = {"atari": (4, 84, 84), "grid": (3, 7, 7), "mlp": (5,), "states": Discrete(9)}


def agent_for(shape, *, outputs=6, network="auto", activation="leaky-relu", width=16, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return make_agent(shape, outputs, network=network, activation=activation, width=width, generator=generator)


def observations(shape, n=3):
    rng = np.random.default_rng(0)
    if isinstance(shape, Discrete):
        return torch.from_numpy(rng.integers(shape.n, size=n))
    if len(shape) == 3:
        return torch.from_numpy(rng.integers(0, 11, size=(n, *shape), dtype=np.uint8))
    return torch.from_numpy(rng.normal(size=(n, *shape)).astype(np.float32))


@pytest.mark.parametrize("name", SHAPES)
def test_outputs_and_two_values_of_every_kind_of_observation(name):
    agent, x = agent_for(SHAPES[name]), observations(SHAPES[name])
    outputs, values = agent(x)
    assert outputs.shape == (3, 6)
    assert values.shape == (3, 2)
    torch.testing.assert_close(agent.policy(x), outputs)
    assert outputs.abs().max() < 0.1  # gain 0.01: at first every action is about as likely


@pytest.mark.parametrize("actions", [4, 18])
def test_the_papers_policy_has_as_many_parameters_as_the_released_one(actions):
    # FACTS.md, section 1: trunk and actor of the released code, d = 1,197,344 + 449 A
    policy = agent_for((4, 84, 84), outputs=actions).policy
    assert sum(weight.numel() for weight in policy.parameters()) == 1_197_344 + 449 * actions


def test_images_are_read_as_0_to_1():
    trunk = agent_for((4, 84, 84)).policy.trunk
    x = torch.full((1, 4, 84, 84), 255, dtype=torch.uint8)
    torch.testing.assert_close(trunk(x), trunk.layers(torch.ones(1, 4, 84, 84)))


@pytest.mark.parametrize("name", SHAPES)
@pytest.mark.parametrize(("activation", "kind"), [("relu", nn.ReLU), ("leaky-relu", nn.LeakyReLU), ("tanh", nn.Tanh)])
def test_one_switch_changes_every_activation(name, activation, kind):
    agent = agent_for(SHAPES[name], activation=activation)
    found = {type(m) for m in agent.modules() if isinstance(m, nn.ReLU | nn.LeakyReLU | nn.Tanh)}
    assert found == {kind}


@pytest.mark.parametrize("name", SHAPES)
def test_the_draw_depends_on_the_generator_alone(name):
    state = torch.get_rng_state()
    first = agent_for(SHAPES[name]).state_dict()
    assert torch.equal(torch.get_rng_state(), state)
    with torch.random.fork_rng():
        torch.manual_seed(1234)
        second = agent_for(SHAPES[name]).state_dict()
    assert all(torch.equal(first[key], second[key]) for key in first)
    other = agent_for(SHAPES[name], seed=1).state_dict()
    assert not torch.equal(first["values.weight"], other["values.weight"])


@pytest.mark.parametrize("name", SHAPES)
@torch.no_grad()
def test_new_units_keep_every_value(name):
    agent, x = agent_for(SHAPES[name]), observations(SHAPES[name])
    agent.rescale_values(torch.tensor([3.0, -2.0]), torch.tensor([0.5, 40.0]))
    agent.values.weight.add_(1.0)
    outputs, values = agent(x)
    weight = agent.values.weight.clone()
    agent.rescale_values(torch.tensor([100.0, 0.0]), torch.tensor([7.0, 1e-4]))
    assert torch.equal(agent(x)[0], outputs)
    # float32: the mean of 100 is taken off and put on again, so the last digits of 100 are lost
    torch.testing.assert_close(agent(x)[1], values, rtol=1e-4, atol=100 * 1e-5)
    torch.testing.assert_close(agent.values.weight, weight * torch.tensor([[0.5 / 7], [40 / 1e-4]]))


def test_a_grid_is_read_one_hot_and_an_unknown_code_as_none():
    trunk = agent_for((3, 7, 7)).policy.trunk
    assert isinstance(trunk, GridTrunk)
    x = observations((3, 7, 7))
    one_hot = nn.functional.one_hot(x.long(), 11).permute(0, 1, 4, 2, 3).flatten(1, 2).float()
    torch.testing.assert_close(trunk(x), trunk.layers(one_hot))
    unknown = torch.full((1, 3, 7, 7), 11, dtype=torch.uint8)
    torch.testing.assert_close(trunk(unknown), trunk.layers(torch.zeros(1, 33, 7, 7)))


def test_a_discrete_state_is_read_one_hot():
    trunk = agent_for(Discrete(9)).policy.trunk
    assert isinstance(trunk, MLPTrunk)
    torch.testing.assert_close(trunk(torch.arange(9)), trunk.layers(torch.eye(9)))


def test_auto_chooses_by_the_shape():
    names = {name: chosen_network(shape) for name, shape in SHAPES.items()}
    assert names == {"atari": "atari", "grid": "grid", "mlp": "mlp", "states": "mlp"}
    assert agent_for((3, 7, 7), network="mlp")(observations((3, 7, 7)))[0].shape == (3, 6)


@pytest.mark.parametrize("shape", [(5,), Discrete(9)])
def test_an_image_network_refuses_what_is_no_image(shape):
    with pytest.raises(ValueError, match="network 'atari' reads images"):
        agent_for(shape, network="atari")
