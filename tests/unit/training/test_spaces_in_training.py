"""Whole runs on every kind of action and on Dicts: what the policy draws reaches the environment, and it learns."""

import sys
import types
from dataclasses import replace

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium.spaces import Box, MultiBinary, MultiDiscrete
from gymnasium.spaces import Dict as DictSpace
from gymnasium.spaces import Discrete as DiscreteSpace
from gymnasium.vector import AutoresetMode, SyncVectorEnv

from optimist.bonuses import Discrete
from optimist.training.config import Signal, TrainConfig
from optimist.training.distributions import Gaussian
from optimist.training.environments import make
from optimist.training.playback import play_back
from optimist.training.ppo import Trainer
from optimist.training.rollout import collect
from optimist.training.runs import run as runs
from optimist.training.runs.episodes import Episodes
from optimist.training.runs.timer import Timer
from optimist.training.trunks import DictTrunk

ACTIONS = {
    "one choice": DiscreteSpace(3),
    "several choices": MultiDiscrete([3, 2]),
    "switches": MultiBinary(3),
    "numbers": Box(np.float32([0, -4]), np.float32([10, 4])),
}
BONUSES = ("acb", "rnd", "e3b", "count", "elliptical", "acb*episodic-count")
LENGTH = 8


class Wishes(gymnasium.Env):
    """Pays 1 for every part of the action that is as the observation asks; episodes last 8 steps.

    ``wish`` is one of two, and what it asks for is drawn once. The Dict holds it as a state, beside numbers and a small
    picture of noise.
    """

    def __init__(self, actions):
        self.action_space = actions
        inner = DictSpace({"map": Box(0, 255, (9, 9), np.uint8)})
        self.observation_space = DictSpace({"wish": DiscreteSpace(2), "noise": Box(-1, 1, (3,)), "inner": inner})
        actions.seed(5)
        self.asked = [actions.sample(), actions.sample()]
        self.taken = []

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.time = 0
        return self.seen(), {}

    def step(self, action):
        assert self.action_space.contains(action)
        self.taken.append(np.array(action))
        asked = self.asked[self.wish]
        if self.action_space.dtype.kind == "f":
            near = np.abs(action - asked) < 0.25 * (self.action_space.high - self.action_space.low)
        else:
            near = np.asarray(action) == asked
        self.time += 1
        return self.seen(), float(np.mean(near)), False, self.time == LENGTH, {}

    def seen(self):
        self.wish = int(self.np_random.integers(2))
        noise = self.np_random.uniform(-1, 1, 3).astype(np.float32)
        return {"wish": self.wish, "noise": noise, "inner": {"map": self.np_random.integers(0, 256, (9, 9), np.uint8)}}


def wishes(count, actions="one choice"):
    envs = [lambda: Wishes(ACTIONS[actions])] * count
    return SyncVectorEnv(envs, autoreset_mode=AutoresetMode.SAME_STEP)


TINY = TrainConfig(
    env=f"{__name__}:wishes",
    bonus="none",
    n_envs=4,
    steps=16,
    total_steps=4 * 64,
    checkpoint_every=64,
    epochs=2,
    minibatches=2,
    learning_rate=1e-2,
    extrinsic=Signal(1.0, 0.9, True),
    clip_rewards=False,
    normalize_advantages=True,
    max_gradient_norm=0.5,
    width=16,
    warm_up_steps=8,
    device="cpu",
    threads=1,
)


@pytest.mark.parametrize("actions", ["several choices", "switches", "numbers"])
def test_the_policy_learns_to_act_in_every_kind_of_space_from_one_key_of_a_dict(actions):
    options = (f"actions={actions}", "observation_key=wish,noise")
    trainer = Trainer(replace(TINY, env_options=options, n_envs=8, steps=24, epochs=8, learning_rate=2e-2))
    assert isinstance(trainer.agent.policy.trunk, DictTrunk)
    trainer.start()
    paid = [trainer.iterate()["return_mean"] / LENGTH for _ in range(12)]
    # At random a part of the action is as asked for with probability 1 / 2 at most; whoever ignores the wish gets 3 / 4
    # at most where the wishes ask for different things everywhere. The mean is over the last 100 episodes.
    assert paid[0] < 0.6
    assert paid[-1] > (0.72 if actions == "numbers" else 0.8)


