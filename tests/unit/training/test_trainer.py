"""The trainer: the bonus reaches the policy, rewards only where they may, and a saved state goes on bit by bit."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch

from optimist.bonuses.protocol import Bonus
from optimist.config import replaced
from optimist.training import ppo
from optimist.training.config import Signal, TrainConfig
from optimist.training.environments.deep_sea import DeepSea
from optimist.training.ppo import Trainer
from optimist.training.runs import checkpoints

TINY = TrainConfig(
    env="DeepSea-6",
    bonus="count",
    n_envs=4,
    steps=16,
    epochs=2,
    minibatches=2,
    learning_rate=1e-2,
    extrinsic=Signal(1.0, 0.999, True),
    width=16,
    warm_up_steps=8,
    device="cpu",
    threads=1,
)
# The preset of grids in what it does beyond RND: units of values, normalized advantages, clipped gradients.
GRID_LIKE = replace(TINY, value_scale_rate=0.1, normalize_advantages=True, max_gradient_norm=0.5, entropy_weight=0.01)
BONUSES = ("acb", "rnd", "icm", "count", "e3b", "episodic-count", "elliptical", "acb*episodic-count", "none")


class Watched:
    """Environments whose rewards are changed on the way and whose observations that were acted on are kept."""

    def __init__(self, environments, change=lambda rewards: rewards):
        self._environments, self._change, self.acted_on = environments, change, []
        self._now = None

    def __getattr__(self, name):
        return getattr(self._environments, name)

    def reset(self, seed):
        self._now = self._environments.reset(seed)
        return self._now

    def step(self, actions):
        self.acted_on.append(self._now)
        step = self._environments.step(actions)
        self._now = step.observations
        return replace(step, rewards=self._change(step.rewards))


class Pays(Bonus):
    """A bonus that is ``what(transitions)`` and learns nothing."""

    def __init__(self, what):
        self.what = what

    def compute(self, transitions):
        return self.what(transitions)

    def update(self, transitions):
        return {}

    def state_dict(self):
        return {}

    def load_state_dict(self, state):
        """Nothing."""


def started(config, *, change=None, bonus=None):
    trainer = Trainer(config)
    if change is not None:
        trainer.environments = Watched(trainer.environments, change)
    if bonus is not None:
        trainer.bonus = Pays(bonus)
    trainer.start()
    return trainer


def iterated(trainer, times=1):
    """The metrics of ``times`` rollouts, without those of time."""
    rows = [trainer.iterate() for _ in range(times)]
    return [
        {name: value for name, value in row.items() if not name.startswith(("seconds/", "steps_per_second"))}
        for row in rows
    ]


def equal(first, second):
    """Whether two lists of metrics are the same numbers, NaN included."""
    return [{k: repr(v) for k, v in row.items()} for row in first] == [
        {k: repr(v) for k, v in row.items()} for row in second
    ]


def weights(trainer):
    return {name: value.clone() for name, value in trainer.agent.state_dict().items()}


def moved(before, after, part):
    return any(not torch.equal(before[name], after[name]) for name in before if part in name)


@pytest.mark.parametrize("pays", [0.0, 1.0])
def test_the_bonus_alone_moves_the_policy(pays):
    config = replaced(TINY, {"extrinsic.weight": 0.0, "entropy_weight": 0.0})
    trainer = started(config, bonus=lambda transitions: pays * (transitions.actions == 1).float())
    with torch.no_grad():  # values of exactly 0, so that without a bonus there is nothing to learn at all
        trainer.agent.values.weight.zero_()
    before = weights(trainer)
    iterated(trainer, 5)
    assert moved(before, weights(trainer), "policy.actor") == (pays > 0)
    assert moved(before, weights(trainer), "policy.trunk") == (pays > 0)
    with torch.no_grad():
        p = trainer.agent(torch.arange(36))[0].softmax(1)[:, 1].mean()
    assert p > 0.6 if pays else abs(p - 0.5) < 0.05


@pytest.mark.parametrize("config", [TINY, GRID_LIKE])
def test_without_extrinsic_weight_rewards_change_nothing(config):
    config = replaced(config, {"extrinsic.weight": 0.0})
    plain, paid = started(config), started(config, change=lambda rewards: 1000 * rewards + 7)
    first, second = iterated(plain, 4), iterated(paid, 4)
    reported = ("return_mean", "return_max", "success_rate", "explained_variance_extrinsic")
    for row in (*first, *second):
        for name in reported:
            row.pop(name)
    assert equal(first, second)
    before, after = weights(plain), weights(paid)
    if config.value_scale_rate:  # the extrinsic head is not trained, but its units still follow the returns
        for state in (before, after):
            for name in ("values.weight", "values.bias", "value_mean", "value_deviation"):
                state[name] = state[name][1:]
    assert not moved(before, after, "")
    with_weight = started(replaced(config, {"extrinsic.weight": 1.0}), change=lambda rewards: 1000 * rewards + 7)
    iterated(with_weight, 4)
    assert moved(before, weights(with_weight), "policy.actor")


def test_a_task_that_has_not_paid_leaves_the_policy_alone_and_one_that_has_paid_is_remembered():
    """Advantages brought to deviation 1 would make the errors of the extrinsic value head moves as large as any."""
    config = replace(GRID_LIKE, bonus="none", entropy_weight=0.0)
    pay = 0.0
    trainer = started(config, change=lambda rewards: pay * (np.arange(len(rewards)) == 0))
    before = weights(trainer)
    iterated(trainer, 3)
    assert not moved(before, weights(trainer), "policy.actor")
    assert torch.equal(before["values.weight"][0], weights(trainer)["values.weight"][0])  # nor is its value learned
    pay = -1.0
    iterated(trainer)
    assert moved(before, weights(trainer), "policy.actor")
    pay = 0.0
    state = trainer.state_dict()
    expected = iterated(trainer)
    forgetful, resumed = Trainer(config), Trainer(config)
    forgetful.load_state_dict(state | {"mixing": Trainer(config).mixing.state_dict()})
    resumed.load_state_dict(state)
    for other in (forgetful, resumed):
        other.environments = Watched(other.environments, lambda rewards: 0 * rewards)
    iterated(forgetful)
    assert equal(iterated(resumed), expected)
    assert moved(weights(resumed), weights(forgetful), "policy.actor")


def test_the_same_seed_gives_the_same_metrics_and_another_seed_others():
    first, second, other = (iterated(started(replace(GRID_LIKE, seed=seed)), 3) for seed in (1, 1, 2))
    assert equal(first, second)
    assert not equal(first, other)


def test_global_generators_are_neither_read_nor_set():
    def numpys():
        return np.random.get_state()[1].tobytes()  # noqa: NPY002 (the legacy one is the global one)

    state = torch.get_rng_state(), numpys()
    iterated(started(replace(GRID_LIKE, bonus="acb")), 2)
    assert torch.equal(torch.get_rng_state(), state[0])
    assert numpys() == state[1]


@pytest.mark.parametrize("bonus", BONUSES)
def test_a_saved_state_goes_on_bit_by_bit(bonus, tmp_path):
    config = replace(GRID_LIKE, bonus=bonus)
    trainer = started(config)
    iterated(trainer, 2)
    checkpoints.save(tmp_path / "middle", trainer.step, trainer.state_dict())
    expected = iterated(trainer, 2)
    resumed = Trainer(config)
    resumed.load_state_dict(checkpoints.newest(tmp_path / "middle")[1])
    assert equal(iterated(resumed, 2), expected)
    ends = [
        checkpoints.save(tmp_path / name, end.step, end.state_dict()).read_bytes()
        for name, end in (("uninterrupted", trainer), ("resumed", resumed))
    ]
    assert ends[0] == ends[1]


@pytest.mark.parametrize(
    "part", ["mixing", "optimizer", "bonus", "action_generator", "minibatch_generator", "episodes"]
)
def test_no_part_of_the_state_may_be_missing(part):
    """Each part taken from a fresh trainer makes another run: all of them are needed, the normalizer's above all."""
    config = replace(GRID_LIKE, bonus="rnd", learning_rate=1e-3)
    trainer = started(config)
    iterated(trainer, 2)
    state, expected = trainer.state_dict(), iterated(trainer, 2)
    changed = Trainer(config)
    changed.load_state_dict(state | {part: started(config).state_dict()[part]})
    assert not equal(iterated(changed, 2), expected)


