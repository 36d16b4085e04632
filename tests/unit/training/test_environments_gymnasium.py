"""Gymnasium's environments: a counter with known answers through every autoreset mode, fixed levels, spaces."""

import gymnasium
import numpy as np
import pytest
from gymnasium.spaces import Box, MultiBinary, MultiDiscrete, Text
from gymnasium.spaces import Dict as DictSpace
from gymnasium.spaces import Discrete as DiscreteSpace
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, SyncVectorEnv

from optimist.bonuses import ContinuousActions, Discrete, DiscreteActions, MultiDiscreteActions
from optimist.training.environments import GymnasiumVector, make
from optimist.training.environments.gymnasium_vector import make_gymnasium

LENGTHS = (2, 3, 5)


class Counter(gymnasium.Env):
    """Observes (episode, step), pays the action. Even episodes terminate after ``length`` steps, odd ones truncate."""

    observation_space = Box(-np.inf, np.inf, (2,), np.float32)
    action_space = DiscreteSpace(4)

    def __init__(self, length=3, *, in_place=False):
        self.length, self.in_place = length, in_place
        self.episode, self.now = -1, np.zeros(2, np.float32)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.episode = 0 if seed is not None else self.episode + 1
        return self._observed(0), {}

    def step(self, action):
        observed = self._observed(int(self.now[1]) + 1)
        ended = observed[1] == self.length
        return observed, float(action), bool(ended and self.episode % 2 == 0), bool(ended and self.episode % 2), {}

    def _observed(self, step):
        if not self.in_place:
            self.now = np.zeros(2, np.float32)
        self.now[:] = self.episode, step
        return self.now


def counters(mode):
    return GymnasiumVector(SyncVectorEnv([lambda n=n: Counter(n) for n in LENGTHS], autoreset_mode=mode))


def expected_steps(length, actions, *, ignores):
    """What one counter answers: (observation, successor, reward, terminated, truncated, valid) for every action."""
    episode, step, resetting, answers = 0, 0, False, []
    for action in actions:
        if resetting:
            episode, step, resetting = episode + 1, 0, False
            answers.append(((episode, 0), (episode, 0), 0.0, False, False, False))
            continue
        step += 1
        successor, ended = (episode, step), step == length
        terminated, truncated = ended and episode % 2 == 0, ended and episode % 2 == 1
        if ended and ignores:
            resetting = True
        elif ended:
            episode, step = episode + 1, 0
        answers.append(((episode, step), successor, float(action), terminated, truncated, True))
    return answers


@pytest.mark.parametrize("mode", list(AutoresetMode))
def test_successors_are_the_true_final_observations_in_every_mode(mode):
    envs, ignores = counters(mode), mode is AutoresetMode.NEXT_STEP
    np.testing.assert_array_equal(envs.reset(7), [[0, 0]] * 3)
    actions = np.random.default_rng(0).integers(4, size=(40, 3))
    oracle = [expected_steps(n, actions[:, i], ignores=ignores) for i, n in enumerate(LENGTHS)]
    for t, action in enumerate(actions):
        step = envs.step(action)
        want = [list(column) for column in zip(*[oracle[i][t] for i in range(3)], strict=True)]
        np.testing.assert_array_equal(step.observations, want[0])
        np.testing.assert_array_equal(step.next_observations, want[1])
        np.testing.assert_array_equal(step.rewards, want[2])
        np.testing.assert_array_equal(step.terminated, want[3])
        np.testing.assert_array_equal(step.truncated, want[4])
        np.testing.assert_array_equal(np.ones(3, bool) if step.valid is None else step.valid, want[5])
        ended = step.terminated | step.truncated
        assert (step.next_observations is step.observations) == (ignores or not ended.any())
    assert (step.valid is not None) == ignores
    envs.close()


def test_a_reset_in_the_middle_of_a_next_step_reset_ignores_nothing():
    envs = counters(AutoresetMode.NEXT_STEP)
    envs.reset(0)
    while not (step := envs.step(np.zeros(3, np.int64))).terminated.any():
        pass
    envs.reset(0)
    step = envs.step(np.ones(3, np.int64))
    assert step.valid.all()
    np.testing.assert_array_equal(step.rewards, np.ones(3))


