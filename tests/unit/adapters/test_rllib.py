"""RLlib: what PPO learns from has the bonus of the true successors; episodes and returns stay as they were played."""

import random
from itertools import pairwise
from types import SimpleNamespace

import gymnasium
import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("ray.rllib")

from ray.rllib.algorithms.dqn import DQNConfig
from ray.rllib.algorithms.ppo import PPOConfig
from ray.rllib.algorithms.ppo.torch.ppo_torch_learner import PPOTorchLearner
from ray.rllib.core import DEFAULT_MODULE_ID, Columns

from optimist import bonuses
from optimist.adapters.rllib import BonusPPOTorchLearner, with_bonus
from optimist.adapters.rllib.actor import actor_of
from optimist.adapters.rllib.episodes import Chunk, stream_of
from optimist.adapters.rllib.host import require_minor
from optimist.adapters.spaces import action_reader, space_reader
from rllib_tasks import ACTIONS, STATES, batch_of, counting, learner, ppo, walked

READ, READ_ACTIONS = space_reader(STATES), action_reader(ACTIONS)


def chunk(episode, start, stop, *, terminated=False):
    """The steps of an episode whose states are its hundred and the time: from ``start`` to ``stop``."""
    states = np.arange(start, stop + 1, dtype=np.float32).reshape(-1, 1) + 100 * episode
    return Chunk(str(episode), start, states, np.arange(start, stop) % 2, terminated)


def rewards_of(batch):
    return batch[Columns.REWARDS].flatten().tolist()


@given(lengths=st.lists(st.integers(1, 6), min_size=1, max_size=4), seed=st.integers(0, 99))
def test_however_learners_share_episodes_out_the_stream_has_every_step_once_and_every_end(lengths, seed):
    rng = random.Random(seed)
    chunks = []
    for episode, length in enumerate(lengths):
        cuts = sorted(rng.sample(range(1, length), rng.randint(0, length - 1)))
        edges = [0, *cuts, length]
        chunks += [
            chunk(episode, start, stop, terminated=stop == length and episode % 2 == 0)
            for start, stop in pairwise(edges)
        ]
    rng.shuffle(chunks)
    stream = stream_of(chunks, READ, READ_ACTIONS)
    rows = stream.transitions
    for start, piece in zip(stream.starts, chunks, strict=True):
        mine = slice(start, start + len(piece))
        assert rows.observations[mine, 0].tolist() == piece.observations[:-1].tolist()
        assert rows.next_observations[mine, 0].tolist() == piece.observations[1:].tolist()
        assert rows.actions[mine, 0].tolist() == piece.actions.tolist()
    assert rows.steps == sum(lengths)
    after = rows.next_observations[:, 0, 0]
    ends = [100 * episode + length for episode, length in enumerate(lengths)]
    assert sorted(after[rows.ended[:, 0]].tolist()) == ends  # a cut within what is there is no end
    assert sorted(after[rows.terminated[:, 0]].tolist()) == ends[::2]


def test_ppo_learns_from_the_reward_and_the_bonus_of_the_true_successors():
    made = counting(weight=10.0, extrinsic_weight=2.0)
    episodes = [
        walked([0, 1, 2], rewards=[0.0, 3.0], terminated=True),  # its final observation, 2, was seen nowhere else
        walked([0, 1, 91], rewards=[0.5, 0.0], truncated=True),
        walked([5, 5], rewards=[1.0]),  # cut by the end of the batch
    ]
    batch = batch_of(made, episodes)
    # 10 / n for the n-th visit of the state after the step, and 2 x the reward; the step that RLlib adds earns nothing.
    assert rewards_of(batch) == [10.0, 10.0 + 6.0, 0.0, 5.0 + 1.0, 5.0, 0.0, 10.0 + 2.0, 0.0]
    assert [episode.get_rewards().tolist() for episode in episodes] == [[0.0, 3.0, 0.0], [0.5, 0.0, 0.0], [1.0, 0.0]]
    assert made.intrinsic.bonus.seen == {(1.0,): 2, (2.0,): 1, (91.0,): 2, (5.0,): 1}


