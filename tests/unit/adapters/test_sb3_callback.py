"""The callback for PPO and A2C: what it adds to the rollout, that it reaches the policy, and that it can be saved."""

import copy
import csv

import numpy as np
import pytest
import torch

pytest.importorskip("stable_baselines3")

from stable_baselines3 import A2C, DQN, PPO
from stable_baselines3.common.callbacks import BaseCallback, CallbackList
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.logger import configure
from stable_baselines3.common.utils import set_random_seed
from stable_baselines3.common.vec_env import DummyVecEnv

from optimist.adapters.sb3 import BonusCallback
from optimist.adapters.sb3.callback import share
from optimist.adapters.sb3.critic import IntrinsicCritic
from sb3_tasks import Counter, Recorder, counts

SMALL = {"sketch_size": 4, "ensemble_size": 8}
QUICK = {"discount": 0.9, "critic_width": 16}  # rewards count once discounted sums are full: after ten steps


def environments(count=2, length=3, **task):
    return DummyVecEnv([lambda: Counter(length, **task)] * count)


def ppo(venv, policy="MlpPolicy", **changes):
    options = {"n_steps": 16, "batch_size": 32, "n_epochs": 2, "seed": 0, "device": "cpu"} | changes
    return PPO(policy, venv, **options)


def actor_of(model):
    parts = [model.policy.mlp_extractor.policy_net, model.policy.action_net]
    return torch.cat([weight.detach().flatten() for part in parts for weight in part.parameters()])


def weights_of(model):
    return torch.cat([weight.detach().flatten() for weight in model.policy.parameters()])


class Glimpse(BaseCallback):
    """Whatever ``look`` sees at every rollout's end."""

    def __init__(self, look):
        super().__init__()
        self.look, self.seen = look, []

    def _on_step(self):
        return True

    def _on_rollout_end(self):
        self.seen.append(copy.deepcopy(self.look(self.model)))


@pytest.mark.parametrize(("algorithm", "options"), [(PPO, {"n_steps": 16, "batch_size": 32}), (A2C, {"n_steps": 10})])
def test_the_policy_feels_the_bonus_alone_and_not_one_of_weight_zero(algorithm, options):
    def learned(callback):
        return algorithm("MlpPolicy", environments(reward=1.0), seed=0, device="cpu", **options).learn(64, callback)

    untouched = algorithm("MlpPolicy", environments(), seed=0, device="cpu", **options)
    alone, weightless = learned(None), learned(BonusCallback("rnd", weight=0.0, **QUICK))
    only = learned(BonusCallback("rnd", weight=1.0, extrinsic_weight=0.0, **QUICK))
    neither = learned(BonusCallback("rnd", weight=0.0, extrinsic_weight=0.0, **QUICK))
    assert torch.equal(weights_of(weightless), weights_of(alone))
    assert not torch.equal(actor_of(only), actor_of(untouched))
    assert torch.equal(actor_of(neither), actor_of(untouched))


def test_extrinsic_off_keeps_the_reward_from_the_whole_network():
    def learned(reward):
        callback = BonusCallback("rnd", weight=1.0, extrinsic_weight=0.0, **QUICK)
        return weights_of(ppo(environments(reward=reward)).learn(64, callback))

    assert torch.equal(learned(0.0), learned(5.0))


@pytest.mark.parametrize("kind", ["vector", "dict", "image"])
def test_the_rollout_is_handed_over_with_true_successors(kind):
    recorder = Recorder()
    policy = {"dict": "MultiInputPolicy", "image": "CnnPolicy"}.get(kind, "MlpPolicy")
    model = ppo(environments(kind=kind), policy, n_steps=7, batch_size=14)
    actions = Glimpse(lambda model: model.rollout_buffer.actions)
    model.learn(28, CallbackList([BonusCallback(recorder, **QUICK), actions]))
    rollout, after = recorder.computed
    assert counts(rollout.observations)[:, 1].tolist() == [0, 1, 2, 0, 1, 2, 0]
    assert counts(rollout.next_observations)[:, 1].tolist() == [1, 2, 3, 1, 2, 3, 1]
    assert counts(after.observations)[:, 0].tolist() == [1, 2, 0, 1, 2, 0, 1]
    assert counts(after.next_observations)[:, 0].tolist() == [2, 3, 1, 2, 3, 1, 2]
    assert rollout.terminated[:, 0].nonzero().tolist() == [[2]]
    assert rollout.truncated[:, 0].nonzero().tolist() == [[5]]
    assert np.array_equal(rollout.actions, actions.seen[0][..., 0])
    assert recorder.updated == recorder.computed


