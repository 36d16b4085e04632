"""Recurrent policies: step by step, as sequences and as separate episodes they are one; they remember, and go on."""

import math
from dataclasses import replace
from itertools import pairwise

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium.spaces import Discrete as DiscreteSpace
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from torch import nn

from optimist.bonuses import Discrete, Transitions
from optimist.bonuses.features import make as make_features
from optimist.training.agent import make_agent
from optimist.training.config import Signal, TrainConfig
from optimist.training.distributions import Softmax
from optimist.training.environments import GymnasiumVector
from optimist.training.playback import play_back
from optimist.training.ppo import Trainer
from optimist.training.recurrence import (
    GRU,
    HIDDEN,
    LONGEST_MEMORY,
    SEEN,
    episode_starts,
    sequences_of,
    with_hidden,
)
from optimist.training.rollout import collect
from optimist.training.runs import run as runs
from optimist.training.runs.episodes import Episodes
from optimist.training.runs.metrics_log import read_metrics
from optimist.training.runs.timer import Timer

WIDTH, BLANK = 12, 2
BONUSES = ("elliptical", "rnd", "acb*episodic-count")


class Recall(gymnasium.Env):
    """Shows 0 or 1 once, then nothing but ``BLANK``, and pays 1 if the last of ``delay`` + 1 actions names it.

    Whoever forgets is right half of the time.
    """

    observation_space, action_space = DiscreteSpace(3), DiscreteSpace(2)

    def __init__(self, delay):
        self.delay = delay

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.cue, self.time = int(self.np_random.integers(2)), 0
        return self.cue, {}

    def step(self, action):
        over = self.time == self.delay
        self.time += 1
        return BLANK, float(over and action == self.cue), over, False, {}


def recall(count, mode="SAME_STEP", delay=3, lengths=False):
    makers = [lambda k=k: Recall(delay + k % 3 if lengths else delay) for k in range(count)]
    return SyncVectorEnv(makers, autoreset_mode=AutoresetMode[mode])


CONFIG = TrainConfig(
    env=f"{__name__}:recall",
    bonus="none",
    recurrent=True,
    n_envs=8,
    steps=16,
    total_steps=4 * 128,
    checkpoint_every=128,
    epochs=4,
    minibatches=2,
    learning_rate=1e-2,
    entropy_weight=0.01,
    extrinsic=Signal(1.0, 0.95, True),
    clip_rewards=False,
    normalize_advantages=True,
    max_gradient_norm=0.5,
    width=WIDTH,
    warm_up_steps=8,
    device="cpu",
    threads=1,
)


CUES = Discrete(3)


def recurrent_agent(shape=CUES, **given):
    generator = torch.Generator().manual_seed(0)
    agent = make_agent(
        shape, 2, network="auto", activation="tanh", width=WIDTH, generator=generator, recurrent=True, **given
    )
    with torch.no_grad():  # outputs and values that can be told apart: the gains of actor and heads are small
        agent.policy.actor[-1].weight.mul_(100)
        agent.values.weight.mul_(100)
    return agent


def drawn(steps=11, n=5, seed=0):
    generator = torch.Generator().manual_seed(seed)
    observations = torch.randint(3, (steps, n), generator=generator)
    starts = torch.rand(steps, n, generator=generator) < 0.3
    return observations, torch.randn(n, WIDTH, generator=generator), starts


def test_the_gru_is_pytorchs():
    gru, x, h = GRU(7, WIDTH, generator=torch.Generator().manual_seed(0)), torch.randn(4, 7), torch.randn(4, WIDTH)
    theirs = nn.GRUCell(7, WIDTH)
    with torch.no_grad():
        gru.inputs.bias.normal_()
        gru.recurrent.bias.normal_()
        theirs.weight_ih.copy_(gru.inputs.weight)
        theirs.weight_hh.copy_(gru.recurrent.weight)
        theirs.bias_ih.copy_(gru.inputs.bias)
        theirs.bias_hh.copy_(gru.recurrent.bias)
    torch.testing.assert_close(gru(x, h), theirs(x, h))