def test_arrays_from_the_object_store_which_nobody_may_write_are_read_all_the_same():
    made = counting()
    episode = walked([0, 1, 2])
    for buffer in (episode.observations, episode.actions, episode.rewards):
        buffer.data.setflags(write=False)
    assert rewards_of(batch_of(made, [episode])) == [1.0, 1.0, 0.0]


def test_a_weight_of_zero_does_not_read_the_reward():
    made = counting(extrinsic_weight=0.0)
    assert rewards_of(batch_of(made, [walked([0, 1], rewards=[float("inf")])])) == [1.0, 0.0]


def test_the_first_rollout_teaches_and_earns_nothing():
    made = learner(with_bonus(ppo(), "rnd", seed=3))
    first = [walked(np.linspace(0, 50, 120), rewards=[1.0] * 119)]
    assert rewards_of(batch_of(made, first)) == [1.0] * 119 + [0.0]
    assert made.intrinsic.updates == 1
    later = rewards_of(batch_of(made, [walked(np.linspace(50, 100, 120))]))
    assert min(later[:-1]) > 0


def test_the_bonus_is_that_of_the_library_by_itself():
    """An oracle: the same bonus, driven by hand with transitions written down by hand."""
    made = learner(with_bonus(ppo(), "rnd", seed=3, normalize=False))
    alone = bonuses.make("rnd", seed=3, observation_shape=(1,), actions=READ_ACTIONS.kind)
    rollouts = [[chunk(0, 0, 40)], [chunk(1, 0, 30), chunk(2, 0, 10)]]
    streams = [stream_of(rollout, READ, READ_ACTIONS).transitions for rollout in rollouts]
    alone.warm_up(streams[0])
    alone.update(streams[0])
    expected = alone.compute(streams[1])[:, 0].numpy()
    for rollout in rollouts:
        batch = batch_of(made, [walked(piece.observations[:, 0].tolist()) for piece in rollout])
    paid = np.array(rewards_of(batch))
    np.testing.assert_allclose(paid[[*range(30), *range(31, 41)]], expected, rtol=1e-5)


@pytest.mark.parametrize("name", ["acb", "elliptical", "rnd", "icm", "count", "acb*count"])
def test_every_lifelong_bonus_makes_ppo_learn_from_it(name):
    settings = {"sketch_size": 4} if name == "elliptical" else {}
    made = learner(with_bonus(ppo(), name, settings=settings))
    for k in range(3):
        episodes = [walked(np.linspace(k, 20 * (k + 1), 80)), walked([3, 4, 5], terminated=True)]
        told = made.update(episodes=episodes, timesteps={}, num_epochs=1, minibatch_size=16)[DEFAULT_MODULE_ID]
    numbers = {key: float(value.peek()) for key, value in told.items() if key.startswith(("bonus_", "intrinsic_"))}
    assert {"intrinsic_reward_mean", "intrinsic_reward_max"} < numbers.keys()
    assert numbers["intrinsic_reward_mean"] > 0
    assert np.isfinite(list(numbers.values())).all()


@pytest.mark.parametrize("name", ["e3b", "episodic-count", "own_bonuses:episodic"])
def test_an_episodic_bonus_needs_whole_episodes(name):
    with pytest.raises(ValueError, match="complete_episodes"):
        learner(with_bonus(ppo(), name))
    made = learner(with_bonus(ppo().env_runners(batch_mode="complete_episodes"), name, normalize=False))
    batch_of(made, [walked([7, 8], terminated=True)])
    paid = rewards_of(batch_of(made, [walked([0, 1, 1, 1], terminated=True), walked([0, 1, 1], truncated=True)]))
    assert paid[0] > paid[1] > 0
    assert paid[4] == pytest.approx(paid[0], rel=1e-4)  # another episode begins anew


