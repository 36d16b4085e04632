"""Last-layer and penultimate features: the last block of the exact gradient, and what enters that layer."""

from functools import partial

import pytest
import torch
from torch import nn

from optimist.bonuses.features import ArgmaxLoss
from optimist.bonuses.features import make as make_features
from oracles import state_gradients

make = partial(make_features, feature_loss="argmax")  # whose gradients the oracles know


class TwoHeads(nn.Module):
    """A critic that is called after the actor, so that the last layer is not the last one called."""

    def __init__(self, bias):
        super().__init__()
        self.trunk = nn.Sequential(nn.Conv2d(2, 3, 2), nn.ReLU(), nn.Flatten(), nn.Linear(12, 5), nn.ReLU())
        self.actor = nn.Linear(5, 4, bias=bias)
        self.critic = nn.Linear(5, 1)

    def forward(self, x):
        h = self.trunk(x)
        return self.actor(h), self.critic(h)


class Positions(nn.Module):
    """A last layer at three positions, whose logits are added."""

    def __init__(self):
        super().__init__()
        self.head = nn.Linear(4, 3)

    def forward(self, x):
        return self.head(x.unflatten(1, (3, 4))).sum(1)


def case(bias=True):
    torch.manual_seed(4)
    network = TwoHeads(bias).double()
    x = torch.randn(6, 2, 3, 3, generator=torch.Generator().manual_seed(5), dtype=torch.float64)
    return network, x, ArgmaxLoss(logits=lambda network, x: network(x)[0])


@pytest.mark.parametrize("bias", [True, False])
def test_the_last_layer_is_the_last_block_of_the_exact_gradient(bias):
    network, x, loss = case(bias)
    truth = state_gradients(network, loss, x)
    expected = [truth["actor.weight"].flatten(1)] + ([truth["actor.bias"]] if bias else [])
    features = make("last-layer", network, torch.zeros_like(x[:1]), seed=0, loss=loss)
    assert features.shapes == (torch.Size([4 * (5 + bias)]),)
    torch.testing.assert_close(features(x).dense(), torch.cat(expected, dim=1), rtol=1e-10, atol=1e-12)


def test_the_penultimate_features_are_what_enters_the_actor():
    network, x, loss = case()
    features = make("penultimate", network, torch.zeros_like(x[:1]), seed=0, loss=loss)
    assert features.shapes == (torch.Size([5]),)
    torch.testing.assert_close(features(x).dense(), network.trunk(x).detach())


def test_the_trunk_is_not_differentiated():
    network, x, loss = case()
    features = make("last-layer", network, x, seed=0, loss=loss)
    recorded = []
    network.trunk[3].register_forward_hook(lambda layer, inputs, output: recorded.append(output.requires_grad))
    features(x)
    assert recorded == [False]


def test_several_positions():
    network = Positions().double()
    x = torch.randn(5, 12, generator=torch.Generator().manual_seed(6), dtype=torch.float64)
    truth = state_gradients(network, ArgmaxLoss(), x)
    last = make("last-layer", network, x, seed=0)(x).dense()
    torch.testing.assert_close(last, torch.cat([truth["head.weight"].flatten(1), truth["head.bias"]], dim=1))
    torch.testing.assert_close(make("penultimate", network, x, seed=0)(x).dense(), x)


def test_a_network_without_a_linear_layer_is_refused():
    network = nn.Sequential(nn.Conv2d(1, 3, 2), nn.Flatten())
    with pytest.raises(
        ValueError, match=r"must be an ordinary nn.Linear.*\(layers found: \['0'\]\): use features 'grad"
    ):
        make("penultimate", network, torch.zeros(1, 1, 2, 2), seed=0)
