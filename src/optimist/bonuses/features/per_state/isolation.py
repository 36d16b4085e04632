"""Running a network of the user's without leaving a trace: no ``.grad``, no mode, no hook and no parameter changes."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import torch
from torch import Tensor, nn
from torch.func import functional_call

from optimist.bonuses.features.losses import Loss
from optimist.bonuses.observations import Observations, count, map_observations


class NetworkLoss(nn.Module):
    """A loss and its network as one module, so that ``functional_call`` can put other parameters under any loss."""

    def __init__(self, network: nn.Module, loss: Loss):
        super().__init__()
        self.network = network
        self.loss = loss

    def forward(self, observations: Observations) -> Tensor:
        """One loss per state. Shapes: (n, ...) -> (n,)."""
        return self.loss(self.network, observations)


def losses(network: nn.Module, loss: Loss, parameters: Mapping[str, Tensor], observations: Observations) -> Tensor:
    """The loss of every state, with ``parameters`` in the place of the network's own. Shapes: (n, ...) -> (n,)."""
    replaced = {f"network.{name}": tensor for name, tensor in parameters.items()}
    return one_per_state(functional_call(NetworkLoss(network, loss), replaced, (observations,)), observations)


def one_per_state(result: object, observations: Observations) -> Tensor:
    """What a loss has returned, or an error if it is not one number per state. Shapes: (n,)."""
    n = count(observations)
    if not isinstance(result, Tensor) or result.shape != (n,):
        came = f"shape {tuple(result.shape)}" if isinstance(result, Tensor) else type(result).__name__
        raise ValueError(
            f"loss must return one number per state, shape ({n},), got {came}: do not reduce over the batch"
        )
    return result


def detached_parameters(network: nn.Module) -> dict[str, Tensor]:
    """The network's parameters by name, sharing their memory but not their graph: nothing flows back into them."""
    return {name: parameter.detach() for name, parameter in network.named_parameters()}


def parameter_name(layer: str, key: str) -> str:
    """The name in the whole network of a layer's own parameter; the network itself is the layer ''."""
    return f"{layer}.{key}" if layer else key


def readable(observations: Observations, network: nn.Module) -> Observations:
    """The observations on the network's device, copied only if they were elsewhere or made in inference mode.

    What was made there could not be differentiated through.
    """
    device = next((parameter.device for parameter in network.parameters()), None)

    def read(tensor: Tensor) -> Tensor:
        moved = tensor if device is None else tensor.to(device)
        return moved.clone() if moved.is_inference() else moved

    return map_observations(read, observations)


@contextmanager
def isolated(network: nn.Module) -> Iterator[None]:
    """Gradients on, the network in evaluation mode (no dropout, hence no chance); all of it as before on leaving."""
    modes = [(module, module.training) for module in network.modules()]
    trains = any(training for _, training in modes)
    if trains:
        network.eval()
    try:
        with torch.inference_mode(mode=False), torch.enable_grad():
            yield
    finally:
        for module, training in modes if trains else ():
            module.training = training
