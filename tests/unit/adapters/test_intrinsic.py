"""The piece all adapters share: scoring, scaling, the schedule of training, and a state that leaves nothing out."""

import itertools
from dataclasses import dataclass, field

import pytest
import torch

from optimist import bonuses
from optimist.adapters.building import bonus_for, random_policy
from optimist.adapters.intrinsic import IntrinsicConfig, IntrinsicReward
from optimist.bonuses import Bonus, Transitions
from optimist.training.runs.serialization import NotAStateFile


@dataclass
class Recorder(Bonus):
    """A bonus that is its successor itself, and remembers what it was given."""

    updates: list = field(default_factory=list)
    warm_ups: list = field(default_factory=list)

    def compute(self, transitions):
        values = transitions.next_observations[..., 0]
        return values if transitions.valid is None else values * transitions.valid

    def update(self, transitions):
        self.updates.append(transitions.next_observations[..., 0].clone())
        return {"seen": float(transitions.actions.numel())}

    def warm_up(self, transitions):
        self.warm_ups.append(transitions.next_observations[..., 0].clone())

    def state_dict(self):
        return {"updates": len(self.updates)}

    def load_state_dict(self, state):
        self.updates = [None] * state["updates"]


def rollout(start, steps=1, n_envs=2, valid=None, ended=False):
    """Transitions whose successors count up from ``start``, time first."""
    after = start + torch.arange(steps * n_envs, dtype=torch.float32).reshape(steps, n_envs, 1)
    flags = torch.full((steps, n_envs), ended)
    return Transitions(after - 1, torch.zeros(steps, n_envs, dtype=torch.int64), after, flags, flags, valid)


def plain(bonus, **overrides):
    settings = {"normalize": False, "learning_starts": 0, "train_every": 4, "batch_size": 4}
    return IntrinsicReward(bonus, **(settings | overrides))


def test_it_learns_from_every_step_once_in_order_when_due():
    bonus = Recorder()
    intrinsic = plain(bonus, train_every=6, batch_size=4)
    answers = [intrinsic.observe(rollout(2.0 * k)) for k in range(7)]
    assert [bool(answer) for answer in answers] == [False, False, True, False, False, True, False]
    assert [tuple(piece.shape) for piece in bonus.updates] == [(2, 2), (1, 2)] * 2  # at most 4 steps an update
    assert torch.cat(bonus.updates).flatten().tolist() == list(range(12))
    assert (intrinsic.steps, intrinsic.updates) == (14, 4)


def test_step_by_step_it_learns_when_the_next_step_comes():
    bonus = Recorder()
    intrinsic = plain(bonus, learning_starts=3, train_every=4)
    rewards = [intrinsic.step(rollout(2.0 * k + 1)).flatten().tolist() for k in range(8)]
    assert rewards == [[0, 0], [0, 0], *([2 * k + 1, 2 * k + 2] for k in range(2, 8))]
    assert torch.cat(bonus.warm_ups).flatten().tolist() == [1, 2, 3, 4]
    assert torch.cat(bonus.updates).flatten().tolist() == [5, 6, 7, 8, 9, 10, 11, 12]
    assert (intrinsic.steps, intrinsic.updates) == (16, 2)  # four steps wait
    intrinsic.training = False
    assert intrinsic.step(rollout(1.0)).any()
    assert (intrinsic.steps, intrinsic.updates) == (16, 2)


@pytest.mark.parametrize("train_every", [1, 4, 100])
def test_an_episode_that_is_cut_is_over_for_the_bonus(train_every):
    bonus = bonus_for("episodic-count", observation_shape=bonuses.Discrete(2), actions=None, seed=0, settings={})
    intrinsic = plain(bonus, train_every=train_every)
    x = torch.zeros(1, 3, dtype=torch.int64)
    never = torch.zeros(1, 3, dtype=torch.bool)
    ends = torch.tensor([[False, False, True]])
    step, last = (Transitions(x, x, x, flags, never) for flags in (never, ends))
    assert intrinsic.step(step).tolist() == [[1, 1, 1]]
    assert torch.allclose(intrinsic.step(last), torch.full((1, 3), 0.5**0.5))
    intrinsic.end_episodes(torch.tensor([True, False, True]))
    assert intrinsic.state_dict()["pending"]["truncated"][-1].tolist() == [True, False, False]  # the last had ended
    assert torch.allclose(intrinsic.step(step), torch.tensor([1.0, 3.0, 1.0]).rsqrt())


