"""The state of a bonus as nested dicts, checked before it is loaded, put back after errors; and its own generator."""

from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from optimist.seeding import split


class Stateful(Protocol):
    """What has a state that can be taken and put back."""

    def state_dict(self) -> dict[str, Any]:
        """Copies of everything that changes."""
        ...

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue exactly where ``state`` was taken."""
        ...


@contextmanager
def unchanged_on_error(*parts: Stateful) -> Iterator[None]:
    """All or nothing: if what is done inside raises, ``parts`` are put back to copies of their states from before."""
    before = [part.state_dict() for part in parts]
    try:
        yield
    except BaseException:
        for part, state in zip(parts, before, strict=True):
            part.load_state_dict(state)
        raise


def require_same_layout(
    given: Mapping[str, Any], expected: Mapping[str, Any], *, growing: Collection[str] = ()
) -> dict[str, Any]:
    """``given``, every tensor on the device of the one in ``expected``: a state saved on one device loads on another.

    An error names the first entry of ``given`` which could not have come from the object of ``expected``. Entries named
    in ``growing`` (by their last key) may differ in their first axis: counts, per-environment states.
    """
    return _compared(given, expected, "state", None, frozenset(growing))


def _compared(given: Any, expected: Any, where: str, name: str | None, growing: frozenset[str]) -> Any:
    if isinstance(expected, Mapping):
        if not isinstance(given, Mapping) or given.keys() != expected.keys():
            came = sorted(given) if isinstance(given, Mapping) else type(given).__name__
            raise ValueError(
                f"{where} must have the entries {sorted(expected)}, got {came}: was it saved by this bonus?"
            )
        return {key: _compared(given[key], expected[key], f"{where}[{key!r}]", key, growing) for key in expected}
    if isinstance(expected, Tensor):
        free = 1 if name in growing else 0
        if (
            not isinstance(given, Tensor)
            or given.dtype != expected.dtype
            or given.ndim != expected.ndim
            or given.shape[free:] != expected.shape[free:]
        ):
            came = f"{given.dtype} {tuple(given.shape)}" if isinstance(given, Tensor) else type(given).__name__
            raise ValueError(
                f"{where} must be a tensor {expected.dtype} {tuple(expected.shape)}, got {came}: "
                "the bonus must be built with the configuration that the state was saved with"
            )
        return given.to(expected.device)
    if type(given) is not type(expected):
        raise ValueError(f"{where} must be {type(expected).__name__}, got {type(given).__name__}")
    return given


def module_state(module: nn.Module) -> dict[str, Tensor]:
    """Copies of the parameters and buffers of ``module`` by name."""
    return {name: value.detach().clone() for name, value in module.state_dict().items()}


def optimizer_state(optimizer: torch.optim.Adam) -> dict[str, dict[str, Tensor]]:
    """Copies of Adam's step count and moments, by the parameter's position; zeros before the first step."""
    state = {}
    for k, parameter in enumerate(_parameters(optimizer)):
        held = optimizer.state.get(parameter) or {
            "step": torch.zeros(()),
            "exp_avg": torch.zeros_like(parameter),
            "exp_avg_sq": torch.zeros_like(parameter),
        }
        state[str(k)] = {name: value.detach().clone() for name, value in held.items()}
    return state


def load_optimizer_state(optimizer: torch.optim.Adam, state: Mapping[str, Mapping[str, Tensor]]) -> None:
    """Put the moments of ``optimizer_state`` back, beside the parameters: checkpoints are read on the CPU."""
    for k, parameter in enumerate(_parameters(optimizer)):
        step_device = parameter.device if optimizer.defaults.get("fused") else torch.device("cpu")  # as Adam has it
        optimizer.state[parameter] = {
            name: value.clone().to(step_device if name == "step" else parameter.device)
            for name, value in state[str(k)].items()
        }


def seeded_generator(seed: int, name: str) -> torch.Generator:
    """A private CPU generator: the stream ``name`` of the run ``seed``."""
    return torch.Generator().manual_seed(int(split(seed, name).generate_state(1, dtype="uint64")[0] >> 1))


def _parameters(optimizer: torch.optim.Optimizer) -> list[nn.Parameter]:
    return [parameter for group in optimizer.param_groups for parameter in group["params"]]
