"""PPO's losses: hand-made cases, what may move what, and that nothing which is not finite passes."""

import math
from dataclasses import replace

import pytest
import torch

from optimist.bonuses import Discrete
from optimist.training.agent import make_agent
from optimist.training.config import TrainConfig
from optimist.training.distributions import Softmax
from optimist.training.losses import Batch, clipped_surrogate, explained_variance, track_returns, update_agent
from optimist.training.rollout import NotFinite

CONFIG = TrainConfig(epochs=2, minibatches=3, entropy_weight=0.0, value_weight=0.5)
ROWS = 24
CPU = torch.device("cpu")


def new_agent():
    generator = torch.Generator().manual_seed(0)
    return make_agent(Discrete(6), 3, network="auto", activation="relu", width=8, generator=generator)


def batch_for(agent, **changes):
    """Steps whose advantages are 0 and whose returns are the agent's own values: nothing to learn."""
    generator = torch.Generator().manual_seed(1)
    states = torch.randint(6, (ROWS,), generator=generator)
    actions = torch.randint(3, (ROWS,), generator=generator)
    with torch.no_grad():
        outputs, values = agent(states)
    logs = Softmax(3).log_probability(outputs, actions)
    return replace(Batch(states, actions, logs, torch.zeros(ROWS), values.clone()), **changes)


def updated(agent, batch, *, config=CONFIG, heads=(True, True), learning_rate=1e-2):
    optimizer = torch.optim.Adam(agent.parameters(), lr=learning_rate, fused=True)
    generator = torch.Generator().manual_seed(2)
    return update_agent(
        agent,
        optimizer,
        batch,
        config,
        Softmax(3),
        heads=heads,
        entropy_weight=config.entropy_weight,
        generator=generator,
    )


def weights_after(*, heads=(True, True), config=CONFIG, **changes):
    agent = new_agent()
    batch = batch_for(agent)
    updated(agent, replace(batch, **{name: change(getattr(batch, name)) for name, change in changes.items()}),
            config=config, heads=heads)  # fmt: skip
    return agent.state_dict()


def same(first, second, *names):
    return all(torch.equal(first[name], second[name]) for name in names or first)


@pytest.mark.parametrize(
    ("ratio", "advantage", "expected"),
    [
        (1.0, 2.0, 2.0),
        (1.15, 2.0, 2.3),  # within the range: as it is
        (1.5, 2.0, 2.4),  # too far in the right direction: clipped, no gradient
        (0.5, 2.0, 1.0),  # too far in the wrong direction: not clipped
        (1.5, -2.0, -3.0),
        (0.5, -2.0, -1.6),
    ],
)
def test_the_clipped_surrogate_of_one_step(ratio, advantage, expected):
    log_ratio = torch.tensor([math.log(ratio)], requires_grad=True)
    loss = clipped_surrogate(log_ratio, torch.tensor([advantage]), 0.2)
    assert loss.item() == pytest.approx(-expected)
    loss.backward()
    clipped = expected != pytest.approx(ratio * advantage)
    assert (float(log_ratio.grad) == 0) == clipped


def test_the_surrogate_is_a_mean_over_steps():
    log_ratio = torch.tensor([0.0, math.log(1.5)])
    assert float(clipped_surrogate(log_ratio, torch.tensor([1.0, 2.0]), 0.2)) == pytest.approx(-(1 + 2.4) / 2)


def test_without_advantages_entropy_and_heads_nothing_moves():
    before = new_agent().state_dict()
    assert same(before, weights_after(heads=(False, False)))


def test_an_advantage_moves_the_policy_towards_its_action():
    agent = new_agent()
    batch = batch_for(agent)
    told = updated(agent, replace(batch, advantages=(batch.actions == 2).float()))
    with torch.no_grad():
        p = agent(torch.arange(6))[0].softmax(1)
    assert bool((p[:, 2] > 1 / 3 + 0.01).all())
    assert told["kl"] > 0
    assert told["entropy"] <= math.log(3) + 1e-6


@pytest.mark.parametrize("head", [0, 1])
def test_a_head_that_is_not_trained_leaves_everything_alone(head):
    heads = (head != 0, head != 1)

    def shifted(returns):
        return returns + 5 * torch.eye(2)[head]

    without = weights_after(heads=heads)
    assert same(without, weights_after(heads=heads, returns=shifted))
    with_it = weights_after(heads=(True, True), returns=shifted)
    assert not same(without, with_it, "policy.trunk.layers.0.weight")