def test_bonuses_are_divided_by_the_deviation_of_their_discounted_sums_over_time():
    generator = torch.Generator().manual_seed(0)
    paid = torch.rand((3, TINY.steps, TINY.n_envs), generator=generator) * torch.tensor([1.0, 5.0, 20.0, 90.0])
    answers = iter(paid)
    trainer = started(TINY, bonus=lambda transitions: next(answers))
    sums, now = [], np.zeros(TINY.n_envs)
    for metrics, rollout in zip(iterated(trainer, 3), paid.double().numpy(), strict=True):
        for rewards in rollout:
            now = 0.99 * now + rewards
            sums.append(now)
        assert metrics["intrinsic_reward"] == pytest.approx(rollout.mean() / np.std(sums), rel=1e-5)
        assert metrics["bonus_mean"] == pytest.approx(rollout.mean(), rel=1e-5)


def test_advantages_hold_the_bonus_with_its_weight_and_discount():
    """One step before the end of a rollout everything is known by hand: ``w_E (r + ...) + w_I (b + ...)``."""
    config = replaced(TINY, {"extrinsic.weight": 3.0, "intrinsic.weight": 0.5})
    seen = {}
    trainer = started(config, bonus=lambda transitions: torch.full((16, 4), 2.0) * torch.arange(1, 5))
    batch_of = trainer._batch

    def spied(rollout, gains):
        seen["rollout"], seen["batch"] = rollout, batch_of(rollout, gains)
        return seen["batch"]

    trainer._batch = spied
    iterated(trainer)
    rollout, scale = seen["rollout"], trainer.mixing._plain
    bonus = scale.normalize(torch.full((4,), 2.0) * torch.arange(1, 5))
    alive = 1 - rollout.transitions.terminated[-1].float()
    extrinsic = rollout.rewards[-1] + 0.999 * alive * rollout.next_values[-1, :, 0] - rollout.values[-1, :, 0]
    intrinsic = bonus + 0.99 * rollout.next_values[-1, :, 1] - rollout.values[-1, :, 1]
    torch.testing.assert_close(seen["batch"].advantages.view(16, 4)[-1], 3 * extrinsic + 0.5 * intrinsic)