def test_steps_that_only_reset_count_for_nothing_and_earn_nothing():
    bonus = Recorder()
    intrinsic = plain(bonus, train_every=4)
    half = torch.tensor([[True, False]])
    assert intrinsic.reward(rollout(5.0, valid=half)).tolist() == [[5.0, 0.0]]
    assert not any(intrinsic.observe(rollout(5.0, valid=half)) for _ in range(3))
    assert intrinsic.observe(rollout(5.0))  # 3 + 2 valid steps: some are valid by saying nothing
    assert intrinsic.steps == 5


def test_first_steps_only_warm_up():
    bonus = Recorder()
    intrinsic = plain(bonus, learning_starts=6, train_every=4)
    rewards = []
    for k in range(6):
        rewards += intrinsic.reward(rollout(2.0 * k + 1)).flatten().tolist()
        intrinsic.observe(rollout(2.0 * k + 1))
    assert rewards == [0.0] * 6 + [7.0, 8.0, 9.0, 10.0, 11.0, 12.0]
    assert torch.cat(bonus.warm_ups).flatten().tolist() == [1, 2, 3, 4, 5, 6]
    assert torch.cat(bonus.updates).flatten().tolist() == [7, 8, 9, 10]


def test_rewards_are_scaled_by_the_deviation_of_their_sums_over_time():
    intrinsic = plain(Recorder(), normalize=True, discount=0.75, memory_steps=0, weight=3.0)
    rewards = [intrinsic.reward(rollout(float(start))) for start in (1, 5, 2, 8, 4)]
    oracle, sums = torch.zeros(2), []
    for start in (1, 5, 2, 8, 4):
        oracle = 0.75 * oracle + torch.tensor([start, start + 1.0])
        sums.append(oracle)
    for k, reward in enumerate(rewards):
        if k < 3:  # 1 / (1 - 0.75) steps fill a sum; the deviation of one sample would be 0
            assert not reward.any()
        else:
            expected = 3 * torch.tensor([(8.0, 9.0), (4.0, 5.0)][k - 3]) / torch.cat(sums[: k + 1]).std(correction=0)
            assert torch.allclose(reward[0], expected)


def test_nothing_moves_when_training_is_off():
    intrinsic = plain(Recorder(), normalize=True, discount=0.5)
    for k in range(4):
        intrinsic.reward(rollout(float(k)))
    before = intrinsic.state_dict()
    intrinsic.training = False
    first, second = intrinsic.reward(rollout(3.0)), intrinsic.reward(rollout(3.0))
    assert first.any()
    assert torch.equal(first, second)
    assert not any(intrinsic.observe(rollout(3.0)) for _ in range(9))
    assert str(intrinsic.state_dict()) == str(before)


def test_weight_0_gives_exactly_nothing():
    assert not plain(Recorder(), weight=0.0).reward(rollout(5.0)).any()


@pytest.mark.parametrize("name", ["e3b", "count", "episodic-count", "count*episodic-count"])
def test_rewards_are_the_same_step_by_step_as_in_whole_rollouts(name):
    def made():
        bonus = bonus_for(
            name, observation_shape=(2,), actions=bonuses.DiscreteActions(3), seed=1, settings=SETTINGS.get(name, {})
        )
        return plain(bonus, train_every=20, batch_size=20)

    whole, stepwise = made(), made()
    x = torch.randn(21, 2, 2, generator=torch.Generator().manual_seed(0)).round()
    actions = torch.zeros(20, 2, dtype=torch.int64)
    ended = torch.zeros(20, 2, dtype=torch.bool)
    ended[7, 0] = ended[12, 1] = True
    never = torch.zeros_like(ended)
    expected, got = [], []
    for part in (slice(0, 10), slice(10, 20)):
        expected.append(whole.reward(Transitions(x[:-1][part], actions[part], x[1:][part], ended[part], never[part])))
        whole.observe(Transitions(x[:-1][part], actions[part], x[1:][part], ended[part], never[part]))
    for t in range(20):
        step = Transitions(x[t : t + 1], actions[t : t + 1], x[t + 1 : t + 2], ended[t : t + 1], never[t : t + 1])
        got.append(stepwise.reward(step))
        stepwise.observe(step)
    assert whole.updates == stepwise.updates == 2  # 40 steps, 20 each
    assert torch.allclose(torch.cat(got), torch.cat(expected), rtol=1e-5, atol=1e-7)


