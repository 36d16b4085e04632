"""The wrapper for stable-baselines3: the bonus arrives, is of the true successors, and survives saving."""

import copy
import subprocess
import sys

import numpy as np
import pytest
import torch

pytest.importorskip("stable_baselines3")

from stable_baselines3 import A2C, DQN, PPO, SAC
from stable_baselines3.common.callbacks import EvalCallback
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.vec_env import DummyVecEnv, VecNormalize, sync_envs_normalization

from optimist.adapters.sb3 import BonusVecEnv, EvalVecEnv
from sb3_tasks import Counter, Recorder, counts

AT_ONCE = {"learning_starts": 0, "discount": 0.0, "train_every": 8}
SMALL = {"rnd": {"n_features": 16, "epochs": 1}, "icm": {"n_features": 16, "epochs": 1, "minibatches": 1}}
SMALL |= {"acb": {"sketch_size": 4, "ensemble_size": 8}, "e3b": {"n_features": 16}, "count": {}}
ALGORITHMS = {
    PPO: {"n_steps": 16, "batch_size": 32, "n_epochs": 2},
    A2C: {},
    DQN: {"learning_starts": 8, "batch_size": 8, "train_freq": 1, "buffer_size": 100},
    SAC: {"learning_starts": 8, "batch_size": 8, "buffer_size": 100},
}


def environments(count=2, length=3, **task):
    return DummyVecEnv([lambda: Counter(length, **task)] * count)


def learned(algorithm, wrap, **task):
    """The weights after 64 steps of training, wrapped or not."""
    venv = environments(actions="box" if algorithm is SAC else "discrete", **task)
    policy = "MultiInputPolicy" if task.get("kind") == "dict" else "MlpPolicy"
    model = algorithm(policy, wrap(venv), seed=0, device="cpu", **ALGORITHMS[algorithm]).learn(64)
    return torch.cat([weight.detach().flatten() for weight in model.policy.parameters()]), model


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_the_policy_feels_the_bonus_alone_and_not_one_of_weight_zero(algorithm):
    alone, _ = learned(algorithm, lambda venv: venv)
    without, _ = learned(algorithm, lambda venv: BonusVecEnv(venv, "rnd", weight=0.0, settings=SMALL["rnd"], **AT_ONCE))
    with_bonus, model = learned(
        algorithm, lambda venv: BonusVecEnv(venv, "rnd", weight=1.0, settings=SMALL["rnd"], **AT_ONCE)
    )
    assert torch.equal(alone, without)
    assert not torch.equal(alone, with_bonus)
    assert model.env.intrinsic.updates == (model.num_timesteps - 1) // 8  # the last step is not learned from yet


@pytest.mark.parametrize("algorithm", [PPO, SAC])
def test_dict_observations_and_actions_of_three_dimensions(algorithm):
    _, model = learned(algorithm, lambda venv: BonusVecEnv(venv, "icm", settings=SMALL["icm"], **AT_ONCE), kind="dict")
    assert model.env.intrinsic.updates == 7


def test_extrinsic_off_is_one_switch_and_both_rewards_are_told():
    venv = BonusVecEnv(environments(reward=3.0), Recorder(), extrinsic_weight=0.0, normalize=False, learning_starts=0)
    venv.reset()
    for expected in (1.0, 2.0, 3.0, 1.0):
        _, rewards, _, infos = venv.step(np.zeros(2, np.int64))
        assert rewards.dtype == np.float32
        assert rewards.tolist() == [expected] * 2
        assert venv.get_original_reward().tolist() == [3.0] * 2
        assert [(info["extrinsic_reward"], info["intrinsic_reward"]) for info in infos] == [(3.0, expected)] * 2


def test_extrinsic_off_does_not_read_the_reward():
    venv = BonusVecEnv(
        environments(reward=np.inf), Recorder(), extrinsic_weight=0.0, normalize=False, learning_starts=0
    )
    venv.reset()
    assert venv.step(np.zeros(2, np.int64))[1].tolist() == [1.0, 1.0]


def test_rewards_are_the_weighted_sum():
    venv = BonusVecEnv(
        environments(reward=3.0), Recorder(), extrinsic_weight=0.5, weight=2.0, normalize=False, learning_starts=0
    )
    venv.reset()
    assert venv.step(np.zeros(2, np.int64))[1].tolist() == [0.5 * 3 + 2 * 1] * 2
    assert venv.step(np.zeros(2, np.int64))[1].tolist() == [0.5 * 3 + 2 * 2] * 2


