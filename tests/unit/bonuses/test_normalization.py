"""Running moments, whitening and the return scale: against direct formulas, and pure until `update`."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import oracles
from optimist.bonuses import ReturnScale, RunningMoments, Whitening


@settings(max_examples=50, deadline=None)
@given(
    sizes=st.lists(st.integers(0, 6), min_size=1, max_size=5),
    shape=st.lists(st.integers(1, 3), max_size=2).map(tuple),
    offset=st.sampled_from([0.0, 1e6]),
    seed=st.integers(0, 2**32 - 1),
)
def test_moments_of_batches_are_the_moments_of_everything(sizes, shape, offset, seed):
    generator = torch.Generator().manual_seed(seed)
    batches = [torch.randn(n, *shape, generator=generator, dtype=torch.float64) + offset for n in sizes]
    moments = RunningMoments(shape)
    for batch in batches:
        moments.update(batch)
    everything = torch.cat(batches)
    assert moments.count == len(everything)
    if len(everything):
        assert torch.allclose(moments.mean, everything.mean(0), rtol=1e-12, atol=1e-12)
        # Two-pass variance in float64 at offset 1e6: rounding of (1e6)^2 eps = 2e-4 would show a naive formula.
        assert torch.allclose(moments.variance, everything.var(0, correction=0), rtol=1e-8, atol=1e-8)
    else:
        assert bool((moments.variance == 1).all())
        assert bool((moments.mean == 0).all())


def test_moments_refuse_another_shape():
    with pytest.raises(ValueError, match=r"samples must be \(n, \*\(3,\)\)"):
        RunningMoments((3,)).update(torch.zeros(4, 2))


def test_whitened_observations_have_unit_scale_and_are_clipped():
    x = torch.randn(2000, 3, generator=torch.Generator().manual_seed(0)) * torch.tensor([1e-3, 1.0, 1e3]) + 7
    whitening = Whitening((3,), clip=5)
    whitening.update(x)
    white = whitening.whiten(x)
    assert torch.allclose(white.mean(0), torch.zeros(3), atol=1e-2)
    assert torch.allclose(white.std(0), torch.ones(3), atol=1e-2)
    assert whitening.whiten(torch.full((1, 3), 1e9)).tolist() == [[5, 5, 5]]


def test_a_constant_coordinate_is_whitened_to_zero():
    whitening = Whitening((2,), clip=5)
    whitening.update(torch.tensor([[0.1, 1.0], [0.1, 2.0]]))
    assert whitening.whiten(torch.tensor([[0.1, 1.5]])).tolist() == [[0, 0]]


def test_whitening_reads_without_writing():
    whitening = Whitening((2,), clip=5)
    whitening.update(torch.randn(10, 2, generator=torch.Generator().manual_seed(0)))
    x = torch.ones(3, 2)
    before = whitening.state_dict()
    whitening.whiten(x)
    after = whitening.state_dict()
    assert bool((x == 1).all())
    assert before["count"] == after["count"]
    assert torch.equal(before["mean"], after["mean"])


def test_the_return_scale_filters_over_time_across_rollouts_and_not_over_environments():
    # Environment n is paid about n a step. Filtered over time its sums approach n / (1 - discount); filtered over
    # environments they would be mixtures of all of them, with another deviation: the test measures how far it is off.
    generator = torch.Generator().manual_seed(1)
    rewards = torch.rand(30, 4, generator=generator, dtype=torch.float64) + torch.arange(4.0)
    scale = ReturnScale(discount=0.9)
    for rollout in rewards.split(10):
        scale.update(rollout)
    sums = oracles.discounted_sums(rewards, 0.9)
    wrong = oracles.discounted_sums(rewards.T, 0.9)
    expected = rewards / sums.std(correction=0)
    assert torch.allclose(scale.normalize(rewards), expected, rtol=1e-12)
    assert not torch.allclose(rewards / wrong.std(correction=0), expected, rtol=0.1)
    assert torch.allclose(scale.state_dict()["returns"], sums[-1], rtol=1e-12)


def test_the_return_scale_is_pure_until_updated():
    scale = ReturnScale(discount=0.99)
    rewards = torch.rand(5, 2, generator=torch.Generator().manual_seed(0))
    assert torch.equal(scale.normalize(rewards), rewards)
    scale.update(rewards)
    assert torch.equal(scale.normalize(rewards), scale.normalize(rewards))


def test_the_return_scale_does_not_divide_by_zero():
    scale = ReturnScale(discount=0.5)
    scale.update(torch.zeros(3, 2))
    assert scale.normalize(torch.zeros(3, 2)).tolist() == [[0, 0]] * 3


@pytest.mark.parametrize(
    ("rewards", "message"),
    [
        (torch.zeros(4), r"rewards must be \(T, N\)"),
        (torch.zeros(4, 3), "2 environments as before, got 3"),
        (torch.full((4, 2), torch.nan), "rewards must be finite"),
    ],
)
def test_the_return_scale_refuses_and_changes_nothing(rewards, message):
    scale = ReturnScale(discount=0.9)
    scale.update(torch.ones(3, 2))
    before = scale.state_dict()
    with pytest.raises(ValueError, match=message):
        scale.update(rewards)
    assert torch.equal(scale.state_dict()["returns"], before["returns"])
    assert scale.state_dict()["moments"]["count"] == before["moments"]["count"]


def test_the_return_scale_continues_exactly_from_its_state():
    generator = torch.Generator().manual_seed(3)
    first, second = torch.rand(2, 6, 3, generator=generator)
    scale, other = ReturnScale(discount=0.9), ReturnScale(discount=0.9)
    scale.update(first)
    other.load_state_dict(scale.state_dict())
    scale.update(second)
    other.update(second)
    assert torch.equal(scale.normalize(second), other.normalize(second))
    assert torch.equal(scale.state_dict()["returns"], other.state_dict()["returns"])


def test_what_the_return_scale_keeps_for_dividing_follows_updates_and_states():
    generator = torch.Generator().manual_seed(3)
    first, second = torch.rand(40, 2, generator=generator), 5 * torch.rand(40, 2, generator=generator)
    scale, late = ReturnScale(discount=0.9), ReturnScale(discount=0.9)
    scale.update(first)
    saved, before = scale.state_dict(), scale.normalize(first)  # divides, and so keeps what by
    scale.update(second)
    late.update(first)
    late.update(second)
    assert torch.equal(scale.normalize(first), late.normalize(first))
    assert not torch.equal(scale.normalize(first), before)
    scale.load_state_dict(saved)
    assert torch.equal(scale.normalize(first), before)


def test_a_reward_far_beyond_all_others_does_not_make_them_nothing():
    """A single one of 1e5 times the others' size: they keep half their scale at least, and it is still the largest."""
    rewards = torch.rand(6, 64, 8, generator=torch.Generator().manual_seed(4))
    scale, calm = ReturnScale(discount=0.99, memory_steps=5_120), ReturnScale(discount=0.99, memory_steps=5_120)
    for rollout in rewards[:-1]:
        scale.update(rollout)
        calm.update(rollout)
    assert torch.equal(scale.normalize(rewards[-1]), calm.normalize(rewards[-1]))
    calm.update(rewards[-1])
    jump = rewards[-1].clone()
    jump[10, 3] = 1e5
    scale.update(jump)
    normalized = scale.normalize(jump)
    assert normalized[10, 3] == normalized.max()
    size = rewards[:-1].double().square().mean().sqrt()
    assert torch.isclose(normalized[10, 3] / normalized[0, 0], (200 * size / jump[0, 0]).float(), rtol=1e-5)
    assert normalized[0, 0] > calm.normalize(rewards[-1])[0, 0] / 2


