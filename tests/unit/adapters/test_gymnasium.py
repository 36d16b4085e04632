"""The vector wrapper: true successors in every autoreset mode, the bonus in the rewards, and a policy moved by it."""

import subprocess
import sys

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium.vector import AutoresetMode

from optimist.adapters.gymnasium import BonusVectorEnv
from optimist.bonuses import Bonus
from tiny_host import DIGITS, LENGTH, ActorCritic, Counter, Lock, vector

ACB = {
    "sketch_size": 8,
    "ensemble_size": 64,
    "form": "width",
}  # first sights pay most: this host has no critic of its own
SOON = {"learning_starts": 0, "train_every": 64}
MODES = list(AutoresetMode)


class Recorder(Bonus):
    """A bonus equal to the successor's count, which keeps all that it learns from."""

    def __init__(self):
        self.learned = []

    def compute(self, transitions):
        count = transitions.next_observations
        count = count if isinstance(count, torch.Tensor) else count["count"]
        return count[..., 0] * (1 if transitions.valid is None else transitions.valid)

    def update(self, transitions):
        self.learned.append(transitions)
        return {"learned": 1.0}

    def state_dict(self):
        return {}

    def load_state_dict(self, state): ...


def counted(mode, *, as_dict=False, **keywords):
    recorder = Recorder()
    envs = vector(lambda k: Counter(k, as_dict=as_dict), 3, mode)
    settings = {"normalize": False, "learning_starts": 0, "train_every": 1} | keywords
    return BonusVectorEnv(envs, recorder, seed=0, **settings), recorder


def played(envs, steps):
    """What ``steps`` steps gave, ended episodes reset by hand where nobody else does it."""
    envs.reset(seed=0)
    rng = np.random.default_rng(0)
    for _ in range(steps):
        action = rng.uniform(-1, 1, (3, 2, 3)).astype(np.float32)
        answer = envs.step(action)
        yield action, answer
        ended = answer[2] | answer[3]
        if envs.metadata["autoreset_mode"] is AutoresetMode.DISABLED and ended.any():
            envs.reset(options={"reset_mask": ended})


@pytest.mark.parametrize("as_dict", [False, True])
@pytest.mark.parametrize("mode", MODES)
def test_every_step_is_scored_and_learned_with_its_true_successor(mode, as_dict):
    envs, recorder = counted(mode, as_dict=as_dict)
    times, resetting = np.zeros(3), np.zeros(3, bool)
    answers = list(played(envs, 31))
    assert len(recorder.learned) == 30  # a step is learned from when the next one is made
    for learned, (action, (_, rewards, terminated, truncated, infos)) in zip(recorder.learned, answers, strict=False):
        before, after = learned.observations, learned.next_observations
        if as_dict:
            assert after["image"].shape == (1, 3, 3, 40, 40)  # channels first
            assert np.array_equal(after["image"][0, ~resetting, 0, 0, 0], 10 * (times[~resetting] + 1))
            before, after = before["count"], after["count"]
        valid = np.ones(3, bool) if learned.valid is None else learned.valid[0].numpy()
        assert np.array_equal(valid, ~resetting)
        assert np.array_equal(before[0, valid, 0], (100 * np.arange(3) + times)[valid])
        assert np.array_equal(after[0, valid, 0], (100 * np.arange(3) + times + 1)[valid])
        assert np.array_equal(learned.actions[0], action.reshape(3, 6))  # several dimensions, several axes
        assert np.array_equal(learned.terminated[0], terminated)
        assert np.array_equal(learned.truncated[0], truncated)
        # The bonus is the successor's count, on top of the reward of 1 a step; a step that only resets has neither.
        assert np.array_equal(infos["intrinsic_reward"], np.where(valid, 100 * np.arange(3) + times + 1, 0))
        assert np.array_equal(rewards, infos["intrinsic_reward"] + valid)
        ended = terminated | truncated
        assert np.array_equal(infos["_extrinsic_return"], ended)
        assert np.array_equal(infos["extrinsic_return"], np.where(ended, 3 + np.arange(3), 0))
        times = np.where(ended | resetting, 0, times + 1)
        resetting = ended if mode is AutoresetMode.NEXT_STEP else np.zeros(3, bool)