def test_a_fresh_gru_remembers_a_sight_for_as_long_as_a_rollout():
    """Two sights, then nothing for 30 steps: with biases of 0, that is z = 1/2, less than 1e-5 would be left."""
    gru = GRU(7, 64, generator=torch.Generator().manual_seed(0))
    hidden = gru(torch.eye(7)[:2], torch.zeros(2, 64))
    first = (hidden[0] - hidden[1])[-16:].norm()
    for _ in range(30):
        hidden = gru(torch.zeros(2, 7), hidden)
    assert (hidden[0] - hidden[1])[-16:].norm() > 0.3 * first  # the slowest units
    keep = torch.sigmoid(gru.inputs.bias.detach()[64:128])
    assert keep[0] == 0.5  # and the fastest unit looks at what is there
    assert keep[-1] ** LONGEST_MEMORY == pytest.approx(math.exp(-1), rel=0.02)


def test_a_sequence_is_its_steps_one_after_the_other():
    """The slow oracle: one observation at a time, the hidden state set to 0 by hand where an episode starts."""
    agent, (observations, hidden, starts) = recurrent_agent(), drawn()
    outputs, values = agent.sequence(observations, hidden, starts)
    for t in range(len(observations)):
        hidden = torch.where(starts[t].unsqueeze(1), torch.zeros_like(hidden), hidden)
        one_output, features, hidden = agent.step(observations[t], hidden)
        one_value = agent.valued(features)
        torch.testing.assert_close(outputs[t], one_output)
        torch.testing.assert_close(values[t], one_value)
    assert outputs.std() > 0.1


def test_episodes_of_one_sequence_are_read_as_if_each_were_alone():
    agent, (observations, hidden, starts) = recurrent_agent(), drawn()
    outputs, values = agent.sequence(observations, hidden, starts)
    for n in range(observations.shape[1]):
        cuts = [0, *(t for t in range(1, len(observations)) if starts[t, n]), len(observations)]
        for first, last in pairwise(cuts):
            begun = torch.zeros(1, WIDTH) if first or starts[0, n] else hidden[n : n + 1]
            alone = observations[first:last, n : n + 1]
            one_outputs, one_values = agent.sequence(alone, begun, torch.zeros_like(alone, dtype=torch.bool))
            torch.testing.assert_close(outputs[first:last, n : n + 1], one_outputs)
            torch.testing.assert_close(values[first:last, n : n + 1], one_values)


def test_gradients_flow_back_through_time_and_not_over_the_start_of_an_episode():
    agent = recurrent_agent((4,))
    observations = torch.randn(6, 2, 4, requires_grad=True)
    starts = torch.zeros(6, 2, dtype=torch.bool)
    starts[3, 1] = True
    outputs, _ = agent.sequence(observations, torch.zeros(2, WIDTH), starts)
    outputs[5].sum().backward()
    reached = observations.grad.abs().sum(2) > 0
    assert bool(reached[:, 0].all())
    assert reached[:, 1].tolist() == [False, False, False, True, True, True]