@pytest.mark.parametrize("kind", ["vector", "dict", "image"])
def test_the_last_step_belongs_to_the_final_observation(kind):
    recorder = Recorder()
    venv = BonusVecEnv(environments(kind=kind), recorder, **AT_ONCE)
    venv.reset()
    for _ in range(7):
        venv.step(np.array([1, 0]))
    seen = torch.cat([counts(step.observations) for step in recorder.computed])[:, 0]
    followed = torch.cat([counts(step.next_observations) for step in recorder.computed])[:, 0]
    assert seen.tolist() == [0, 1, 2, 0, 1, 2, 0]
    assert followed.tolist() == [1, 2, 3, 1, 2, 3, 1]
    assert [bool(step.terminated[0, 1]) for step in recorder.computed] == [False, False, True] + [False] * 4
    assert [bool(step.truncated[0, 1]) for step in recorder.computed] == [False] * 5 + [True, False]
    assert recorder.computed[0].actions.tolist() == [[1, 0]]
    if kind == "image":
        assert recorder.computed[0].observations.shape == (1, 2, 3, 40, 48)


def test_an_end_without_its_final_observation_is_refused():
    class Forgetful(DummyVecEnv):
        def step_wait(self):
            observations, rewards, dones, infos = super().step_wait()
            return observations, rewards, dones, [{} for _ in infos]

    venv = BonusVecEnv(Forgetful([lambda: Counter(1)]), "rnd")
    venv.reset()
    with pytest.raises(ValueError, match="terminal_observation"):
        venv.step(np.zeros(1, np.int64))


def test_episode_returns_stay_extrinsic():
    venv = BonusVecEnv(make_vec_env(lambda: Counter(reward=2.0), 2), "rnd", weight=5.0, **AT_ONCE)
    model = PPO("MlpPolicy", venv, n_steps=16, batch_size=32, device="cpu", seed=0).learn(32)
    assert [episode["r"] for episode in model.ep_info_buffer] == [6.0] * 10
    assert model.rollout_buffer.rewards.mean() > 2.1


def test_vec_normalize_goes_around_it():
    with pytest.raises(ValueError, match="must be outside"):
        BonusVecEnv(VecNormalize(environments()), "rnd")
    venv = VecNormalize(BonusVecEnv(environments(), "rnd", **AT_ONCE), norm_reward=False)
    model = DQN("MlpPolicy", venv, seed=0, device="cpu", **ALGORITHMS[DQN]).learn(40)
    assert (model.replay_buffer.rewards[: model.replay_buffer.pos] != 0).any()  # the environments pay nothing


def test_evaluation_beside_vec_normalize():
    venv = VecNormalize(BonusVecEnv(make_vec_env(lambda: Counter(reward=2.0), 2), "rnd", weight=9.0, **AT_ONCE))
    plain = make_vec_env(lambda: Counter(reward=2.0), 1)
    model = PPO("MlpPolicy", venv, seed=0, device="cpu", **ALGORITHMS[PPO])
    with pytest.raises(AssertionError, match="wrapped the same way"):  # stable-baselines3 wants both wrapped alike
        model.learn(32, EvalCallback(VecNormalize(plain, training=False), eval_freq=8, verbose=0))
    alike = VecNormalize(EvalVecEnv(plain), training=False, norm_reward=False)
    evaluation = EvalCallback(alike, eval_freq=8, n_eval_episodes=2, verbose=0)
    model.learn(32, evaluation)
    assert evaluation.last_mean_reward == 6.0  # three steps of 2, and no bonus
    sync_envs_normalization(venv, alike)
    assert np.array_equal(alike.obs_rms.mean, venv.obs_rms.mean)
    assert venv.obs_rms.mean.any()


def played(venv, steps, seed):
    """The rewards of random play after a reset, (steps, N)."""
    rng = np.random.default_rng(seed)
    venv.set_attr("episode", 0)  # all that a reset of the environments leaves as it was
    venv.reset()
    return np.stack([venv.step(rng.integers(2, size=venv.num_envs))[1] for _ in range(steps)])


@pytest.mark.parametrize("bonus", ["acb", "rnd", "e3b", "count"])
def test_what_was_saved_goes_on_bit_for_bit(bonus, tmp_path):
    settings, task = SMALL[bonus], {"length": 10, "kind": "dict"}
    venv = BonusVecEnv(environments(**task), bonus, seed=3, settings=settings, extrinsic_weight=0.5, **AT_ONCE)
    played(venv, 11, 0)  # 22 steps: two updates, and six steps that wait for the third
    venv.save(tmp_path / "wrapper")
    loaded = BonusVecEnv.load(tmp_path / "wrapper", environments(**task))
    assert (loaded.intrinsic.config, loaded.extrinsic_weight) == (venv.intrinsic.config, 0.5)
    expected = played(venv, 30, 1)
    assert expected.any()
    assert np.array_equal(played(loaded, 30, 1), expected)
    fresh = BonusVecEnv(environments(**task), bonus, seed=3, settings=settings, extrinsic_weight=0.5, **AT_ONCE)
    assert not np.array_equal(played(fresh, 30, 1), expected)


