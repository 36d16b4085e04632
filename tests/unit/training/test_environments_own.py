"""DeepSea, FrozenLake and the combination lock against slow oracles, one environment at a time."""

import itertools
import json

import gymnasium
import numpy as np
import pytest

from optimist.training.environments.combination_lock import CombinationLock
from optimist.training.environments.deep_sea import DeepSea
from optimist.training.environments.frozen_lake import MAPS, FrozenLake


def deep_sea_episode(actions, mapping):
    """The rules of bsuite, one cell at a time: observations (a grid with a single 1, or zeros), rewards."""
    size, column = len(mapping), 0
    observations, rewards = [], []
    for row, action in enumerate(actions):
        reward = 0.0
        if action == mapping[row][column]:
            if column == size - 1:
                reward += 1.0
            reward -= 0.01 / size
            column = min(column + 1, size - 1)
        else:
            column = max(column - 1, 0)
        grid = np.zeros((size, size))
        if row + 1 < size:
            grid[row + 1, column] = 1
        observations.append(grid)
        rewards.append(reward)
    return observations, rewards


def test_deep_sea_follows_the_rules_of_bsuite_in_every_episode_there_is():
    size = 4
    every = np.array(list(itertools.product([0, 1], repeat=size)))
    sea = DeepSea(size, n_envs=len(every))
    mapping = np.random.RandomState(42).binomial(1, 0.5, [size, size])
    oracle = [deep_sea_episode(actions, mapping) for actions in every]
    sea.reset(0)
    for t in range(size):
        step = sea.step(every[:, t])
        grids = np.array([observations[t].ravel() for observations, _ in oracle])
        expected = np.where(grids.any(1), grids.argmax(1), size * size)
        np.testing.assert_array_equal(step.next_observations, expected)
        np.testing.assert_allclose(step.rewards, [rewards[t] for _, rewards in oracle], rtol=1e-6)
        assert (step.terminated == (t == size - 1)).all()
        assert not step.truncated.any()
    assert (step.observations == 0).all()
    assert (step.next_observations == size * size).all()


def test_the_best_deep_sea_policy_gets_0_99_and_is_the_only_success():
    sea = DeepSea(30, n_envs=2)
    cells, total = sea.reset(0), np.zeros(2)
    for t in range(30):
        right = sea.rightwards.ravel()[cells]
        actions = np.array([right[0], 1 - right[1] if t == 29 else right[1]])  # the second fails at the last step
        step = sea.step(actions)
        cells, total = step.observations, total + step.rewards
    assert total[0] == pytest.approx(0.99)
    assert total[1] == pytest.approx(-0.01 * 29 / 30)
    assert total[0] > sea.success_return > total[1]


def test_the_mapping_is_the_problem_and_another_seed_is_another_problem():
    assert (DeepSea(20, n_envs=1).rightwards == DeepSea(20, n_envs=3, mapping_seed=42).rightwards).all()
    assert (DeepSea(20, n_envs=1).rightwards != DeepSea(20, n_envs=1, mapping_seed=43).rightwards).any()


@pytest.mark.parametrize("name", MAPS)
def test_frozen_lake_walks_as_gymnasium_does(name):
    lake_map, count = MAPS[name], 4
    lake = FrozenLake(lake_map.rows, max_episode_steps=lake_map.max_episode_steps, n_envs=count)
    slow = [
        gymnasium.make(
            "FrozenLake-v1", desc=list(lake_map.rows), is_slippery=False, max_episode_steps=lake_map.max_episode_steps
        )
        for _ in range(count)
    ]
    cells = lake.reset(0)
    assert cells.tolist() == [env.reset(seed=0)[0] for env in slow]
    rng, ends = np.random.default_rng(0), 0
    for _ in range(150):
        actions = rng.choice(4, size=count, p=[0.1, 0.4, 0.4, 0.1])
        step = lake.step(actions)
        for i, env in enumerate(slow):
            cell, reward, terminated, truncated, _ = env.step(int(actions[i]))
            assert (step.next_observations[i], step.rewards[i]) == (cell, reward)
            assert (step.terminated[i], step.truncated[i]) == (terminated, truncated)
            if terminated or truncated:
                cell, ends = env.reset()[0], ends + 1
            assert step.observations[i] == cell
    assert ends > 10


@pytest.mark.parametrize("name", MAPS)
def test_the_limit_of_a_frozen_lake_is_the_length_of_its_shortest_path(name):
    rows, limit = MAPS[name].rows, MAPS[name].max_episode_steps
    lake = FrozenLake(rows, max_episode_steps=limit, n_envs=1)
    reached = {0: ()}
    for _ in range(limit):  # breadth first: every cell with one of its shortest paths, through load_state_dict
        for cell, path in list(reached.items()):
            for action in range(4):
                lake.load_state_dict({"cell": np.array([cell]), "elapsed": np.array([0])})
                after = int(lake.step(np.array([action])).next_observations[0])
                if "".join(rows)[after] != "H":
                    reached.setdefault(after, (*path, action))
    path = reached[len(rows) ** 2 - 1]
    assert len(path) == limit
    lake.reset(0)
    steps = [lake.step(np.array([action])) for action in path]
    assert sum(float(step.rewards[0]) for step in steps) == 1.0
    assert steps[-1].terminated[0]
    assert steps[-1].truncated[0]


