"""RND against a transcription of its facts: networks, whitening, the masked loss, and what is learned."""

import math

import pytest
import torch

import oracles
from optimist.bonuses import RND, Discrete, RNDConfig, Transitions


def rollout(observations):
    steps, environments = observations.shape[:2]
    ended = torch.zeros(steps, environments, dtype=torch.bool)
    return Transitions(torch.zeros_like(observations), ended.long(), observations, ended, ended)


def frames(steps, environments, seed):
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(0, 256, (steps, environments, 4, 84, 84), dtype=torch.uint8, generator=generator)


def whitened(state, observations):
    """The newest frame over its running statistics, clipped, by the formula."""
    moments = state["observations"]["whole"]
    mean, variance = moments["mean"], moments["scatter"] / moments["count"]
    newest = observations.flatten(0, 1)[:, 3:].double()
    return ((newest - mean) / variance.sqrt()).clamp(-5, 5).float()


def test_the_bonus_is_the_error_of_the_networks_of_the_facts():
    bonus = RND((4, 84, 84), seed=0)
    observations = frames(3, 4, seed=1)
    bonus.warm_up(rollout(observations))
    state = bonus.state_dict()
    target, predicted = oracles.rnd_networks(state, whitened(state, observations))
    expected = (predicted - target).square().mean(1).view(3, 4)
    torch.testing.assert_close(bonus.compute(rollout(observations)), expected, rtol=1e-4, atol=1e-6)


def test_weights_are_orthogonal_with_gain_root_two_and_biases_zero():
    state = RND((4, 84, 84), seed=0).state_dict()
    for weights in (state["target"], state["predictor"]):
        for name, value in weights.items():
            if name.endswith("bias"):
                assert bool((value == 0).all())
                continue
            matrix = value.flatten(1)
            small = matrix @ matrix.T if matrix.shape[0] <= matrix.shape[1] else matrix.T @ matrix
            torch.testing.assert_close(small, 2 * torch.eye(len(small)), rtol=0, atol=1e-4)
    sizes = [tuple(value.shape) for name, value in state["target"].items() if name.endswith("weight")]
    assert sizes == [(32, 1, 8, 8), (64, 32, 4, 4), (64, 64, 3, 3), (512, 3136)]


def test_training_is_adam_on_the_masked_loss_of_every_minibatch():
    bonus = RND((4, 84, 84), seed=0, config=RNDConfig(epochs=2, minibatches=2))
    observations = frames(3, 8, seed=2)
    state = bonus.state_dict()
    bonus.update(rollout(observations))
    after = bonus.state_dict()

    x = whitened(after, observations)  # statistics move before the predictor is trained
    generator = torch.Generator()
    generator.set_state(state["generator"])
    weights = {name: value.clone().requires_grad_() for name, value in state["predictor"].items()}
    optimizer = torch.optim.Adam(weights.values(), lr=1e-4)
    for _ in range(2):
        for batch in torch.randperm(24, generator=generator).chunk(2):
            mask = (torch.rand(12, generator=generator) < 0.25).float()
            target, predicted = oracles.rnd_networks(state | {"predictor": weights}, x[batch])
            error = (predicted - target).square().mean(1)
            optimizer.zero_grad()
            ((error * mask).sum() / mask.sum().clamp_min(1)).backward()
            optimizer.step()
    for name, value in weights.items():
        moved, expected = after["predictor"][name] - state["predictor"][name], value.detach() - state["predictor"][name]
        # Adam divides by the gradient's own size, so rounding shows where gradients are near 0: compare as vectors.
        assert (moved - expected).norm() < 1e-2 * expected.norm()
        assert expected.abs().max() > 5e-5
    assert all(torch.equal(after["target"][name], value) for name, value in state["target"].items())


def test_a_quarter_of_the_states_is_trained_on():
    bonus = RND((3,), seed=0)
    trained = bonus.update(rollout(torch.randn(100, 40, 3, generator=torch.Generator().manual_seed(0))))["trained"]
    # Binomial(4 x 4000, 1/4): 5 sd is a false alarm in 1.7 million seeds.
    assert abs(trained - 4000) < 5 * math.sqrt(16000 * 0.25 * 0.75)


@pytest.mark.parametrize("shape", [(8,), Discrete(30)])
def test_the_bonus_falls_where_it_has_been_and_stays_where_it_has_not(shape):
    bonus = RND(shape, seed=0, config=RNDConfig(n_features=64, learning_rate=1e-3, fraction=1.0))
    if isinstance(shape, Discrete):
        known, unknown = torch.arange(60).view(6, 10) % 15, torch.arange(15, 30).view(3, 5)
    else:
        generator = torch.Generator().manual_seed(0)
        known, unknown = torch.randn(6, 10, 8, generator=generator), 3 + torch.randn(3, 5, 8, generator=generator)
    before_known, before_unknown = bonus.compute(rollout(known)).mean(), bonus.compute(rollout(unknown)).mean()
    for _ in range(15):
        bonus.update(rollout(known))
    after_known, after_unknown = bonus.compute(rollout(known)).mean(), bonus.compute(rollout(unknown)).mean()
    assert after_known < 0.1 * before_known
    assert after_unknown > 5 * after_known
    assert before_unknown > 0


def test_states_that_occur_often_are_read_once_and_have_the_bonus_that_they_have_alone():
    generator = torch.Generator().manual_seed(0)
    few = torch.randn(20, 8, generator=generator)
    which = torch.randint(20, (16, 40), generator=generator)
    bonus = RND((8,), seed=0)
    bonus.warm_up(rollout(few[which]))
    read = []
    inner = bonus._observations.read
    bonus._observations.read = lambda rows, index: read.append(len(x := inner(rows, index)["whole"])) or {"whole": x}
    many = bonus.compute(rollout(few[which]))
    assert sum(read) == 20
    alone = torch.stack([bonus.compute(rollout(state.view(1, 1, 8)))[0, 0] for state in few])
    torch.testing.assert_close(many, alone[which], rtol=1e-4, atol=1e-7)


def test_only_the_newest_frame_is_read():
    bonus = RND((4, 84, 84), seed=0)
    observations = frames(1, 2, seed=3)
    older = observations.clone()
    older[:, :, :3] = 0
    newest = observations.clone()
    newest[:, :, 3] = 0
    reference = bonus.compute(rollout(observations))
    assert torch.equal(bonus.compute(rollout(older)), reference)
    assert not torch.equal(bonus.compute(rollout(newest)), reference)


def test_warm_up_moves_the_statistics_alone():
    bonus = RND((3,), seed=0)
    before = bonus.state_dict()
    bonus.warm_up(rollout(torch.ones(4, 2, 3)))
    after = bonus.state_dict()
    assert after["observations"]["whole"]["count"] == 8
    assert all(torch.equal(after["predictor"][k], v) for k, v in before["predictor"].items())
    assert torch.equal(after["generator"], before["generator"])


@pytest.mark.parametrize("bad", [{"fraction": 0.0}, {"fraction": 1.5}, {"epochs": 0}, {"learning_rate": 0.0}])
def test_bad_settings_are_refused(bad):
    with pytest.raises(ValueError, match=next(iter(bad))):
        RNDConfig(**bad)
