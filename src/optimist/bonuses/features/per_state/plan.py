"""Which parameters move the loss, how each is best differentiated (settled on a few probes), and doing so.

The product forms rest on claims about the network: that a layer is used once, that its first axis counts states, that
no state sees another. Nothing in PyTorch states these claims, so they are tested: each product is set against the plain
gradient of one state at a time, and a layer that fails goes through ``torch.func`` instead. What holds for an example
of zeros need not hold for real states, so the first rollout is probed again (see ``maps.still_fits``).
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from optimist.bonuses.features.losses import Loss
from optimist.bonuses.features.per_state.fallback import looped_gradients, summed_gradients, vectorized_gradients
from optimist.bonuses.features.per_state.isolation import isolated, parameter_name, readable
from optimist.bonuses.features.per_state.layers import native_layers, parameter_blocks
from optimist.bonuses.features.per_state.taps import Tap, capture
from optimist.bonuses.observations import Observations, count, map_observations, named, take

PROBES = 3
REAL_PROBES = 8
CANDIDATES = 64
AGREEMENT = 1e-3
"""Two ways to one gradient agree to about 1e-6 of its largest coordinate; a wrong way is wrong by order one.

Half-precision networks agree to a few of their own rounding errors instead, see ``tolerance``.
"""


@dataclass(frozen=True)
class Plan:
    """How each parameter that moves the loss is differentiated; made by ``inspect``."""

    shapes: Mapping[str, torch.Size]
    """The parameters by name, in the network's order, without those of the critic."""
    layers: tuple[str, ...]
    """The layers with a product form, in the order of use."""
    others: tuple[str, ...]
    """The parameters that are left to ``torch.func``."""
    vectorized: bool
    """Whether ``vmap`` can run this network; if not, one backward pass per state serves ``others``."""


def layer_taps(
    network: nn.Module, loss: Loss, observations: Observations, layers: Mapping[str, nn.Linear | nn.Conv2d]
) -> dict[str, tuple[nn.Linear | nn.Conv2d, Tap]]:
    """The layers (see ``product_layers``), each with its input and output gradient for the n states of the batch."""
    with isolated(network):
        taps = capture(network, loss, readable(observations, network), layers)
    missing = [name for name in layers if name not in taps]
    if missing:
        raise ValueError(
            f"layers {missing} are not used exactly once for these observations, though they were for the example: "
            "build the features with an observation that takes the network's usual path"
        )
    return {name: (layer, taps[name]) for name, layer in layers.items()}


def product_layers(network: nn.Module, names: Iterable[str]) -> dict[str, nn.Linear | nn.Conv2d]:
    """The layers of these names, which ``inspect`` has found to have a product form."""
    found = native_layers(network)
    return {name: found[name] for name in names}


def other_rows(network: nn.Module, loss: Loss, observations: Observations, plan: Plan) -> dict[str, Tensor]:
    """The gradients of the n states in the parameters without a product form, (n, *shape) each."""
    if not plan.others:
        return {}
    differentiate = vectorized_gradients if plan.vectorized else looped_gradients
    with isolated(network):
        return {
            name: rows.detach()
            for name, rows in differentiate(network, loss, readable(observations, network), plan.others).items()
        }


def inspect(network: nn.Module, loss: Loss, example: Observations) -> Plan:
    """The plan for a network, from its gradients at a few probes around ``example``, observations (n, ...), n >= 1."""
    refuse_batch_statistics(network)
    with isolated(network):
        batch = probes(readable(example, network))
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
        vectorized = vectorizes(network, loss, batch, others, rounding)
    return Plan({name: rows.shape[1:] for name, rows in truth.items()}, layers, tuple(others), vectorized)


def probes(example: Observations) -> Observations:
    """Up to 8 rows of the example, at least three: those that repeat an earlier one depart from it a little.

    So no layer sees zeros alone. Real numbers move by a draw from [-1, 1), bytes by their lowest bit; other integers
    may be indices and stay.
    Shapes: (n, ...) -> (k, ...), k from 3 to 8.
    """
    generator = torch.Generator().manual_seed(0)
    n = count(example)
    rows = torch.arange(min(max(n, PROBES), REAL_PROBES)) % n
    fresh = distinct(take(example, rows))
    repeated = torch.tensor([k for k in range(len(rows)) if k not in fresh], dtype=torch.int64)

    def depart(tensor: Tensor) -> Tensor:
        moved = tensor[rows.to(tensor.device)]
        there = repeated.to(tensor.device)
        size = moved[there].shape
        if moved.dtype == torch.uint8:
            moved[there] ^= torch.randint(2, size, generator=generator, dtype=torch.uint8).to(moved.device)
        elif moved.is_floating_point():
            moved[there] += (2 * torch.rand(size, generator=generator) - 1).to(moved)
        return moved

    return map_observations(depart, example)