def test_normalized_advantages_know_no_scale_and_no_shift():
    config = replace(CONFIG, normalize_advantages=True)
    noise = torch.randn(ROWS, generator=torch.Generator().manual_seed(4))
    first = weights_after(config=config, advantages=lambda _: noise)
    second = weights_after(config=config, advantages=lambda _: 1000 * noise + 3)
    assert all(torch.allclose(first[name], second[name], atol=1e-4) for name in first)
    raw = weights_after(advantages=lambda _: 1000 * noise + 3)
    assert not torch.allclose(first["policy.actor.0.weight"], raw["policy.actor.0.weight"], atol=1e-3)


def test_the_losses_reported_are_those_of_the_heads():
    agent = new_agent()
    batch = batch_for(agent)
    told = updated(agent, replace(batch, returns=batch.returns + torch.tensor([3.0, 0.0])), learning_rate=1e-12)
    assert told["value_loss_extrinsic"] == pytest.approx(9.0, rel=1e-5)
    assert told["value_loss_intrinsic"] == pytest.approx(0.0, abs=1e-9)
    assert told["clipped"] == 0.0


@pytest.mark.parametrize("part", ["advantages", "returns", "log_probabilities"])
def test_a_loss_that_is_not_finite_is_an_error(part):
    agent = new_agent()
    batch = batch_for(agent)
    broken = getattr(batch, part).clone()
    broken[ROWS // 2] = math.nan
    with pytest.raises(NotFinite, match="a loss of PPO"):
        updated(agent, replace(batch, **{part: broken}))


def test_weights_that_are_not_finite_after_the_last_step_are_an_error_though_every_loss_was_finite():
    agent, config = new_agent(), replace(CONFIG, epochs=1, minibatches=1)
    with pytest.raises(NotFinite, match="a weight that it moved"):
        updated(agent, batch_for(agent, advantages=torch.ones(ROWS)), config=config, learning_rate=1e39)


def test_explained_variance():
    returns = torch.tensor([1.0, 2.0, 3.0, 6.0])
    assert explained_variance(returns + 7, returns) == 1.0  # a constant error is no variance
    assert explained_variance(torch.full((4,), 9.0), returns) == 0.0
    assert explained_variance(-returns, returns) == -3.0
    assert math.isnan(explained_variance(returns, torch.ones(4)))


def test_tracking_returns_moves_the_units_and_no_value():
    agent, states = new_agent(), torch.arange(6)
    with torch.no_grad():
        outputs, values = agent(states)
        returns = torch.randn((500, 2), generator=torch.Generator().manual_seed(3)) * torch.tensor([2.0, 30.0]) + 8
        track_returns(agent, returns, torch.tensor([0.25, 0.25]), torch.zeros(2))
        torch.testing.assert_close(agent.value_mean, 0.25 * returns.mean(0))
        square = 0.75 + 0.25 * returns.square().mean(0)
        torch.testing.assert_close(agent.value_deviation.square(), square - agent.value_mean.square())
        assert torch.equal(agent(states)[0], outputs)
        torch.testing.assert_close(agent(states)[1], values, rtol=1e-4, atol=1e-5)
        for _ in range(200):
            track_returns(agent, returns, torch.tensor([0.25, 0.25]), torch.zeros(2))
        torch.testing.assert_close(agent.value_deviation, returns.std(0, correction=0), rtol=1e-3, atol=0.0)


def test_returns_that_never_vary_keep_finite_units():
    agent = new_agent()
    for _ in range(500):
        track_returns(agent, torch.zeros(10, 2), torch.tensor([0.1, 0.1]), torch.zeros(2))
    assert bool((agent.value_deviation >= 1e-4 * (1 - 1e-6)).all())
    assert all(bool(weight.isfinite().all()) for weight in agent.parameters())


def test_equal_observations_are_read_once_and_nothing_else_changes():
    states, steps = torch.tensor([0, 3, 3, 0, 5, 0, 3, 3, 1, 0, 0, 3] * 3), 36  # enough to be told apart
    generator = torch.Generator().manual_seed(4)
    parts = (
        torch.randint(3, (steps,), generator=generator),
        torch.randn(steps, generator=generator),
        torch.randn(steps, generator=generator),
        torch.randn(steps, 2, generator=generator),
    )
    once, every = Batch.of(states, *parts), Batch(states, *parts)
    assert once.which is not None
    assert sorted(once.observations.tolist()) == [0, 1, 3, 5]
    agent, index = new_agent(), torch.tensor([2, 0, 5, 6, 10, 8])
    for fast, slow in ((once, every), (once.rows(index, CPU), every.rows(index, CPU))):
        for mine, oracle in zip(fast.evaluated_by(agent), slow.evaluated_by(agent), strict=True):
            torch.testing.assert_close(mine, oracle)
    assert sorted(once.rows(index, CPU).observations.tolist()) == [0, 1, 3]
    assert torch.equal(once.rows(index, CPU).returns, parts[3][index])
