"""What a feature map is: it takes observations to the features of a policy network, and owns no state of its own."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Protocol

import torch
from torch import Tensor, nn

from optimist.bonuses.features.batch import FeatureBatch

Observations = Tensor | Mapping[str, Tensor]
"""A batch of n observations: a tensor (n, ...), or a dictionary of such tensors."""


READ_NUMBERS = 2**21
"""How many numbers of observations a network reads at a time: 8 megabytes in single precision.

Measured, one core, the paper's network: 650 microseconds a state in batches of 64 or 96 images; 760 in batches of 128
and 920 in batches of 512, whose temporaries glibc's allocator gives back to the system and gets as new pages again.
"""


class FeatureMap(Protocol):
    """A function from n observations to their features ``g_1 .. g_n``, read from ``network`` as it is at the call."""

    @property
    def network(self) -> nn.Module:
        """The network that is read, never written; move it and the features move."""
        ...

    @property
    def shapes(self) -> Sequence[torch.Size]:
        """The shape of each block of one state's feature, known before the first call."""
        ...

    def __call__(self, observations: Observations) -> FeatureBatch:
        """The features of a batch. Shapes: observations (n, ...), or a dictionary of such -> n features."""
        ...


def count(observations: Observations) -> int:
    """n, the length of the batch axis, which every tensor of a dictionary must share."""
    tensors = {"observations": observations} if isinstance(observations, Tensor) else dict(observations)
    lengths = {key: tensor.shape[0] if tensor.ndim else 0 for key, tensor in tensors.items()}
    if not lengths or len(set(lengths.values())) > 1 or 0 in lengths.values():
        raise ValueError(
            "observations must be n >= 1 rows along a first batch axis, the same n in every tensor, got lengths "
            f"{lengths}: pass (n, ...), or observation.unsqueeze(0) for a single one"
        )
    return next(iter(lengths.values()))


def map_observations(function: Callable[[Tensor], Tensor], observations: Observations) -> Observations:
    """``function`` of the tensor, or of every tensor of the dictionary."""
    if isinstance(observations, Tensor):
        return function(observations)
    return {key: function(tensor) for key, tensor in observations.items()}


def pieces(observations: Observations) -> Iterator[Observations]:
    """The batch in order, in even parts of at most ``READ_NUMBERS`` numbers, or of one row."""
    n = count(observations)
    tensors = [observations] if isinstance(observations, Tensor) else observations.values()
    parts = min(n, math.ceil(sum(tensor.numel() for tensor in tensors) / READ_NUMBERS))
    for k in range(parts):
        rows = slice(k * n // parts, (k + 1) * n // parts)
        yield map_observations(lambda tensor, rows=rows: tensor[rows], observations)