SETTINGS = {"e3b": {"n_features": 8}}


def random_steps(count, generator, *, environments=3):
    for _ in range(count):
        x = {"a": torch.randn(2, environments, 2, generator=generator), "b": torch.randint(4, (2, environments))}
        ended = torch.rand(1, environments, generator=generator) < 0.1
        actions = torch.randn(1, environments, 2, generator=generator)
        before, after = ({key: part[k : k + 1] for key, part in x.items()} for k in range(2))
        yield Transitions(before, actions, after, ended, torch.zeros_like(ended), torch.ones_like(ended))


@pytest.mark.parametrize("name", ["acb", "rnd", "icm", "e3b", "count", "acb*episodic-count"])
def test_a_loaded_state_goes_on_bit_for_bit(name, tmp_path):
    settings = {"acb": {"sketch_size": 4, "ensemble_size": 8}, "e3b": {"n_features": 8}}.get(name, {})
    if name.startswith("acb*"):
        settings = {"acb.sketch_size": 4, "acb.ensemble_size": 8}

    def made(seed):
        shape = {"a": (2,), "b": bonuses.Discrete(4)}
        bonus = bonus_for(
            name, observation_shape=shape, actions=bonuses.ContinuousActions(2), seed=seed, settings=settings
        )
        return IntrinsicReward(bonus, seed=seed, learning_starts=9, train_every=24, discount=0.5)

    generator = torch.Generator().manual_seed(3)
    with torch.random.fork_rng(devices=[]):
        steps = list(random_steps(40, generator))
    original = made(seed=0)
    for step in steps[:20]:
        original.reward(step)
        original.observe(step)
    assert original.state_dict()["pending"]  # saved in the middle of collecting
    original.save(tmp_path / "deeper" / "bonus.safetensors")
    resumed = made(seed=0)
    resumed.load(tmp_path / "deeper" / "bonus.safetensors")
    for step in steps[20:]:
        expected, got = original.reward(step), resumed.reward(step)
        assert expected.any()
        assert torch.equal(expected, got)
        assert original.observe(step) == resumed.observe(step)
    with pytest.raises(ValueError, match="seed saved, 0, got one of 1"):
        made(seed=1).load(tmp_path / "deeper" / "bonus.safetensors")
    with pytest.raises(ValueError, match="got one of none"):
        IntrinsicReward(Recorder()).load(tmp_path / "deeper" / "bonus.safetensors")
    assert list((tmp_path / "deeper").iterdir()) == [tmp_path / "deeper" / "bonus.safetensors"]


def test_a_state_that_does_not_fit_changes_nothing(tmp_path):
    rnd = bonus_for("rnd", observation_shape=(2,), actions=None, seed=0, settings={})
    wider = bonus_for("rnd", observation_shape=(3,), actions=None, seed=0, settings={})
    intrinsic, other = plain(rnd), plain(wider)
    before = str(intrinsic.state_dict())
    with pytest.raises(ValueError, match="configuration that the state was saved with"):
        intrinsic.load_state_dict(other.state_dict())
    with pytest.raises(ValueError, match="entries"):
        intrinsic.load_state_dict({"bonus": {}})
    (tmp_path / "cut").write_bytes(b"short")
    with pytest.raises(NotAStateFile, match="cannot be used"):
        intrinsic.load(tmp_path / "cut")
    with pytest.raises(FileNotFoundError, match="save writes one"):
        intrinsic.load(tmp_path / "nowhere")
    assert str(intrinsic.state_dict()) == before


@pytest.mark.parametrize(
    ("name", "value"),
    [("weight", -1.0), ("weight", float("nan")), ("discount", 1.0), ("train_every", 0), ("learning_starts", -1)],
)
def test_bad_settings_are_named(name, value):
    with pytest.raises(ValueError, match=name):
        IntrinsicConfig(**{name: value})


def test_a_bonus_must_keep_its_environments():
    intrinsic = plain(Recorder(), train_every=100)
    intrinsic.observe(rollout(0.0))
    with pytest.raises(ValueError, match="2 environments as before"):
        intrinsic.observe(rollout(0.0, n_envs=3))


