"""Rollouts of a counter with known answers, through every way in which environments start new episodes."""

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium.spaces import Box
from gymnasium.spaces import Discrete as DiscreteSpace
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from torch import nn

from optimist.training.distributions import Softmax
from optimist.training.environments import GymnasiumVector
from optimist.training.rollout import NotFinite, collect, random_play
from optimist.training.runs.episodes import Episodes
from optimist.training.runs.timer import Timer

LENGTHS = (2, 3, 5)
STEPS = 10
# EnvPool's are reset at once by us, as Gymnasium's are where its own autoreset is disabled.
MODES = list(AutoresetMode)


class EpisodeAndStep(gymnasium.Env):
    """Observes (episode, step), pays the step. Even episodes terminate after ``length`` steps, odd ones truncate.

    ``poison`` is (episode, step, "observation" or "reward"): what is NaN there.
    """

    observation_space = Box(-np.inf, np.inf, (2,), np.float32)
    action_space = DiscreteSpace(4)

    def __init__(self, length, poison=None):
        self.length, self.poison = length, poison
        self.episode, self.now = -1, 0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.episode, self.now = self.episode + 1, 0
        return self._observed(), {}

    def step(self, action):
        self.now += 1
        ended = self.now == self.length
        odd = self.episode % 2 == 1
        reward = np.nan if self.poison == (self.episode, self.now, "reward") else float(self.now)
        return self._observed(), reward, ended and not odd, ended and odd, {}

    def _observed(self):
        if self.poison == (self.episode, self.now, "observation"):
            return np.full(2, np.nan, np.float32)
        return np.array([self.episode, self.now], np.float32)


class KnownValues(nn.Module):
    """An agent that is indifferent between 4 actions and whose values are `value` of the observation."""

    def __init__(self):
        super().__init__()
        self.values = nn.Linear(1, 1)

    def first_hidden(self, n_envs):
        return None

    def step(self, observations, hidden):
        return torch.zeros(len(observations), 4), observations, hidden

    def valued(self, features):
        return value(features)


def value(observations):
    """Two heads: 100 episode + step, and its negative plus a half. Shapes: (..., 2) -> (..., 2)."""
    number = 100 * observations[..., 0] + observations[..., 1]
    return torch.stack([number, 0.5 - number], dim=-1)


def vector(mode, *, poison=None):
    makers = [lambda n=n, p=p: EpisodeAndStep(n, p) for n, p in zip(LENGTHS, (None, poison, None), strict=True)]
    return GymnasiumVector(SyncVectorEnv(makers, autoreset_mode=mode))


def rollouts(mode, count=1, *, cut=False, poison=None, first_step=0):
    environments = vector(mode, poison=poison)
    observations, episodes, made = environments.reset(0), Episodes(3), []
    generator = torch.Generator().manual_seed(0)
    for k in range(count):
        rollout, observations = collect(
            KnownValues(), environments, observations, steps=STEPS, cut=cut, distribution=Softmax(4),
            generator=generator, episodes=episodes, timer=Timer(), first_step=first_step + 3 * STEPS * k,
        )  # fmt: skip
        made.append(rollout)
    environments.close()
    return made, episodes, torch.from_numpy(observations)


def is_valid(rollout):
    valid = rollout.transitions.valid
    return torch.ones(STEPS, 3, dtype=torch.bool) if valid is None else valid


@pytest.mark.parametrize("mode", MODES)
def test_the_successor_of_a_step_is_the_next_one_of_its_own_episode(mode):
    for rollout in rollouts(mode, 3)[0]:
        valid, transitions = is_valid(rollout), rollout.transitions
        assert int(transitions.ended.sum()) >= 6
        expected = transitions.observations + torch.tensor([0.0, 1.0])
        assert torch.equal(transitions.next_observations[valid], expected[valid])
        assert torch.equal(rollout.rewards[valid], transitions.next_observations[..., 1][valid])
        assert bool((valid.all()) == (mode is not AutoresetMode.NEXT_STEP))


@pytest.mark.parametrize("mode", MODES)
def test_episodes_end_where_they_must_and_the_next_one_follows(mode):
    made, episodes, _ = rollouts(mode, 3)
    for n, length in enumerate(LENGTHS):
        rows = [
            (tuple(r.transitions.observations[t, n].int().tolist()), bool(r.transitions.terminated[t, n]),
             bool(r.transitions.truncated[t, n]))
            for r in made for t in range(STEPS) if is_valid(r)[t, n]
        ]  # fmt: skip
        for k, (seen, terminated, truncated) in enumerate(rows):
            episode, step = divmod(k, length)
            assert seen == (episode, step)
            assert (terminated or truncated) == (step == length - 1)
            assert terminated == (step == length - 1 and episode % 2 == 0)
    ended = [int(sum(r.transitions.ended.sum() for r in made))]
    assert ended == [episodes.finished]
    assert 2 <= episodes.summary()["length_mean"] <= 5


