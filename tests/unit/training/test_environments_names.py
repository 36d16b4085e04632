"""From an id to environments, and the contract that all of them keep."""

import sys
import types

import numpy as np
import pytest
from gymnasium.vector import AutoresetMode, SyncVectorEnv

from optimist.bonuses import Discrete, DiscreteActions
from optimist.training.environments import GymnasiumVector, make
from optimist.training.environments.combination_lock import CombinationLock
from optimist.training.environments.deep_sea import DeepSea
from optimist.training.environments.envpool_pool import EnvPool
from optimist.training.environments.frozen_lake import FrozenLake
from optimist.training.trunks import raw_sizes

CASES = {
    "DeepSea-5": {},
    "CombinationLock": {"horizon": 5},
    "FrozenLake-8x8": {},
    "FrozenLake-v1": {"is_slippery": True},
    "CartPole-v1": {},
    "gymnasium:CartPole-v1": {"max_episode_steps": 12},
    "Pendulum-v1": {"max_episode_steps": 7},
    "MiniGrid-Empty-5x5-v0": {"max_episode_steps": 9},
    "MiniGrid-DoorKey-5x5-v0": {"level": 1, "max_episode_steps": 9},
}
LEFT, RIGHT, FORWARD, TOGGLE = 0, 1, 2, 5
WALL, DOOR, CLOSED = 2, 4, 1
RANDOM = ["CombinationLock", "FrozenLake-v1", "CartPole-v1", "gymnasium:CartPole-v1", "Pendulum-v1"]


def stream(envs, seed, steps=40):
    rng = np.random.default_rng(0)
    seen = [envs.reset(seed)]
    for _ in range(steps):
        discrete = isinstance(envs.actions, DiscreteActions)
        actions = rng.integers(envs.actions.n, size=envs.n_envs) if discrete else rng.normal(size=(envs.n_envs, 1))
        seen.append(envs.step(actions))
    return seen


@pytest.mark.parametrize("env_id", CASES)
def test_every_environment_keeps_the_contract(env_id):
    envs = make(env_id, n_envs=3, options=CASES[env_id])
    first, *steps = stream(envs, 1)
    shape = raw_sizes(envs.observation_shape)
    assert envs.observation_dtype in (np.uint8, np.float32, np.int64)
    assert (envs.observation_dtype == np.int64) == isinstance(envs.observation_shape, Discrete)
    assert envs.n_envs == 3
    endings = 0
    for step in steps:
        for observed in (first, step.observations, step.next_observations):
            assert (observed.shape, observed.dtype) == ((3, *shape), envs.observation_dtype)
            assert observed.flags.c_contiguous
        assert (step.rewards.shape, step.rewards.dtype) == ((3,), np.float32)
        for flag in (step.terminated, step.truncated):
            assert (flag.shape, flag.dtype) == ((3,), np.bool_)
        assert step.valid is None
        ended = step.terminated | step.truncated
        assert (step.next_observations is step.observations) == (not ended.any())
        np.testing.assert_array_equal(step.next_observations[~ended], step.observations[~ended])
        endings += ended.sum()
    assert endings > 0
    envs.close()


@pytest.mark.parametrize("env_id", CASES)
def test_a_seed_starts_everything_anew(env_id):
    envs = make(env_id, n_envs=3, options=CASES[env_id])
    left, other = stream(envs, 1), stream(envs, 2)
    right = stream(envs, 1)
    fresh = make(env_id, n_envs=3, options=CASES[env_id])
    for again in (right, stream(fresh, 1)):
        assert same(left, again)
    assert same(left, other) == (env_id not in RANDOM)
    envs.close()
    fresh.close()


def same(left, right):
    fields = ("observations", "next_observations", "rewards", "terminated", "truncated")
    return np.array_equal(left[0], right[0]) and all(
        np.array_equal(getattr(a, field), getattr(b, field))
        for a, b in zip(left[1:], right[1:], strict=True)
        for field in fields
    )


def test_who_makes_what():
    assert isinstance(make("DeepSea-30", n_envs=2), DeepSea)
    assert make("DeepSea-30", n_envs=2).size == 30
    assert isinstance(make("CombinationLock", n_envs=2), CombinationLock)
    lake = make("FrozenLake-12x12", n_envs=2)
    assert isinstance(lake, FrozenLake)
    assert lake.max_episode_steps == 22
    assert isinstance(make("CartPole-v1", n_envs=2), EnvPool)
    assert isinstance(make("gymnasium:CartPole-v1", n_envs=2), GymnasiumVector)
    assert isinstance(make("FrozenLake-v1", n_envs=2), GymnasiumVector)
    assert isinstance(make("envpool:FrozenLake-v1", n_envs=2), EnvPool)
    assert isinstance(make("MiniGrid-Empty-5x5-v0", n_envs=2), EnvPool)
    assert isinstance(make("MiniGrid-Empty-5x5-v0", n_envs=2, options={"level": 0}), GymnasiumVector)
    assert isinstance(make("MiniGrid-MultiRoom-N2-S4-v0", n_envs=2), GymnasiumVector)
    assert isinstance(make("envpool:MiniGrid-MultiRoom-N2-S4-v0", n_envs=2), EnvPool)
    assert isinstance(make("Taxi-v4", n_envs=2), GymnasiumVector)