def test_the_advantage_is_the_weighted_sum_of_both():
    recorder, before, after = Recorder(), *(Glimpse(lambda model: model.rollout_buffer) for _ in range(2))
    callback = BonusCallback(recorder, weight=0.3, extrinsic_weight=2.0, **QUICK)
    state = Glimpse(lambda _: (callback.intrinsic, callback.critic, callback.locals["new_obs"]))
    model = ppo(environments(reward=1.0), gae_lambda=0.8)
    model.learn(96, CallbackList([before, state, callback, after]))  # three rollouts
    for k in range(3):
        intrinsic, critic, latest = state.seen[k]
        rollout = recorder.computed[k]
        rewards = intrinsic.reward(rollout)
        last = critic.values(torch.from_numpy(latest).unsqueeze(0))
        values = torch.cat([critic.values(rollout.observations), last])
        errors = rewards + 0.9 * values[1:] - values[:-1]  # an episode's end is a step like any other
        gains = [sum((0.9 * 0.8) ** (s - t) * errors[s] for s in range(t, 16)) for t in range(16)]
        expected = 2.0 * before.seen[k].advantages + 0.3 * torch.stack(gains).numpy()
        np.testing.assert_allclose(after.seen[k].advantages, expected, rtol=1e-4, atol=1e-5)
        assert np.array_equal(after.seen[k].returns, before.seen[k].returns)
        assert torch.stack(gains).abs().max() > 0.1


def test_acb_looks_into_the_live_policy():
    callback = BonusCallback("acb", settings=SMALL | {"auxiliary_rate": 1.0}, **QUICK)
    policy = Glimpse(lambda model: model.policy.action_net.weight.detach().clone())
    model = ppo(environments(), n_epochs=10, learning_rate=0.01)
    model.learn(96, CallbackList([policy, callback]))
    average = callback.state_dict()["intrinsic"]["bonus"]["auxiliary"]["average"]["action_net.weight"]
    assert torch.equal(average.float(), policy.seen[-1])  # with the rate 1 it is the policy of the last rollout
    assert not torch.equal(policy.seen[0], policy.seen[-1])


@pytest.mark.parametrize("bonus", ["acb", "elliptical", "icm", "acb*episodic-count"])
@pytest.mark.parametrize("actions", ["multi-discrete", "multi-binary", "box"])
def test_actions_of_several_dimensions(bonus, actions):
    settings = {f"{'acb.' * ('*' in bonus)}{key}": value for key, value in SMALL.items()} if "acb" in bonus else {}
    settings = {"sketch_size": 4} if bonus == "elliptical" else settings
    callback = BonusCallback(bonus, settings=settings, **QUICK)
    model = ppo(environments(actions=actions, kind="dict"), "MultiInputPolicy").learn(32, callback)
    assert callback.intrinsic.updates == 1
    width = {"multi-discrete": 2, "multi-binary": 4, "box": 3}[actions]
    assert model.rollout_buffer.actions.shape == (32, width)


def test_state_dependent_exploration():
    callback = BonusCallback("acb", settings=SMALL, **QUICK)
    ppo(environments(actions="box"), use_sde=True).learn(32, callback)
    assert callback.intrinsic.updates == 1


