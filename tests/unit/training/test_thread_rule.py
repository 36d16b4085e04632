"""Threads by rule: one for small networks, the cores of this process for large ones; and the same number on resume."""

from dataclasses import replace

import pytest
import torch

from optimist.training.agent import make_agent
from optimist.training.config import TrainConfig
from optimist.training.ppo import Trainer
from optimist.training.presets import defaults_for
from optimist.training.threads import THREADED_FROM, fitting_threads, multiplications, usable_cores


@pytest.fixture(autouse=True)
def _threads_of_this_process():
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


def trainer_of(env, **changes):
    made = Trainer(replace(defaults_for(env), bonus="none", warm_up_steps=8, **changes))
    made.environments.close()
    return made


def test_multiplications_are_those_of_the_layers():
    width, states = 64, 101  # 100 cells, and the end
    agent = trainer_of("DeepSea-10", threads=1).agent
    by_hand = states * width + width * width + width * 2 + width * width + width * 2  # trunk, actor, critic, values
    assert multiplications(agent, torch.tensor([3, 5, 7])) == by_hand


@pytest.mark.parametrize("env", ["DeepSea-20", "MountainCar-v0", "MiniGrid-DoorKey-8x8-v0"])
def test_small_networks_have_one_thread(env, monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "")
    monkeypatch.setattr("os.sched_getaffinity", lambda _: set(range(64)), raising=False)
    torch.set_num_threads(2)
    trainer = trainer_of(env)
    assert (trainer.config.threads, torch.get_num_threads()) == (1, 1)


def test_the_network_of_atari_has_all_cores_of_the_process(monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "")
    monkeypatch.setattr("os.sched_getaffinity", lambda _: {0, 1, 2}, raising=False)
    config = TrainConfig(env="CartPole-v1", network="atari", bonus="none", n_envs=16)
    frames = torch.zeros(1, 4, 84, 84, dtype=torch.uint8)
    agent = make_agent(
        (4, 84, 84), 4, network="atari", activation="relu", width=64, generator=torch.Generator().manual_seed(0)
    )
    assert multiplications(agent, frames) * config.rollout_steps / config.minibatches > THREADED_FROM
    assert fitting_threads(config, agent, frames) == 3


@pytest.mark.parametrize(("given", "cores"), [("1", 1), ("2", 2), ("64", 3), ("", 3), ("all", 3), ("0", 3)])
def test_schedulers_limit_the_cores(given, cores, monkeypatch):
    monkeypatch.setattr("os.sched_getaffinity", lambda _: {0, 1, 2}, raising=False)
    monkeypatch.setenv("OMP_NUM_THREADS", given)
    assert usable_cores() == cores


def test_a_given_number_is_taken_by_pytorch_and_by_envpool():
    trainer = trainer_of("CartPole-v1", threads=1, n_envs=4)
    assert (trainer.config.threads, torch.get_num_threads()) == (1, 1)
    assert trainer.environments._inner._options["num_threads"] == 1
