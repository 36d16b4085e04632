"""The networks of RND and ICM: convolutions for images, an MLP for vectors and discrete states."""

import math
from collections.abc import Mapping

import torch
from torch import Tensor, nn

from optimist.bonuses.observations import Image, Part

HIDDEN = 256  # the width of the MLP for vectors and discrete states, which RND and ICM do not define: ours
CONVOLUTIONS = ((32, 8, 4), (64, 4, 2), (64, 3, 1))  # channels, kernel, stride: RND's target and predictor


def linear(inputs: int, outputs: int, *, generator: torch.Generator, gain: float = math.sqrt(2)) -> nn.Linear:
    """A linear layer with orthogonal weights times ``gain`` and zero biases, drawn from ``generator`` alone."""
    # Built without values: the usual constructor would draw them from the global generator.
    layer = nn.Linear(inputs, outputs, device="meta").to_empty(device="cpu")
    _draw_orthogonal(layer, gain, generator)
    return layer


def convolution(inputs: int, outputs: int, kernel: int, stride: int, *, generator: torch.Generator) -> nn.Conv2d:
    """A convolution with orthogonal weights of gain ``sqrt 2`` and zero biases, drawn from ``generator`` alone."""
    layer = nn.Conv2d(inputs, outputs, kernel, stride, device="meta").to_empty(device="cpu")
    _draw_orthogonal(layer, math.sqrt(2), generator)
    return layer


class Encoder(nn.Module):
    """A feature vector of an observation: each part through its own trunk, all trunks side by side into one layer.

    Image: convolutions 32 8x8/4, 64 4x4/2, 64 3x3/1. Vector and one-hot: two layers of 256. Leaky ReLU after each.
    The last layer is linear, so that for one image this is RND's target network.

    Shapes: parts {name: (n, *part.shape)} -> (n, n_features).
    Paper: RND (Burda et al. 2018), appendix A.4; the MLP is ours.
    """

    def __init__(self, parts: Mapping[str, Part], n_features: int, *, generator: torch.Generator):
        super().__init__()
        # A module name may be neither empty nor dotted, so the trunks are known by position.
        self._names = tuple(parts)
        self.trunks = nn.ModuleList([_trunk(part, generator) for part in parts.values()])
        width = sum(_trunk_width(part) for part in parts.values())
        self.output = linear(width, n_features, generator=generator)

    def forward(self, parts: Mapping[str, Tensor]) -> Tensor:
        """Features of the parts."""
        trunks = [trunk(parts[name]) for name, trunk in zip(self._names, self.trunks, strict=True)]
        return self.output(torch.cat(trunks, dim=1) if len(trunks) > 1 else trunks[0])


def _trunk(part: Part, generator: torch.Generator) -> nn.Sequential:
    layers: list[nn.Module] = []
    width = part.shape[0]
    if isinstance(part, Image):
        for outputs, kernel, stride in CONVOLUTIONS:
            layers += [convolution(width, outputs, kernel, stride, generator=generator), nn.LeakyReLU()]
            width = outputs
        return nn.Sequential(*layers, nn.Flatten())
    for _ in range(2):
        layers += [linear(width, HIDDEN, generator=generator), nn.LeakyReLU()]
        width = HIDDEN
    return nn.Sequential(*layers)


def _trunk_width(part: Part) -> int:
    if not isinstance(part, Image):
        return HIDDEN
    height, width = part.shape[1:]
    for _, kernel, stride in CONVOLUTIONS:
        height, width = (height - kernel) // stride + 1, (width - kernel) // stride + 1
    return CONVOLUTIONS[-1][0] * height * width


def _draw_orthogonal(layer: nn.Linear | nn.Conv2d, gain: float, generator: torch.Generator) -> None:
    nn.init.orthogonal_(layer.weight, gain, generator=generator)
    if layer.bias is not None:
        nn.init.zeros_(layer.bias)