def test_the_limit_holds_in_the_first_rollout_already():
    """One value of 40,000 times the others in the first rollout: in 0.1.0 they were at 0.4 to 0.7 % a hundred later."""
    rewards = torch.rand(20, 64, 8, generator=torch.Generator().manual_seed(5)) + 0.5
    scale, calm = ReturnScale(discount=0.99), ReturnScale(discount=0.99)
    for k, rollout in enumerate(rewards):
        jump = rollout.clone()
        jump[7, 2] = 4e4 if k == 0 else rollout[7, 2]
        scale.update(jump)
        calm.update(rollout)
        normalized = scale.normalize(jump)
        assert normalized.argmax() == jump.argmax()
        # 200 times the median in one of 512 rewards is felt in the first rollout, and soon no more.
        assert (normalized / calm.normalize(rollout)).median() > (0.2 if k < 5 else 0.6)


@pytest.mark.parametrize("unit", [1e-12, 1.0, 1e12])
def test_the_unit_of_rewards_does_not_matter(unit):
    """In 0.1.0 deviations below 1e-6 counted as 1e-6: bonuses of that size were nothing."""
    rewards = torch.rand(3, 32, 4, generator=torch.Generator().manual_seed(6), dtype=torch.float64)
    scale, other = ReturnScale(discount=0.99), ReturnScale(discount=0.99)
    for rollout in rewards:
        scale.update(rollout)
        other.update(rollout * unit)
    torch.testing.assert_close(scale.normalize(rewards[-1]), other.normalize(rewards[-1] * unit))


def test_a_reward_that_never_varies_is_divided_by_a_thousandth_of_itself_at_least():
    scale = ReturnScale(discount=0.0)
    scale.update(torch.full((5, 2), 7e-9, dtype=torch.float64))
    assert scale.normalize(torch.full((1, 1), 7e-9, dtype=torch.float64)).item() == pytest.approx(1e3, rel=1e-6)


def test_the_first_rewards_and_those_after_zeros_are_not_limited():
    scale = ReturnScale(discount=0.0)
    scale.update(torch.zeros(3, 1))
    rewards = torch.tensor([[0.0], [1e3], [0.0]])
    scale.update(rewards)
    deviation = 1e3 * math.sqrt(1 / 6 - 1 / 36)  # of six returns, one of which is 1,000
    assert scale.normalize(rewards)[1, 0].item() == pytest.approx(1e3 / deviation, rel=1e-6)


@pytest.mark.parametrize("n_envs", [1, 4])
def test_the_memory_of_a_scale_is_counted_in_steps_of_all_environments(n_envs):
    # With discount 0 the sums are the rewards. After 400 old steps of variance 100, n new ones of variance 1 and a
    # memory of m steps, all at mean 0: each update of k steps leaves (m v + k) / (m + k) of the variance v.
    scale, memory, old = ReturnScale(discount=0.0, memory_steps=100), 100, torch.tensor([10.0, -10.0]).repeat(200)
    scale.update(old.view(-1, n_envs))
    variance = 100.0
    for _ in range(5):
        scale.update(torch.tensor([1.0, -1.0]).repeat(20).view(-1, n_envs))
        variance = (memory * variance + 40) / (memory + 40)
    assert scale.normalize(torch.ones(1, n_envs)).tolist()[0] == pytest.approx([variance**-0.5] * n_envs, rel=1e-6)
