"""Networks as a user would write them, each with its factory, and some that cannot be used.

``tests/`` is on the path of every test, so ``network="own_networks:residual"`` works.
"""

import torch
from torch import nn
from torch.nn import functional as F


class Residual(nn.Module):
    """Features of a vector: one layer, and another one beside the identity, under a layer normalization."""

    def __init__(self, inputs, width=24):
        super().__init__()
        self.first, self.second = nn.Linear(inputs, width), nn.Linear(width, width)
        self.norm = nn.LayerNorm(width)

    def forward(self, observations):
        x = F.silu(self.first(observations))
        return self.norm(x + F.silu(self.second(x)))


def residual(shape, outputs):
    return Residual(shape[0])


class Attention(nn.Module):
    """The cells of MiniGrid as words, attention over them, and the logits as well: a pair."""

    def __init__(self, outputs, width=16):
        super().__init__()
        self.kind, self.place = nn.Embedding(256, width), nn.Parameter(0.1 * torch.randn(49, width))
        self.queries, self.keys = nn.Linear(width, width, bias=False), nn.Linear(width, width, bias=False)
        self.logits = nn.Linear(width, outputs)

    def forward(self, observations):
        x = self.kind(observations[:, 0].flatten(1).int()) + self.place
        mixed = torch.softmax(self.queries(x) @ self.keys(x).mT / 4, -1) @ x
        features = mixed.mean(1)
        return self.logits(features), features


def attention(shape, outputs):
    assert shape == (3, 7, 7)
    return Attention(outputs)


def lazy(shape, outputs):
    return nn.Sequential(nn.LazyLinear(12), nn.Tanh())


def flat(shape, outputs):
    return nn.Flatten(0)


def too_many(shape, outputs):
    return Wrong(lambda x: (x[:, :1], x, x))


def wrong_outputs(shape, outputs):
    return Wrong(lambda x: (x.repeat(1, 3), x))


def integers(shape, outputs):
    return Wrong(lambda x: (x > 0).long())


def no_module(shape, outputs):
    return lambda x: x


def batch_norm(shape, outputs):
    return nn.Sequential(nn.Linear(*shape, 8), nn.BatchNorm1d(8))


def dropout(shape, outputs):
    return nn.Sequential(nn.Linear(*shape, 8), nn.Dropout())


def other_size(shape, outputs):
    return nn.Linear(shape[0] + 1, 8)


def no_arguments():
    return nn.Linear(4, 8)


class Wrong(nn.Module):
    """A network that answers ``answer(observations)``."""

    def __init__(self, answer):
        super().__init__()
        self.answer = answer

    def forward(self, observations):
        return self.answer(observations)