def test_another_number_of_environments_after_loading():
    def made():
        bonus = bonus_for("episodic-count", observation_shape=(1,), actions=None, seed=0, settings={"code": "exact"})
        return IntrinsicReward(bonus, seed=0, discount=0.5, learning_starts=0, train_every=100)

    def states(value, n_envs):
        x = torch.full((1, n_envs, 1), float(value))
        return Transitions(
            x, torch.zeros(1, n_envs, dtype=torch.int64), x, *torch.zeros(2, 1, n_envs, dtype=torch.bool)
        )

    first = made()
    for k in range(6):
        first.step(states(k % 2, 3))
    state = first.state_dict()
    more = made()
    more.load_state_dict(state)
    more.end_episodes(torch.ones(5))  # as a host's reset does
    assert (more.n_envs, more.updates, more.state_dict()["pending"]) == (5, 1, {})  # the steps that waited are learned
    deviation = state["scale"]["moments"]
    torch.testing.assert_close(more.state_dict()["scale"]["moments"], deviation, rtol=0, atol=0)
    sums = state["scale"]["returns"]
    assert torch.equal(more.state_dict()["scale"]["returns"], sums[[0, 1, 2, 0, 1]])
    assert torch.equal(more.raw(states(0, 5)), torch.ones(1, 5))  # new episodes
    assert more.step(states(0, 5)).shape == (1, 5)
    for other in (2, 3):
        with pytest.raises(ValueError, match=rf"5 environments as before, got {other}: .* call resize\({other}\)"):
            more.step(states(0, other))
    more.resize(2)
    assert more.step(states(0, 2)).shape == (1, 2)
    same = made()
    same.load_state_dict(state)
    assert torch.equal(same.step(states(1, 3)), first.step(states(1, 3)))
    assert same.updates == 0


@pytest.mark.parametrize("which", [[True, False, False, False], [[True, False, False]]])
def test_the_environments_that_were_reset_are_named_one_by_one(which):
    intrinsic = plain(Recorder())
    intrinsic.end_episodes(which)  # nothing was played yet
    intrinsic.step(rollout(0.0, n_envs=3))
    with pytest.raises(ValueError, match=r"3 environments as before|one entry per environment"):
        intrinsic.end_episodes(which)


def test_a_reset_of_an_environment_that_was_left_out_of_the_last_steps():
    bonus = bonus_for("episodic-count", observation_shape=bonuses.Discrete(2), actions=None, seed=0, settings={})
    intrinsic = plain(bonus, train_every=100)
    x, never = torch.zeros(1, 2, dtype=torch.int64), torch.zeros(1, 2, dtype=torch.bool)
    intrinsic.step(Transitions(x, x, x, never, never))
    intrinsic.step(Transitions(x, x, x, never, never, torch.tensor([[False, True]])))
    intrinsic.end_episodes([True, False])
    assert torch.allclose(intrinsic.step(Transitions(x, x, x, never, never)), torch.tensor([[1.0, 3.0]]).rsqrt())


def test_what_it_is_can_be_read():
    intrinsic = IntrinsicReward(Recorder(), weight=0.5)
    assert repr(intrinsic) == (
        f"IntrinsicReward({intrinsic.bonus!r}, weight=0.5, n_envs=0, steps=0, updates=0, training=True)"
    )
    with pytest.raises(ValueError, match=r"subclass of optimist\.bonuses\.Bonus"):
        IntrinsicReward("acb")


def test_random_policies_come_from_the_seed_alone():
    shape = {"image": (3, 40, 40), "state": bonuses.Discrete(5), "grid.cells": (3, 7, 7)}
    zeros = {"image": torch.zeros(2, 3, 40, 40), "state": torch.tensor([0, 4]), "grid.cells": torch.ones(2, 3, 7, 7)}
    first, same, other = (random_policy(shape, seed=seed)(zeros) for seed in (0, 0, 1))
    assert torch.equal(first, same)
    assert not torch.equal(first, other)
    assert not torch.equal(first[0], first[1])
    for a, b in itertools.combinations(random_policy((4,), seed=0).parameters(), 2):
        assert a is not b


def test_settings_are_of_named_bonuses_only():
    with pytest.raises(ValueError, match="features"):
        bonus_for(Recorder(), observation_shape=(2,), actions=None, seed=0, settings={"n_features": 3})
