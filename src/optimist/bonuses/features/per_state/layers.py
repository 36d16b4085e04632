"""The gradient of every state in a layer's parameters, from the layer's input and the gradient at its output.

A linear layer's gradient is the outer product ``e h'``; where the layer is applied at several positions of one state (a
convolution, a sequence) it is the sum of such products over the positions.
Einsum letters: n sample, g group, o output, k input of one position, p position.
"""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from optimist.bonuses.features.batch import Block, OuterProduct, Rows
from optimist.bonuses.features.per_state.taps import Tap

UNFOLDED_NUMBERS = 2**19
"""How many numbers of unfolded convolution input are held at a time: two megabytes in single precision."""


def native_layers(network: nn.Module) -> dict[str, nn.Linear | nn.Conv2d]:
    """The layers with a product form, by name: exactly ``Linear`` and ``Conv2d``, with parameters of their own.

    A subclass may compute something else, and a layer whose weight is no parameter (weight normalization) or is shared
    with another layer has a gradient that is not its own product: these are left to ``torch.func``.
    """
    owners: dict[int, int] = {}
    for _, parameter in network.named_parameters(remove_duplicate=False):
        owners[id(parameter)] = owners.get(id(parameter), 0) + 1
    return {
        name: layer
        for name, layer in network.named_modules()
        if (type(layer) is nn.Linear or type(layer) is nn.Conv2d)
        and {key for key, _ in layer.named_parameters(recurse=False)} == expected_parameters(layer)
        and all(owners[id(parameter)] == 1 for parameter in layer.parameters(recurse=False))
    }


def expected_parameters(layer: nn.Linear | nn.Conv2d) -> set[str]:
    """The names of the parameters that an ordinary layer of this kind has."""
    return {"weight"} if layer.bias is None else {"weight", "bias"}


def parameter_blocks(layer: nn.Linear | nn.Conv2d, tap: Tap) -> dict[str, Block]:
    """The gradients of the n states in the layer's ``weight`` and, if it has one, ``bias``."""
    if isinstance(layer, nn.Conv2d):
        weight, bias = convolution_weight(layer, tap), tap.gradients.sum((2, 3))
    elif tap.inputs.ndim == 2:
        weight, bias = OuterProduct(tap.gradients, tap.inputs), tap.gradients
    else:
        h, e = tap.inputs.flatten(1, -2), tap.gradients.flatten(1, -2)  # (n, p, i) and (n, p, o)
        weight, bias = Rows(e.mT @ h), e.sum(1)
    return {"weight": weight} if layer.bias is None else {"weight": weight, "bias": Rows(bias)}


def convolution_weight(layer: nn.Conv2d, tap: Tap) -> Rows:
    """``sum_p e_p h_p'`` of every state, h_p being what the filter sees at position p; groups apart.

    Written out, since a convolution has few weights; the unfolded input is made for a few states at a time.
    Shapes: inputs (n, i, height, width), gradients (n, o, height', width') -> (n, *weight.shape).
    """
    groups = layer.groups
    n, o = tap.gradients.shape[:2]
    e = tap.gradients.reshape(n, groups, o // groups, -1)
    gradients = e.new_empty(n, groups, o // groups, layer.weight[0].numel())
    states = max(1, UNFOLDED_NUMBERS // (groups * gradients.shape[3] * e.shape[3]))
    for start in range(0, n, states):
        some = slice(start, start + states)
        seen = F.unfold(padded(layer, tap.inputs[some]), layer.weight.shape[2:], layer.dilation, 0, layer.stride)
        torch.matmul(e[some], seen.unflatten(1, (groups, -1)).mT, out=gradients[some])
    return Rows(gradients.reshape(n, *layer.weight.shape))


def padded(layer: nn.Conv2d, inputs: Tensor) -> Tensor:
    """The input with the layer's padding written out. Shapes: (n, i, height, width) -> the same, larger."""
    edges = []
    for axis in (1, 0):  # F.pad counts from the last axis
        if layer.padding == "same":
            total = layer.dilation[axis] * (layer.kernel_size[axis] - 1)
            edges += [total // 2, total - total // 2]
        elif layer.padding == "valid":
            edges += [0, 0]
        else:
            edges += [int(layer.padding[axis])] * 2
    if not any(edges):
        return inputs
    return F.pad(inputs, edges, mode="constant" if layer.padding_mode == "zeros" else layer.padding_mode)
