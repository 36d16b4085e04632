"""EnvPool's real environments: true final observations, no lost action, seeds, Atari as RND has it."""

import gymnasium
import numpy as np
import pytest

from optimist.bonuses import Discrete, DiscreteActions
from optimist.training.environments import Grid
from optimist.training.environments.envpool_pool import ATARI, EnvPool


def pool(env_id, n_envs=4, **options):
    return EnvPool(env_id, n_envs=n_envs, options=options)


def stream(envs, seed, steps, rng_seed=0):
    """All that ``steps`` random actions show."""
    rng = np.random.default_rng(rng_seed)
    seen = [envs.reset(seed)]
    for _ in range(steps):
        step = envs.step(rng.integers(envs.actions.n, size=envs.n_envs))
        seen += [step.observations, step.next_observations, step.rewards, step.terminated, step.truncated]
    envs.close()
    return seen


def alike(left, right):
    return all(np.array_equal(a, b) for a, b in zip(left, right, strict=True))


def test_every_transition_of_cart_pole_obeys_physics_and_none_is_lost_at_an_end():
    envs, slow = pool("CartPole-v1", max_episode_steps=15), gymnasium.make("CartPole-v1").unwrapped
    slow.reset(seed=0)
    before, rng, terminations, truncations = envs.reset(1), np.random.default_rng(0), 0, 0
    for _ in range(80):
        actions = rng.integers(2, size=4)
        step = envs.step(actions)
        for i in range(4):
            slow.state, slow.steps_beyond_terminated = tuple(before[i].astype(float)), None
            after, _, terminated, _, _ = slow.step(int(actions[i]))
            np.testing.assert_allclose(step.next_observations[i], after, atol=1e-5)
            assert step.terminated[i] == (terminated and not step.truncated[i])
        ended = step.terminated | step.truncated
        assert (np.abs(step.observations[ended]) <= 0.05).all()  # CartPole starts in +-0.05
        np.testing.assert_array_equal(step.observations[~ended], step.next_observations[~ended])
        assert (step.next_observations is step.observations) == (not ended.any())
        terminations, truncations = terminations + step.terminated.sum(), truncations + step.truncated.sum()
        before = step.observations
    assert terminations > 3
    assert truncations > 3
    envs.close()


def test_the_seed_alone_decides_the_stream_whatever_the_threads():
    one = stream(pool("CartPole-v1", num_threads=1), 3, 60)
    assert alike(one, stream(pool("CartPole-v1", num_threads=2), 3, 60))
    assert not np.array_equal(one[0], stream(pool("CartPole-v1"), 4, 1)[0])
    envs = pool("CartPole-v1")
    assert alike(stream(envs, 3, 20), stream(envs, 3, 20))


def test_arrays_once_given_never_change():
    envs = pool("CartPole-v1")
    given = [envs.reset(0)] + [envs.step(np.ones(4, np.int64)).observations for _ in range(30)]
    kept = [array.copy() for array in given]
    for _ in range(100):
        envs.step(np.zeros(4, np.int64))
    assert alike(given, kept)
    envs.close()


def test_minigrid_is_its_image_and_pays_above_zero_at_the_goal_only():
    envs = pool("MiniGrid-Empty-5x5-v0", n_envs=2)
    first = envs.reset(0)
    assert (envs.observation_shape, envs.observation_dtype) == (Grid((3, 7, 7)), np.uint8)
    assert (first.shape, first.dtype, first.flags.c_contiguous) == ((2, 3, 7, 7), np.uint8, True)
    assert first[0, 0].max() <= 10  # channel 0 holds object types, 0 .. 10
    np.testing.assert_array_equal(first[0, 2], np.zeros((7, 7)))  # channel 2 door states
    for action in (2, 2, 1, 2):
        step = envs.step(np.array([action, 0]))
        assert not step.rewards.any()
    step = envs.step(np.array([2, 0]))  # two steps right, turn, two down: the goal
    assert step.rewards[0] > envs.success_return
    assert step.terminated.tolist() == [True, False]
    np.testing.assert_array_equal(step.observations[0], first[0])
    assert (step.next_observations[0] != first[0]).any()
    envs.close()


def test_minigrid_truncates_at_its_limit():
    envs = pool("MiniGrid-Empty-5x5-v0", n_envs=1, max_episode_steps=6)
    envs.reset(0)
    steps = [envs.step(np.array([0])) for _ in range(6)]
    assert [bool(step.truncated[0]) for step in steps] == [False] * 5 + [True]
    assert not any(step.terminated[0] for step in steps)
    envs.close()