@pytest.mark.parametrize("mode", MODES)
def test_values_for_bootstrapping_are_those_of_the_right_states(mode):
    made, _, after = rollouts(mode, 3)
    firsts = [*(r.transitions.observations[0] for r in made[1:]), after]
    for rollout, first_of_next in zip(made, firsts, strict=True):
        transitions, valid = rollout.transitions, is_valid(rollout)
        torch.testing.assert_close(rollout.values, value(transitions.observations))
        true_successor = valid & ~transitions.terminated
        expected = value(transitions.next_observations)
        torch.testing.assert_close(rollout.successor_values[true_successor], expected[true_successor])
        acted_on = torch.cat([transitions.observations, first_of_next.unsqueeze(0)])
        for t, n in valid.nonzero().tolist():
            later = next((k for k in range(t + 1, STEPS) if valid[k, n]), STEPS)
            want = acted_on[later, n]
            # Where the reset is still to come, the next episode's first state is not known: the final one stands in.
            waits = mode is AutoresetMode.NEXT_STEP and t == STEPS - 1 and transitions.ended[t, n]
            episode_goes_on = not transitions.ended[t, n]
            assert bool(want[0] == transitions.observations[t, n, 0]) == bool(episode_goes_on or waits)
            torch.testing.assert_close(rollout.next_values[t, n], value(want))


@pytest.mark.parametrize("mode", MODES)
def test_a_cut_truncates_what_is_running_and_takes_its_own_successor(mode):
    whole, shortened = rollouts(mode, 3)[0], rollouts(mode, 3, cut=True)[0]
    assert not all(bool(rollout.transitions.ended[-1].all()) for rollout in whole)
    for plain, cut in zip(whole, shortened, strict=True):
        last = is_valid(cut)[-1]
        assert torch.equal(cut.transitions.ended[-1], last)
        assert torch.equal(cut.transitions.terminated, plain.transitions.terminated)
        assert torch.equal(cut.transitions.truncated[:-1], plain.transitions.truncated[:-1])
        goes_on = last & ~cut.transitions.terminated[-1]
        expected = value(cut.transitions.next_observations[-1])
        torch.testing.assert_close(cut.successor_values[-1][goes_on], expected[goes_on])


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    ("poison", "step"),
    [
        ((0, 2, "observation"), 2),
        ((0, 2, "reward"), 2),
        ((0, 3, "observation"), 3),  # a final observation
        ((1, 0, "observation"), 3),  # the first one of an episode; one step later where resetting takes a step
    ],
)
def test_what_is_not_finite_is_named_by_step_and_environment(mode, poison, step):
    step += mode is AutoresetMode.NEXT_STEP and poison[0] == 1
    message = rf"the {poison[2]} of environment 1 is not finite at step {6000 + 3 * step:,}"
    with pytest.raises(NotFinite, match=message):
        rollouts(mode, poison=poison, first_step=6000)


@pytest.mark.parametrize("mode", MODES)
def test_a_first_observation_that_is_not_finite_is_named_before_it_is_acted_on(mode):
    with pytest.raises(NotFinite, match="the observation of environment 1 is not finite at step 0"):
        rollouts(mode, poison=(0, 0, "observation"))


@pytest.mark.parametrize("mode", MODES)
def test_random_play_gives_true_successors_and_stops_at_what_is_not_finite(mode):
    environments = vector(mode)
    generator = torch.Generator().manual_seed(0)
    transitions, after = random_play(
        environments, environments.reset(0), steps=200, distribution=Softmax(4), generator=generator
    )
    valid = transitions.valid
    expected = transitions.observations + torch.tensor([0.0, 1.0])
    assert torch.equal(transitions.next_observations[valid], expected[valid])
    assert after.shape == (3, 2)
    # uniform: 600 draws of 4 actions, 5 deviations of sqrt(p (1 - p) / 600) are a false alarm in 400,000
    shares = transitions.actions.flatten().bincount(minlength=4) / 600
    assert bool(((shares - 0.25).abs() < 5 * (0.25 * 0.75 / 600) ** 0.5).all())
    broken = vector(mode, poison=(0, 2, "reward"))
    with pytest.raises(NotFinite, match="the reward of environment 1 is not finite at step 6 of random play"):
        random_play(broken, broken.reset(0), steps=9, distribution=Softmax(4), generator=generator)
