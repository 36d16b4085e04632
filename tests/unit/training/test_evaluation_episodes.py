"""Evaluation episodes: what they measure, that training does not notice them, and that a resumed run has the same."""

import math
import signal
from dataclasses import replace

import numpy as np
import pytest
import torch

from optimist.training import Interrupted, read_metrics
from optimist.training.agent import make_agent
from optimist.training.config import TrainConfig
from optimist.training.distributions import Greedy, distribution_of
from optimist.training.environments import make
from optimist.training.environments.deep_sea import DeepSea
from optimist.training.evaluation import COLUMNS, Evaluation, play_episodes
from optimist.training.ppo import Trainer
from optimist.training.runs import checkpoints
from optimist.training.runs import run as runs

SMALL = TrainConfig(
    env="DeepSea-6",
    total_steps=320,
    n_envs=4,
    steps=8,
    minibatches=2,
    epochs=1,
    warm_up_steps=8,
    width=8,
    learning_rate=1e-2,
    eval_every=64,
    eval_episodes=5,
    threads=1,
)
POLE = replace(SMALL, env="CartPole-v1", recurrent=True, restart_every=24, bonus="rnd")
CONFIGS = {"sea": SMALL, "pole, recurrent": POLE}


def told(folder, *, evaluations):
    columns = read_metrics(folder / "metrics.csv")
    return {
        name: values.tolist()
        for name, values in columns.items()
        if "second" not in name and (evaluations or not name.startswith("evaluation/"))
    }


@pytest.mark.parametrize("config", CONFIGS.values(), ids=CONFIGS)
def test_training_does_not_notice_that_it_is_evaluated(config, tmp_path):
    runs.train(config, tmp_path / "evaluated")
    runs.train(replace(config, eval_every=0), tmp_path / "not")
    runs.train(replace(config, eval_every=32, eval_episodes=2), tmp_path / "often")
    expected = told(tmp_path / "not", evaluations=True)
    assert not any(name.startswith("evaluation/") for name in expected)
    for other in ("evaluated", "often"):
        np.testing.assert_equal(told(tmp_path / other, evaluations=False), expected)
    columns = read_metrics(tmp_path / "evaluated/metrics.csv")
    steps = columns["step"][np.isfinite(columns["evaluation/greedy_return"])]
    assert steps.tolist() == [64, 128, 192, 256, 320]
    assert set(COLUMNS) <= columns.keys()


def test_the_end_is_evaluated_wherever_it_is(tmp_path):
    runs.train(replace(SMALL, eval_every=10**6), tmp_path)
    columns = read_metrics(tmp_path / "metrics.csv")
    assert columns["step"][np.isfinite(columns["evaluation/sampled_length"])].tolist() == [320]


@pytest.mark.parametrize("config", CONFIGS.values(), ids=CONFIGS)
def test_a_run_that_is_interrupted_in_an_evaluation_goes_on_with_that_evaluation(config, tmp_path, monkeypatch):
    runs.train(config, tmp_path / "whole")
    measure, begun = Evaluation.measure, []

    def interrupted(self, agent, distribution, step, *, check):
        begun.append(step)
        if step == 128:
            signal.raise_signal(signal.SIGTERM)
        return measure(self, agent, distribution, step, check=check)

    with monkeypatch.context() as patch:
        patch.setattr(Evaluation, "measure", interrupted)
        with pytest.raises(Interrupted, match="stopped at step 128 of 320"):
            runs.train(config, tmp_path / "run")
    assert begun == [64, 128]
    step, state = checkpoints.newest(tmp_path / "run/checkpoints")
    assert step == 128
    assert state["unwritten"]["episodes"] >= 0
    assert len((tmp_path / "run/metrics.csv").read_text().splitlines()) == 1 + 3  # the fourth row is not written yet
    runs.resume(tmp_path / "run")
    np.testing.assert_equal(told(tmp_path / "run", evaluations=True), told(tmp_path / "whole", evaluations=True))
    assert checkpoints.newest(tmp_path / "run/checkpoints")[1]["unwritten"] == {}


@pytest.mark.parametrize("at", [96, 128, 320])
def test_a_run_that_is_stopped_elsewhere_has_the_same_evaluations(at, tmp_path):
    runs.train(SMALL, tmp_path / "whole")
    runs.train(SMALL, tmp_path / "run", callbacks=[lambda moment: moment.step == at and moment.stop()])
    runs.resume(tmp_path / "run")
    np.testing.assert_equal(told(tmp_path / "run", evaluations=True), told(tmp_path / "whole", evaluations=True))