def test_what_is_added_and_what_is_only_reported():
    for keywords, extrinsic, intrinsic in [
        ({}, 1, 1),
        ({"report_only": True}, 1, 0),
        ({"extrinsic_weight": 0.0}, 0, 1),
        ({"weight": 0.0}, 1, 0),
        ({"extrinsic_weight": 3.0, "weight": 2.0}, 3, 2),
    ]:
        envs, _ = counted(AutoresetMode.SAME_STEP, **keywords)
        for t, (_, (_, rewards, _, _, infos)) in enumerate(played(envs, 3)):
            count = 100 * np.arange(3) + t + 1
            assert np.array_equal(rewards, np.full(3, extrinsic) + intrinsic * count)
            assert np.array_equal(infos["extrinsic_reward"], np.ones(3))
            assert np.array_equal(infos["intrinsic_reward"], keywords.get("weight", 1.0) * count)


def lock_player(seed, *, steps, prize=1.0, mode=AutoresetMode.SAME_STEP, **keywords):
    """A tabular actor-critic on eight locks, and the share of its last hundred episodes that opened one."""
    envs = BonusVectorEnv(vector(lambda _: Lock(prize), 8, mode), "acb", seed=seed, settings=ACB, **(SOON | keywords))
    host = ActorCritic(LENGTH + 1, DIGITS, seed=seed)
    places, _ = envs.reset(seed=seed)
    opened = []
    for _ in range(steps):
        actions = host.act(places)
        after, rewards, terminated, truncated, infos = envs.step(actions)
        successors, ended = after.copy(), terminated | truncated
        for i in np.flatnonzero(ended):
            successors[i] = infos["final_obs"][i]
        host.learn(places, actions, rewards, successors, terminated)
        opened += terminated[ended].tolist()
        places = after
    return host, np.mean(opened[-100:])


def test_the_policy_moves_by_the_bonus_alone_and_not_without_it():
    moved, _ = lock_player(0, steps=110, prize=0.0)
    still, _ = lock_player(0, steps=110, prize=0.0, weight=0.0)
    silent, _ = lock_player(0, steps=110, prize=5.0, weight=0.0, extrinsic_weight=0.0)
    assert np.abs(moved.logits).max() > 0.01
    assert not still.logits.any()
    assert not silent.logits.any()


def test_a_lock_that_chance_does_not_open_is_opened_with_the_bonus():
    # Without a reward the host stays exactly uniform, and 600 x 8 / 7 = 686 episodes with 4^-7 each open a lock in
    # 1 - (1 - 4^-7)^686 = 4 % of runs: one seed in 24 would fail here. With the bonus it can open 0.925^7 = 0.58 at
    # best, since it acts at random in a tenth: seven seeds gave 0.50 to 0.61, and 0.4 is 3.6 sd of 100 episodes lower.
    _, with_bonus = lock_player(0, steps=600, discount=0.95)
    _, without = lock_player(0, steps=600, discount=0.95, weight=0.0)
    assert without == 0
    assert with_bonus > 0.4


def test_saving_and_loading_goes_on_bit_for_bit(tmp_path):
    def fresh():
        envs = vector(lambda _: Lock(), 2, AutoresetMode.NEXT_STEP)
        return BonusVectorEnv(envs, "acb", seed=3, settings=ACB, learning_starts=20, train_every=50)

    def play(envs, seed, steps):
        envs.reset(seed=seed)
        rng = np.random.default_rng(seed)
        return np.array([envs.step(rng.integers(DIGITS, size=2))[1] for _ in range(steps)])

    first = fresh()
    play(first, 0, 130)
    first.save(tmp_path / "bonus")
    second = fresh()
    second.load(tmp_path / "bonus")
    expected = play(first, 1, 60)
    assert expected.any()
    assert np.array_equal(play(second, 1, 60), expected)
    third = fresh()
    third.load_state_dict(second.state_dict())
    assert np.array_equal(play(third, 2, 30), play(second, 2, 30))


