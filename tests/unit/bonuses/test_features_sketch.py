"""The sketch is a projection of the exact gradient: the same matrices applied to gradients written out give it back."""

import pytest
import torch
from torch import nn

from optimist.bonuses.features import ArgmaxLoss, SketchFeatures
from oracles import state_gradients


class Mixed(nn.Module):
    """Convolutions with and without groups and bias, positions, a linear layer, a norm and a layer used twice."""

    def __init__(self):
        super().__init__()
        self.one = nn.Conv2d(2, 4, (3, 2), stride=(1, 2), padding=(1, 0), padding_mode="circular")
        self.two = nn.Conv2d(4, 6, 3, padding="same", dilation=2, groups=2, bias=False)
        self.mix = nn.Linear(6, 5)
        self.norm = nn.LayerNorm(5)
        self.twice = nn.Linear(5, 5)
        self.head = nn.Linear(5, 3, bias=False)

    def forward(self, x):
        h = torch.relu(self.two(torch.tanh(self.one(x))))
        h = self.norm(torch.tanh(self.mix(h.flatten(2).mT)).sum(1))
        return self.head(torch.tanh(self.twice(torch.tanh(self.twice(h)))))


def case():
    torch.manual_seed(0)
    network = Mixed().double()
    return network, torch.randn(4, 2, 5, 6, generator=torch.Generator().manual_seed(1), dtype=torch.float64)


def projected(network, features, truth):
    """``P_o' G P_i`` of the oracle's gradients, layer by layer and group by group, with the sketch's own matrices."""
    pieces = []
    for name, (left, right) in features.projections.items():
        if name in truth:  # a parameter of its own
            gradients = truth[name].reshape(4, 1, left.matrix.shape[1], right.matrix.shape[1])
        else:
            weight = truth[f"{name}.weight"]
            gradients = weight.reshape(4, left.matrix.shape[0], -1, weight[0, 0].numel())
            if f"{name}.bias" in truth:
                bias = truth[f"{name}.bias"].reshape(*gradients.shape[:3], 1)
                gradients = torch.cat([gradients, bias], dim=3)
        pieces.append(torch.einsum("goa,ngoi,gib->ngab", left.matrix, gradients, right.matrix).flatten(1))
    return torch.cat(pieces, dim=1)


@pytest.mark.parametrize("sketch_size", [2, 3, (2, 4), {"one": (1, 3), "norm.weight": 1}])
def test_the_sketch_is_the_projected_gradient(sketch_size):
    network, x = case()
    features = SketchFeatures(network, ArgmaxLoss(), torch.zeros_like(x[:1]), seed=0, sketch_size=sketch_size)
    assert set(features.plan.layers) == {"one", "two", "mix", "head"}
    others = {"norm.weight", "norm.bias", "twice.weight", "twice.bias"}
    assert set(features.projections) == {*features.plan.layers, *others}
    sketch = features(x).dense()
    assert features.shapes == (sketch.shape[1:],)
    torch.testing.assert_close(sketch, projected(network, features, state_gradients(network, ArgmaxLoss(), x)))


def test_a_layer_smaller_than_the_sketch_is_kept_exactly():
    network, x = case()
    truth = torch.cat([rows.flatten(1) for rows in state_gradients(network, ArgmaxLoss(), x).values()], dim=1)
    sketch = SketchFeatures(network, ArgmaxLoss(), x, seed=0, sketch_size=50)(x).dense()
    assert sketch.shape == truth.shape
    torch.testing.assert_close(sketch @ sketch.T, truth @ truth.T)
    torch.testing.assert_close(sketch.sort(1).values, truth.sort(1).values)


def test_sizes():
    network, x = case()
    features = SketchFeatures(network, ArgmaxLoss(), x, seed=0, sketch_size=(3, 2))
    sizes = {name: left.groups * left.kept * right.kept for name, (left, right) in features.projections.items()}
    assert {sizes[name] for name in ("one", "mix", "head", "twice.weight")} == {3 * 2}
    assert sizes["two"] == 2 * 3 * 2  # two groups
    assert {sizes[name] for name in ("norm.weight", "norm.bias", "twice.bias")} == {5}  # vectors of fewer than 3 x 2


def test_the_seed_is_the_state():
    network, x = case()
    first, again, other = (
        SketchFeatures(network, ArgmaxLoss(), x, seed=s, sketch_size=3)(x).dense() for s in (0, 0, 1)
    )
    assert torch.equal(first, again)
    assert not torch.allclose(first, other)


def test_single_and_double_precision_share_their_projections():
    network, x = case()
    double = SketchFeatures(network, ArgmaxLoss(), x, seed=0, sketch_size=3)(x).dense()
    single = SketchFeatures(network.float(), ArgmaxLoss(), x.float(), seed=0, sketch_size=3)(x.float()).dense()
    torch.testing.assert_close(single, double.float(), rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize(
    ("sketch_size", "message"),
    [
        (0, "integer >= 1 or a pair"),
        ((2, 3, 4), "integer >= 1 or a pair"),
        (True, "integer >= 1 or a pair"),
        ({"critic": 3}, r"sketch_size names \['critic'\], which are not layers that move the loss: known are \['one'"),
    ],
)
def test_bad_sizes_are_refused(sketch_size, message):
    network, x = case()
    with pytest.raises(ValueError, match=message):
        SketchFeatures(network, ArgmaxLoss(), x, seed=0, sketch_size=sketch_size)
