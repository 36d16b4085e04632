"""Generalized advantages against the plain sum of discounted errors, one environment after the other."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from optimist.training.advantages import advantages

DISCOUNT, LAMBDA = 0.9, 0.8


def plain_sum(rewards, values, next_values, terminated, truncated, valid, *, episodic):
    """``A_t = sum_k (discount lambda)^k d_{t+k}`` over the valid steps, up to the episode's end if episodic."""
    result = torch.zeros_like(rewards)
    for n in range(rewards.shape[1]):
        steps = [t for t in range(len(rewards)) if valid is None or valid[t, n]]
        for i, t in enumerate(steps):
            for k, later in enumerate(steps[i:]):
                ends = episodic and bool(terminated[later, n])
                error = rewards[later, n] + DISCOUNT * (0 if ends else next_values[later, n]) - values[later, n]
                result[t, n] += (DISCOUNT * LAMBDA) ** k * error
                if episodic and (terminated[later, n] or truncated[later, n]):
                    break
    return result


def made(parts, *, episodic):
    return advantages(*parts, discount=DISCOUNT, gae_lambda=LAMBDA, episodic=episodic)


def rollout(seed, steps, environments, *, ends=0.25, invalid=0.0):
    generator = torch.Generator().manual_seed(seed)
    shape = (steps, environments)
    numbers = torch.randn((3, *shape), generator=generator)
    flags = torch.rand((3, *shape), generator=generator)
    valid = None if invalid == 0 else flags[2] >= invalid
    return [*numbers, flags[0] < ends, flags[1] < ends, valid]


@settings(deadline=None)
@given(
    seed=st.integers(0, 2**31),
    steps=st.integers(1, 9),
    environments=st.integers(1, 3),
    ends=st.sampled_from([0.0, 0.3, 1.0]),
    invalid=st.sampled_from([0.0, 0.3, 1.0]),
    episodic=st.booleans(),
)
def test_advantages_are_the_sum_of_discounted_errors(seed, steps, environments, ends, invalid, episodic):
    parts = rollout(seed, steps, environments, ends=ends, invalid=invalid)
    torch.testing.assert_close(
        made(parts, episodic=episodic), plain_sum(*parts, episodic=episodic), rtol=1e-4, atol=1e-5
    )


@pytest.mark.parametrize("episodic", [True, False])
def test_steps_that_are_not_valid_are_as_good_as_not_there(episodic):
    parts = rollout(0, 8, 1, invalid=0.4)
    valid = parts[-1]
    assert 0 < int(valid.sum()) < 8
    shorter = [part[valid].unsqueeze(1) for part in parts[:-1]]
    got = made(parts, episodic=episodic)
    torch.testing.assert_close(got[valid], made([*shorter, None], episodic=episodic).flatten())
    assert not got[~valid].any()


def column(*numbers):
    return torch.tensor(numbers, dtype=torch.float32).unsqueeze(1)


def flags(*positions):
    return torch.tensor([t in positions for t in range(3)]).unsqueeze(1)


@pytest.mark.parametrize(
    ("terminated", "truncated", "episodic", "expected"),
    [
        # errors without an end: 1 + 0.9 * 10 - 5 = 5 at every step; carried with 0.72
        (flags(), flags(), True, (5 + 0.72 * (5 + 0.72 * 5), 5 + 0.72 * 5, 5)),
        # termination: no value after it, nothing carried
        (flags(1), flags(), True, (5 + 0.72 * -4, -4, 5)),
        # truncation: the value of the final observation, nothing carried
        (flags(), flags(1), True, (5 + 0.72 * 5, 5, 5)),
        # both at once: the episode is over
        (flags(1), flags(1), True, (5 + 0.72 * -4, -4, 5)),
        # a signal that is not episodic crosses either end
        (flags(1), flags(), False, (5 + 0.72 * (5 + 0.72 * 5), 5 + 0.72 * 5, 5)),
        (flags(), flags(1), False, (5 + 0.72 * (5 + 0.72 * 5), 5 + 0.72 * 5, 5)),
    ],
)
def test_hand_made_ends(terminated, truncated, episodic, expected):
    parts = [column(1, 1, 1), column(5, 5, 5), column(10, 10, 10), terminated, truncated, None]
    torch.testing.assert_close(made(parts, episodic=episodic), column(*expected))


def test_inputs_are_not_written_to():
    parts = rollout(3, 6, 2, invalid=0.3)
    before = [part.clone() for part in parts]
    made(parts, episodic=True)
    assert all(torch.equal(part, copy) for part, copy in zip(parts, before, strict=True))