def test_the_extrinsic_return_is_logged_apart(tmp_path):
    model = ppo(make_vec_env(lambda: Counter(reward=2.0), 2))
    model.set_logger(configure(str(tmp_path), ["csv"]))
    model.learn(64, BonusCallback("rnd", weight=10.0, **QUICK))
    model.logger.close()
    with (tmp_path / "progress.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [float(row["rollout/ep_rew_mean"]) for row in rows] == [6.0] * 2
    names = ("share", "reward_mean", "reward_max", "explained_variance", "loss", "critic_loss")
    assert all(np.isfinite(float(row[f"intrinsic/{name}"])) for row in rows for name in names)
    assert float(rows[1]["intrinsic/reward_mean"]) > 0
    assert 0 < float(rows[1]["intrinsic/share"]) < 1


@pytest.mark.parametrize("bonus", ["acb", "rnd"])
def test_what_was_saved_goes_on_bit_for_bit(bonus, tmp_path):
    settings = SMALL if bonus == "acb" else {}
    callback = BonusCallback(bonus, seed=5, settings=settings, weight=0.7, **QUICK)
    model = ppo(environments(reward=1.0)).learn(64, callback)
    model.save(tmp_path / "model.zip")
    callback.save(tmp_path / "bonus")

    def continued(model, callback):
        set_random_seed(1)
        model.set_env(environments(reward=1.0), force_reset=True)
        model.learn(64, callback, reset_num_timesteps=False)
        return weights_of(model), callback.state_dict()

    loaded = BonusCallback.load(tmp_path / "bonus")
    assert loaded.config == callback.config
    expected, state = continued(model, callback)
    resumed, resumed_state = continued(PPO.load(tmp_path / "model.zip", device="cpu"), loaded)
    assert torch.equal(resumed, expected)
    torch.testing.assert_close(resumed_state, state, rtol=0, atol=0)
    forgetful = BonusCallback(bonus, seed=5, settings=settings, weight=0.7, **QUICK)
    fresh, _ = continued(PPO.load(tmp_path / "model.zip", device="cpu"), forgetful)
    assert not torch.equal(fresh, expected)


def test_a_state_of_another_seed_is_refused_and_changes_nothing():
    one, other = (BonusCallback("elliptical", seed=seed, settings={"sketch_size": 4}, **QUICK) for seed in (0, 1))
    for callback in (one, other):
        ppo(environments()).learn(32, callback)
    before = str(other.state_dict())
    with pytest.raises(ValueError, match="seed saved, 0, got one of 1"):
        other.load_state_dict(one.state_dict())
    assert str(other.state_dict()) == before


def test_a_callback_follows_to_another_model():
    callback = BonusCallback("acb", settings=SMALL, **QUICK)
    ppo(environments()).learn(32, callback)
    ppo(environments(), seed=1).learn(32, callback)
    assert callback.intrinsic.updates == 2


@pytest.mark.parametrize("bonus", ["rnd", "e3b"])
def test_another_number_of_environments_after_loading(bonus, tmp_path):
    callback = BonusCallback(bonus, **QUICK)
    model = ppo(environments(2)).learn(64, callback)
    assert "n_envs=2" in repr(callback)
    model.save(tmp_path / "model.zip")
    callback.save(tmp_path / "bonus")
    loaded = BonusCallback.load(tmp_path / "bonus")
    assert repr(loaded) == f"BonusCallback('{bonus}', weight=0.5, discount=0.9)"
    PPO.load(tmp_path / "model.zip", env=environments(4), device="cpu").learn(64, loaded)
    assert (loaded.intrinsic.n_envs, loaded.intrinsic.steps, loaded.intrinsic.updates) == (4, 128, 3)


def test_the_share_is_that_of_deviations():
    a, b = np.random.default_rng(0).normal(size=(2, 8, 2))
    assert share(3 * a, 1 + a) == pytest.approx(0.75)
    assert share(a, 0 * b) == 1
    assert share(0 * a, b) == share(0 * a, 0 * b) == 0


def test_the_critic_learns_the_value_of_a_constant_reward():
    critic = IntrinsicCritic((2,), width=16, learning_rate=1e-2, seed=0)
    states = torch.randn(32, 4, 2, generator=torch.Generator().manual_seed(0))
    before = critic.values(states)
    assert torch.equal(critic.values(states), before)  # it changes nothing
    for _ in range(60):
        # r + 0.9 V, as from states that are all alike: the fixed point is 1 / (1 - 0.9) = 10
        critic.update(states, 1 + 0.9 * critic.values(states), epochs=4, batch_size=64)
    assert (critic.values(states) - 10).abs().max() < 1


def test_the_critic_reads_observations_in_their_own_units():
    returns = torch.arange(8.0).reshape(4, 2)
    states = torch.randn(4, 2, 3, generator=torch.Generator().manual_seed(0))
    values = []
    for scale in (1.0, 1024.0):  # a power of two: whitened, both are the same but for rounding
        critic = IntrinsicCritic((3,), width=16, learning_rate=1e-2, seed=0)
        critic.update(scale * states, returns, epochs=2, batch_size=4)
        values.append(critic.values(scale * states))
    torch.testing.assert_close(values[0], values[1], rtol=1e-3, atol=1e-4)


def test_bad_input_is_refused(tmp_path):
    with pytest.raises(ValueError, match="on-policy"):
        DQN("MlpPolicy", environments(), device="cpu").learn(4, BonusCallback("rnd"))
    with pytest.raises(ValueError, match="no state yet"):
        BonusCallback("rnd").save(tmp_path / "bonus")
    with pytest.raises(ValueError, match="no setting 'wieght'"):
        BonusCallback("rnd", wieght=1.0)
    with pytest.raises(ValueError, match="discount"):
        BonusCallback("rnd", discount=1.0)
    with pytest.raises(ValueError, match="weight"):
        BonusCallback("rnd", weight=float("nan"))