@pytest.mark.parametrize("mode", list(AutoresetMode.__members__))
def test_a_rollout_carries_the_hidden_state_within_episodes_and_over_rollouts(mode):
    """What collect remembers is what the sequences of the update compute, and what an oracle of each episode says."""
    agent, envs = recurrent_agent(), GymnasiumVector(recall(4, mode, lengths=True))
    observations, hidden, generator = envs.reset(0), None, torch.Generator().manual_seed(0)
    oracle = torch.zeros(4, WIDTH)
    for _ in range(3):
        rollout, observations = collect(
            agent, envs, observations, steps=7, cut=False, distribution=Softmax(2), generator=generator,
            episodes=Episodes(4), timer=Timer(), first_step=0, hidden=hidden,
        )  # fmt: skip
        played, hidden = rollout.transitions, rollout.hidden_after
        valid = torch.ones(7, 4, dtype=torch.bool) if played.valid is None else played.valid
        assert (mode == "NEXT_STEP") == (not bool(valid.all()))
        for t in range(7):
            first = played.observations[t] != BLANK  # the cue is shown at the start of an episode alone
            oracle = torch.where(first.unsqueeze(1), torch.zeros_like(oracle), oracle)
            real = valid[t]
            torch.testing.assert_close(rollout.hidden[t][real], oracle[real])
            _, features, oracle = agent.step(played.observations[t], oracle)
            values = agent.valued(features)
            torch.testing.assert_close(rollout.values[t][real], values[real])
            torch.testing.assert_close(rollout.next_hidden[t][real], oracle[real])
        logs, gains, targets = rollout.log_probabilities, torch.zeros(7, 4), torch.zeros(7, 4, 2)
        whole = sequences_of(played, rollout.hidden[0], logs, gains, targets)
        batch = whole.rows(torch.arange(4), torch.device("cpu"))
        outputs, values = batch.evaluated_by(agent)
        torch.testing.assert_close(values, rollout.values[valid])
        torch.testing.assert_close(Softmax(2).log_probability(outputs, batch.actions), batch.log_probabilities)
        assert bool(episode_starts(played)[1:].any())
    envs.close()


def test_a_truncated_step_is_valued_by_its_final_observation_with_what_was_remembered_then():
    agent, envs = recurrent_agent(), GymnasiumVector(recall(2, delay=30))
    rollout, _ = collect(
        agent, envs, envs.reset(0), steps=5, cut=True, distribution=Softmax(2),
        generator=torch.Generator().manual_seed(0), episodes=Episodes(2), timer=Timer(), first_step=0,
    )  # fmt: skip
    assert bool(rollout.transitions.truncated[-1].all())
    features = agent.step(rollout.transitions.next_observations[-1], rollout.next_hidden[-1])[1]
    expected = agent.valued(features)
    torch.testing.assert_close(rollout.successor_values[-1], expected)


def test_minibatches_are_whole_environments():
    agent, (observations, hidden, _) = recurrent_agent(), drawn(steps=6, n=5)
    valid = torch.rand(6, 5, generator=torch.Generator().manual_seed(1)) < 0.8
    actions = torch.arange(30).view(6, 5)
    flags = torch.zeros(6, 5, dtype=torch.bool)
    played = Transitions(observations, actions, observations, flags, flags, valid)
    whole = sequences_of(played, hidden, actions.float(), actions.float(), torch.stack([actions.float()] * 2, -1))
    assert len(whole) == 5
    assert whole.returns.shape == (int(valid.sum()), 2)
    some = whole.rows(torch.tensor([4, 1]), torch.device("cpu"))
    assert some.actions.tolist() == actions[:, [4, 1]][valid[:, [4, 1]]].tolist()
    outputs, _ = agent.sequence(observations, hidden, episode_starts(played))
    torch.testing.assert_close(some.evaluated_by(agent)[0], outputs[:, [4, 1]][valid[:, [4, 1]]])
    with pytest.raises(ValueError, match="minibatches of a recurrent policy are whole environments, and 4"):
        replace(CONFIG, n_envs=4, minibatches=5)


@pytest.mark.parametrize("features", ["gradient", "sketch", "penultimate"])
def test_acbs_features_are_of_observation_and_hidden_state_together(features):
    """Against autograd, one state at a time; and another memory of the same observation is another state."""
    agent = recurrent_agent()
    seen, hidden = torch.tensor([0, 0, 2, 2]), torch.randn(4, WIDTH, generator=torch.Generator().manual_seed(2))
    states = with_hidden(seen, hidden)
    example = {name: part[:1] * 0 for name, part in states.items()}
    made = make_features(features, agent.policy, example, seed=0, feature_loss="argmax")
    rows = made(states).dense()
    assert len(rows.unique(dim=0)) == 4
    if features == "gradient":
        for k in range(4):
            agent.zero_grad()
            logits = agent.policy(with_hidden(seen[k : k + 1], hidden[k : k + 1]))
            nn.functional.cross_entropy(logits, logits.argmax(1)).backward()
            found = dict(agent.policy.named_parameters())
            expected = torch.cat([found[name].grad.flatten() for name in made.names])
            torch.testing.assert_close(rows[k], expected, rtol=1e-4, atol=1e-6)
        assert {"memory.inputs.weight", "memory.recurrent.weight"} <= set(made.names)
        assert {"memory.inputs", "memory.recurrent"} <= set(made.plan.layers)  # by products, not one state at a time


