"""Observations in units of their own: the running mean and deviation of every number of a vector."""

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from optimist.bonuses.observations import Observations, flatten_time, named, take, unnamed
from optimist.bonuses.scaling import SMALLEST_DEVIATION, merge_moments, pooled
from optimist.bonuses.transitions import Transitions
from optimist.ranks import ALONE, Ranks
from optimist.training.trunks import Shape

CLIP = 10.0
"""Normalized numbers lie in -10 .. 10, as in Stable-Baselines3's VecNormalize and in OpenAI's baselines."""


class Units(nn.Module):
    """``clip((x - mean) / deviation)`` by the moments of all that `update` has seen; before it, x itself, clipped.

    Shapes: (n, *shape) -> (n, *shape), float32.
    """

    count: Tensor
    mean: Tensor
    deviation: Tensor

    def __init__(self, shape: tuple[int, ...]):
        super().__init__()
        self.register_buffer("count", torch.zeros((), dtype=torch.int64))
        self.register_buffer("mean", torch.zeros(shape))
        self.register_buffer("deviation", torch.ones(shape))

    def forward(self, x: Tensor) -> Tensor:
        """Normalized numbers."""
        return ((x.float() - self.mean) / self.deviation.clamp_min(SMALLEST_DEVIATION)).clamp(-CLIP, CLIP)

    @torch.no_grad()
    def update(self, x: Tensor, ranks: Ranks = ALONE) -> None:
        """Take in more numbers, of all ``ranks``; in float64, so that the mean of many large ones is right.

        Shapes: (n, *shape).
        """
        before = int(self.count)
        variance, mean = torch.zeros(2, *x.shape[1:], dtype=torch.float64)
        if len(x):
            variance, mean = torch.var_mean(x.double().cpu(), dim=0, correction=0)
        added, (mean,), (variance,) = pooled(ranks, len(x), [mean], [variance])
        if not added:
            return
        merged = merge_moments(before, self.mean.double().cpu(), added, mean)
        scatter = self.deviation.double().cpu().square() * before + variance * added
        scatter = scatter + merged.shift.square() * merged.weight
        self.count.fill_(merged.count)
        self.mean.copy_(merged.mean)
        self.deviation.copy_((scatter / merged.count).sqrt())


class Normalizer(nn.Module):
    """Observations with every vector in `Units`; images, codes and states as they are.

    Its statistics are part of the network, so that they are saved, copied and moved with it. They move in `update`
    alone, once per rollout after the policy has learned from it: within a rollout, and in the learning from it, an
    observation is read as it was when it was acted on.
    """

    def __init__(self, shapes: Mapping[str, tuple[int, ...]]):
        super().__init__()
        self.names = tuple(shapes)
        self.units = nn.ModuleList([Units(shape) for shape in shapes.values()])

    def forward(self, observations: Observations) -> Observations:
        """The observations with normalized vectors. Shapes: (n, ...), unchanged."""
        parts = named(observations)
        parts |= {name: units(parts[name]) for name, units in zip(self.names, self.units, strict=True)}
        return unnamed(parts, like=observations)

    def update(self, transitions: Transitions, ranks: Ranks = ALONE) -> None:
        """Take in the observations of the valid steps that were acted on, by all ``ranks``."""
        rows = transitions.rows
        if len(rows) or not ranks.alone:
            parts = named(take(flatten_time(transitions.observations), rows))
            for name, units in zip(self.names, self.units, strict=True):
                units.update(parts[name], ranks)  # pyrefly: ignore


def make_normalizer(shape: Shape) -> Normalizer | None:
    """A normalizer for the vectors among observations of ``shape``; None if there are none."""
    parts = named(shape)  # pyrefly: ignore
    vectors = {name: part for name, part in parts.items() if isinstance(part, tuple) and len(part) != 3}
    return Normalizer(vectors) if vectors else None
