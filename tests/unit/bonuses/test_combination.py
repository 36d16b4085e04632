"""Product and sum of two bonuses: the arithmetic, and both learn together or not at all."""

import dataclasses

import pytest
import torch
from torch import nn

from optimist.bonuses import (
    ACB,
    ICM,
    RND,
    Discrete,
    DiscreteActions,
    HashCount,
    ICMConfig,
    Product,
    RNDConfig,
    Sum,
    Transitions,
)

SMALL = RNDConfig(n_features=4)


def rollout(observations):
    ended = torch.zeros(observations.shape[:2], dtype=torch.bool)
    return Transitions(torch.zeros_like(observations), ended.long(), observations, ended, ended)


def pair():
    return RND((3,), seed=0, config=SMALL), HashCount((3,), seed=1)


def test_product_and_sum_are_those_of_the_parts():
    first, second = pair()
    x = rollout(torch.randn(4, 2, 3, generator=torch.Generator().manual_seed(0)))
    a, b = first.compute(x), second.compute(x)
    torch.testing.assert_close(Product(first, second).compute(x), a * b)
    torch.testing.assert_close(Sum(first, second).compute(x), a + b)
    torch.testing.assert_close(Sum(first, second, weights=(2.0, 0.5)).compute(x), 2 * a + 0.5 * b)


@pytest.mark.parametrize("combined", [Product, Sum])
def test_the_parts_are_the_bonuses_given_in_their_order(combined):
    first, second = pair()
    assert combined(first, second).parts == (first, second)


def test_both_are_updated_and_their_metrics_named_apart():
    first, second = pair()
    x = rollout(torch.randn(4, 2, 3, generator=torch.Generator().manual_seed(0)))
    metrics = Product(first, second).update(x)
    alone = pair()
    expected = {f"first/{k}": v for k, v in alone[0].update(x).items()}
    expected |= {f"second/{k}": v for k, v in alone[1].update(x).items()}
    assert metrics == expected
    assert torch.equal(first.compute(x), alone[0].compute(x))
    assert torch.equal(second.compute(x), alone[1].compute(x))


def policy():
    network = nn.Linear(3, 2)
    nn.init.ones_(network.weight)
    return network


def same(a, b):
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(same(a[key], b[key]) for key in a)
    return torch.equal(a, b) if isinstance(a, torch.Tensor) else a == b


def with_a_bad_last_action():
    x = rollout(torch.randn(4, 2, 3, generator=torch.Generator().manual_seed(0)))
    actions = x.actions.clone()
    actions[-1, -1] = 2
    return dataclasses.replace(x, actions=actions)


SECONDS = {
    "another shape": (lambda: HashCount(Discrete(5), seed=0), r"must have shape \(T, N\), got \(T, N, 3\)"),
    "a bad last action": (
        lambda: ICM((3,), DiscreteActions(2), seed=0, config=ICMConfig(n_features=4)),
        "actions must",
    ),
    "a network of other size": (lambda: ACB(nn.Linear(4, 2), seed=0), "could not read observations"),
}


@pytest.mark.parametrize("combine", [Product, Sum])
@pytest.mark.parametrize(("second", "message"), SECONDS.values(), ids=SECONDS)
@pytest.mark.parametrize("learned", [False, True], ids=["new", "learned"])
def test_what_the_second_refuses_neither_learns(combine, second, message, learned):
    firsts = RND((3,), seed=0, config=SMALL), HashCount((3,), seed=1), ACB(policy(), seed=0, ensemble_size=4)
    for first in firsts:
        combined = combine(first, second())
        if learned:
            first.update(rollout(torch.ones(2, 2, 3)))
        before = combined.state_dict()
        with pytest.raises(ValueError, match=message):
            combined.update(with_a_bad_last_action())
        assert same(before, combined.state_dict())


def test_what_the_first_refuses_the_second_never_sees():
    combined = Product(HashCount(Discrete(5), seed=0), RND((3,), seed=0, config=SMALL))
    before = combined.state_dict()
    with pytest.raises(ValueError, match=r"must have shape \(T, N\), got \(T, N, 3\)"):
        combined.update(rollout(torch.zeros(4, 2, 3)))
    assert same(before, combined.state_dict())


def test_a_state_of_which_one_part_is_refused_loads_neither():
    first, second = pair()
    combined = Sum(first, second)
    weights = first.state_dict()["predictor"]
    other = Sum(RND((3,), seed=7, config=SMALL), HashCount(Discrete(5), seed=0)).state_dict()
    with pytest.raises(ValueError, match=r"state\['code'\] must have the entries"):
        combined.load_state_dict(other)
    assert all(torch.equal(first.state_dict()["predictor"][name], value) for name, value in weights.items())


@pytest.mark.parametrize("combine", [Product, Sum])
def test_both_are_warmed_up_or_neither(combine):
    x = rollout(torch.randn(4, 2, 3, generator=torch.Generator().manual_seed(0)))
    firsts = [RND((3,), seed=seed, config=SMALL) for seed in (0, 1)]
    combine(*firsts).warm_up(x)
    assert all(first.state_dict()["observations"]["whole"]["count"] == 8 for first in firsts)
    other = combine(RND((3,), seed=0, config=SMALL), RND((4,), seed=0, config=SMALL))
    before = other.state_dict()
    with pytest.raises(ValueError, match="must have shape"):
        other.warm_up(x)
    assert same(before, other.state_dict())


@pytest.mark.parametrize("weights", [(1.0, -1.0), (float("nan"), 1.0), (1.0,), (float("inf"), 0.0)])
def test_bad_weights_are_refused(weights):
    with pytest.raises(ValueError, match="weights must be two finite numbers >= 0"):
        Sum(*pair(), weights=weights)
