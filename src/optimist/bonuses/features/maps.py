"""Feature maps: from observations to the features of a policy network. They own no state of their own."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, Protocol, get_args

import torch
from torch import Tensor, nn

from optimist.bonuses.features.batch import Block, BlockFeatures, Dense, FeatureBatch, Rows
from optimist.bonuses.features.losses import FeatureLoss, Loss, Weighting, chosen_loss, forward
from optimist.bonuses.features.per_state.isolation import parameter_name
from optimist.bonuses.features.per_state.layers import parameter_blocks
from optimist.bonuses.features.per_state.plan import (
    Plan,
    inspect,
    layer_taps,
    other_rows,
    product_layers,
    real_probes,
)
from optimist.bonuses.features.per_state.taps import pieces
from optimist.bonuses.features.sketch import SketchFeatures, SketchSize, affordable_sketch
from optimist.bonuses.observations import Observations, count, named
from optimist.config import suggestion

FeatureName = Literal["gradient", "sketch", "last-layer", "penultimate", "observations"]
NAMES: tuple[str, ...] = get_args(FeatureName)


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

    @property
    def layers(self) -> Sequence[tuple[str, int]]:
        """The layer of each run of coordinates, in order, and the length of the run; the lengths add up to d."""
        ...

    def __call__(self, observations: Observations) -> FeatureBatch:
        """The features of a batch. Shapes: observations (n, ...), or a dictionary of such -> n features."""
        ...


def make(
    name: str,
    network: nn.Module,
    example_observation: Observations,
    *,
    seed: int,
    loss: Loss | None = None,
    feature_loss: FeatureLoss = "fisher",
    weighting: Weighting = "none",
    logits: Callable[[nn.Module, Any], Tensor] = forward,
    sketch_size: SketchSize | Mapping[str, SketchSize] = 0,
) -> FeatureMap:
    """The feature map called ``name``, one of ``NAMES``, of a policy network.

    ``example_observation`` is n >= 1 observations with their batch axis, (n, ...) or a dictionary of such; zeros will
    do. ``seed`` draws the projections of ``sketch``; the others have no chance in them. ``loss`` is the cross-entropy
    at the argmax, with ``weighting`` and ``logits`` (see ``ArgmaxLoss``), unless another is given; with
    ``feature_loss="fisher"`` it is `FisherLoss`. ``sketch_size`` is for ``sketch``; 0 is the largest of 64, 32 and 16
    with which the sketch has at most 2,500 dimensions, or 8.
    """
    chosen = chosen_loss(loss, feature_loss, weighting, logits)
    match name:
        case "gradient":
            return GradientFeatures(network, chosen, example_observation)
        case "sketch":
            if sketch_size == 0:
                return affordable_sketch(network, chosen, example_observation, seed=seed)
            return SketchFeatures(network, chosen, example_observation, seed=seed, sketch_size=sketch_size)
        case "last-layer":
            return LastLayerFeatures(network, chosen, example_observation)
        case "penultimate":
            return PenultimateFeatures(network, chosen, example_observation)
        case "observations":
            return ObservationFeatures(example_observation, network)
    raise ValueError(f"there are no features {name!r}: {suggestion(name, NAMES)}")


class GradientFeatures:
    """``g(x) = d loss(x) / d theta``, theta being the trunk and the actor: the critic does not move the loss.

    One forward and one backward pass per batch. Linear layers stay outer products, convolutions are written out (they
    have few weights), every other parameter comes from ``torch.func``. Block ``k`` belongs to the parameter
    ``names[k]``. ``example`` is n >= 1 observations (n, ...) of any value; the network is run on it to find what moves
    the loss.
    Paper: section 4, equation 1, the gradient representation ``g(x; f, theta)``.
    """

    def __init__(self, network: nn.Module, loss: Loss, example: Observations):
        self.network = network
        self.loss = loss
        self.plan = inspect(network, loss, example)
        self._layers = product_layers(network, self.plan.layers)

    @property
    def names(self) -> Sequence[str]:
        """The parameter of each block."""
        return tuple(self.plan.shapes)

    @property
    def shapes(self) -> Sequence[torch.Size]:
        """The shapes of these parameters; their sizes add up to d."""
        return tuple(self.plan.shapes.values())

    @property
    def layers(self) -> Sequence[tuple[str, int]]:
        """The module that owns each parameter, and the size of the parameter."""
        return tuple((name.rpartition(".")[0], shape.numel()) for name, shape in self.plan.shapes.items())

    def __call__(self, observations: Observations) -> BlockFeatures:
        """The gradients of a batch. Shapes: observations (n, ...) -> n features."""
        blocks: dict[str, Block] = {}
        for name, (layer, tap) in layer_taps(self.network, self.loss, observations, self._layers).items():
            blocks.update({parameter_name(name, key): block for key, block in parameter_blocks(layer, tap).items()})
        for name, rows in other_rows(self.network, self.loss, observations, self.plan).items():
            blocks[name] = Rows(rows)
        return BlockFeatures([blocks[name] for name in self.names], count(observations))


class LastLayerFeatures:
    """``e (outer) [h, 1]`` of the last linear layer; for a softmax policy ``e = p(x) - onehot(argmax p(x))``.

    No backward pass through the trunk: only what follows the last layer is differentiated.
    Deviation: between the paper's two representations; the exact gradient with all blocks left out but the last.
    """

    def __init__(self, network: nn.Module, loss: Loss, example: Observations):
        self.network = network
        self.loss = loss
        self.layer = last_linear_layer(network, inspect(network, loss, example))
        self._layers = product_layers(network, (self.layer,))
        self.shapes: Sequence[torch.Size] = self(example).shapes
        self.layers: Sequence[tuple[str, int]] = ((self.layer, self.shapes[0].numel()),)

    def __call__(self, observations: Observations) -> Dense:
        """The gradients, weights first. Shapes: observations (n, ...) -> (n, d), d = actions x (width + 1)."""
        return Dense(torch.cat([self._gradients(some) for some in pieces(observations)]))

    def _gradients(self, observations: Observations) -> Tensor:
        layer, tap = layer_taps(self.network, self.loss, observations, self._layers)[self.layer]
        return BlockFeatures(list(parameter_blocks(layer, tap).values()), count(observations)).dense()


class PenultimateFeatures:
    """``h(x)``, what enters the last linear layer that moves the loss; of several positions, all of them in a row.

    Paper: section 4 and Figure 3, the penultimate-layer representation.
    """

    def __init__(self, network: nn.Module, loss: Loss, example: Observations):
        self.network = network
        self.loss = loss
        self.layer = last_linear_layer(network, inspect(network, loss, example))
        self._layers = product_layers(network, (self.layer,))
        self.shapes: Sequence[torch.Size] = self(example).shapes
        self.layers: Sequence[tuple[str, int]] = ((self.layer, self.shapes[0].numel()),)

    def __call__(self, observations: Observations) -> Dense:
        """The hidden state of a batch. Shapes: observations (n, ...) -> (n, d), d the input width of the last layer."""
        return Dense(torch.cat([self._hidden(some) for some in pieces(observations)]))

    def _hidden(self, observations: Observations) -> Tensor:
        _, tap = layer_taps(self.network, self.loss, observations, self._layers)[self.layer]
        return tap.inputs.flatten(1)


class ObservationFeatures:
    """``x`` itself, flattened; of a Dict, its tensors side by side: vectors that the caller brings, such as embeddings.

    No network is read. ``network``, an empty module unless another is given, is what the protocol of maps asks for.
    Deviation: ours; the paper's features are those of the policy.
    """

    def __init__(self, example: Observations, network: nn.Module | None = None):
        self.network = nn.Identity() if network is None else network
        self._device = next(iter(named(example).values())).device
        self.shapes: Sequence[torch.Size] = self(example).shapes
        self.layers: Sequence[tuple[str, int]] = (("observations", self.shapes[0].numel()),)

    def __call__(self, observations: Observations) -> Dense:
        """The vectors, float32 unless they are float64. Shapes: observations (n, ...) -> (n, d)."""
        n = count(observations)
        parts = [part.to(self._device).reshape(n, -1) for part in named(observations).values()]
        return Dense(torch.cat([part if part.dtype == torch.float64 else part.float() for part in parts], 1))


def still_fits(features: FeatureMap, observations: Observations) -> bool:
    """Whether the map, made for an example, would be made alike for these real states; an error if they are mixed.

    A second use of a weight may be dead at the example, states that mix may be equal there, and another branch may be
    taken. Maps of other kinds than ours are taken on trust. Shapes: observations (n, ...).
    """
    match features:
        case GradientFeatures() | SketchFeatures():
            return inspect(features.network, features.loss, real_probes(observations)) == features.plan
        case LastLayerFeatures() | PenultimateFeatures():
            plan = inspect(features.network, features.loss, real_probes(observations))
            return last_linear_layer(features.network, plan) == features.layer
        case _:
            return True


def last_linear_layer(network: nn.Module, plan: Plan) -> str:
    """The name of the linear layer that is used last on the way to the loss."""
    linear = [name for name in plan.layers if isinstance(network.get_submodule(name), nn.Linear)]
    if not linear:
        raise ValueError(
            "the last layer of the policy must be an ordinary nn.Linear that is used once for each state, got none "
            f"(layers found: {list(plan.layers)}): use features 'gradient' or 'sketch', which take any network"
        )
    return linear[-1]
