"""A user's own episodic or counting bonus, by the name of its factory, is scored right by every host.

The environments write down what happened, resets too; `wanderers.answers` scores that with one counter per episode, or
one for all. Every host must have given the same numbers, whatever it batched, cut and learned from on the way.
"""

import warnings

import numpy as np
import pytest
import torch
from gymnasium.vector import AutoresetMode, SyncVectorEnv

import own_bonuses
from optimist.adapters import rlexplore
from optimist.adapters.gymnasium import BonusVectorEnv
from optimist.adapters.intrinsic import IntrinsicReward
from optimist.bonuses import Transitions
from wanderers import Wanderer, answers

KINDS = ("episodic", "counting")
RAW = {"normalize": False, "learning_starts": 0}
N = 3


@pytest.fixture(params=KINDS)
def kind(request):
    return request.param


@pytest.fixture
def log():
    return []


@pytest.fixture
def computed(monkeypatch):
    """All answers that the bonuses of this test gave, in order."""
    given = []
    for own in (own_bonuses.Revisits, own_bonuses.Census):

        def compute(self, transitions, own_compute=own.compute):
            given.append(own_compute(self, transitions))
            return given[-1]

        monkeypatch.setattr(own, "compute", compute)
    return given


def gymnasium_wanderers(log, mode):
    return SyncVectorEnv([lambda k=k: Wanderer(k, log) for k in range(N)], autoreset_mode=mode)


def require_answers(log, kind, got):
    """``got`` (T, N), NaN where a step only reset, is what the log says."""
    expected = answers(log, kind)
    for n in range(N):
        column = got[:, n]
        np.testing.assert_allclose(column[~np.isnan(column)], expected[n], rtol=1e-6, err_msg=f"environment {n}")
    assert min(map(min, expected.values())) < 0.4  # states were visited again: order and resets matter


@pytest.mark.parametrize("train_every", [1, 10, 10_000])
@pytest.mark.parametrize("mode", AutoresetMode)
def test_gymnasium(kind, mode, train_every, log):
    envs = BonusVectorEnv(
        gymnasium_wanderers(log, mode), f"own_bonuses:{kind}", train_every=train_every, batch_size=7, **RAW
    )
    rng, rows = np.random.default_rng(0), []
    envs.reset(seed=0)
    resetting = np.zeros(N, bool)
    for t in range(60):
        _, _, terminated, truncated, infos = envs.step(rng.integers(3, size=N))
        rows.append(np.where(resetting, np.nan, infos["intrinsic_reward"]))
        ended = (terminated | truncated) & ~resetting
        resetting = ended if mode is AutoresetMode.NEXT_STEP else np.zeros(N, bool)
        if mode is AutoresetMode.DISABLED:
            again = ended | (rng.random(N) < 0.05)  # some in mid-episode
            if again.any():
                envs.reset(options={"reset_mask": again})
        elif t % 13 == 5:
            envs.reset()
            resetting[:] = False
    require_answers(log, kind, np.array(rows))


@pytest.mark.parametrize("train_every", [1, 10, 10_000])
def test_sb3_wrapper(kind, train_every, log):
    vec_env = pytest.importorskip("stable_baselines3.common.vec_env")
    from optimist.adapters.sb3 import BonusVecEnv

    venv = vec_env.DummyVecEnv([lambda k=k: Wanderer(k, log) for k in range(N)])
    venv = BonusVecEnv(venv, f"own_bonuses:{kind}", train_every=train_every, **RAW)
    rng, rows = np.random.default_rng(0), []
    venv.reset()
    for t in range(60):
        rows.append(venv.step(rng.integers(3, size=N))[1])
        if t % 13 == 5:
            venv.reset()
    require_answers(log, kind, np.array(rows))


def test_sb3_callback(kind, log, computed):
    vec_env = pytest.importorskip("stable_baselines3.common.vec_env")
    from stable_baselines3 import PPO

    from optimist.adapters.sb3 import BonusCallback

    venv = vec_env.DummyVecEnv([lambda k=k: Wanderer(k, log) for k in range(N)])
    model = PPO("MlpPolicy", venv, n_steps=10, batch_size=30, n_epochs=1, seed=0, device="cpu")
    callback = BonusCallback(f"own_bonuses:{kind}")
    model.learn(60, callback)
    model.learn(30, callback, reset_num_timesteps=False)  # goes on in mid-episode
    model.learn(60, callback)  # resets
    require_answers(log, kind, torch.cat(computed).numpy())
    assert callback.intrinsic.updates == 5


def played(envs, rng, steps):
    """Samples of a rollout as a user of RLeXplore holds them; goes on where the last one ended."""
    rows = []
    for _ in range(steps):
        actions, before = rng.integers(3, size=N), np.array(envs.latest)
        after, rewards, terminated, truncated, infos = envs.step(actions)
        true = after.copy()
        for n in np.flatnonzero(terminated | truncated):
            true[n] = infos["final_obs"][n]
        envs.latest = after
        rows.append((before, actions, rewards, terminated, truncated, true))
    return dict(zip(rlexplore.KEYS, map(np.stack, zip(*rows, strict=True)), strict=True))


