"""The auxiliary network: a copy of the policy that follows it slowly, so that the features of a state hardly drift."""

import copy
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.parameter import UninitializedParameter

from optimist.bonuses.scaling import finite, in_double


class AuxiliaryNetwork:
    """A copy of the policy whose parameters are a running average of the policy's own, ``theta_aux``.

    ``network`` shares no memory with the policy and is never trained. The average is kept in double precision beside
    it: with the paper's alpha = 1e-6 a step is below the rounding of single precision, and the copy would stand still.
    Where the network's device has no double precision, it is kept on the CPU.
    Buffers follow too: real ones are averaged, counts and masks are copied.
    Paper: Algorithm 2, lines 2 and 12, ``theta_aux <- alpha theta + (1 - alpha) theta_aux``.
    """

    def __init__(self, policy: nn.Module):
        self.network = copied(policy).requires_grad_(False)
        self._average = {
            name: in_double(tensor.detach()).clone() for name, tensor in tensors(self.network).items() if real(tensor)
        }

    def require(self, policy: nn.Module) -> None:
        """An error unless ``policy`` has the tensors of this copy, all finite: what ``move_towards`` needs."""
        for name, tensor in require_same(tensors(self.network), tensors(policy), "the policy").items():
            if real(tensor) and not finite(tensor):
                raise ValueError(f"the policy's {name!r} is not finite: its training has diverged; nothing was changed")

    def move_towards(self, policy: nn.Module, alpha: float, *, biases: bool = True) -> None:
        """Replaces ``theta_aux`` by ``alpha theta + (1 - alpha) theta_aux``; without ``biases`` vectors of it stay."""
        if not 0.0 <= alpha <= 1.0:
            raise ValueError(f"alpha must be in [0, 1], got {alpha}: 0 never moves, 1 copies the policy")
        self.require(policy)
        theirs = tensors(policy)
        still = () if biases else {name for name, p in policy.named_parameters() if p.ndim < 2}
        with torch.no_grad():
            for name, average in self._average.items():
                if name not in still:
                    average.lerp_(in_double(theirs[name]), alpha)
            self._write({name: tensor for name, tensor in theirs.items() if not real(tensor)})

    def state_dict(self) -> dict[str, Any]:
        """The average and the copied buffers: all that ``load_state_dict`` needs to go on exactly where this stands."""
        copied = {name: tensor.clone() for name, tensor in tensors(self.network).items() if not real(tensor)}
        return {"average": {name: tensor.clone() for name, tensor in self._average.items()}, "copied": copied}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Takes over a state; one that does not fit is refused and changes nothing."""
        mine = tensors(self.network)
        given = require_same(mine, {**state["average"], **state["copied"]}, "the state")
        with torch.no_grad():
            for name, average in self._average.items():
                average.copy_(given[name])
            self._write({name: given[name] for name, tensor in mine.items() if not real(tensor)})

    def _write(self, copied: Mapping[str, Tensor]) -> None:
        """Puts the average, rounded, and the copied buffers into the network."""
        for name, tensor in tensors(self.network).items():
            given = self._average.get(name)
            tensor.copy_(copied[name] if given is None else given.to(tensor.dtype))


def copied(network: nn.Module) -> nn.Module:
    """A copy that shares no memory with the network, or an error that says what cannot be copied."""
    lazy = [name for name, parameter in network.named_parameters() if isinstance(parameter, UninitializedParameter)]
    if lazy:
        raise ValueError(
            f"the policy network's {lazy[0]!r} has no size yet (a Lazy module): run the network once on an observation "
            "before the bonus is made"
        )
    try:
        return copy.deepcopy(network)
    except (RuntimeError, TypeError, ValueError) as error:
        kept = [
            f"{name}.{attribute}" if name else attribute
            for name, module in network.named_modules()
            for attribute, value in vars(module).items()
            if isinstance(value, Tensor) and value.grad_fn is not None
        ]
        what = f"its {kept[0]!r} is a tensor with a graph: keep .detach() of it" if kept else f"{error}"
        raise ValueError(
            f"the policy network cannot be copied, which the bonus needs: {what}; nothing was changed"
        ) from error


def tensors(network: nn.Module) -> dict[str, Tensor]:
    """The parameters and buffers of a network by name."""
    return {**dict(network.named_parameters()), **dict(network.named_buffers())}


def real(tensor: Tensor) -> bool:
    """Whether the tensor can be averaged."""
    return tensor.is_floating_point()


def require_same(mine: Mapping[str, Tensor], theirs: Mapping[str, Tensor], what: str) -> Mapping[str, Tensor]:
    """``theirs``, or an error that names the first tensors that differ in name or shape."""
    different = [
        f"{name}: {shape(theirs.get(name))} instead of {shape(mine.get(name))}"
        for name in sorted({*mine, *theirs})
        if shape(mine.get(name)) != shape(theirs.get(name))
    ]
    if different:
        raise ValueError(
            f"{what} must have the same tensors as the copy, got {'; '.join(different[:3])}: "
            "make a new AuxiliaryNetwork for a policy of another shape"
        )
    return theirs


def shape(tensor: Tensor | None) -> str:
    """The shape in words."""
    return "nothing" if tensor is None else str(tuple(tensor.shape))
