"""Per-state gradients in any parameters at all, one row per state, for what has no product form."""

from collections.abc import Iterable, Mapping

import torch
from torch import Tensor, nn
from torch.func import grad, vmap
from torch.nn.attention import SDPBackend, sdpa_kernel

from optimist.bonuses.features.losses import Loss
from optimist.bonuses.features.per_state.isolation import detached_parameters, losses
from optimist.bonuses.observations import Observations, count, map_observations, take


def vectorized_gradients(
    network: nn.Module, loss: Loss, observations: Observations, names: Iterable[str]
) -> dict[str, Tensor]:
    """The gradient of each state's loss in the named parameters, all states at once by ``vmap(grad)``.

    Shapes: observations (n, ...) -> (n, *parameter.shape) for each name. Call inside ``isolated``.
    """
    every = detached_parameters(network)
    chosen = {name: every.pop(name) for name in names}

    def one(parameters: Mapping[str, Tensor], observation: Observations) -> Tensor:
        batch = map_observations(lambda tensor: tensor.unsqueeze(0), observation)
        return losses(network, loss, {**every, **parameters}, batch)[0]

    # The fused attention kernels have no batching rule, and would run one state after another.
    with sdpa_kernel(SDPBackend.MATH):
        return vmap(grad(one), in_dims=(None, 0))(chosen, observations)


def looped_gradients(
    network: nn.Module, loss: Loss, observations: Observations, names: Iterable[str]
) -> dict[str, Tensor]:
    """The same by one backward pass per state: slow, and right for every network that can be differentiated.

    Shapes and context: as ``vectorized_gradients``.
    """
    chosen = tuple(names)
    rows = []
    for k in range(count(observations)):
        alone = take(observations, slice(k, k + 1))
        found = summed_gradients(network, loss, alone, chosen)
        rows.append([torch.zeros_like(network.get_parameter(name)) if g is None else g for name, g in found.items()])
    return {name: torch.stack(column) for name, *column in zip(chosen, *rows, strict=True)}


def summed_gradients(
    network: nn.Module, loss: Loss, observations: Observations, names: Iterable[str]
) -> dict[str, Tensor | None]:
    """The gradient of the batch's summed loss in each named parameter, None where the loss does not depend on it.

    Call inside ``isolated``.
    """
    parameters = detached_parameters(network)
    chosen = {name: parameters[name].requires_grad_() for name in names}
    total = losses(network, loss, parameters, observations).sum()
    if not chosen or not total.requires_grad:
        return dict.fromkeys(chosen)
    return dict(zip(chosen, torch.autograd.grad(total, list(chosen.values()), allow_unused=True), strict=True))
