"""A trainer on a device that is not the CPU, by the stand-in of tests/standin_device.py: the numbers of the CPU."""

import math
from dataclasses import replace

import pytest
import torch

from optimist.training import ppo
from optimist.training.config import TrainConfig
from optimist.training.evaluation import Evaluation
from standin_device import DEVICE, Remote, StandIn

POLE = TrainConfig(
    env="CartPole-v1",
    n_envs=4,
    steps=8,
    minibatches=2,
    epochs=2,
    warm_up_steps=8,
    width=8,
    learning_rate=1e-2,
    mixing="balanced",
    normalize_observations=True,
    value_scale_rate=0.1,
    max_gradient_norm=0.5,
    eval_every=32,
    eval_episodes=2,
    threads=1,
)


def started(config):
    trainer = ppo.Trainer(config)
    # Adam's fused kernels are those of real devices alone.
    trainer.optimizer = torch.optim.Adam(trainer.agent.parameters(), lr=1e-2, fused=False, foreach=False)
    return trainer


def told(trainer):
    metrics = [trainer.iterate() for _ in range(2)][-1]
    evaluated = Evaluation(trainer.config, trainer.make_environments).measure(
        trainer.agent, trainer.distribution, 0, check=lambda: None
    )
    numbers = metrics | evaluated
    return {name: value for name, value in numbers.items() if "second" not in name and not math.isnan(value)}


@pytest.mark.filterwarnings("ignore:for .* copying from a non-meta parameter")  # on the stand-in it does copy
@pytest.mark.parametrize(("bonus", "recurrent"), [("acb", False), ("acb", True), ("rnd", False)])
def test_a_run_on_another_device_has_the_numbers_of_the_cpu_and_moves_there_and_back(bonus, recurrent, monkeypatch):
    config = replace(POLE, bonus=bonus, recurrent=recurrent)
    here = started(config)
    here.start()
    expected = told(here)
    with StandIn(has_float64=True):
        monkeypatch.setattr(ppo, "chosen_device", lambda name: DEVICE)
        there = started(config)
        assert isinstance(there.agent.values.weight.data, Remote)
        there.start()
        assert told(there) == pytest.approx(expected, rel=1e-3, abs=1e-5)
        moved = started(config)  # a state of the CPU goes on there
        moved.load_state_dict(here.state_dict())
        assert isinstance(moved.agent.values.weight.data, Remote)
        after = moved.iterate()
    following = here.iterate()
    shared = [name for name in following if "second" not in name and not math.isnan(following[name])]
    assert [after[name] for name in shared] == pytest.approx([following[name] for name in shared], rel=1e-3, abs=1e-5)