@pytest.mark.parametrize("bonus", ["acb", "elliptical"])
def test_a_state_of_another_seed_is_refused_and_changes_nothing(bonus):
    settings = {"acb": SMALL["acb"], "elliptical": {"sketch_size": 4}}[bonus]
    one, other = (BonusVecEnv(environments(), bonus, seed=seed, settings=settings, **AT_ONCE) for seed in (0, 1))
    for venv in (one, other):
        played(venv, 9, 0)
    before = str(other.intrinsic.state_dict())
    with pytest.raises(ValueError, match="seed saved, 0, got one of 1"):
        other.intrinsic.load_state_dict(one.intrinsic.state_dict())
    assert str(other.intrinsic.state_dict()) == before


@pytest.mark.parametrize("train_every", [1, 1000])
def test_a_reset_in_mid_episode_ends_the_episode_for_the_bonus(train_every):
    settings = {"normalize": False, "learning_starts": 0, "train_every": train_every, "settings": {"code": "exact"}}
    venv = BonusVecEnv(environments(length=9), "episodic-count", **settings)
    for _ in range(3):
        venv.reset()
        for _ in range(4):  # four states, each seen once in its episode
            assert venv.step(np.zeros(2, np.int64))[1].tolist() == [1.0, 1.0]


def test_seeds_and_options_go_on_to_the_environments():
    seen = []

    class Seeded(Counter):
        def reset(self, *, seed=None, options=None):
            seen.append((seed, options))
            return super().reset(seed=seed)

    venv = BonusVecEnv(DummyVecEnv([Seeded] * 2), "rnd", seed=3)
    assert list(venv.seed(40)) == [40, 41]
    venv.set_options({"slow": True})
    venv.reset()
    assert seen == [(40, {"slow": True}), (41, {"slow": True})]
    PPO("MlpPolicy", venv, seed=7, device="cpu", **ALGORITHMS[PPO]).learn(1)
    assert seen[2:4] == [(7, None), (8, None)]
    one, same, other = (BonusVecEnv(environments(), "rnd", seed=seed, **AT_ONCE) for seed in (0, 0, 1))
    rewards = [played(venv, 20, 0) for venv in (one, same, other)]
    assert np.array_equal(rewards[0], rewards[1])
    assert not np.array_equal(rewards[0], rewards[2])


@pytest.mark.parametrize("bonus", ["rnd", "e3b", "own_bonuses:episodic"])
@pytest.mark.parametrize("count", [1, 5])
def test_another_number_of_environments_after_loading(bonus, count, tmp_path):
    venv = BonusVecEnv(environments(3), bonus, seed=3, settings=SMALL.get(bonus, {}), **AT_ONCE)
    played(venv, 9, 0)
    venv.save(tmp_path / "wrapper")
    other = BonusVecEnv.load(tmp_path / "wrapper", environments(count))
    assert other.intrinsic.steps == venv.intrinsic.steps == 27
    assert played(other, 10, 1).shape == (10, count)
    assert other.intrinsic.steps == 27 + 10 * count
    assert other.intrinsic.n_envs == count
    assert "n_envs=3" in repr(venv)


def test_a_ready_bonus_is_asked_for_again(tmp_path):
    BonusVecEnv(environments(), Recorder()).save(tmp_path / "wrapper")
    with pytest.raises(ValueError, match="ready bonus"):
        BonusVecEnv.load(tmp_path / "wrapper", environments())
    recorder = Recorder()
    assert BonusVecEnv.load(tmp_path / "wrapper", environments(), recorder).intrinsic.bonus is recorder


def test_without_training_nothing_moves_but_the_bonus_is_added():
    venv = BonusVecEnv(environments(), "rnd", **AT_ONCE)
    played(venv, 10, 0)
    venv.training = False
    venv.reset()  # which ends the episodes of training
    before = copy.deepcopy(venv.intrinsic.state_dict())
    first = played(venv, 30, 1)
    torch.testing.assert_close(venv.intrinsic.state_dict(), before, rtol=0, atol=0)
    assert first.any()
    venv.training = True
    played(venv, 10, 1)
    assert venv.intrinsic.steps > before["steps"]


def test_a_missing_host_names_the_extra():
    code = "import sys; sys.modules['stable_baselines3'] = None; import optimist.adapters.sb3"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "ModuleNotFoundError" in done.stderr
    assert "pip install 'optimist[sb3]'" in done.stderr


def test_bad_input_is_refused():
    with pytest.raises(ValueError, match="extrinsic_weight"):
        BonusVecEnv(environments(), "rnd", extrinsic_weight=-1.0)
    with pytest.raises(ValueError, match="no setting 'wieght'"):
        BonusVecEnv(environments(), "rnd", wieght=1.0)
    venv = BonusVecEnv(environments(), "rnd")
    with pytest.raises(ValueError, match="reset"):
        venv.step(np.zeros(2, np.int64))
