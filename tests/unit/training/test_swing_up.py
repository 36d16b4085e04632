"""The sparse swing-up: energy, rewards by the rule, ends, and a state that continues exactly."""

import numpy as np
import pytest

from optimist.training import environments
from optimist.training.environments.swing_up import FORCE, SwingUp


def test_a_pole_that_is_left_alone_swings_with_its_energy():
    """Without pushes the energy of cart and pole is kept, up to Euler's error, which grows with the step."""
    envs = SwingUp(n_envs=16)
    envs.reset(0)
    envs._state[:, 2] = np.linspace(0.5, 3.0, 16)

    def energy():
        _, speed, angle, turning = envs._state.T
        pole = 0.5 * 0.1 * (speed**2 + 2 * speed * turning * 0.5 * np.cos(angle) + (0.5 * turning) ** 2 * 4 / 3)
        return 0.5 * speed**2 + pole + 0.1 * 9.8 * 0.5 * np.cos(angle)

    before = energy()
    for _ in range(20):
        envs.step(np.ones(16, np.int64))
    assert np.abs(energy() - before).max() < 0.02


def test_rewards_and_ends_follow_the_rule():
    envs = SwingUp(n_envs=3)
    envs.reset(0)
    envs._state[:] = [[0, 0, 0.1, 0], [2.999, 5.0, np.pi, 0], [0, 0, 0.1, 3.0]]
    step = envs.step(np.array([1, 2, 0]))
    assert step.rewards == pytest.approx([1.0, -0.1, -0.1])  # up; hanging and pushed; up but too fast, and pushed
    assert step.terminated.tolist() == [False, True, False]
    assert step.observations[1, 3] < -0.99 < step.next_observations[0, 3]  # hangs anew
    assert step.next_observations[1, 0] > 1
    envs._elapsed[0] = 999
    assert envs.step(np.array([1, 1, 1])).truncated.tolist() == [True, False, False]


def test_random_play_meets_costs_and_no_reward():
    envs = environments.make("CartPoleSwingUp", n_envs=8)
    envs.reset(1)
    rng = np.random.default_rng(0)
    rewards = np.stack([envs.step(rng.integers(0, 3, 8)).rewards for _ in range(1000)])
    assert rewards.max() == 0
    assert rewards.min() == pytest.approx(-0.1)
    assert FORCE > 0


def test_it_continues_exactly_from_its_state():
    envs, other = SwingUp(n_envs=4), SwingUp(n_envs=4)
    envs.reset(3)
    envs._elapsed[:] = 990
    other.reset(8)
    assert np.array_equal(other.load_state_dict(envs.state_dict()), envs._observed(envs._state))
    for k in range(30):
        actions = np.full(4, k % 3)
        assert np.array_equal(envs.step(actions).observations, other.step(actions).observations)
    with pytest.raises(ValueError, match="state must be finite"):
        other.load_state_dict(envs.state_dict() | {"state": np.zeros((2, 4))})


@pytest.mark.parametrize(("options", "message"), [({"height": 2.0}, "height must"), ({"move_cost": -1}, "move_cost")])
def test_bad_options_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        environments.make("CartPoleSwingUp", n_envs=2, options=options)