@pytest.mark.parametrize("name", ["acb", "elliptical"])
def test_a_state_of_another_seed_is_refused_and_changes_nothing(name):
    def made(seed):
        envs = vector(lambda _: Lock(), 2, AutoresetMode.SAME_STEP)
        settings = {"acb": ACB, "elliptical": {"sketch_size": 4}}[name]
        return BonusVectorEnv(envs, name, seed=seed, settings=settings, learning_starts=0, train_every=4)

    one, other = made(0), made(1)
    for envs in (one, other):
        envs.reset(seed=0)
        for action in range(4):
            envs.step(np.full(2, action))
    before = str(other.state_dict())
    with pytest.raises(ValueError, match="seed saved, 0, got one of 1"):
        other.load_state_dict(one.state_dict())
    assert str(other.state_dict()) == before


@pytest.mark.parametrize("train_every", [1, 1000])
def test_a_reset_in_mid_episode_ends_the_episode_for_the_bonus(train_every):
    settings = {"normalize": False, "learning_starts": 0, "train_every": train_every}
    envs = BonusVectorEnv(
        vector(lambda _: Lock(), 2, AutoresetMode.DISABLED), "episodic-count", seed=0, extrinsic_weight=0.0, **settings
    )
    wrong = np.full(2, (Lock.digits[0] + 1) % DIGITS)  # leads back to the start: every successor is one state
    envs.reset(seed=0)
    rewards = [envs.step(wrong)[1] for _ in range(2)]
    envs.reset(options={"reset_mask": np.array([False, True])})
    rewards.append(envs.step(wrong)[1])
    envs.reset()
    rewards += [envs.step(wrong)[1] for _ in range(2)]
    visits = np.array([[1, 1], [2, 2], [3, 1], [1, 1], [2, 2]])
    assert np.allclose(rewards, visits**-0.5)


def test_evaluation_moves_nothing():
    envs, recorder = counted(AutoresetMode.NEXT_STEP)
    envs.training = False
    assert len(list(played(envs, 5))) == 5
    assert not recorder.learned
    assert not envs.training


def test_the_constructor_steps_no_environment():
    class Untouchable(Lock):
        def reset(self, **_):
            raise AssertionError

    BonusVectorEnv(vector(lambda _: Untouchable(), 2, AutoresetMode.NEXT_STEP), "acb", seed=0, settings=ACB)


def test_errors_say_what_to_do():
    envs = vector(lambda _: Lock(), 2, AutoresetMode.SAME_STEP)
    with pytest.raises(RuntimeError, match=r"call reset\(\) first"):
        BonusVectorEnv(envs, "count", seed=0).step(np.zeros(2, int))
    with pytest.raises(ValueError, match="extrinsic_weight"):
        BonusVectorEnv(envs, "count", seed=0, extrinsic_weight=-1.0)
    with pytest.raises(ValueError, match="did you mean 'train_every'"):
        BonusVectorEnv(envs, "count", seed=0, train_evry=3)
    with pytest.raises(ValueError, match="no Dict"):
        BonusVectorEnv(envs, "count", seed=0, observation_keys=["image"])
    with pytest.raises(ValueError, match="among"):
        counted(AutoresetMode.SAME_STEP, as_dict=True, observation_keys=["images"])
    envs.metadata = {}
    with pytest.raises(ValueError, match="autoreset_mode"):
        BonusVectorEnv(envs, "count", seed=0)