@pytest.mark.parametrize("bonus", BONUSES)
def test_every_bonus_works_beside_a_recurrent_policy(bonus):
    options = ("acb.ensemble_size=8", "acb.sketch_size=8") if "*" in bonus else ()
    trainer = Trainer(replace(CONFIG, bonus=bonus, bonus_options=options, env_options=("mode=NEXT_STEP",)))
    trainer.start()
    rows = [trainer.iterate() for _ in range(2)]
    assert rows[0]["bonus_mean"] > 0
    assert all(np.isfinite(row["policy_loss"]) for row in rows)
    assert rows[1]["unique_states"] == 3  # states are counted by what is seen


def test_the_bonus_of_a_rollout_reads_the_hidden_states_that_were_there():
    trainer = Trainer(replace(CONFIG, bonus="acb", bonus_options=("ensemble_size=8", "sketch_size=8")))
    trainer.start()
    seen, original = [], trainer.bonus.compute
    trainer.bonus.compute = lambda transitions: seen.append(transitions) or original(transitions)
    trainer.iterate()
    states = seen[0].next_observations
    assert states.keys() == {SEEN, HIDDEN}
    assert states[HIDDEN].shape == (16, 8, WIDTH)
    blank = states[SEEN] == BLANK
    # One observation and eight states: two cues, seen one to four steps ago.
    memories, which = states[HIDDEN][blank].unique(dim=0, return_inverse=True)
    assert len(memories) == 8
    bonuses = original(seen[0])[blank]
    means = torch.stack([bonuses[which == k].mean() for k in range(8)])
    torch.testing.assert_close(bonuses, means[which], rtol=1e-3, atol=1e-6)
    assert len(means.unique()) == 8


@pytest.mark.parametrize("recurrent", [True, False])
def test_what_must_be_remembered_is_learned_with_a_memory_and_not_without(recurrent):
    trainer = Trainer(replace(CONFIG, recurrent=recurrent, n_envs=16))
    trainer.start()
    success = [trainer.iterate()["return_mean"] for _ in range(20)]
    if recurrent:
        assert success[-1] > 0.9
    else:  # a coin: the mean of 100 episodes deviates by 0.05
        assert max(success[5:]) < 0.75


@pytest.mark.parametrize("env", ["CombinationLock", CONFIG.env])
def test_a_resumed_run_remembers_what_one_that_went_through_does(env, tmp_path):
    """Environments that are saved in the middle of their episodes, and ones that restart."""
    options = ("horizon=7",) if env == "CombinationLock" else ()
    config = replace(CONFIG, env=env, env_options=options, bonus="acb", steps=10, checkpoint_every=80, total_steps=240)
    runs.train(config, tmp_path / "whole")
    runs.train(replace(config, total_steps=160), tmp_path / "run")
    runs.resume(tmp_path / "run", total_steps=240)
    whole, resumed = (read_metrics(tmp_path / name / "metrics.csv") for name in ("whole", "run"))
    for name in ("policy_loss", "value_loss_extrinsic", "bonus_mean", "entropy"):
        np.testing.assert_array_equal(whole[name], resumed[name])
    game = play_back(tmp_path / "run", steps=9, n_envs=2, greedy=True).games[1]
    assert len(game) == 9
    assert np.ptp(game.bonuses) > 0


def test_a_memory_goes_between_features_and_actor():
    with pytest.raises(ValueError, match="return features, no pair"):
        Trainer(replace(CONFIG, env="MiniGrid-Empty-5x5-v0", network="own_networks:attention"))
    trainer = Trainer(replace(CONFIG, env="CartPole-v1", network="own_networks:residual", normalize_observations=True))
    trainer.start()
    assert np.isfinite(trainer.iterate()["policy_loss"])