def test_behind_every_door_of_multi_room_is_a_room():
    opened, blocked = doors("MiniGrid-MultiRoom-N2-S4-v0")
    assert opened > 50
    assert blocked == 0


def test_in_envpool_doors_open_on_walls():
    """Why MultiRoom is Gymnasium's. If this fails EnvPool has been mended, and may come first again."""
    opened, blocked = doors("envpool:MiniGrid-MultiRoom-N2-S4-v0")
    assert opened > 50
    assert blocked > opened / 5


def doors(env_id):
    """How many steps of play opened a door, and how many of these showed a wall behind it."""
    environments, rng = make(env_id, n_envs=32), np.random.default_rng(0)
    views, opened, blocked = environments.reset(0), 0, 0
    for _ in range(200):
        closed = (views[:, 0, 3, 5] == DOOR) & (views[:, 2, 3, 5] == CLOSED)  # the cell ahead; [kind, color, state]
        actions = np.where(closed, TOGGLE, rng.choice([LEFT, RIGHT, FORWARD], 32))
        step = environments.step(actions)
        seen = step.next_observations[closed]
        opened, blocked = opened + len(seen), blocked + int((seen[:, 0, 3, 4] == WALL).sum())
        views = step.observations
    return opened, blocked


@pytest.mark.parametrize(
    ("wrong", "near"),
    [
        ("CartPol-v1", "CartPole-v1"),
        ("MiniGrid-DoorKe-8x8-v0", "MiniGrid-DoorKey-8x8-v0"),
        ("breakout-v5", "Breakout-v5"),
        ("deepsea-30", "DeepSea-30"),
        ("gymnasium:FrozenLak-v1", "FrozenLake-v1"),
        ("envpool:Breakout-v9", "Breakout-v5"),
    ],
)
def test_an_unknown_id_names_its_neighbors(wrong, near):
    with pytest.raises(ValueError, match=rf"no environment is called .*did you mean .*{near}"):
        make(wrong, n_envs=2)


def test_bad_calls_are_refused():
    with pytest.raises(ValueError, match="DeepSea-5 does not take the options"):
        make("DeepSea-5", n_envs=2, options={"color": "blue"})
    with pytest.raises(ValueError, match="n_envs must be a whole number"):
        make("DeepSea-5", n_envs=0)
    with pytest.raises(ValueError, match="seed must be a non-negative integer"):
        make("MiniGrid-Empty-5x5-v0", n_envs=2, options={"level": -1})


@pytest.fixture
def users_module(monkeypatch):
    import gymnasium

    module = types.ModuleType("users_module")
    module.sea = lambda count, size=4: DeepSea(size, n_envs=count)
    module.vector = lambda count: SyncVectorEnv(
        [lambda: gymnasium.make("CartPole-v1")] * count, autoreset_mode=AutoresetMode.SAME_STEP
    )
    module.broken = lambda count: 3
    module.other_count = lambda count: DeepSea(4, n_envs=count + 1)
    monkeypatch.setitem(sys.modules, "users_module", module)


@pytest.mark.usefixtures("users_module")
def test_a_custom_environment_is_one_function_away():
    assert make("users_module:sea", n_envs=2, options={"size": 6}).size == 6
    made = make("users_module:vector", n_envs=2)
    assert isinstance(made, GymnasiumVector)
    assert made.reset(0).shape == (2, 4)


@pytest.mark.usefixtures("users_module")
@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        (
            "users_module:broken",
            "users_module:broken must return .*Environments.*, got int without n_envs, observation_",
        ),
        ("users_module:other_count", "must return 2 environments, as it was asked to, got 3"),
        ("users_module:absent", "the module 'users_module' has no function 'absent': .*choose one of broken, "),
        ("users_module:see", "did you mean 'sea'"),
        (
            "no_such_module:sea",
            "there is no module 'no_such_module', which 'no_such_module:sea' names: is it in the",
        ),
    ],
)
def test_a_custom_environment_that_is_none_is_told_why(wrong, told):
    with pytest.raises(ValueError, match=told):
        make(wrong, n_envs=2)


def test_an_option_that_a_custom_environment_does_not_take_is_named(users_module):
    with pytest.raises(ValueError, match=r"users_module:sea cannot be called with the settings .*: .*size"):
        make("users_module:sea", n_envs=2, options={"color": "blue"})


def explode(count, depth=2):
    return explode(count, depth - 1) if depth else 1 // (count - count)


def confused(count):
    return len(count)


@pytest.mark.parametrize(("function", "kind"), [("explode", ZeroDivisionError), ("confused", TypeError)])
def test_an_error_inside_a_custom_environment_is_its_own(function, kind):
    with pytest.raises(kind) as caught:
        make(f"{__name__}:{function}", n_envs=2)
    assert caught.value.__cause__ is None
    assert caught.traceback[-1].name == function
    assert str(caught.traceback[-1].path) == __file__


def test_a_module_that_a_custom_environment_lacks_is_named_itself(tmp_path, monkeypatch):
    (tmp_path / "needs_much.py").write_text("import no_such_dependency\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ModuleNotFoundError, match="No module named 'no_such_dependency'") as missing:
        make("needs_much:sea", n_envs=2)
    assert missing.value.name == "no_such_dependency"
