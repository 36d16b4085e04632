"""Actions: drawn as often as they are likely, and as likely as PyTorch says."""

import math

import pytest
import torch
from torch.distributions import Categorical, Independent, Normal

from optimist.bonuses import ContinuousActions, DiscreteActions, GaussianLoss, MultiDiscreteActions, MultiDiscreteLoss
from optimist.training.distributions import Gaussian, MultiSoftmax, Softmax, distribution_of, feature_loss

LOGITS = torch.tensor([[2.0, 0.0, -1.0, 0.5]])
MOMENTS = torch.tensor([[1.0, -2.0, math.log(0.5), math.log(3.0)]])  # two means, two log deviations


class Choices:
    """PyTorch's two independent choices of 3 and 1 actions."""

    def __init__(self, outputs):
        self.parts = [Categorical(logits=outputs[:, :3]), Categorical(logits=outputs[:, 3:])]

    def log_prob(self, actions):
        return sum(part.log_prob(actions[:, j]) for j, part in enumerate(self.parts))

    def entropy(self):
        return sum(part.entropy() for part in self.parts)


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def test_softmax_draws_every_action_as_often_as_it_is_likely():
    n = 40_000
    drawn = Softmax(4).sample(LOGITS.expand(n, 4), generator=generator())
    shares, p = drawn.bincount(minlength=4) / n, LOGITS.softmax(1)[0]
    # A share has the deviation sqrt(p (1 - p) / n); 5 of them are a false alarm in 400,000 for four actions.
    assert bool(((shares - p).abs() < 5 * (p * (1 - p) / n).sqrt()).all())


def test_gaussian_draws_have_its_means_deviations_and_no_correlation():
    n = 40_000
    drawn = Gaussian(2).sample(MOMENTS.expand(n, 4), generator=generator())
    z = (drawn - MOMENTS[:, :2]) / torch.tensor([0.5, 3.0])
    # Means of n standard normals deviate by 1 / sqrt n, mean squares by sqrt(2 / n), products by 1 / sqrt n.
    assert z.mean(0).abs().max() < 5 / math.sqrt(n)
    assert (z.square().mean(0) - 1).abs().max() < 5 * math.sqrt(2 / n)
    assert (z[:, 0] * z[:, 1]).mean().abs() < 5 / math.sqrt(n)


@pytest.mark.parametrize(
    ("ours", "outputs", "theirs"),
    [
        (Softmax(4), LOGITS, lambda x: Categorical(logits=x)),
        (MultiSoftmax((3, 1)), LOGITS, Choices),
        (Gaussian(2), MOMENTS, lambda x: Independent(Normal(x[:, :2], x[:, 2:].exp()), 1)),
    ],
)
def test_log_probability_and_entropy_are_pytorchs(ours, outputs, theirs):
    outputs = outputs + torch.randn((50, 4), generator=generator(1))
    actions = ours.sample(outputs, generator=generator(2))
    torch.testing.assert_close(ours.log_probability(outputs, actions), theirs(outputs).log_prob(actions))
    torch.testing.assert_close(ours.entropy(outputs), theirs(outputs).entropy())


@pytest.mark.parametrize(
    ("ours", "outputs"), [(Softmax(4), LOGITS), (MultiSoftmax((3, 1)), LOGITS), (Gaussian(2), MOMENTS)]
)
def test_draws_depend_on_the_generator_alone(ours, outputs):
    outputs, state = outputs.expand(30, 4), torch.get_rng_state()
    first = ours.sample(outputs, generator=generator())
    assert torch.equal(torch.get_rng_state(), state)
    assert torch.equal(ours.sample(outputs, generator=generator()), first)
    assert not torch.equal(ours.sample(outputs, generator=generator(1)), first)


def test_several_choices_are_drawn_apart_each_as_often_as_it_is_likely():
    n, sizes = 40_000, (3, 2)
    logits = torch.tensor([[1.0, 0.0, -1.0, 0.3, 0.0]])
    drawn = MultiSoftmax(sizes).sample(logits.expand(n, 5), generator=generator())
    joint = (2 * drawn[:, 0] + drawn[:, 1]).bincount(minlength=6) / n
    p = (logits[0, :3].softmax(0).unsqueeze(1) * logits[0, 3:].softmax(0)).flatten()
    # A share has the deviation sqrt(p (1 - p) / n); 5 of them are a false alarm in 300,000 for six pairs.
    assert bool(((joint - p).abs() < 5 * (p * (1 - p) / n).sqrt()).all())


@pytest.mark.parametrize("ours", [Softmax(4), MultiSoftmax((3, 1)), MultiSoftmax((2, 2)), Gaussian(2)])
def test_no_action_is_more_likely_than_the_mode(ours):
    outputs = torch.randn((30, 4), generator=generator(3))
    best = ours.log_probability(outputs, ours.mode(outputs))
    for seed in range(20):
        assert bool((ours.log_probability(outputs, ours.sample(outputs, generator=generator(seed))) <= best).all())


def test_the_distribution_of_every_kind_of_actions_and_how_acb_differentiates_it():
    assert distribution_of(DiscreteActions(4)) == Softmax(4)
    assert distribution_of(MultiDiscreteActions((2, 3))) == MultiSoftmax((2, 3))
    assert distribution_of(ContinuousActions(2)) == Gaussian(2)
    assert (Gaussian(2).outputs, MultiSoftmax((2, 3)).outputs) == (4, 5)
    assert feature_loss(DiscreteActions(4)) is None
    assert feature_loss(None) is None
    assert feature_loss(MultiDiscreteActions((2, 3))) == MultiDiscreteLoss((2, 3))
    network = torch.nn.Linear(3, 4)
    mean, log_deviation = feature_loss(ContinuousActions(2)).moments(network, torch.ones(5, 3))
    assert torch.equal(torch.cat([mean, log_deviation], 1), network(torch.ones(5, 3)))
    assert mean.shape == (5, 2)
    assert feature_loss(ContinuousActions(2), own := lambda network, x: (x, x)) == GaussianLoss(own)
    with pytest.raises(ValueError, match="actions must be discrete, multi-discrete or continuous"):
        distribution_of("jump")