def real_probes(observations: Observations) -> Observations:
    """Up to 8 states of a rollout that differ from each other, sought among 64. Shapes: (n, ...) -> (k, ...)."""
    candidates = torch.linspace(0, count(observations) - 1, min(count(observations), CANDIDATES)).long()
    some = take(observations, candidates)
    return take(some, torch.tensor(distinct(some)[:REAL_PROBES]))


def distinct(observations: Observations) -> list[int]:
    """The rows that differ from every row before them."""
    rows = torch.cat([part.reshape(len(part), -1).cpu().double() for part in named(observations).values()], 1)
    equal = torch.stack([(rows == row).all(1) for row in rows])
    return [k for k in range(len(rows)) if not bool(equal[k, :k].any())]


def exact_layers(
    network: nn.Module, loss: Loss, batch: Observations, truth: Mapping[str, Tensor], rounding: float
) -> tuple[str, ...]:
    """The layers whose product form is the gradient of each probe alone, in the order of use."""
    layers = native_layers(network)
    passed = []
    for name, tap in capture(network, loss, batch, layers).items():
        axes = tap.inputs.ndim
        if tap.inputs.shape[0] != count(batch) or (axes != 4 if isinstance(layers[name], nn.Conv2d) else axes < 2):
            continue
        blocks = {parameter_name(name, key): block for key, block in parameter_blocks(layers[name], tap).items()}
        if all(key in truth and agree(block.rows(), truth[key], rounding) for key, block in blocks.items()):
            passed.append(name)
    return tuple(passed)


def vectorizes(
    network: nn.Module, loss: Loss, batch: Observations, truth: Mapping[str, Tensor], rounding: float
) -> bool:
    """Whether ``vmap`` runs through the network and gives the gradients of ``truth``."""
    try:
        rows = vectorized_gradients(network, loss, batch, truth) if truth else {}
    except (RuntimeError, NotImplementedError):  # how torch.func reports an operation that it cannot batch
        return False
    return all(agree(rows[name], truth[name], rounding) for name in truth)


def refuse_batch_statistics(network: nn.Module) -> None:
    """Nothing, or an error naming a layer that normalizes a state by the other states of its batch."""
    for name, module in network.named_modules():
        normalizes = isinstance(module, nn.BatchNorm1d | nn.BatchNorm2d | nn.BatchNorm3d | nn.SyncBatchNorm)
        if normalizes and (module.training or module.running_mean is None):
            raise ValueError(
                f"layer {name!r} ({type(module).__name__}) normalizes by the statistics of the batch, so that a state "
                "has no gradient of its own: call network.eval() first, or use LayerNorm or GroupNorm"
            )


def refuse_mixing(summed: Mapping[str, Tensor], truth: Mapping[str, Tensor], largest: float) -> None:
    """Nothing, or an error if the gradient of the batch is not the sum of the gradients of its states alone."""
    for name, rows in truth.items():
        if not bool(((summed[name] - rows.sum(0)).abs() <= tolerance(rows) * largest).all()):
            raise ValueError(
                f"the network mixes the states of a batch: the gradient in {name!r} of {len(rows)} states together is "
                "not the sum of those of each alone; a feature belongs to one state, so remove what looks across a "
                "batch"
            )


def agree(rows: Tensor, truth: Tensor, rounding: float) -> bool:
    """Whether two results for one gradient differ by rounding only."""
    if rows.shape != truth.shape:
        return False
    return bool(((rows - truth).abs() <= tolerance(truth) * truth.abs().max() + rounding).all())


def tolerance(gradient: Tensor) -> float:
    """How far two ways to one gradient may lie apart, relative to the largest coordinate."""
    return max(AGREEMENT, 16 * torch.finfo(gradient.dtype).eps)