def test_atari_is_that_of_rnd():
    envs = pool("Breakout-v5", n_envs=2, max_episode_steps=20)
    assert envs._options == dict(ATARI) | {"max_episode_steps": 20, "num_threads": envs._options["num_threads"]}
    assert ATARI["repeat_action_probability"] == 0.25
    assert ATARI["max_episode_steps"] * ATARI["frame_skip"] == 18_000
    first = envs.reset(0)
    assert (first.shape, first.dtype) == ((2, 4, 84, 84), np.uint8)
    assert envs.success_return is None
    np.testing.assert_array_equal(first[0], first[1])  # no random start
    before, same = first, []
    for t in range(45):
        step = envs.step(np.array([1 if t % 20 == 0 else 2 + t % 2] * 2))
        np.testing.assert_array_equal(
            step.next_observations[:, :3], before[:, 1:]
        )  # frames slide, also into the final stack
        assert step.truncated.all() == (t % 20 == 19)
        same.append(np.array_equal(step.next_observations[0], step.next_observations[1]))
        before = step.observations
    assert not all(same)  # sticky actions differ from environment to environment
    envs.close()


def test_an_atari_game_starts_alike_everywhere_and_waits_for_the_player():
    moving = pool("Freeway-v5", n_envs=6)  # its cars drive from the first frame on, so random no-ops would show
    first = moving.reset(0)
    assert (first == first[:1]).all()
    waiting = pool("Breakout-v5", n_envs=2)
    first = waiting.reset(0)
    for _ in range(8):  # no ball is served as long as nobody fires
        np.testing.assert_array_equal(waiting.step(np.zeros(2, np.int64)).next_observations, first)
    moving.close()
    waiting.close()


def test_continuous_actions_are_brought_to_the_bounds_and_clipped_to_them():
    wild, tame, slow = pool("Pendulum-v1", n_envs=3), pool("Pendulum-v1", n_envs=3), gymnasium.make("Pendulum-v1")
    np.testing.assert_array_equal(wild.reset(2), tame.reset(2))
    for sign in (1, -1, 1):
        far, near = wild.step(np.full((3, 1), 50.0 * sign)), tame.step(np.full((3, 1), 1.0 * sign))
        np.testing.assert_array_equal(far.next_observations, near.next_observations)
        np.testing.assert_array_equal(far.rewards, near.rewards)
    before = near.next_observations.astype(float)
    after = tame.step(np.full((3, 1), 0.25)).next_observations
    slow.reset(seed=0)
    for i in range(3):  # a quarter of a torque of at most 2
        slow.unwrapped.state = np.array([np.arctan2(before[i, 1], before[i, 0]), before[i, 2]])
        np.testing.assert_allclose(after[i], slow.step(np.array([0.5]))[0], atol=1e-4)
    wild.close()
    tame.close()


@pytest.mark.parametrize(
    ("env_id", "shape"),
    [
        ("ReacherEasy-v1", {"position": (2,), "to_target": (2,), "velocity": (2,)}),
        ("Parking-v0", {"observation": (6,), "achieved_goal": (6,), "desired_goal": (6,)}),
        ("MiniGrid-Empty-5x5-v0", {"image": Grid((3, 7, 7)), "direction": Discrete(4)}),
    ],
)
def test_all_keys_of_a_dict_are_read(env_id, shape):
    options = {"observation_key": "image,direction"} if env_id.startswith("MiniGrid") else {}
    envs = EnvPool(env_id, n_envs=2, options=options)
    assert envs.observation_shape == shape
    first, rng = envs.reset(0), np.random.default_rng(0)
    assert first.keys() == shape.keys()
    for _ in range(3):
        discrete = isinstance(envs.actions, DiscreteActions)
        step = envs.step(rng.integers(envs.actions.n, size=2) if discrete else rng.normal(size=(2, envs.actions.size)))
        assert {name: part.dtype for name, part in step.observations.items()} == envs.observation_dtype
    assert any((step.observations[name] != first[name]).any() for name in first)
    envs.close()


def test_success_is_reaching_the_flag():
    assert pool("MountainCar-v0").success_return == -200
    assert pool("MountainCar-v0", max_episode_steps=500).success_return == -500
    assert pool("CartPole-v1").success_return == 475
    assert pool("Pendulum-v1").success_return is None


def test_bad_options_are_refused_before_anything_starts():
    with pytest.raises(ValueError, match=r"got \['color'\]: for an option of Gymnasium's write gymnasium:CartPole-v1"):
        pool("CartPole-v1", color="blue")
    with pytest.raises(ValueError, match="noop_max must be at least 1"):
        pool("Breakout-v5", noop_max=0)
    with pytest.raises(ValueError, match=r"agent_view_size must be 7 .* gymnasium:MiniGrid-MemoryS7-v0"):
        pool("MiniGrid-MemoryS7-v0", agent_view_size=3)
    with pytest.raises(ValueError, match=r"got \['seed'\]"):
        pool("CartPole-v1", seed=3)
    with pytest.raises(RuntimeError, match="reset"):
        pool("CartPole-v1").step(np.zeros(4, np.int64))


def test_there_is_no_state_to_save():
    envs = pool("CartPole-v1")
    assert envs.state_dict() is None
    with pytest.raises(NotImplementedError, match="reset"):
        envs.load_state_dict({})
    envs.close()
    envs.close()