def test_an_interrupt_in_the_last_evaluation_leaves_it_to_the_resumed_run(tmp_path, monkeypatch):
    runs.train(SMALL, tmp_path / "whole")

    def interrupted(self, agent, distribution, step, *, check):
        if step == 320:
            signal.raise_signal(signal.SIGINT)
            check()
        return dict.fromkeys(COLUMNS, 0.0)

    with monkeypatch.context() as patch:
        patch.setattr(Evaluation, "measure", interrupted)
        with pytest.raises(Interrupted):
            runs.train(SMALL, tmp_path / "run")
    runs.resume(tmp_path / "run")
    rows, whole = (read_metrics(tmp_path / name / "metrics.csv") for name in ("run", "whole"))
    assert rows["step"].tolist() == whole["step"].tolist()
    for name in COLUMNS[:-1]:
        np.testing.assert_equal(rows[name][-1], whole[name][-1])


def one_agent(env, n_envs, *, recurrent=False):
    pool = make(env, n_envs=n_envs)
    distribution = distribution_of(pool.actions)
    agent = make_agent(
        pool.observation_shape,
        distribution.outputs,
        network="auto",
        activation="relu",
        width=16,
        generator=torch.Generator().manual_seed(4),
        recurrent=recurrent,
    )
    return agent, pool, distribution


@pytest.mark.parametrize("recurrent", [False, True])
@pytest.mark.parametrize("kind", ["greedy", "sampled"])
@pytest.mark.parametrize("env", ["DeepSea-6", "CartPole-v1", "gymnasium:CartPole-v1", "MountainCarContinuous-v0"])
def test_every_environment_gives_its_first_episode_and_no_other(env, kind, recurrent):
    """The oracle plays the same actions and adds rewards up, environment by environment, until each ends once."""
    agent, pool, distribution = one_agent(env, 6, recurrent=recurrent)
    family, played = Greedy(distribution) if kind == "greedy" else distribution, []
    step = pool.step
    pool.step = lambda actions: played.append(step(actions)) or played[-1]
    generator = torch.Generator().manual_seed(0)
    returns, lengths, running = play_episodes(agent, pool, family, seed=3, generator=generator)
    pool.close()
    assert not running.any()
    for k in range(6):
        total, length = 0.0, 0
        for answer in played:
            if answer.valid is None or answer.valid[k]:
                total, length = total + float(answer.rewards[k]), length + 1
            if answer.terminated[k] or answer.truncated[k]:
                break
        assert length == lengths[k]
        assert math.isclose(total, returns[k], rel_tol=1e-9, abs_tol=1e-9)
    assert len(played) == lengths.max()


@pytest.mark.parametrize("kind", ["greedy", "sampled"])
def test_greedy_takes_the_most_likely_action_and_sampled_draws(kind):
    agent, pool, distribution = one_agent("DeepSea-6", 8)
    family, step, taken = Greedy(distribution) if kind == "greedy" else distribution, pool.step, []
    pool.step = lambda actions: taken.append(actions.copy()) or step(actions)
    play_episodes(agent, pool, family, seed=0, generator=torch.Generator().manual_seed(0))
    alike = all((actions == actions[0]).all() for actions in taken)  # all start alike: greedy ones stay together
    assert alike == (kind == "greedy")


class Endless(DeepSea):
    """A sea whose dives never end."""

    def step(self, actions):
        answer = super().step(actions)
        return replace(answer, terminated=np.zeros(self.n_envs, bool), truncated=np.zeros(self.n_envs, bool))


def test_an_episode_that_does_not_end_is_counted_as_unfinished_and_as_no_success(monkeypatch):
    monkeypatch.setattr("optimist.training.evaluation.MOST_STEPS", 50)
    trainer = Trainer(replace(SMALL, bonus="none"))
    measured = Evaluation(SMALL, lambda n: Endless(6, n_envs=n)).measure(
        trainer.agent, trainer.distribution, 0, check=lambda: None
    )
    for kind in ("greedy", "sampled"):
        assert measured[f"evaluation/{kind}_unfinished"] == 5
        assert measured[f"evaluation/{kind}_length"] == 50
        assert measured[f"evaluation/{kind}_success"] == 0


def test_success_is_the_share_of_episodes_above_the_success_return():
    """A uniform policy finds the treasure of DeepSea-3 with probability 1/8; 800 episodes."""
    config = replace(SMALL, env="DeepSea-3", bonus="none", eval_episodes=800)
    trainer = Trainer(config)
    with torch.no_grad():
        trainer.agent.policy.actor[-1].weight.zero_()
        trainer.agent.policy.actor[-1].bias.zero_()
    evaluation = Evaluation(config, trainer.make_environments)
    measured = evaluation.measure(trainer.agent, trainer.distribution, 0, check=lambda: None)
    # The deviation of the share is sqrt(1/8 7/8 / 800); 5 of them is a false alarm in 2 million.
    assert abs(measured["evaluation/sampled_success"] - 1 / 8) < 5 * math.sqrt(7 / 64 / 800)
    assert measured["evaluation/sampled_length"] == 3
    assert measured["evaluation/greedy_success"] in (0, 1)