def lock_steps(lock, choice, *, wrong_at=None):
    """The steps of an episode that enters lock ``choice`` and takes every right action, but at ``wrong_at``."""
    observations = lock.reset(3)
    steps = [lock.step(np.full(lock.n_envs, choice))]
    for t in range(lock.horizon - 1):
        observations = steps[-1].next_observations
        chain = observations[:, :3].argmax(1)
        actions = lock._codes[observations[0, -1].astype(int), np.minimum(chain, 1), t]
        steps.append(lock.step((actions + 1) % 10 if t == wrong_at else actions))
    return steps


def test_the_combination_lock_pays_as_pc_pg_says():
    lock = CombinationLock(n_envs=64, horizon=6, problem_seed=1)
    rich, poor = lock_steps(lock, 7), lock_steps(lock, 2)
    for steps, prize, index in ((rich, 5.0, 1), (poor, 2.0, 0)):
        rewards = np.stack([step.rewards for step in steps])
        np.testing.assert_allclose(rewards[0], 0)
        np.testing.assert_allclose(rewards[1:-1], -1 / 4)
        np.testing.assert_allclose(rewards[-1], prize)
        assert steps[-1].terminated.all()
        assert not np.any([step.terminated for step in steps[:-1]])
        for t, step in enumerate(steps):
            assert (step.next_observations[:, :3].sum(1) == 1).all()
            assert (step.next_observations[:, 3 + t] == 1).all()
            assert (step.next_observations[:, 3:-1].sum(1) == 1).all()
            assert (step.next_observations[:, -1] == index).all()
        assert not steps[-1].observations.any()
    assert 1.0 < lock.success_return < 4.0


def test_a_wrong_action_in_a_lock_is_never_forgiven_and_never_paid():
    lock = CombinationLock(n_envs=8, horizon=6)
    steps = lock_steps(lock, 7, wrong_at=2)
    rewards = np.stack([step.rewards for step in steps])
    np.testing.assert_allclose(rewards.T, np.tile([0, -1 / 4, -1 / 4, 0, 0, 0], (8, 1)))
    assert all((step.next_observations[:, 2] == 1).all() for step in steps[3:])


def test_right_steps_change_the_chain_half_of_the_time_and_so_does_the_start():
    lock = CombinationLock(n_envs=4000, horizon=6)
    chains = np.stack([step.next_observations[:, :3].argmax(1) for step in lock_steps(lock, 0)])
    # a fair coin thrown 4000 times: 5 sd of its mean is 5 sqrt(0.25 / 4000) = 0.04, a false alarm in 2 million
    assert abs(chains[0].mean() - 0.5) < 0.04
    assert (np.abs((chains[1:] != chains[:-1]).mean(1) - 0.5) < 0.04).all()


def test_the_locks_are_those_of_pc_pg():
    lock = CombinationLock(n_envs=1, horizon=11, problem_seed=4)
    for index, seed in ((0, 4), (1, 40)):
        rng = np.random.RandomState(seed)
        for chain in (0, 1):
            np.testing.assert_array_equal(lock._codes[index, chain], rng.randint(low=0, high=10, size=10))
    assert lock._prizes.tolist() == [5.0, 2.0]
    assert CombinationLock(n_envs=1, problem_seed=3)._prizes.tolist() == [2.0, 5.0]


OWN = {
    "deep sea": lambda count: DeepSea(5, n_envs=count),
    "lake": lambda count: FrozenLake(MAPS["FrozenLake-8x8"].rows, max_episode_steps=14, n_envs=count),
    "lock": lambda count: CombinationLock(n_envs=count, horizon=6),
}


@pytest.mark.parametrize("name", OWN)
def test_a_saved_state_continues_exactly_also_in_new_environments(name):
    envs, rng = OWN[name](6), np.random.default_rng(0)
    choices = envs.actions.n
    envs.reset(5)
    for _ in range(8):
        envs.step(rng.integers(choices, size=6))
    saved = envs.state_dict()
    assert json.dumps({key: np.asarray(value).tolist() for key, value in saved.items()})
    actions = rng.integers(choices, size=(40, 6))
    expected = [envs.step(action) for action in actions]
    for other in (OWN[name](6), envs):
        other.reset(9)
        other.load_state_dict(saved)
        for action, want in zip(actions, expected, strict=True):
            step = other.step(action)
            for field in ("observations", "next_observations", "rewards", "terminated", "truncated"):
                np.testing.assert_array_equal(getattr(step, field), getattr(want, field))


@pytest.mark.parametrize("name", OWN)
def test_a_foreign_state_and_foreign_actions_are_refused(name):
    envs, saved = OWN[name](6), OWN[name](5).state_dict()
    envs.reset(0)
    before = envs.state_dict()
    with pytest.raises(ValueError, match="other environments"):
        envs.load_state_dict(saved)
    with pytest.raises(ValueError, match=r"actions must be \(6,\) integers"):
        envs.step(np.zeros(5, np.int64))
    with pytest.raises(ValueError, match="actions must lie in 0"):
        envs.step(np.full(6, 10))
    after = envs.state_dict()
    assert all(np.array_equal(before[key], after[key]) for key in before)


def test_bad_problems_are_refused():
    with pytest.raises(ValueError, match="size of at least 2"):
        DeepSea(1, n_envs=1)
    with pytest.raises(ValueError, match="horizon must be at least 3"):
        CombinationLock(n_envs=1, horizon=2)
    with pytest.raises(ValueError, match="a single S"):
        FrozenLake(["FF", "FG"], max_episode_steps=3, n_envs=1)
    with pytest.raises(ValueError, match="max_episode_steps"):
        FrozenLake(["SF", "FG"], max_episode_steps=0, n_envs=1)
    with pytest.raises(ValueError, match="n_envs must be a whole number"):
        DeepSea(3, n_envs=0)