@pytest.mark.parametrize("mode", list(AutoresetMode))
def test_a_vector_environment_that_reuses_its_buffer_changes_nothing_once_given(mode):
    envs = GymnasiumVector(SyncVectorEnv([Counter] * 2, copy=False, autoreset_mode=mode))
    given = [envs.reset(0), *(envs.step(np.ones(2, np.int64)).next_observations for _ in range(3))]
    np.testing.assert_array_equal([array[0] for array in given], [[0, 0], [0, 1], [0, 2], [0, 3]])


def test_processes_of_gymnasium_answer_like_its_loop():
    envs = GymnasiumVector(
        AsyncVectorEnv([lambda n=n: Counter(n) for n in LENGTHS], autoreset_mode=AutoresetMode.SAME_STEP)
    )
    same = counters(AutoresetMode.SAME_STEP)
    np.testing.assert_array_equal(envs.reset(0), same.reset(0))
    for _ in range(12):
        step, want = envs.step(np.ones(3, np.int64)), same.step(np.ones(3, np.int64))
        np.testing.assert_array_equal(step.next_observations, want.next_observations)
        np.testing.assert_array_equal(step.observations, want.observations)
    envs.close()


@pytest.fixture
def registered():
    gymnasium.register("Counter-v0", entry_point=Counter, kwargs={"in_place": True}, max_episode_steps=4)
    yield "Counter-v0"
    del gymnasium.registry["Counter-v0"]


def test_an_environment_that_writes_into_its_observation_still_has_true_finals(registered):
    envs = make_gymnasium(registered, n_envs=2, options={})
    first = envs.reset(0)
    steps = [envs.step(np.zeros(2, np.int64)) for _ in range(3)]
    np.testing.assert_array_equal(first, [[0, 0]] * 2)
    np.testing.assert_array_equal(steps[0].next_observations, [[0, 1]] * 2)
    np.testing.assert_array_equal(steps[2].next_observations, [[0, 3]] * 2)
    np.testing.assert_array_equal(steps[2].observations, [[1, 0]] * 2)


def test_a_shorter_limit_truncates_and_an_unknown_option_is_refused(registered):
    envs = make_gymnasium(registered, n_envs=2, options={"max_episode_steps": 2, "length": 9})
    envs.reset(0)
    steps = [envs.step(np.zeros(2, np.int64)) for _ in range(2)]
    assert not steps[0].truncated.any()
    assert steps[1].truncated.all()
    assert not steps[1].terminated.any()
    with pytest.raises(ValueError, match="does not take the options"):
        make_gymnasium(registered, n_envs=2, options={"color": "blue"})


def test_a_level_is_the_same_layout_in_every_environment_and_episode():
    layouts = {}
    for level in (1, 2):
        envs = make("MiniGrid-FourRooms-v0", n_envs=3, options={"level": level, "max_episode_steps": 2})
        firsts = [envs.reset(level + 5)]
        for _ in range(6):
            firsts.append(envs.step(np.zeros(3, np.int64)).observations)
        assert firsts[0].shape == (3, 3, 7, 7)
        assert firsts[0].dtype == np.uint8
        for same in firsts[::2]:
            np.testing.assert_array_equal(same, np.broadcast_to(firsts[0][:1], same.shape))
        layouts[level] = firsts[0][0]
        assert envs.success_return == 0.0
    assert (layouts[1] != layouts[2]).any()


class Spaces(gymnasium.Env):
    """Answers with samples of any spaces, and keeps the last action."""

    def __init__(self, observation_space, action_space):
        self.observation_space, self.action_space = observation_space, action_space

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.observation_space.seed(seed)
        return self.observation_space.sample(), {}

    def step(self, action):
        self.last, self.seen = action, self.observation_space.sample()
        return self.seen, 0.0, False, False, {}


def vector_of(observation_space, action_space=None, **given):
    actions = DiscreteSpace(2) if action_space is None else action_space
    make = [lambda: Spaces(observation_space, actions)] * 2
    return GymnasiumVector(SyncVectorEnv(make, autoreset_mode=AutoresetMode.DISABLED), **given)


