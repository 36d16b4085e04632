"""Normalized observations: the moments of all that was seen, which move between rollouts alone and go with the run."""

from dataclasses import replace

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium.spaces import Box
from gymnasium.spaces import Dict as DictSpace
from gymnasium.spaces import Discrete as DiscreteSpace
from gymnasium.vector import AutoresetMode, SyncVectorEnv

from optimist.bonuses import Discrete
from optimist.training.config import Signal, TrainConfig
from optimist.training.environments import Grid
from optimist.training.normalizer import CLIP, Normalizer, Units, make_normalizer
from optimist.training.playback import play_back
from optimist.training.ppo import Trainer
from optimist.training.runs import run as runs
from optimist.training.runs.metrics_log import read_metrics

FAR, SMALL = 1000.0, 0.01


class Hidden(gymnasium.Env):
    """Pays for the action that the observation asks for by a hundredth, 1,000 away from 0; 8 steps per episode."""

    action_space = DiscreteSpace(2)

    def __init__(self, inner):
        box = Box(-np.inf, np.inf, (2,))
        self.observation_space = DictSpace({"numbers": box, "state": DiscreteSpace(3)}) if inner else box
        self.inner = inner

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.time = 0
        return self.seen(), {}

    def step(self, action):
        paid = float(action == self.wish)
        self.time += 1
        return self.seen(), paid, False, self.time == 8, {}

    def seen(self):
        self.wish = int(self.np_random.integers(2))
        numbers = np.array([FAR + SMALL * self.wish, self.np_random.normal()], np.float32)
        return {"numbers": numbers, "state": 1} if self.inner else numbers


def hidden(count, mode="SAME_STEP", inner=False):
    return SyncVectorEnv([lambda: Hidden(inner)] * count, autoreset_mode=AutoresetMode[mode])


CONFIG = TrainConfig(
    env=f"{__name__}:hidden",
    bonus="none",
    normalize_observations=True,
    n_envs=4,
    steps=16,
    total_steps=4 * 64,
    checkpoint_every=64,
    epochs=4,
    minibatches=2,
    learning_rate=1e-2,
    extrinsic=Signal(1.0, 0.9, True),
    clip_rewards=False,
    normalize_advantages=True,
    width=16,
    warm_up_steps=8,
    device="cpu",
    threads=1,
)


@pytest.mark.parametrize("pieces", [1, 3, 50])
def test_units_are_the_moments_of_all_that_was_seen_however_it_came(pieces):
    x = FAR + SMALL * np.random.default_rng(0).normal(size=(100, 3)).astype(np.float32)
    units = Units((3,))
    torch.testing.assert_close(units(torch.tensor([[0.5, -2.0, 99.0]])), torch.tensor([[0.5, -2.0, CLIP]]))
    for piece in np.array_split(x, pieces):
        units.update(torch.from_numpy(piece))
    assert int(units.count) == 100
    # The mean is kept in float32, whose steps at 1,000 are 6e-5: of a deviation of 0.01 that is less than 1 percent.
    np.testing.assert_allclose(units.mean, x.astype(float).mean(0), rtol=1e-7)
    np.testing.assert_allclose(units.deviation, x.astype(float).std(0), rtol=0.02)
    assert units(torch.from_numpy(x)).std(0).sub(1).abs().max() < 0.02


def test_only_vectors_are_normalized():
    for shape in (Discrete(4), (3, 40, 40), (3, 8, 8), Grid((3, 7, 7)), {"a": Discrete(2), "b": (1, 9, 9)}):
        assert make_normalizer(shape) is None
    mixed = make_normalizer({"a": Discrete(2), "image": (1, 9, 9), "v": (3,), "matrix": (2, 5)})
    assert mixed.names == ("v", "matrix")
    assert make_normalizer((3,)).names == ("whole",)
    for env in ("DeepSea-5", "MiniGrid-Empty-5x5-v0"):
        assert Trainer(replace(CONFIG, env=env)).agent.policy.normalizer is None


@pytest.mark.parametrize("mode", list(AutoresetMode.__members__))
def test_the_statistics_move_once_per_rollout_and_are_those_of_what_was_acted_on(mode, monkeypatch):
    """Of random play first; then of every rollout, after it was learned from, without steps that only reset."""
    shown, before, original = [], [], Normalizer.update

    def spied(self, transitions, ranks):
        shown.append(transitions.observations.flatten(0, 1)[transitions.rows].double())
        before.append({name: value.clone() for name, value in self.state_dict().items()})
        original(self, transitions, ranks)

    monkeypatch.setattr(Normalizer, "update", spied)
    trainer = Trainer(replace(CONFIG, env_options=(f"mode={mode}",)))
    normalizer = trainer.agent.policy.normalizer
    trainer.start()
    assert len(shown) == 1
    assert int(before[0]["units.0.count"]) == 0
    for k in range(3):
        held = {name: value.clone() for name, value in normalizer.state_dict().items()}
        trainer.iterate()
        assert len(shown) == k + 2
        assert all(torch.equal(held[name], before[-1][name]) for name in held)  # they had not moved till then
    everything = torch.cat(shown)
    assert (len(everything) < 8 * 4 + 3 * 64) == (mode == "NEXT_STEP")
    units = normalizer.units[0]
    assert int(units.count) == len(everything)
    torch.testing.assert_close(units.mean.double(), everything.mean(0), rtol=1e-6, atol=1e-6)
    torch.testing.assert_close(units.deviation.double(), everything.std(0, correction=0), rtol=0.02, atol=0)


@pytest.mark.parametrize("inner", [False, True])
def test_a_task_whose_numbers_are_far_and_small_is_learned_with_normalized_observations_only(inner):
    paid = {}
    for normalize in (True, False):
        config = replace(CONFIG, normalize_observations=normalize, env_options=(f"inner={str(inner).lower()}",))
        trainer = Trainer(replace(config, n_envs=8))
        trainer.start()
        paid[normalize] = [trainer.iterate()["return_mean"] / 8 for _ in range(12)][-1]
    assert paid[True] > 0.75
    assert paid[False] < 0.62  # a coin: the mean of 100 episodes of 8 steps deviates by 0.018


def test_acb_starts_from_the_statistics_of_random_play_and_hardly_moves_them():
    trainer = Trainer(replace(CONFIG, bonus="acb", bonus_options=("ensemble_size=8", "sketch_size=8")))
    trainer.start()
    started = trainer.agent.policy.normalizer.units[0].mean.clone()
    assert started[0] > 999
    trainer.iterate()
    torch.testing.assert_close(trainer.bonus._auxiliary.network.normalizer.units[0].mean, started)
    assert not torch.equal(trainer.agent.policy.normalizer.units[0].mean, started)


@pytest.mark.parametrize("bonus", ["none", "acb"])
def test_a_resumed_run_reads_observations_as_one_that_went_through(bonus, tmp_path):
    config = replace(CONFIG, env="CombinationLock", env_options=("horizon=5",), bonus=bonus)
    runs.train(config, tmp_path / "whole")
    runs.train(replace(config, total_steps=128), tmp_path / "run")
    runs.resume(tmp_path / "run", total_steps=4 * 64)
    whole, resumed = (read_metrics(tmp_path / name / "metrics.csv") for name in ("whole", "run"))
    for name in ("policy_loss", "bonus_mean", "return_mean", "entropy"):
        np.testing.assert_array_equal(whole[name], resumed[name])
    if bonus != "none":
        assert len(play_back(tmp_path / "run", steps=5).games[0]) == 5
