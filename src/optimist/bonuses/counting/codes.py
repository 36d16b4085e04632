"""Codes of observations, 64 bits each: equal for equal observations (exact) or for similar ones (SimHash)."""

import copy
from collections.abc import Mapping
from typing import Any, Literal, Protocol

import torch
from torch import Tensor

from optimist.bonuses.checkpointing import require_same_layout
from optimist.bonuses.learned.whitened import CHUNK, WhitenedObservations
from optimist.bonuses.observations import (
    Channels,
    Discrete,
    Observations,
    ObservationShape,
    Part,
    chunks,
    parts_of,
    rows_of,
)
from optimist.checks import require_choice, require_positive_fields
from optimist.ranks import ALONE, Ranks

LOWEST, HIGHEST = -(2**63), 2**63 - 1
CodeName = Literal["auto", "exact", "simhash"]


class Code(Protocol):
    """A map from observations to 64-bit keys."""

    def keys(self, observations: Observations) -> Tensor:
        """The key of every observation; changes nothing. Shapes: (T, N, ...) -> (T N,), int64."""
        ...

    def update(self, observations: Observations) -> None:
        """Let the code see a rollout before its keys are counted."""
        ...

    def state_dict(self) -> dict[str, Any]:
        """Everything that a seed has drawn or ``update`` has set."""
        ...

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from a saved state."""
        ...


class CodeConfig(Protocol):
    """The fields of a configuration that say which code is counted."""

    @property
    def code(self) -> CodeName:
        """What is one state."""
        ...

    @property
    def bits(self) -> int:
        """k, the bits of a SimHash."""
        ...

    @property
    def clip(self) -> float:
        """Where whitened observations are clipped before SimHash."""
        ...

    @property
    def channels(self) -> Channels:
        """Channels of an image that are read."""
        ...


def make_code(shape: ObservationShape, config: CodeConfig, *, generator: torch.Generator, ranks: Ranks = ALONE) -> Code:
    """The code of ``config``; "auto" is exact where all parts of an observation are discrete, else SimHash."""
    channels = config.channels
    discrete = all(isinstance(part, Discrete) for part in parts_of(shape, channels=channels).values())
    if config.code == "exact" or (config.code == "auto" and discrete):
        return ExactHash(shape, channels=channels, generator=generator)
    return SimHash(shape, channels=channels, bits=config.bits, clip=config.clip, generator=generator, ranks=ranks)


def require_code(config: CodeConfig) -> None:
    """An error unless there is a code of this name, and a key of so many bits fits into one 64-bit integer."""
    require_choice("code", config.code, CodeName)
    require_positive_fields(config, "clip")
    if not 1 <= config.bits <= 64:
        raise ValueError(f"bits must be 1 .. 64, got {config.bits}: a key is one 64-bit integer")


class ExactHash:
    """Keys that are equal for equal observations: the index of a lone discrete state, else ``sum_i r_i x_i mod 2^64``.

    With r_i uniform over 64-bit integers, two observations that differ share a key with probability 2^-(64 - k), where
    2^k divides their difference at one coordinate: at most 2^-57 for bytes. Floats are hashed as the two 16-bit halves
    of their float32 pattern: at most 2^-49.
    """

    def __init__(self, shape: ObservationShape, *, channels: Channels, generator: torch.Generator):
        self._parts = parts_of(shape, channels=channels)
        self._multipliers = {
            name: torch.randint(LOWEST, HIGHEST, (2 * _raw_size(part),), generator=generator)
            for name, part in self._parts.items()
        }

    def keys(self, observations: Observations) -> Tensor:
        """The key of every observation; changes nothing. Shapes: (T, N, ...) -> (T N,), int64."""
        rows = rows_of(self._parts, observations)
        if len(self._parts) == 1 and isinstance(next(iter(self._parts.values())), Discrete):
            return next(iter(rows.values())).to(torch.int64)
        return torch.stack([self._hashed(name, values) for name, values in rows.items()]).sum(0)

    def update(self, observations: Observations) -> None:
        """Sets nothing."""

    def state_dict(self) -> dict[str, Any]:
        """The multipliers r."""
        return {name: r.clone() for name, r in self._multipliers.items()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from a saved state."""
        state = require_same_layout(state, self.state_dict())
        self._multipliers = {name: r.clone() for name, r in state.items()}

    def _hashed(self, name: str, values: Tensor) -> Tensor:
        r, part = self._multipliers[name], self._parts[name]
        keys = []
        for chunk in chunks(len(values), CHUNK):
            x = _newest(part, values[chunk]).reshape(-1, _raw_size(part))
            if x.is_floating_point():
                x = (x.float() + 0.0).contiguous().view(torch.int16)  # + 0.0: -0.0 and 0.0 are one state
            keys.append((x.to(torch.int64) * r[: x.shape[1]]).sum(1))
        return torch.cat(keys)


