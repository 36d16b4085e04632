"""Stacked observations against a slow oracle that keeps the last ones in lists, through every way of resetting."""

from collections import deque
from dataclasses import replace

import gymnasium
import numpy as np
import pytest
from gymnasium.spaces import Box
from gymnasium.spaces import Dict as DictSpace
from gymnasium.spaces import Discrete as DiscreteSpace
from gymnasium.vector import AutoresetMode, SyncVectorEnv

from optimist.bonuses import Discrete
from optimist.training.config import TrainConfig
from optimist.training.environments import Grid, GymnasiumVector, make
from optimist.training.environments.frame_stack import FrameStack
from optimist.training.playback import play_back
from optimist.training.ppo import Trainer
from optimist.training.runs import run as runs
from optimist.training.runs.metrics_log import read_metrics

LENGTHS = (2, 3, 5)
FRAMES = 3


class Clock(gymnasium.Env):
    """A picture of two channels that shows episode and step everywhere, and the step as a state."""

    observation_space = DictSpace({"picture": Box(0, 255, (2, 8, 8), np.uint8), "step": DiscreteSpace(9)})
    action_space = DiscreteSpace(2)

    def __init__(self, length):
        self.length, self.episode = length, -1

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.episode, self.now = self.episode + 1, 0
        return self.seen(), {}

    def step(self, action):
        self.now += 1
        return self.seen(), 1.0, self.now == self.length, False, {}

    def seen(self):
        picture = np.empty((2, 8, 8), np.uint8)
        picture[0], picture[1] = self.episode, self.now
        return {"picture": picture, "step": self.now}


def clocks(mode, **given):
    envs = SyncVectorEnv([lambda n=n: Clock(n) for n in LENGTHS], autoreset_mode=mode)
    return FrameStack(GymnasiumVector(envs, **given), FRAMES)


def shown(picture):
    """The (episode, step) of every frame of a stack."""
    return [(int(picture[2 * k, 0, 0]), int(picture[2 * k + 1, 0, 0])) for k in range(FRAMES)]


@pytest.mark.parametrize("key", [None, "picture"])
@pytest.mark.parametrize("mode", list(AutoresetMode))
def test_a_stack_holds_the_last_frames_of_its_own_episode(mode, key):
    envs, waits = clocks(mode, observation_key=key), mode is AutoresetMode.NEXT_STEP
    assert envs.observation_shape == ((6, 8, 8) if key else {"picture": (6, 8, 8), "step": Discrete(9)})

    def picture(given, k):
        return (given if key else given["picture"])[k]

    first = envs.reset(0)
    assert [shown(picture(first, k)) for k in range(3)] == [[(0, 0)] * FRAMES] * 3
    oracles = [deque([(0, 0)] * FRAMES, FRAMES) for _ in LENGTHS]
    for _ in range(14):
        step = envs.step(np.zeros(3, np.int64))
        for k, length in enumerate(LENGTHS):
            episode, now = oracles[k][-1]
            if now == length:  # NEXT_STEP: the step after an end only resets
                oracles[k] = deque([(episode + 1, 0)] * FRAMES, FRAMES)
            else:
                oracles[k].append((episode, now + 1))
            assert shown(picture(step.next_observations, k)) == list(oracles[k])
            if oracles[k][-1][1] == length and not waits:
                oracles[k] = deque([(episode + 1, 0)] * FRAMES, FRAMES)
            assert shown(picture(step.observations, k)) == list(oracles[k])
            assert key or step.observations["step"][k] == oracles[k][-1][1]
        assert (step.observations is step.next_observations) == (waits or not step.terminated.any())
    envs.close()


def test_codes_and_vectors_are_stacked_too_and_states_are_refused():
    assert make("MiniGrid-Empty-5x5-v0", n_envs=2, frame_stack=2).observation_shape == Grid((6, 7, 7))
    assert make("CartPole-v1", n_envs=2, frame_stack=4).observation_shape == (16,)
    with pytest.raises(ValueError, match="frame_stack=2 stacks images, codes and vectors"):
        make("DeepSea-5", n_envs=2, frame_stack=2)
    with pytest.raises(ValueError, match="frame_stack must be a whole number"):
        TrainConfig(frame_stack=0)


def test_a_saved_stack_continues_exactly_and_a_foreign_one_is_refused():
    def lock(count, frames=3):
        return make("CombinationLock", n_envs=count, options={"horizon": 5}, frame_stack=frames)

    envs, rng = lock(4), np.random.default_rng(0)
    envs.reset(1)
    for _ in range(7):
        envs.step(rng.integers(10, size=4))
    saved, actions = envs.state_dict(), rng.integers(10, size=(9, 4))
    expected = [envs.step(action) for action in actions]
    other = lock(4)
    np.testing.assert_array_equal(other.load_state_dict(saved), saved["stacks"]["whole"])
    for action, want in zip(actions, expected, strict=True):
        step = other.step(action)
        np.testing.assert_array_equal(step.observations, want.observations)
        np.testing.assert_array_equal(step.next_observations, want.next_observations)
    with pytest.raises(ValueError, match="other environments"):
        lock(4, frames=2).load_state_dict(saved)
    assert clocks(AutoresetMode.SAME_STEP).state_dict() is None


CONFIG = TrainConfig(
    env="MiniGrid-Empty-5x5-v0",
    bonus="acb",
    bonus_options=("ensemble_size=8", "sketch_size=8"),
    frame_stack=2,
    n_envs=4,
    steps=16,
    total_steps=4 * 64,
    checkpoint_every=64,
    epochs=1,
    minibatches=2,
    width=16,
    warm_up_steps=8,
    device="cpu",
    threads=1,
)


def test_a_run_counts_states_by_their_newest_frame():
    trainer = Trainer(CONFIG)
    trainer.start()
    counts = trainer.iterate()
    assert counts["unique_states"] < counts["unique_stacks"]
    assert counts["unique_states"] <= 9 * 4  # places and directions in this room


def test_a_run_with_stacked_frames_is_resumed_and_played_back(tmp_path):
    runs.train(CONFIG, tmp_path / "whole")
    runs.train(replace(CONFIG, total_steps=128), tmp_path / "run")
    runs.resume(tmp_path / "run", total_steps=4 * 64)
    whole, resumed = (read_metrics(tmp_path / name / "metrics.csv") for name in ("whole", "run"))
    np.testing.assert_array_equal(whole["unique_stacks"], resumed["unique_stacks"])
    np.testing.assert_array_equal(whole["bonus_mean"], resumed["bonus_mean"])
    assert play_back(tmp_path / "run", steps=5).games[0].observations.shape == (5, 3, 7, 7)