@pytest.mark.parametrize("name", ["acb", "rnd", "icm", "elliptical", "e3b", "count", "acb*episodic-count"])
def test_every_bonus_reads_dicts_and_several_continuous_actions(name):
    settings = {"acb": ACB, "e3b": {"n_features": 8}, "elliptical": {"sketch_size": 4}}.get(name, {})
    if "*" in name:
        settings = {f"acb.{key}": value for key, value in ACB.items()}
    envs = vector(lambda k: Counter(k, as_dict=True), 3, AutoresetMode.SAME_STEP)
    wrapped = BonusVectorEnv(
        envs,
        name,
        seed=0,
        settings=settings,
        observation_keys=["count"],
        discount=0.5,
        learning_starts=3,
        train_every=6,
    )
    total = sum(answer[4]["intrinsic_reward"] for _, answer in played(wrapped, 8))
    assert np.isfinite(total).all()
    assert (total > 0).any()


def test_a_missing_host_names_the_extra():
    code = (
        "import sys; sys.modules['gymnasium'] = sys.modules['stable_baselines3'] = sys.modules['torchrl'] = None\n"
        "import optimist.adapters, importlib\n"
        "for name in ('gymnasium', 'rlexplore', 'spaces'):\n"
        "    try: importlib.import_module(f'optimist.adapters.{name}')\n"
        "    except ModuleNotFoundError as error: print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "this adapter needs gymnasium: pip install 'optimist[rl]'\n" * 3


def test_public_names_are_found_when_asked_for_and_a_missing_host_is_named():
    code = (
        "import sys, optimist.adapters as adapters\n"
        "assert set(adapters.__all__) <= set(dir(adapters))\n"
        "assert set(adapters.__all__) == {name for names in adapters.ROOMS.values() for name in names}\n"
        "sys.modules['stable_baselines3'] = sys.modules['torchrl'] = sys.modules['ray'] = None\n"
        "for name in (*adapters.__all__, 'BonusVecEnvs'):\n"
        "    try: print(getattr(adapters, name).__name__)\n"
        "    except (ModuleNotFoundError, AttributeError) as error: print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    sb3 = "this adapter needs stable-baselines3: pip install 'optimist[sb3]'"
    torchrl = "this adapter needs torchrl: pip install 'optimist[torchrl]'"
    rllib = "this adapter needs ray.rllib: pip install 'optimist[rllib]'"
    found = ["BonusVectorEnv", sb3, "IntrinsicConfig", "IntrinsicReward", torchrl, rllib]
    unknown = "module 'optimist.adapters' has no attribute 'BonusVecEnvs'"
    assert done.stdout.splitlines() == [sb3, sb3, rllib, torchrl, rllib, torchrl, sb3, *found, unknown]


def test_importing_the_package_imports_no_host():
    hosts = "('gymnasium', 'stable_baselines3', 'torchrl', 'ray', 'torch')"
    code = f"import sys, optimist.adapters; print([m for m in {hosts} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_another_number_of_environments_after_loading(tmp_path):
    def made(n_envs):
        envs = vector(lambda _: Lock(), n_envs, AutoresetMode.SAME_STEP)
        return BonusVectorEnv(envs, "acb*episodic-count", settings=SMALL, **SOON)

    SMALL = {f"acb.{key}": value for key, value in ACB.items()}
    first, more = made(2), made(5)
    first.reset(seed=0)
    for _ in range(120):
        first.step(np.zeros(2, int))
    first.save(tmp_path / "bonus")
    more.load(tmp_path / "bonus")
    more.reset(seed=0)
    assert more.step(np.zeros(5, int))[4]["intrinsic_reward"].shape == (5,)
    assert more.intrinsic.updates == first.intrinsic.updates + 1
    assert repr(more).startswith("BonusVectorEnv(SyncVectorEnv(")


def test_gymnasium_knows_it_as_a_vector_environment():
    envs = BonusVectorEnv(gymnasium.make_vec("CartPole-v1", num_envs=2), "count", seed=0)
    recorded = gymnasium.wrappers.vector.RecordEpisodeStatistics(envs)
    recorded.reset(seed=0)
    for _ in range(60):
        _, rewards, *_ = recorded.step(recorded.action_space.sample())
    assert rewards.shape == (2,)
    recorded.close()