class SimHash:
    """Keys of k bits, ``1[A x + b >= 0]``, A and b Gaussian: x and y differ in a bit with probability angle / pi.

    The angle is that of (x, 1) and (y, 1). x is whitened and clipped by the statistics of the first rollout, frozen
    after it: around their mean observations point in all directions, and a code that moved would break its own counts.
    Until then a rollout is coded by its own statistics.

    Paper: Tang et al. 2017, #Exploration, section 2.2.
    Deviation: they hash raw or autoencoded states; the whitening and the offsets b are ours. Without offsets all planes
    pass through the mean, so that k planes tell no more than 2 k states of two numbers apart, and no distance from the
    mean at all; beside an x of many numbers, the 1 hardly counts.
    """

    def __init__(
        self,
        shape: ObservationShape,
        *,
        channels: Channels,
        bits: int,
        clip: float,
        generator: torch.Generator,
        ranks: Ranks = ALONE,
    ):
        self._observations = WhitenedObservations(shape, channels=channels, clip=clip, ranks=ranks)
        self._directions = {
            name: torch.randn(torch.Size(part.shape).numel(), bits, generator=generator)
            for name, part in self._observations.parts.items()
        }
        numeric = any(not isinstance(part, Discrete) for part in self._observations.parts.values())
        self._offsets = torch.randn(bits, generator=generator) * numeric  # one-hot states are equally long without them
        self._powers = torch.ones(bits, dtype=torch.int64) << torch.arange(bits)

    def keys(self, observations: Observations) -> Tensor:
        """The key of every observation; changes nothing. Shapes: (T, N, ...) -> (T N,), int64."""
        rows = self._observations.rows(observations)
        reader = self._observations
        if reader.count == 0:
            reader = copy.deepcopy(reader)
            reader.update(rows)
        total = len(next(iter(rows.values())))
        keys = []
        for chunk in chunks(total, CHUNK):
            parts = reader.read(rows, chunk)
            projected = torch.stack([x.flatten(1) @ self._directions[name] for name, x in parts.items()]).sum(0)
            keys.append(((projected + self._offsets >= 0) * self._powers).sum(1))
        return torch.cat(keys)

    def update(self, observations: Observations) -> None:
        """Set the whitening statistics by the first rollout; later ones set nothing."""
        rows = self._observations.rows(observations)
        if self._observations.count == 0:
            self._observations.update(rows)

    def state_dict(self) -> dict[str, Any]:
        """The directions A, the offsets b and the frozen statistics."""
        return {
            "directions": {name: a.clone() for name, a in self._directions.items()},
            "offsets": self._offsets.clone(),
            "observations": self._observations.state_dict(),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from a saved state."""
        state = require_same_layout(state, self.state_dict())
        self._directions = {name: a.clone() for name, a in state["directions"].items()}
        self._offsets = state["offsets"].clone()
        self._observations.load_state_dict(state["observations"])


def _raw_size(part: Part) -> int:
    return 1 if isinstance(part, Discrete) else torch.Size(part.shape).numel()


def _newest(part: Part, values: Tensor) -> Tensor:
    return values[:, -part.shape[0] :] if len(part.shape) == 3 else values
