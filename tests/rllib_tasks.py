"""Episodes, learners and environments for the tests of the RLlib adapter, with known answers."""

import gymnasium
import numpy as np
from ray.rllib.algorithms.ppo import PPOConfig
from ray.rllib.core import DEFAULT_MODULE_ID
from ray.rllib.env.single_agent_episode import SingleAgentEpisode

from optimist.adapters.rllib import with_bonus

STATES = gymnasium.spaces.Box(0, 100, (1,), np.float32)
ACTIONS = gymnasium.spaces.Discrete(2)


class Corridor(gymnasium.Env):
    """Observes the steps since the episode began; the episode is truncated after 3 of them. Each step pays 2."""

    observation_space, action_space = STATES, ACTIONS

    def __init__(self, config=None):
        self.count = 0

    def reset(self, *, seed=None, options=None):
        self.count = 0
        return np.zeros(1, np.float32), {}

    def step(self, action):
        self.count += 1
        return np.full(1, self.count, np.float32), 2.0, False, self.count == 3, {}


def walked(states, *, rewards=None, terminated=False, truncated=False, t_started=0):
    """An episode, as environment runners return it, through the given states (numbers), paid ``rewards`` (zeros)."""
    steps = len(states) - 1
    return SingleAgentEpisode(
        observations=[np.array([state], np.float32) for state in states],
        actions=[0] * steps,
        rewards=[0.0] * steps if rewards is None else rewards,
        terminated=terminated,
        truncated=truncated,
        t_started=t_started,
        extra_model_outputs={
            "action_dist_inputs": [np.zeros(2, np.float32)] * steps,
            "action_logp": [np.float32(-0.6931)] * steps,
        },
        observation_space=STATES,
        action_space=ACTIONS,
        len_lookback_buffer=0,
    ).to_numpy()


def ppo(**model_config):
    """PPO's config for `walked` episodes: one epoch over small minibatches, a small network."""
    model_config = {"fcnet_hiddens": [8, 8], **model_config}
    return (
        PPOConfig()
        .environment(observation_space=STATES, action_space=ACTIONS)
        .training(num_epochs=1, minibatch_size=16)
        .rl_module(model_config=model_config)
        .debugging(seed=0)
    )


def learner(config, observation_space=STATES, action_space=ACTIONS):
    """A built learner of ``config`` in this process, without a cluster."""
    spec = config.get_multi_rl_module_spec(spaces={DEFAULT_MODULE_ID: (observation_space, action_space)})
    made = config.learner_class(config=config, module_spec=spec)
    made.build()
    return made


def batch_of(made, episodes):
    """What the learner's pipeline makes of the episodes: the batch that PPO learns from."""
    pipeline = made._learner_connector
    return pipeline(rl_module=made.module, batch={}, episodes=episodes, shared_data={})[DEFAULT_MODULE_ID]


def counting(**overrides):
    """A learner that pays 1 / n for the n-th visit of a state, not normalized, and has learned from one step, to 91."""
    made = learner(with_bonus(ppo(), "own_bonuses:counting", normalize=False, **overrides))
    batch_of(made, [walked([90, 91])])
    return made