@pytest.mark.parametrize("shared", [True, False])
def test_acb_looks_into_the_actor_that_is_trained(shared):
    made = learner(with_bonus(ppo(vf_share_layers=shared), settings={"auxiliary_rate": 1.0}))
    module = made.module[DEFAULT_MODULE_ID]
    states = torch.rand(6, 1)
    expected = module.forward_inference({Columns.OBS: states})[Columns.ACTION_DIST_INPUTS]
    torch.testing.assert_close(actor_of(module)(states), expected)
    assert not any("critic" in name or "vf" in name for name, _ in actor_of(module).named_parameters())
    other = learner(with_bonus(ppo(vf_share_layers=shared), settings={"auxiliary_rate": 1.0}))
    with torch.no_grad():
        next(other.module[DEFAULT_MODULE_ID].pi.parameters())[0].add_(0.3)  # one logit, not all of them alike
    raw = []
    for each in (made, other):
        for _ in range(2):  # ACB's own network takes over the weights of the policy after a rollout
            batch_of(each, [walked(np.linspace(0, 5, 50))])
        raw.append(each.intrinsic.raw(stream_of([chunk(0, 0, 9)], READ, READ_ACTIONS).transitions))
    assert not torch.allclose(*raw)


@pytest.mark.parametrize(
    ("observations", "actions"),
    [
        (gymnasium.spaces.Box(0, 1, (4,), np.float32), gymnasium.spaces.Box(-1, 1, (2,), np.float32)),
        (gymnasium.spaces.Box(0, 1, (4,), np.float32), gymnasium.spaces.MultiDiscrete([2, 3])),
        (gymnasium.spaces.Box(0, 255, (42, 42, 3), np.uint8), gymnasium.spaces.Discrete(4)),
    ],
)
def test_acb_reads_every_kind_of_policy(observations, actions):
    config = with_bonus(
        PPOConfig().environment(observation_space=observations, action_space=actions), settings={"ensemble_size": 4}
    )
    made = learner(config, observations, actions)
    module = made.module[DEFAULT_MODULE_ID]
    states = np.stack([observations.sample() for _ in range(6)])
    acted = np.stack([actions.sample() for _ in range(5)])
    played = stream_of([Chunk("a", 0, states, acted, True)], made._read, made._read_actions).transitions
    # RLlib reads the image as it is, channels last; the bonus has it channels first.
    expected = module.forward_inference({Columns.OBS: torch.from_numpy(states[:-1]).float()})
    torch.testing.assert_close(
        actor_of(module)(played.observations[:, 0]), expected[Columns.ACTION_DIST_INPUTS], rtol=1e-4, atol=1e-5
    )
    made.intrinsic.learn_from(played)
    assert made.intrinsic.raw(played).isfinite().all()


def test_a_recurrent_policy_pays_into_its_padded_batch_and_says_what_acb_may_read():
    recurrent = ppo(use_lstm=True, max_seq_len=4, lstm_cell_size=8)
    with pytest.raises(ValueError, match="network='random'"):
        learner(with_bonus(recurrent, "acb"))
    assert learner(with_bonus(recurrent, "acb", network="random")).intrinsic.updates == 0
    made = learner(with_bonus(recurrent, "own_bonuses:counting", normalize=False))
    batch_of(made, [_with_state(made, walked([9, 9]))])
    batch = batch_of(made, [_with_state(made, walked([0, 1, 1, 1, 1, 1]))])
    assert batch[Columns.REWARDS].shape == (2, 4)
    assert rewards_of(batch) == pytest.approx([1, 1 / 2, 1 / 3, 1 / 4, 1 / 5, 0, 0, 0])


def _with_state(made, episode):
    state = made.module[DEFAULT_MODULE_ID].get_initial_state()
    steps = len(episode)
    leaves = {key: {k: np.stack([np.zeros(v.shape, np.float32)] * steps) for k, v in part.items()}
              if isinstance(part, dict) else np.stack([np.zeros(part.shape, np.float32)] * steps)
              for key, part in state.items()}  # fmt: skip
    from ray.rllib.env.utils.infinite_lookback_buffer import InfiniteLookbackBuffer

    episode.extra_model_outputs[Columns.STATE_OUT] = InfiniteLookbackBuffer(leaves, lookback=0)
    return episode