def test_observations_are_read_as_the_contract_says():
    image = vector_of(Box(0, 255, (40, 50, 3), np.uint8))
    assert (image.observation_shape, image.observation_dtype) == ((3, 40, 50), np.uint8)
    assert image.reset(0).shape == (2, 3, 40, 50)
    state = vector_of(DiscreteSpace(3, start=5))
    assert (state.observation_shape, state.observation_dtype) == (Discrete(3), np.int64)
    assert set(state.reset(0).tolist()) <= {0, 1, 2}
    vector = vector_of(Box(-1, 1, (4,), np.float64))
    assert (vector.observation_shape, vector.observation_dtype, vector.reset(0).dtype) == ((4,), np.float32, np.float32)
    ram = vector_of(Box(0, 255, (128,), np.uint8))
    assert (ram.observation_shape, ram.observation_dtype) == ((128,), np.uint8)


INNER = DictSpace({"row": DiscreteSpace(4), "height": Box(0, 1, (), np.float64)})
TREE = DictSpace({"image": Box(0, 255, (9, 9, 3), np.uint8), "me": INNER, "switches": MultiBinary(5)})


def test_all_keys_of_a_dict_are_read_also_those_of_an_inner_one():
    envs = vector_of(TREE)
    assert envs.observation_shape == {"image": (3, 9, 9), "me.height": (1,), "me.row": Discrete(4), "switches": (5,)}
    assert envs.observation_dtype == {
        "image": np.uint8, "me.height": np.float32, "me.row": np.int64, "switches": np.float32,
    }  # fmt: skip
    first = envs.reset(0)
    step = envs.step(np.zeros(2, np.int64))
    for given in (first, step.observations):
        assert {name: part.shape for name, part in given.items()} == {
            "image": (2, 3, 9, 9), "me.height": (2, 1), "me.row": (2,), "switches": (2, 5),
        }  # fmt: skip
        assert {name: part.dtype for name, part in given.items()} == envs.observation_dtype
    for k, env in enumerate(envs._envs.envs):
        np.testing.assert_array_equal(step.observations["image"][k], env.seen["image"].transpose(2, 0, 1))
        np.testing.assert_allclose(step.observations["me.height"][k], [env.seen["me"]["height"]], rtol=1e-6)
        assert step.observations["me.row"][k] == env.seen["me"]["row"]
        np.testing.assert_array_equal(step.observations["switches"][k], env.seen["switches"])


def test_keys_are_chosen_by_name_and_a_single_one_is_an_array():
    space = DictSpace({"image": Box(0, 255, (9, 9, 3), np.uint8), "direction": DiscreteSpace(4), "text": Text(9)})
    assert vector_of(space, observation_key="image").reset(0).shape == (2, 3, 9, 9)
    assert vector_of(space, observation_key="direction").observation_shape == Discrete(4)
    for keys in ("direction, image", ["image", "direction"]):
        assert set(vector_of(space, observation_key=keys).observation_shape) == {"image", "direction"}
    assert set(vector_of(TREE, observation_key="me").observation_shape) == {"me.row", "me.height"}
    with pytest.raises(ValueError, match=r"the key 'text' of the observation cannot be read: .*option observation_key"):
        vector_of(space)
    with pytest.raises(ValueError, match=r"keys \['direction', 'image', 'text'\], got observation_key='imag'"):
        vector_of(space, observation_key="imag")
    with pytest.raises(ValueError, match="is no Dict"):
        vector_of(DiscreteSpace(3), observation_key="image")
    with pytest.raises(ValueError, match="observations must be a Box"):
        vector_of(gymnasium.spaces.Tuple([DiscreteSpace(3)]))


def acted(action_space, actions):
    """What environments of ``action_space`` are given for ``actions``."""
    envs = vector_of(DiscreteSpace(2), action_space)
    envs.reset(0)
    envs.step(np.array(actions))
    return [env.last for env in envs._envs.envs]


def test_actions_of_a_box_are_brought_from_the_range_of_the_policy_to_its_bounds():
    box = Box(np.float32([-1, 0, -np.inf, -np.inf]), np.float32([1, 3, np.inf, 5]))
    assert vector_of(DiscreteSpace(2), box).actions == ContinuousActions(4)
    given = acted(box, [[0.5, 0.0, 7.0, 7.0], [-2.0, -9.0, -7.0, -7.0]])
    # -1 .. 1 becomes -1 .. 1 and 0 .. 3; what has not two bounds is only clipped
    np.testing.assert_allclose(given, [[0.5, 1.5, 7.0, 5.0], [-1.0, 0.0, -7.0, -7.0]])
    assert given[0].dtype == np.float32
    np.testing.assert_allclose(acted(Box(0, 4, (2, 2)), [[-1, 0, 1, 2]] * 2)[0], [[0, 2], [4, 4]])
    huge = Box(-3e38, 3e38, (1,))
    np.testing.assert_allclose(acted(huge, [[2.0], [3.0]]), [[2.0], [3.0]])


