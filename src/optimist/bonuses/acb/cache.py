"""The features of a rollout's states: read some states at a time, cached from ``compute`` to ``update``."""

import weakref
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import torch
from torch import Tensor, nn

from optimist.bonuses.acb.sizing import Regression, explained
from optimist.bonuses.distinct import distinct_rows
from optimist.bonuses.features.batch import Dense, FeatureBatch
from optimist.bonuses.features.maps import FeatureMap
from optimist.bonuses.features.per_state.isolation import isolated, readable
from optimist.bonuses.observations import Observations, chunks, count, named, take
from optimist.bonuses.scaling import finite

CHUNK = 512  # states read at a time
CACHED_NUMBERS = 2**26  # features cached between a compute and its update, at most: 256 megabytes in single precision


class FeatureCache:
    """Written-out features of the observations last read: an update on the same tensors need not compute them again.

    The tensors are known by identity and by PyTorch's count of writes into them. A cache; not part of the state.
    """

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        """Forget the features: those of the same states are other ones now."""
        self._features: Tensor | None = None
        self._which: Tensor | None = None  # the row of each state among the features; None: its own
        self._map: FeatureMap | None = None
        self._sources: list[tuple[weakref.ref[Tensor], int]] = []

    def read(self, regression: Regression, observations: Observations, size: int) -> Iterator[FeatureBatch]:
        """The features of every state of a rollout, ``size`` states at a time. Shapes: observations (T, N, ...)."""
        rows = regression.rows(observations)
        if self._features is not None and self._is_of(regression, observations):
            yield from (self._chosen(self._features, chunk) for chunk in chunks(count(rows), size))
        else:
            yield from self._computed(regression, observations, rows, None, size)

    def read_once(
        self, regression: Regression, observations: Observations, size: int
    ) -> tuple[Iterator[FeatureBatch], Tensor | None]:
        """As `read`, but states that occur several times are read once; and which of those read each state is, (T N,).

        None: all were read, one after the other.
        """
        rows = regression.rows(observations)
        if self._features is not None and self._is_of(regression, observations):
            features = self._features
            return (Dense(features[chunk]) for chunk in chunks(len(features), size)), self._which
        distinct = distinct_rows(rows)
        if distinct is None:
            return self._computed(regression, observations, rows, None, size), None
        once = self._computed(regression, observations, distinct.of(rows), distinct.which, size)
        return once, distinct.which

    def _computed(
        self, regression: Regression, observations: Observations, rows: Observations, which: Tensor | None, size: int
    ) -> Iterator[FeatureBatch]:
        """The features of ``rows``, which are kept if they are written out and few enough."""
        total = count(rows)
        kept: Tensor | None = None
        for chunk in chunks(total, size):
            with explained(rows):
                features = regression.features(take(rows, chunk))
            if isinstance(features, Dense) and total * features.features.shape[1] <= CACHED_NUMBERS:
                if len(features) == total:
                    kept = features.features
                else:
                    kept = features.features.new_empty(total, features.features.shape[1]) if kept is None else kept
                    kept[chunk] = features.features
            yield features
        if kept is not None:
            self._features, self._which, self._map = kept, which, regression.features
            self._sources = [(weakref.ref(tensor), tensor._version) for tensor in named(observations).values()]

    def lookup(
        self, regression: Regression, observations: Observations, rows: Tensor
    ) -> Callable[[Tensor], FeatureBatch]:
        """A function from some of ``rows`` to their features; an error here if the network cannot read one of them.

        Shapes: observations (T, N, ...), rows (k,) sorted indices below T N.
        """
        if self._features is None or not self._is_of(regression, observations):
            return rollout_features(regression.features, regression.read, regression.rows(observations), rows)
        cached = require_finite("features", self._features)
        return lambda chosen: self._chosen(cached, chosen.to(cached.device))

    def _chosen(self, features: Tensor, rows: Tensor | slice) -> Dense:
        """The features of some states."""
        if self._which is not None:
            rows = self._which[rows]
        return Dense(features[rows] if isinstance(rows, slice) else features.index_select(0, rows))

    def _is_of(self, regression: Regression, observations: Observations) -> bool:
        """Whether the cached features are those of the very tensors ``observations``, unchanged since."""
        tensors = list(named(observations).values())
        if regression.features is not self._map or len(tensors) != len(self._sources):
            return False
        known = zip(tensors, self._sources, strict=True)
        return all(source() is tensor and tensor._version == writes for tensor, (source, writes) in known)


def rollout_features(
    feature_map: FeatureMap, read: Callable[[nn.Module, Any], Tensor], observations: Observations, rows: Tensor
) -> Callable[[Tensor], FeatureBatch]:
    """A function from some of ``rows`` to their features; an error here if the network cannot read one of them.

    Features that are written out are computed once and kept, (k, d). Others are never kept: there a forward pass,
    ``read(network, ...)``, small beside their products with the ensemble, is what finds the error.

    Shapes: observations (n, ...), rows (k,) sorted indices below n.
    """
    with explained(observations):
        written_out = isinstance(feature_map(take(observations, rows[:1])), Dense)
    if not written_out:
        for chunk in chunks(len(rows), CHUNK):
            with explained(observations), isolated(feature_map.network), torch.no_grad():
                outputs = read(feature_map.network, readable(take(observations, rows[chunk]), feature_map.network))
            require_finite("outputs", outputs)
        return lambda chosen: feature_map(take(observations, chosen))
    pieces = []
    for chunk in chunks(len(rows), CHUNK):
        with explained(observations):
            features = feature_map(take(observations, rows[chunk])).dense()
        pieces.append(require_finite("features", features))
    kept = torch.cat(pieces)
    return lambda chosen: Dense(kept.index_select(0, torch.searchsorted(rows, chosen).to(kept.device)))


def joined(batches: Iterable[FeatureBatch]) -> Dense:
    """All batches as one, written out."""
    return Dense(together([features.dense() for features in batches]))


def together(parts: list[Tensor]) -> Tensor:
    """The parts one after the other; a single one itself, not copied."""
    return parts[0] if len(parts) == 1 else torch.cat(parts)


def require_finite(what: str, values: Tensor) -> Tensor:
    """``values`` themselves if all are finite."""
    if not finite(values):
        raise ValueError(
            f"the policy network's {what} must be finite, got NaN or infinity: look for observations of extreme size, "
            "and scale them before or inside the network; nothing was changed"
        )
    return values
