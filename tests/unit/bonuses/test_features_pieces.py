"""A network reads a large batch some rows at a time, and the features are those of the batch as a whole."""

import pytest
import torch
from torch import nn

from optimist.bonuses.features import make
from optimist.bonuses.features.per_state import taps
from optimist.bonuses.features.per_state.taps import pieces


@pytest.mark.parametrize(
    ("limit", "lengths"),
    [(10**9, [7]), (7 * 6, [7]), (7 * 6 - 1, [3, 4]), (3 * 6, [2, 2, 3]), (6, [1] * 7), (1, [1] * 7)],
)
@pytest.mark.parametrize("is_dict", [False, True])
def test_pieces_are_the_batch_in_order_in_even_parts_below_the_limit(monkeypatch, limit, lengths, is_dict):
    monkeypatch.setattr(taps, "READ_NUMBERS", limit)
    numbers = torch.arange(7 * 6).view(7, 6)
    batch = {"a": numbers[:, :2], "b": numbers[:, 2:]} if is_dict else numbers
    found = [torch.cat([piece["a"], piece["b"]], 1) if is_dict else piece for piece in pieces(batch)]
    assert [len(piece) for piece in found] == lengths
    assert torch.equal(torch.cat(found), numbers)


@pytest.mark.parametrize("name", ["sketch", "last-layer", "penultimate"])
def test_features_do_not_depend_on_how_a_batch_is_read(monkeypatch, name):
    generator = torch.Generator().manual_seed(0)
    network = nn.Sequential(
        nn.Conv2d(2, 4, 3), nn.Tanh(), nn.Flatten(), nn.Linear(4 * 16, 8), nn.Tanh(), nn.Linear(8, 3)
    )
    x = torch.randn(11, 2, 6, 6, generator=generator, dtype=torch.float64)
    features = make(name, network.double(), x[:1], seed=0)
    whole = features(x).dense()
    seen = []
    network[0].register_forward_hook(lambda _, inputs, __: seen.append(len(inputs[0])))
    monkeypatch.setattr(taps, "READ_NUMBERS", 4 * 72)
    torch.testing.assert_close(features(x).dense(), whole)
    assert seen == [3, 4, 4]
