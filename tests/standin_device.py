"""A device that is not there: tensors that say they are on ``meta``, hold real numbers, and refuse what mps refuses.

Inside `StandIn()` everything that is made on the device ``DEVICE`` or moved to it is a `Remote`. An operation between
a `Remote` and a tensor of the CPU is an error, as between a GPU's tensor and the CPU's; so is float64 on the device.
Only what PyTorch allows between devices is allowed: copies, and numbers (tensors without an axis) of the CPU.
`StandIn(has_float64=True)` has float64, as cuda.
"""

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten, tree_map

DEVICE = torch.device("meta")
aten = torch.ops.aten
BETWEEN_DEVICES = {aten.copy_.default, aten._to_copy.default}


class Remote(torch.Tensor):
    """A tensor on the stand-in device; ``held`` are its numbers, on the CPU."""

    @staticmethod
    def __new__(cls, held):
        made = torch.Tensor._make_wrapper_subclass(
            cls,
            held.size(),
            strides=held.stride(),
            storage_offset=held.storage_offset(),
            dtype=held.dtype,
            device=DEVICE,
        )
        made.held = held
        return made

    def __repr__(self):
        return f"Remote({self.held!r})"

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        raise RuntimeError(f"{func} on the stand-in device outside of StandIn()")


class StandIn(TorchDispatchMode):
    """The device exists inside."""

    def __init__(self, *, has_float64=False):
        super().__init__()
        self._has_float64 = has_float64

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = dict(kwargs or {})
        leaves = tree_flatten((args, kwargs))[0]
        remote = [leaf for leaf in leaves if isinstance(leaf, Remote)]
        local = [leaf for leaf in leaves if isinstance(leaf, torch.Tensor) and not isinstance(leaf, Remote)]
        wanted = kwargs.get("device")
        lands_remote = bool(remote) if wanted is None else torch.device(wanted) == DEVICE
        if wanted is not None:
            kwargs["device"] = torch.device("cpu")
        if func not in BETWEEN_DEVICES and remote and any(leaf.ndim for leaf in local):
            raise RuntimeError(f"Expected all tensors to be on the same device, but found cpu and {DEVICE} in {func}")
        if func is aten.copy_.default:
            lands_remote = isinstance(args[0], Remote)
            if isinstance(args[1], Remote) and not lands_remote and args[1].dtype != args[0].dtype:
                kwargs["non_blocking"] = False  # the cast is the CPU's
        plain_args, plain_kwargs = tree_map(_held, (args, kwargs))
        result = func(*plain_args, **plain_kwargs)
        if func._schema.is_mutable and args and func._schema.name.endswith("_"):
            return args[0]
        given = {id(leaf.held): leaf for leaf in remote}
        return tree_map(lambda leaf: _landed(leaf, given, lands_remote, func, self._has_float64), result)


def _held(leaf):
    return leaf.held if isinstance(leaf, Remote) else leaf


def _landed(leaf, given, lands_remote, func, has_float64):
    if not isinstance(leaf, torch.Tensor) or isinstance(leaf, Remote):
        return leaf
    if id(leaf) in given:  # an ``out=`` tensor comes back as itself
        return given[id(leaf)]
    if not lands_remote:
        return leaf
    if leaf.dtype == torch.float64 and not has_float64:
        raise TypeError(f"the stand-in device has no float64, as mps: {func}")
    return Remote(leaf)