def test_the_state_of_a_learner_has_the_bonus_and_its_weights_alone_have_not():
    made = learner(with_bonus(ppo(), "rnd", seed=1))
    for k in range(2):
        batch_of(made, [walked(np.linspace(k, 30, 150))])
    other = learner(with_bonus(ppo(), "rnd", seed=1))
    other.set_state(made.get_state())
    again = [walked(np.linspace(2, 40, 60))]
    assert rewards_of(batch_of(made, [walked(np.linspace(2, 40, 60))])) == rewards_of(batch_of(other, again))
    assert "optimist_bonus" not in made.get_state(components="rl_module")
    stranger = learner(with_bonus(ppo(), "rnd", seed=2))
    with pytest.raises(ValueError, match="seed"):
        stranger.set_state(made.get_state())


def test_the_config_that_was_given_is_left_alone_and_a_learner_of_your_own_is_kept():
    class Own(BonusPPOTorchLearner):
        pass

    plain = ppo()
    changed = with_bonus(plain, "count", seed=4)
    assert changed.learner_class is BonusPPOTorchLearner
    assert plain.learner_class is PPOTorchLearner
    assert plain.learner_config_dict == {}
    assert with_bonus(plain.learners(learner_class=Own)).learner_class is Own


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: with_bonus(DQNConfig()), "PPOConfig"),
        (lambda: with_bonus(ppo(), bonuses.make("count", observation_shape=(1,))), "package.module:factory"),
        (lambda: with_bonus(ppo(), weigth=1), "weight"),
        (lambda: with_bonus(ppo(), discount=1.0), "discount"),
        (lambda: with_bonus(ppo(), network="live"), "'policy' or 'random'"),
        (lambda: learner(with_bonus(ppo(), "abc")), "there is no bonus"),
        (lambda: learner(ppo().learners(learner_class=BonusPPOTorchLearner)), "with_bonus"),
        (
            lambda: with_bonus(ppo().learners(learner_class=type("Own", (PPOTorchLearner,), {}))),
            "subclass of BonusPPOTorchLearner",
        ),
        (
            lambda: learner(with_bonus(ppo().learners(add_default_connectors_to_learner_pipeline=False))),
            "add_default_connectors",
        ),
    ],
)
def test_what_cannot_be_done_is_said(call, words):
    with pytest.raises((ValueError, TypeError), match=words):
        call()


def test_a_multi_agent_config_is_refused():
    config = ppo().multi_agent(policies={"a", "b"}, policy_mapping_fn=lambda agent, episode, **rest: agent)
    with pytest.raises(ValueError, match="single-agent"):
        BonusPPOTorchLearner(config=with_bonus(config)).build()


def test_a_connector_that_writes_rewards_itself_is_told():
    made = counting()
    pipeline = made._learner_connector
    with pytest.raises(ValueError, match="must not write them"):
        pipeline(rl_module=made.module, batch={Columns.REWARDS: {}}, episodes=[walked([0, 1])], shared_data={})


def test_another_minor_version_of_ray_is_refused():
    require_minor("2.60.3")
    with pytest.raises(ImportError, match=r"Ray 2\.60, got 2\.61"):
        require_minor("2.61.0")


def test_two_learners_score_all_episodes_as_one_would(monkeypatch):
    """The exchange itself, without processes: what the other learner sends comes before or after what this one has."""
    from optimist.adapters.rllib import learner as module

    mine, others = [chunk(0, 0, 2), chunk(1, 0, 3, terminated=True)], [chunk(0, 2, 5, terminated=True)]
    alone = counting()
    expected, _ = alone.scored([*mine, *others])
    for rank, (sent, place) in enumerate([(mine, slice(0, 2)), (others, slice(2, 3))]):
        made = counting()

        def gathered(everyone, own, sent=sent):
            assert own == sent
            everyone[:] = [mine, others]

        monkeypatch.setattr(
            module,
            "distributed",
            SimpleNamespace(get_world_size=lambda: 2, get_rank=lambda rank=rank: rank, all_gather_object=gathered),
        )
        made.config.num_learners = 2
        paid, _ = made.scored(sent)
        assert [piece.tolist() for piece in paid] == [piece.tolist() for piece in expected[place]]
        assert made.intrinsic.bonus.seen == alone.intrinsic.bonus.seen
