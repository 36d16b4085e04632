"""The step size along a run, and passes that end when the policy has gone far enough."""

import math
from dataclasses import replace

import numpy as np
import pytest

from optimist.training import read_metrics
from optimist.training.config import TrainConfig
from optimist.training.ppo import Trainer
from optimist.training.runs import run as runs
from optimist.training.schedules import learning_rate

TINY = TrainConfig(
    env="DeepSea-6", bonus="count", total_steps=320, n_envs=4, steps=8, minibatches=2, epochs=4, warm_up_steps=0,
    width=8, learning_rate=1e-2, threads=1,
)  # fmt: skip


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("constant", [1.0] * 10),
        ("linear", [1 - k / 10 for k in range(10)]),
        ("cosine", [(1 + math.cos(math.pi * k / 10)) / 2 for k in range(10)]),
    ],
)
def test_the_step_size_follows_its_schedule_also_in_a_resumed_run(name, expected, tmp_path):
    config = replace(TINY, learning_rate_schedule=name)
    runs.train(config, tmp_path / "whole")
    runs.train(config, tmp_path / "run", callbacks=[lambda moment: moment.step == 128 and moment.stop()])
    runs.resume(tmp_path / "run")
    whole, resumed = (read_metrics(tmp_path / folder / "metrics.csv") for folder in ("whole", "run"))
    np.testing.assert_allclose(whole["learning_rate"], np.array(expected) * 1e-2, rtol=1e-12)
    for column in whole:
        if "second" not in column:
            np.testing.assert_array_equal(whole[column], resumed[column])


def test_adam_uses_it():
    config = replace(TINY, learning_rate_schedule="linear")
    trainer = Trainer(config)
    trainer.start()
    for step in (0, 32, 64):
        trainer.iterate()
        assert [group["lr"] for group in trainer.optimizer.param_groups] == [learning_rate(config, step)]


def test_a_schedule_is_at_nothing_at_its_end_and_stays_there():
    for name in ("linear", "cosine"):
        config = replace(TINY, learning_rate_schedule=name)
        assert learning_rate(config, 320) == pytest.approx(0, abs=1e-12)
        assert learning_rate(config, 640) == pytest.approx(0, abs=1e-12)
    with pytest.raises(ValueError, match=r"learning_rate_schedule must be .*'linaer'"):
        replace(TINY, learning_rate_schedule="linaer")
    with pytest.raises(ValueError, match="target_kl must be"):
        replace(TINY, target_kl=-0.1)


def test_passes_end_at_the_first_minibatch_that_is_too_far():
    """Without a target all 8 steps are made; with one of next to nothing only the first, whose KL is 0."""
    whole, short, far = (Trainer(replace(TINY, target_kl=kl)) for kl in (0.0, 1e-12, 1e6))
    for trainer in (whole, short, far):
        trainer.start()
    told = [trainer.iterate() for trainer in (whole, short, far)]
    assert [metrics["updates"] for metrics in told] == [8, 1, 8]
    assert {k: v for k, v in told[0].items() if "second" not in k} == {
        k: v for k, v in told[2].items() if "second" not in k
    }
    assert told[1]["kl"] < told[0]["kl"]
    later = [short.iterate()["updates"] for _ in range(3)]
    assert set(later) == {1}


def test_a_target_between_keeps_the_policy_nearer():
    metrics = []
    for kl in (0.0, 1e-3):
        trainer = Trainer(replace(TINY, target_kl=kl, epochs=30, learning_rate=3e-2))
        trainer.start()
        metrics.append(trainer.iterate())
    free, held = metrics
    assert 1 < held["updates"] < free["updates"] == 60
    assert held["kl"] < free["kl"]
