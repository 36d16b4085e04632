"""The features of the states that an update learns from, refused as a whole before anything is learned from them."""

import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from optimist.bonuses.features.batch import Dense, FeatureBatch
from optimist.bonuses.features.feature_map import FeatureMap, map_observations
from optimist.bonuses.features.isolation import isolated
from optimist.bonuses.observations import chunks, named
from optimist.bonuses.protocol import Observations

CHUNK = 512  # states read at a time
HELD_NUMBERS = 2**26  # features held between a compute and its update, at most: 256 megabytes in single precision


def rollout_features(
    feature_map: FeatureMap, read: Callable[[nn.Module, Any], Tensor], observations: Observations, rows: Tensor
) -> Callable[[Tensor], FeatureBatch]:
    """A function from some of ``rows`` to their features; an error here if the network cannot read one of them.

    Features that are written out are computed once and held, (k, d). Others are never held: there a forward pass,
    ``read(network, ...)``, small beside their products with the ensemble, is what finds the error.

    Shapes: observations (n, ...), rows (k,) sorted indices below n.
    """
    with explained(observations):
        written_out = isinstance(feature_map(take(observations, rows[:1])), Dense)
    if not written_out:
        for chunk in chunks(len(rows), CHUNK):
            with explained(observations), isolated(feature_map.network), torch.no_grad():
                outputs = read(feature_map.network, take(observations, rows[chunk]))
            require_finite("outputs", outputs)
        return lambda chosen: feature_map(take(observations, chosen))
    pieces = []
    for chunk in chunks(len(rows), CHUNK):
        with explained(observations):
            pieces.append(feature_map(take(observations, rows[chunk])).dense())
        require_finite("features", pieces[-1])
    held = torch.cat(pieces)
    return lambda chosen: Dense(held[torch.searchsorted(rows, chosen)])


class HeldFeatures:
    """Written-out features of the observations last read: an update on the same tensors need not compute them again.

    It spares work and is no state. The tensors are known by identity and by PyTorch's count of writes into them.
    """

    def __init__(self, observations: Observations, features: Tensor):
        self.features = features
        self._sources = [(weakref.ref(tensor), tensor._version) for tensor in named(observations).values()]

    def are_of(self, observations: Observations) -> bool:
        """Whether these are the features of the very tensors ``observations``, unchanged since."""
        tensors = list(named(observations).values())
        if len(tensors) != len(self._sources):
            return False
        known = zip(tensors, self._sources, strict=True)
        return all(source() is tensor and tensor._version == writes for tensor, (source, writes) in known)


def take(observations: Observations, rows: Tensor | slice) -> Observations:
    """The chosen rows. Shapes: (n, ...) -> (k, ...)."""
    return map_observations(lambda tensor: tensor[rows], observations)


@contextmanager
def explained(observations: Observations) -> Iterator[None]:
    """Errors that a network raises inside become a ValueError that says which observations it was given."""
    try:
        yield
    except (LookupError, RuntimeError) as error:
        sizes = {name: tuple(tensor.shape[1:]) for name, tensor in named(observations).items()}
        raise ValueError(
            f"the policy network could not read observations of the sizes {sizes}: {type(error).__name__}: {error}; "
            "give it the keys, sizes and values that it was made for; nothing was changed"
        ) from error


def require_finite(what: str, values: Tensor) -> None:
    """An error unless all ``values`` are finite."""
    if not bool(torch.isfinite(values).all()):
        raise ValueError(
            f"the policy network's {what} must be finite, got NaN or infinity: look for observations of extreme size, "
            "and scale them before or inside the network; nothing was changed"
        )
