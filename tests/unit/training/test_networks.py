"""The agent's networks: shapes, sizes known from the literature, and a draw that depends on its generator alone."""

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium.spaces import Box
from gymnasium.spaces import Discrete as DiscreteSpace
from torch import nn

from optimist import bonuses
from optimist.bonuses import Discrete, DiscreteActions, Transitions
from optimist.training.agent import make_agent
from optimist.training.environments import Grid, make
from optimist.training.environments.spaces import policy_reader
from optimist.training.trunks import AtariTrunk, GridTrunk, ImageTrunk, MLPTrunk, fitting_trunk, plain_shape

SHAPES = {"atari": (4, 84, 84), "image": (3, 20, 12), "grid": Grid((3, 7, 7)), "mlp": (5,), "states": Discrete(9)}


def agent_for(shape, *, outputs=6, network="auto", activation="leaky-relu", width=16, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return make_agent(shape, outputs, network=network, activation=activation, width=width, generator=generator)


def observations(shape, n=3):
    rng = np.random.default_rng(0)
    if isinstance(shape, Discrete):
        return torch.from_numpy(rng.integers(shape.n, size=n))
    if len(plain_shape(shape)) == 3:
        return torch.from_numpy(rng.integers(0, 11, size=(n, *plain_shape(shape)), dtype=np.uint8))
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


def test_frames_are_convolved_with_their_channels_last_and_mean_the_same():
    trunk = agent_for((4, 84, 84)).policy.trunk
    x = torch.from_numpy(np.random.default_rng(0).integers(256, size=(3, 4, 84, 84), dtype=np.uint8))
    entering = []
    handle = trunk.layers[0].register_forward_pre_hook(lambda layer, inputs: entering.append(inputs[0]))
    features = trunk(x)
    handle.remove()
    assert entering[0].is_contiguous(memory_format=torch.channels_last)
    assert not entering[0].is_contiguous()
    # The same sums in another order: at most 3,136 products, each rounded at 6e-8.
    torch.testing.assert_close(features, trunk.layers(x.float() / 255), rtol=1e-4, atol=1e-5)


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
    trunk = agent_for(Grid((3, 7, 7))).policy.trunk
    assert isinstance(trunk, GridTrunk)
    x = observations((3, 7, 7))
    one_hot = nn.functional.one_hot(x.long(), 11).permute(0, 1, 4, 2, 3).flatten(1, 2).float()
    torch.testing.assert_close(trunk(x), trunk.layers(one_hot))
    unknown = torch.full((1, 3, 7, 7), 11, dtype=torch.uint8)
    torch.testing.assert_close(trunk(unknown), trunk.layers(torch.zeros(1, 33, 7, 7)))
    flat = agent_for(Grid((3, 7, 7)), network="mlp").policy.trunk
    torch.testing.assert_close(flat(x), flat.layers(nn.functional.one_hot(x.long(), 11).flatten(1).float()))
    torch.testing.assert_close(flat(unknown), flat.layers(torch.zeros(1, 3 * 7 * 7 * 11)))


def test_a_discrete_state_is_read_one_hot():
    trunk = agent_for(Discrete(9)).policy.trunk
    assert isinstance(trunk, MLPTrunk)
    torch.testing.assert_close(trunk(torch.arange(9)), trunk.layers(torch.eye(9)))


def test_auto_chooses_what_fits_and_a_name_forces_another():
    names = {name: fitting_trunk(shape) for name, shape in SHAPES.items()}
    assert names == {"atari": "atari", "image": "image", "grid": "grid", "mlp": "mlp", "states": "mlp"}
    assert fitting_trunk((3, 7, 7)) == "mlp"  # no image, and nobody has said that it holds codes
    assert isinstance(agent_for((3, 7, 7), network="grid").policy.trunk, GridTrunk)
    assert isinstance(agent_for((3, 40, 40), network="image").policy.trunk, ImageTrunk)


@pytest.mark.parametrize(
    ("shape", "network"), [((5,), "atari"), (Discrete(9), "image"), ((3, 35, 40), "atari"), ((3, 7, 9), "image")]
)
def test_an_image_network_refuses_what_is_no_image_or_too_small(shape, network):
    with pytest.raises(ValueError, match=f"network '{network}' reads images .* of at least"):
        agent_for(shape, network=network)


def pictures(rng, *shape):
    """Eight pictures as bytes, none darker than 40: as MiniGrid's codes they would all be one and the same."""
    return rng.integers(40, 256, (8, *shape), dtype=np.uint8)


# Space, eight observations of it, and the trunk that must read them.
SEEN = {
    "rgb 32 x 32": (Box(0, 255, (32, 32, 3), np.uint8), lambda rng: pictures(rng, 32, 32, 3), ImageTrunk),
    "rgb 9 x 11": (Box(0, 255, (3, 9, 11), np.uint8), lambda rng: pictures(rng, 3, 9, 11), ImageTrunk),
    "rgb 5 x 5": (Box(0, 255, (5, 5, 3), np.uint8), lambda rng: pictures(rng, 5, 5, 3), MLPTrunk),
    "rgb 96 x 96": (Box(0, 255, (96, 96, 3), np.uint8), lambda rng: pictures(rng, 96, 96, 3), AtariTrunk),
    "rgb 210 x 160": (Box(0, 255, (210, 160, 3), np.uint8), lambda rng: pictures(rng, 210, 160, 3), AtariTrunk),
    "gray 84 x 84": (Box(0, 255, (84, 84), np.uint8), lambda rng: pictures(rng, 84, 84), AtariTrunk),
    "floats in 0 .. 1": (Box(0, 1, (64, 64, 3)), lambda rng: rng.random((8, 64, 64, 3)), AtariTrunk),
    "gray floats": (Box(0, 1, (40, 40)), lambda rng: rng.random((8, 40, 40)), AtariTrunk),
    "floats in 0 .. 255": (Box(0, 255, (20, 20, 3)), lambda rng: pictures(rng, 20, 20, 3).astype(float), ImageTrunk),
    "floats in -1 .. 1": (Box(-1, 1, (20, 20, 3)), lambda rng: rng.random((8, 20, 20, 3)) * 2 - 1, ImageTrunk),
    "masks": (Box(0, 1, (10, 10, 4), np.uint8), lambda rng: rng.integers(0, 2, (8, 10, 10, 4)), ImageTrunk),
    "codes 0 .. 4": (Box(0, 4, (10, 10, 2), np.uint8), lambda rng: rng.integers(0, 5, (8, 10, 10, 2)), ImageTrunk),
    "16 bits": (Box(0, 65535, (40, 40, 1), np.uint16), lambda rng: rng.integers(0, 65536, (8, 40, 40, 1)), AtariTrunk),
    "a board": (Box(-np.inf, np.inf, (8, 8, 119)), lambda rng: rng.integers(0, 2, (8, 8, 8, 119)), ImageTrunk),
    "a vector": (Box(-1, 1, (4,)), lambda rng: rng.random((8, 4)), MLPTrunk),
    "a matrix": (Box(-1, 1, (5, 8)), lambda rng: rng.random((8, 5, 8)), MLPTrunk),
    "memory": (Box(0, 255, (128,), np.uint8), lambda rng: rng.integers(0, 256, (8, 128), dtype=np.uint8), MLPTrunk),
    "states": (DiscreteSpace(20), lambda rng: rng.permutation(20)[:8], MLPTrunk),
}


@pytest.mark.parametrize("name", SEEN)
def test_networks_see_what_they_are_given(name):
    """Features of order one that differ from state to state, and a bonus that does: neither blind nor swamped."""
    space, sample, kind = SEEN[name]
    read = policy_reader(space, keys=None, codes=False)
    raw = sample(np.random.default_rng(0))
    given = read(raw)
    assert (given.dtype, given.shape) == (read.dtype, (8, *(() if isinstance(space, DiscreteSpace) else read.shape)))
    agent, x = agent_for(read.shape, width=64), torch.from_numpy(given)
    assert isinstance(agent.policy.trunk, kind)
    require_seen(agent, x)
    one = torch.from_numpy(read(np.where(np.arange(8).reshape(8, *[1] * (raw.ndim - 1)) == 0, raw.max() - raw, raw)))
    assert not torch.allclose(agent(one)[0][0], agent(x)[0][0], rtol=1e-3)  # its negative looks otherwise
    if name != "rgb 210 x 160":  # which makes a network of 100 MB there
        require_novel("rnd", read.shape, x)


@torch.no_grad()
def require_seen(agent, x):
    features, (outputs, values) = agent.policy.trunk(x), agent(x)
    assert 0.01 < float(features.std(0).square().mean().sqrt()) < 3
    for numbers in (features, outputs, values):
        assert len(numbers.unique(dim=0)) == len(x)


def require_novel(name, shape, x):
    """A learned bonus with a network of its own tells eight observations apart."""
    bonus = bonuses.make(name, seed=0, observation_shape=plain_shape(shape), actions=DiscreteActions(2))
    never = torch.zeros(8, 1, dtype=torch.bool)
    rollout = Transitions(x.unsqueeze(1), torch.zeros(8, 1, dtype=torch.int64), x.flip(0).unsqueeze(1), never, never)
    if bonus.needs_warm_up:
        bonus.warm_up(rollout)
    assert len(bonus.compute(rollout).unique()) == 8


@pytest.mark.parametrize("env_id", ["MiniGrid-FourRooms-v0", "gymnasium:MiniGrid-FourRooms-v0"])
def test_minigrid_is_read_as_codes_whoever_makes_it(env_id):
    envs = make(env_id, n_envs=8)
    assert envs.observation_shape == Grid((3, 7, 7))
    agent = agent_for(envs.observation_shape, width=64)
    assert isinstance(agent.policy.trunk, GridTrunk)
    first = envs.reset(0)
    views, places = np.unique(first, axis=0, return_index=True)
    assert len(views) > 4
    require_seen(agent, torch.from_numpy(first[places]))
    envs.close()


def test_minigrid_in_color_is_an_image_and_its_codes_in_a_users_own_wrapper_are_not():
    import minigrid.wrappers
    from gymnasium.vector import AutoresetMode, SyncVectorEnv

    from optimist.training.environments import GymnasiumVector

    def vector(*wrappers):
        def maker():
            env = gymnasium.make("MiniGrid-Empty-5x5-v0")
            for wrapper in wrappers:
                env = wrapper(env)
            return env

        return GymnasiumVector(SyncVectorEnv([maker], autoreset_mode=AutoresetMode.SAME_STEP))

    codes, drawn = minigrid.wrappers.ImgObsWrapper, minigrid.wrappers.RGBImgPartialObsWrapper
    assert vector(codes).observation_shape == Grid((3, 7, 7))
    assert vector(minigrid.wrappers.FullyObsWrapper, codes).observation_shape == Grid((3, 5, 5))
    assert vector(drawn, codes).observation_shape == (3, 56, 56)