@pytest.mark.parametrize("bonus", ["acb", "icm", "acb * rnd", "none"])
def test_continuous_actions(bonus):
    config = replace(TINY, env="Pendulum-v1", bonus=bonus)
    trainer = started(config)
    before = weights(trainer)
    rows = iterated(trainer, 3)
    assert moved(before, weights(trainer), "policy.actor")
    assert all(math.isfinite(row["policy_loss"]) for row in rows)
    assert (rows[-1]["bonus_mean"] > 0) == (bonus != "none")
    trainer.environments.close()


def test_the_constructor_neither_resets_nor_steps_the_environments(monkeypatch):
    class Untouchable(DeepSea):
        def reset(self, seed):
            raise AssertionError("reset")

        def step(self, actions):
            raise AssertionError("step")

    monkeypatch.setattr(ppo.environments, "make", lambda env, *, n_envs, **_: Untouchable(6, n_envs=n_envs))
    trainer = Trainer(replace(TINY, bonus="rnd"))
    with pytest.raises(AssertionError, match="reset"):
        trainer.start()


def test_raw_returns_are_reported_while_clipped_rewards_are_trained_on():
    hundreds, thousands = (
        started(TINY, change=lambda rewards, by=by: np.float32(by) * (rewards != 0)) for by in (100, 1000)
    )
    first, second = iterated(hundreds, 3), iterated(thousands, 3)
    assert not moved(weights(hundreds), weights(thousands), "")
    assert second[-1]["return_mean"] == pytest.approx(10 * first[-1]["return_mean"])
    assert first[-1]["return_mean"] > 50
    unclipped = started(replace(TINY, clip_rewards=False), change=lambda rewards: np.float32(100) * (rewards != 0))
    iterated(unclipped, 3)
    assert moved(weights(hundreds), weights(unclipped), "policy.actor")


def test_unique_states_are_those_of_a_plain_set():
    trainer = started(TINY, change=lambda rewards: rewards)
    trainer.environments.acted_on.clear()  # the warm-up is not counted
    counted = []
    for _ in range(4):
        (row,) = iterated(trainer)
        counted.append(row["unique_states"])
        plain = set(np.concatenate(trainer.environments.acted_on).tolist())
        assert row["unique_states"] == row["unique_stacks"] == len(plain)
    assert counted[0] < counted[-1] <= 21  # 6 x 6 has 21 cells that can be reached


def test_a_run_with_a_bonus_of_no_weight_has_none():
    trainer = started(replaced(TINY, {"intrinsic.weight": 0.0}))
    assert trainer.bonus is None
    (row,) = iterated(trainer)
    assert row["bonus_mean"] == row["value_loss_intrinsic"] == 0.0


def test_a_state_of_another_network_is_refused_and_changes_nothing():
    state, other = started(TINY).state_dict(), Trainer(replace(TINY, width=8))
    before = weights(other)
    with pytest.raises(ValueError, match=r"policy\.trunk"):
        other.load_state_dict(state)
    assert not moved(before, weights(other), "")
    assert other.step == 0


def test_an_untrained_policy_stays_as_it_was_drawn_while_its_bonus_learns():
    config = replace(TINY, bonus="count", value_scale_rate=0.1)
    trainer = started(replace(config, untrained=True))
    before = weights(trainer)
    first, second = trainer.iterate(), trainer.iterate()
    assert not moved(before, weights(trainer), "")
    assert not trainer.optimizer.state
    assert second["bonus_mean"] < first["bonus_mean"]
    trained = started(config).iterate()
    assert first.keys() == second.keys() == trained.keys()
    assert abs(first["kl"]) < 1e-6  # of a policy to itself
    assert first["entropy"] == pytest.approx(trained["entropy"], abs=1e-2)


def test_a_product_that_is_written_with_blanks_is_warmed_up_and_scored_like_the_other():
    blank, plain = (started(replace(TINY, bonus=name, epochs=1)) for name in ("count * rnd", "count*rnd"))
    assert blank.bonus.needs_warm_up
    assert equal(iterated(blank, 2), iterated(plain, 2))