@pytest.fixture
def envs(log):
    made = gymnasium_wanderers(log, AutoresetMode.SAME_STEP)
    made.latest, _ = made.reset(seed=0)
    return made


def test_rlexplore(kind, log, envs):
    reward = rlexplore.Reward(f"own_bonuses:{kind}", envs, rwd_norm_type="none")
    rng, got = np.random.default_rng(0), []
    for k in range(6):
        got.append(reward.compute(played(envs, rng, 10)))
        if k == 2:
            envs.latest, _ = envs.reset()
            reward.end_episodes()
        if k == 4:
            samples = played(envs, rng, 10)
            unlearned = reward.compute(samples, sync=False)
            reward.update(samples)
            got.append(unlearned)
    require_answers(log, kind, torch.cat(got).numpy())


@pytest.mark.parametrize("train_every", [1, 50])
def test_a_loop_of_your_own(kind, train_every, log, envs):
    bonus = {"episodic": own_bonuses.Revisits, "counting": own_bonuses.Census}[kind]()
    intrinsic = IntrinsicReward(bonus, train_every=train_every, **RAW)
    rng, got = np.random.default_rng(0), []
    for k in range(6):
        samples = {name: torch.as_tensor(part) for name, part in played(envs, rng, 10).items()}
        names = ("observations", "actions", "next_observations", "terminateds", "truncateds")
        rollout = Transitions(*(samples[name] for name in names))
        got.append(intrinsic.reward(rollout))
        intrinsic.observe(rollout)
        if k % 2:
            envs.latest, _ = envs.reset()
            intrinsic.end_episodes()
    require_answers(log, kind, torch.cat(got).numpy())


def torchrl_wanderers(log):
    pytest.importorskip("torchrl")
    from torchrl.envs import GymWrapper, SerialEnv

    makers = [lambda k=k: GymWrapper(Wanderer(k, log), categorical_action_encoding=True) for k in range(N)]
    env = SerialEnv(N, makers)
    env.reset()
    log.clear()
    return env


def test_torchrl_step_by_step(kind, log):
    env = torchrl_wanderers(log)
    from torchrl.envs import TransformedEnv

    from optimist.adapters.torchrl import BonusLoss, bonus_transform

    transform = bonus_transform(env, f"own_bonuses:{kind}", normalize=False)
    inside, loss, got, waiting = TransformedEnv(env, transform), BonusLoss(transform), [], []
    log.clear()
    for k in range(5):  # each begins with a reset in mid-episode
        data = inside.rollout(12, break_when_any_done=False)
        got.append(data["next", "intrinsic_reward"][..., 0].T)
        waiting.append(data)
        if k == 2:
            inside.reset()  # before the bonus has learned from what this cuts off
        if k != 1:  # the third learns from two rollouts
            loss(torch.cat(waiting, 1))
            waiting = []
    require_answers(log, kind, torch.cat(got).numpy())


def test_torchrl_whole_rollouts(kind, log):
    env = torchrl_wanderers(log)
    from optimist.adapters.torchrl import BonusLoss, bonus_transform

    transform = bonus_transform(env, f"own_bonuses:{kind}", normalize=False)
    loss, got = BonusLoss(transform), []
    for k in range(6):
        data = transform(env.rollout(12, break_when_any_done=False, set_truncated=k % 2 == 0))
        got.append(data["next", "intrinsic_reward"][..., 0].T)
        loss(data)
        if k % 2:
            transform.end_episodes()
    require_answers(log, kind, torch.cat(got).numpy())


def test_torchrl_a_collectors_batches(kind, log):
    env = torchrl_wanderers(log)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of TorchRL, about TorchRL
        from torchrl.collectors import Collector

    from optimist.adapters.torchrl import BonusLoss, bonus_transform

    transform = bonus_transform(env, f"own_bonuses:{kind}", normalize=False)
    loss, got = BonusLoss(transform), []
    collector = Collector(env, None, frames_per_batch=8 * N, total_frames=48 * N)
    log.clear()
    for data in collector:
        got.append(transform(data)["next", "intrinsic_reward"][..., 0].T)
        loss(data)
    collector.shutdown()
    require_answers(log, kind, torch.cat(got).numpy())


def test_torchrl_refuses_what_an_episodic_bonus_could_not_tell():
    log = []
    env = torchrl_wanderers(log)
    from optimist.adapters.torchrl import BonusLoss, bonus_transform

    transform = bonus_transform(env, "own_bonuses:episodic", normalize=False)
    data = env.rollout(5, break_when_any_done=False)
    while bool(data["next", "done"][:, -1].any()) or bool((data["next", "observation"][:, -1] == 0).any()):
        data = env.rollout(5, break_when_any_done=False)  # until no episode ends with it, or is back at the start
    with pytest.raises(ValueError, match="without a time axis"):
        transform(data.reshape(-1))
    with pytest.raises(ValueError, match="without a time axis"):
        BonusLoss(transform)(data.reshape(-1))
    BonusLoss(transform)(transform(data))
    again = env.rollout(5, break_when_any_done=False)
    with pytest.raises(ValueError, match=r"environments \[0, 1, 2\] do not go on"):
        transform(again)
    transform.freeze()(again)
    transform.freeze(False).end_episodes()
    transform(again)