def test_choices_are_counted_from_the_first():
    for space, kind, actions, want in (
        (DiscreteSpace(3, start=1), DiscreteActions(3), [0, 2], [1, 3]),
        (MultiDiscrete([2, 3]), MultiDiscreteActions((2, 3)), [[1, 2], [0, 1]], [[1, 2], [0, 1]]),
        (MultiDiscrete([[2, 3]], start=[[1, 5]]), MultiDiscreteActions((2, 3)), [[1, 2], [0, 1]], [[[2, 7]], [[1, 6]]]),
        (MultiBinary(2), MultiDiscreteActions((2, 2)), [[1, 0], [0, 1]], [[1, 0], [0, 1]]),
        (MultiBinary([1, 2]), MultiDiscreteActions((2, 2)), [[1, 0], [0, 1]], [[[1, 0]], [[0, 1]]]),
        (Box(-1, 1, (2,), np.int32), MultiDiscreteActions((3, 3)), [[0, 2], [1, 1]], [[-1, 1], [0, 0]]),
    ):
        assert vector_of(DiscreteSpace(2), space).actions == kind
        given = acted(space, actions)
        np.testing.assert_array_equal(given, want)
        assert all(space.contains(one) for one in given)
    for space in (Text(5), Box(0, 10**6, (2,), np.int32)):
        with pytest.raises(
            ValueError, match="actions must be Discrete, MultiDiscrete, MultiBinary, or a Box of floats"
        ):
            vector_of(DiscreteSpace(2), space)


def test_a_vector_environment_must_say_how_it_resets():
    envs = SyncVectorEnv([Counter], autoreset_mode=AutoresetMode.SAME_STEP)
    envs.metadata = {}
    with pytest.raises(ValueError, match="autoreset_mode"):
        GymnasiumVector(envs)


class Named(gymnasium.ObservationWrapper):
    """The counter under one key of a Dict, and its negative inside another."""

    observation_space = DictSpace({
        "count": Counter.observation_space,
        "inner": DictSpace({"negative": Counter.observation_space}),
    })  # fmt: skip

    def observation(self, observation):
        return {"count": observation, "inner": {"negative": -observation}}


@pytest.mark.parametrize("key", [None, "count"])
@pytest.mark.parametrize("mode", list(AutoresetMode))
def test_the_finals_of_a_dict_are_true_too(mode, key):
    made = SyncVectorEnv([lambda n=n: Named(Counter(n)) for n in LENGTHS], autoreset_mode=mode)
    envs, plain = GymnasiumVector(made, observation_key=key), counters(mode)

    def same(given, want):
        if key is None:
            np.testing.assert_array_equal(given["inner.negative"], -want)
            given = given["count"]
        np.testing.assert_array_equal(given, want)

    same(envs.reset(0), plain.reset(0))
    for _ in range(12):
        step, want = envs.step(np.ones(3, np.int64)), plain.step(np.ones(3, np.int64))
        same(step.next_observations, want.next_observations)
        same(step.observations, want.observations)
        assert (step.observations is step.next_observations) == (want.observations is want.next_observations)


class Forgetful(gymnasium.vector.VectorWrapper):
    """A SAME_STEP vector environment that keeps its final observations to itself."""

    def step(self, actions):
        *answer, _ = self.env.step(actions)
        return (*answer, {})


def test_an_end_without_its_final_observation_is_an_error():
    envs = GymnasiumVector(Forgetful(SyncVectorEnv([Counter], autoreset_mode=AutoresetMode.SAME_STEP)))
    envs.reset(0)
    envs.step(np.zeros(1, np.int64))
    envs.step(np.zeros(1, np.int64))
    with pytest.raises(RuntimeError, match="final_obs"):
        envs.step(np.zeros(1, np.int64))


def test_there_is_no_state_to_save():
    envs = counters(AutoresetMode.DISABLED)
    assert envs.state_dict() is None
    with pytest.raises(NotImplementedError, match="reset"):
        envs.load_state_dict({})
