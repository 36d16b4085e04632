"""Which parameters move the loss and how each is best differentiated, settled once on a few probes.

The product forms rest on claims about the network: that a layer is used once, that its first axis counts states, that
no state sees another. Nothing in PyTorch states these claims, so they are tested: each product is set against the plain
gradient of one state at a time, and a layer that fails goes through ``torch.func`` instead.
"""

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from optimist.bonuses.features.feature_map import Observations, count, map_observations
from optimist.bonuses.features.isolation import isolated, parameter_name, readable
from optimist.bonuses.features.layers import native_layers, parameter_blocks
from optimist.bonuses.features.loss import Loss
from optimist.bonuses.features.per_sample import looped_gradients, summed_gradients, vectorised_gradients
from optimist.bonuses.features.plan import Plan
from optimist.bonuses.features.taps import capture

PROBES = 3
AGREEMENT = 1e-3
"""Two ways to one gradient agree to about 1e-6 of its largest coordinate; a wrong way is wrong by order one.

Half-precision networks agree to a few of their own rounding errors instead, see ``tolerance``.
"""


def inspect(network: nn.Module, loss: Loss, example: Observations) -> Plan:
    """The plan for a network, from its gradients at a few probes around ``example``, observations (n, ...), n >= 1."""
    refuse_batch_statistics(network)
    with isolated(network):
        batch = probes(readable(example))
        summed = summed_gradients(network, loss, batch, dict(network.named_parameters()))
        moving = {name: gradient for name, gradient in summed.items() if gradient is not None}
        if not moving:
            raise ValueError("no parameter of the network moves the loss: check that loss or logits calls the network")
        truth = looped_gradients(network, loss, batch, moving)
        largest = max(float(rows.abs().max()) for rows in truth.values())
        if not all(bool(torch.isfinite(rows).all()) for rows in truth.values()):
            raise ValueError("the gradient at the example observation is not finite: pass an observation really seen")
        refuse_mixing(moving, truth, largest)
        # Where all terms of a gradient cancel (the bias of the keys in attention), rounding is all there is to compare.
        rounding = largest * torch.finfo(next(iter(truth.values())).dtype).eps
        layers = exact_layers(network, loss, batch, truth, rounding)
        covered = {
            parameter_name(name, key) for name in layers for key, _ in network.get_submodule(name).named_parameters()
        }
        others = {name: rows for name, rows in truth.items() if name not in covered}
        vectorised = vectorises(network, loss, batch, others, rounding)
    return Plan({name: rows.shape[1:] for name, rows in truth.items()}, layers, tuple(others), vectorised)


def probes(example: Observations) -> Observations:
    """The example and small departures from it, so that no layer sees zeros alone. Shapes: (n, ...) -> (PROBES, ...).

    Real numbers move by a draw from [0, 1), bytes by their lowest bit; other integers may be indices and stay.
    """
    generator = torch.Generator().manual_seed(0)
    rows = torch.arange(PROBES) % count(example)

    def depart(tensor: Tensor) -> Tensor:
        moved = tensor[rows.to(tensor.device)]
        if moved.dtype == torch.uint8:
            moved[1:] ^= torch.randint(2, moved[1:].shape, generator=generator, dtype=torch.uint8).to(moved.device)
        elif moved.is_floating_point():
            moved[1:] += torch.rand(moved[1:].shape, generator=generator).to(moved)
        return moved

    return map_observations(depart, example)


def exact_layers(
    network: nn.Module, loss: Loss, batch: Observations, truth: Mapping[str, Tensor], rounding: float
) -> tuple[str, ...]:
    """The layers whose product form is the gradient of each probe alone, in the order of use."""
    layers = native_layers(network)
    passed = []
    for name, tap in capture(network, loss, batch, layers).items():
        axes = tap.inputs.ndim
        if tap.inputs.shape[0] != PROBES or (axes != 4 if isinstance(layers[name], nn.Conv2d) else axes < 2):
            continue
        blocks = {parameter_name(name, key): block for key, block in parameter_blocks(layers[name], tap).items()}
        if all(key in truth and agree(block.rows(), truth[key], rounding) for key, block in blocks.items()):
            passed.append(name)
    return tuple(passed)


def vectorises(
    network: nn.Module, loss: Loss, batch: Observations, truth: Mapping[str, Tensor], rounding: float
) -> bool:
    """Whether ``vmap`` runs through the network and gives the gradients of ``truth``."""
    try:
        rows = vectorised_gradients(network, loss, batch, truth) if truth else {}
    except (RuntimeError, NotImplementedError):  # how torch.func reports an operation that it cannot batch
        return False
    return all(agree(rows[name], truth[name], rounding) for name in truth)


def refuse_batch_statistics(network: nn.Module) -> None:
    """Nothing, or an error naming a layer that normalises a state by the other states of its batch."""
    for name, module in network.named_modules():
        normalises = isinstance(module, nn.BatchNorm1d | nn.BatchNorm2d | nn.BatchNorm3d | nn.SyncBatchNorm)
        if normalises and (module.training or module.running_mean is None):
            raise ValueError(
                f"layer {name!r} ({type(module).__name__}) normalises by the statistics of the batch, so that a state "
                "has no gradient of its own: call network.eval() first, or use LayerNorm or GroupNorm"
            )


def refuse_mixing(summed: Mapping[str, Tensor], truth: Mapping[str, Tensor], largest: float) -> None:
    """Nothing, or an error if the gradient of the batch is not the sum of the gradients of its states alone."""
    for name, rows in truth.items():
        if not bool(((summed[name] - rows.sum(0)).abs() <= tolerance(rows) * largest).all()):
            raise ValueError(
                f"the network mixes the states of a batch: the gradient in {name!r} of {PROBES} states together is not "
                "the sum of those of each alone; a feature belongs to one state, so remove what looks across the batch"
            )


def agree(rows: Tensor, truth: Tensor, rounding: float) -> bool:
    """Whether two results for one gradient differ by rounding only."""
    if rows.shape != truth.shape:
        return False
    return bool(((rows - truth).abs() <= tolerance(truth) * truth.abs().max() + rounding).all())


def tolerance(gradient: Tensor) -> float:
    """How far two ways to one gradient may lie apart, relative to the largest coordinate."""
    return max(AGREEMENT, 16 * torch.finfo(gradient.dtype).eps)
