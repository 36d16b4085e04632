"""A structured random projection of the whole gradient: some thousands of numbers for a million."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from optimist.bonuses.features.batch import Dense
from optimist.bonuses.features.losses import Loss
from optimist.bonuses.features.per_state.layers import padded
from optimist.bonuses.features.per_state.plan import inspect, layer_taps, other_rows, product_layers
from optimist.bonuses.features.per_state.taps import Tap, pieces
from optimist.bonuses.observations import Observations
from optimist.seeding import split

SketchSize = int | tuple[int, int]
"""The size of a layer's sketch: (outputs, inputs), or one number for both."""

UNNAMED_SIZE = 16
"""The size of a layer that a mapping of sizes does not name."""
AFFORDABLE_DIMENSIONS = 2500
"""A d x d matrix of 50 MB in float64, and 12 million operations per state to add to it."""


class SketchFeatures:
    """``P_o' G P_i`` of every layer, side by side, with G the layer's gradient (weights and bias, o x (i + 1)).

    P_o (o, a) and P_i (i + 1, b) are Gaussian with variances 1/a and 1/b, drawn from ``seed`` and the layer's name: the
    seed is all the state there is. Inner products are kept in expectation, ``E <P_o' G P_i, P_o' F P_i> = <G, F>``. For
    a linear layer, ``G = e h'`` and ``F = f k'``, the estimate is a product of two independent ones, of ``<e, f>`` with
    variance ``(|e|^2 |f|^2 + <e, f>^2) / a`` and of ``<h, k>`` with ``(|h|^2 |k|^2 + <h, k>^2) / b``; so the estimate
    of ``|G|^2`` has the relative variance ``2/a + 2/b + 4/(a b)``.

    G is never made. A linear layer gives ``(P_o' e) (P_i' h)'``; in a convolution P_i is itself a convolution with
    random filters and the products are summed over positions; groups of a convolution are sketched apart. Parameters of
    other modules are projected as matrices after ``torch.func``. A size that is no smaller than the layer's own leaves
    that side of it as it is, so small layers are exact.

    ``sketch_size`` is one size for all layers, or a mapping from names of layers (of parameters, for other modules) to
    sizes, with ``UNNAMED_SIZE`` for those it does not name.
    Deviation: ours, not the paper's, which uses the whole gradient.
    """

    def __init__(
        self,
        network: nn.Module,
        loss: Loss,
        example: Observations,
        *,
        seed: int,
        sketch_size: SketchSize | Mapping[str, SketchSize],
    ):
        self.network = network
        self.loss = loss
        self.seed = seed
        self.plan = inspect(network, loss, example)
        sizes = sizes_by_name(sketch_size, (*self.plan.layers, *self.plan.others))
        self.projections: dict[str, tuple[Projection, Projection]] = {}
        self._layers = product_layers(network, self.plan.layers)
        for name, layer in self._layers.items():
            weight = layer.weight
            groups = layer.groups if isinstance(layer, nn.Conv2d) else 1
            inputs = weight[0].numel() + (layer.bias is not None)
            self.projections[name] = draw(groups, weight.shape[0] // groups, inputs, sizes[name], weight, seed, name)
        for name in self.plan.others:
            parameter = network.get_parameter(name)
            a, b = sizes[name]
            if parameter.ndim < 2:
                self.projections[name] = draw(1, 1, parameter.numel(), (1, a * b), parameter, seed, name)
            else:
                self.projections[name] = draw(1, len(parameter), parameter[0].numel(), (a, b), parameter, seed, name)
        kept = {name: left.groups * left.kept * right.kept for name, (left, right) in self.projections.items()}
        self.shapes: Sequence[torch.Size] = (torch.Size((sum(kept.values()),)),)
        # Layers come first, by name; then parameters of other modules, which belong to the module that owns them.
        owners = {name: name.rpartition(".")[0] for name in self.plan.others}
        self.layers: Sequence[tuple[str, int]] = tuple((owners.get(name, name), size) for name, size in kept.items())

    def __call__(self, observations: Observations) -> Dense:
        """The sketches of a batch. Shapes: observations (n, ...) -> (n, d), d the sum of the layers' a x b."""
        parts = [self._sketches(some) for some in pieces(observations)]
        return Dense(parts[0] if len(parts) == 1 else torch.cat(parts))

    def _sketches(self, observations: Observations) -> Tensor:
        taps = layer_taps(self.network, self.loss, observations, self._layers)
        rows = other_rows(self.network, self.loss, observations, self.plan)
        parts = [sketch_layer(layer, tap, *self.projections[name]) for name, (layer, tap) in taps.items()]
        parts += [sketch_matrix(rows[name], *self.projections[name]) for name in self.plan.others]
        return torch.cat([part.flatten(1) for part in parts], dim=1)


def affordable_sketch(network: nn.Module, loss: Loss, example: Observations, *, seed: int) -> SketchFeatures:
    """The sketch of the largest size among 64, 32 and 16 that has at most 2,500 dimensions, else of size 8."""
    for size in (64, 32, 16):
        sketch = SketchFeatures(network, loss, example, seed=seed, sketch_size=size)
        if sum(shape.numel() for shape in sketch.shapes) <= AFFORDABLE_DIMENSIONS:
            return sketch
    return SketchFeatures(network, loss, example, seed=seed, sketch_size=8)


@dataclass(frozen=True)
class Projection:
    """A random matrix P for each group of a layer, (groups, length, kept) with ``E P P' = I``; or the identity."""

    matrix: Tensor
    identity: bool

    @property
    def groups(self) -> int:
        """How many matrices there are."""
        return self.matrix.shape[0]

    @property
    def kept(self) -> int:
        """How many numbers are left of a vector."""
        return self.matrix.shape[2]

    @cached_property
    def filters(self) -> Tensor:
        """P' as the weights of a layer without bias, (groups kept, length)."""
        return self.matrix.mT.flatten(0, 1).contiguous()

    @cached_property
    def affine(self) -> tuple[Tensor, Tensor]:
        """P' as the weights of a layer, (groups kept, length - 1), and the bias that its last column is."""
        return self.filters[:, :-1].contiguous(), self.filters[:, -1].contiguous()

    def apply(self, vectors: Tensor) -> Tensor:
        """``P' v`` of every column. Shapes: (..., groups, length, p) -> (..., groups, kept, p)."""
        return vectors if self.identity else self.matrix.mT @ vectors


def sketch_layer(layer: nn.Linear | nn.Conv2d, tap: Tap, left: Projection, right: Projection) -> Tensor:
    """``sum_p (P_o' e_p) (P_i' [h_p, 1])'`` of every state and group. Shapes: -> (n, groups, left.kept, right.kept)."""
    weights, bias = (right.filters, None) if layer.bias is None else right.affine
    if isinstance(layer, nn.Conv2d):
        filters = weights.view(-1, *layer.weight.shape[1:])  # (groups kept, i, height, width)
        h = F.conv2d(padded(layer, tap.inputs), filters, bias, layer.stride, 0, layer.dilation, layer.groups)
        e = tap.gradients.flatten(2).unflatten(1, (layer.groups, -1))  # (n, groups, o, p)
        h = h.flatten(2).unflatten(1, (layer.groups, -1)).mT  # (n, groups, p, kept)
        # P_o' (e h') and (P_o' e) h' are the same; the first is cheaper where there are more positions than outputs.
        return left.apply(e @ h) if h.shape[2] > e.shape[2] else left.apply(e) @ h
    h = F.linear(tap.inputs, weights, bias)  # (n, ..., kept)
    e = tap.gradients if left.identity else tap.gradients @ left.matrix[0]
    if tap.inputs.ndim == 2:
        return (e.unsqueeze(2) * h.unsqueeze(1)).unsqueeze(1)
    return (e.flatten(1, -2).mT @ h.flatten(1, -2)).unsqueeze(1)


def sketch_matrix(rows: Tensor, left: Projection, right: Projection) -> Tensor:
    """``P_o' G P_i`` of gradients that are written out. Shapes: rows (n, ...) -> (n, 1, left.kept, right.kept)."""
    matrices = rows.reshape(len(rows), 1, left.matrix.shape[1], right.matrix.shape[1])
    return right.apply(left.apply(matrices).mT).mT


def draw(
    groups: int, outputs: int, inputs: int, sketch_size: tuple[int, int], like: Tensor, seed: int, name: str
) -> tuple[Projection, Projection]:
    """The projections of the outputs and of the inputs of one layer, on the device of ``like``.

    Each layer has its own stream: a layer added elsewhere moves no other's sketch.
    """
    state = int(split(seed, f"sketch/{name}").generate_state(1, np.uint64)[0])
    generator = torch.Generator().manual_seed(state)

    def one(length: int, kept: int) -> Projection:
        if kept >= length:
            return Projection(torch.eye(length).expand(groups, length, length).to(like), identity=True)
        return Projection((torch.randn(groups, length, kept, generator=generator) / kept**0.5).to(like), identity=False)

    return one(outputs, sketch_size[0]), one(inputs, sketch_size[1])


def sizes_by_name(
    sketch_size: SketchSize | Mapping[str, SketchSize], names: Sequence[str]
) -> dict[str, tuple[int, int]]:
    """The size of every layer's sketch, (outputs, inputs), checked."""
    given = dict(sketch_size) if isinstance(sketch_size, Mapping) else dict.fromkeys(names, sketch_size)
    unknown = sorted(set(given) - set(names))
    if unknown:
        raise ValueError(
            f"sketch_size names {unknown}, which are not layers that move the loss: known are {list(names)}"
        )
    sizes = {}
    for name in names:
        value = given.get(name, UNNAMED_SIZE)
        pair = (value, value) if isinstance(value, int) else tuple(value)
        if len(pair) != 2 or any(not isinstance(k, int) or isinstance(k, bool) or k < 1 for k in pair):
            raise ValueError(
                f"sketch_size must be an integer >= 1 or a pair (outputs, inputs) of such, got {value!r} for {name!r}"
            )
        sizes[name] = pair
    return sizes