@pytest.mark.parametrize(
    ("bonus", "actions"), [*((bonus, "several choices") for bonus in BONUSES), ("acb", "switches"), ("acb", "numbers")]
)
def test_every_bonus_works_with_every_kind_of_action_and_all_keys(bonus, actions):
    trainer = Trainer(replace(TINY, bonus=bonus, env_options=(f"actions={actions}",)))
    trainer.start()
    rows = [trainer.iterate() for _ in range(2)]
    assert rows[0]["bonus_mean"] > 0
    assert all(np.isfinite(row["policy_loss"]) for row in rows)
    # 2 x 64 observations with noise in them: all different, whichever array of them is looked at
    assert rows[1]["unique_states"] == 128


@pytest.mark.parametrize("key", ["wish", "noise", "inner.map"])
def test_the_outputs_and_the_count_of_states_vary_with_every_key(key):
    trainer = Trainer(TINY)
    observations = {name: torch.from_numpy(part) for name, part in trainer.environments.reset(0).items()}
    changed = observations | {key: observations[key].flip(0)}
    if key == "wish":
        changed = observations | {key: 1 - observations[key]}
    outputs, values = trainer.agent(observations)
    assert not torch.allclose(outputs, trainer.agent(changed)[0], rtol=1e-3)
    assert not torch.allclose(values, trainer.agent(changed)[1], rtol=1e-3)


def test_a_gaussian_action_is_as_likely_as_it_was_drawn_however_it_was_clipped():
    trainer = Trainer(replace(TINY, env_options=("actions=numbers",)))
    with torch.no_grad():  # means of 0 and deviations of e: many draws lie beyond the bounds
        trainer.agent.policy.actor[-1].weight.zero_()
        trainer.agent.policy.actor[-1].bias.copy_(torch.tensor([0.0, 0.0, 1.0, 1.0]))
    envs = trainer.environments
    rollout, _ = collect(
        trainer.agent, envs, envs.reset(0), steps=20, cut=False, distribution=trainer.distribution,
        generator=torch.Generator().manual_seed(0), episodes=Episodes(4), timer=Timer(), first_step=0,
    )  # fmt: skip
    drawn = rollout.transitions.actions
    assert (drawn.abs() > 1).float().mean() > 0.4
    outputs = torch.tensor([0.0, 0.0, 1.0, 1.0]).expand(80, 4)
    expected = Gaussian(2).log_probability(outputs, drawn.flatten(0, 1)).view(20, 4)
    torch.testing.assert_close(rollout.log_probabilities, expected)
    taken = np.stack([np.stack(env.taken) for env in envs._envs.envs], axis=1)
    low, high = ACTIONS["numbers"].low, ACTIONS["numbers"].high
    np.testing.assert_allclose(
        taken, low + (np.clip(drawn.numpy(), -1, 1) + 1) / 2 * (high - low), rtol=1e-5, atol=1e-5
    )


def test_a_run_on_a_dict_with_several_choices_is_resumed_and_played_back(tmp_path):
    config = replace(TINY, bonus="acb", env_options=("actions=several choices",))
    runs.train(config, tmp_path / "run")
    runs.resume(tmp_path / "run", total_steps=5 * 64)
    for greedy in (False, True):
        played = play_back(tmp_path / "run", steps=6, greedy=greedy)
        assert played.observation_shape == (1, 9, 9)  # the picture is what there is to see
        assert played.games[0].observations.shape == (6, 1, 9, 9)
        assert played.games[0].actions.shape == (6, 2)
    runs.train(replace(config, env_options=("actions=switches", "observation_key=wish,noise")), tmp_path / "numbers")
    played = play_back(tmp_path / "numbers", steps=6)
    assert played.observation_shape == (4,)
    assert played.games[0].observations.shape == (6, 4)


def test_the_choice_of_keys_does_not_reach_a_users_factory(monkeypatch):
    assert make(TINY.env, n_envs=2, options={"observation_key": "wish"}).observation_shape == Discrete(2)
    chosen = make(TINY.env, n_envs=2, options={"observation_key": "wish,inner", "actions": "switches"})
    assert set(chosen.observation_shape) == {"wish", "inner.map"}
    module = types.ModuleType("users_sea")
    module.sea = lambda count: make("DeepSea-4", n_envs=count)
    monkeypatch.setitem(sys.modules, "users_sea", module)
    with pytest.raises(
        ValueError, match=r"observation_key='wish' chooses from the Dict of .*, and users_sea:sea returns"
    ):
        make("users_sea:sea", n_envs=2, options={"observation_key": "wish"})
