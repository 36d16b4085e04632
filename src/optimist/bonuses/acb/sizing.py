"""What ACB regresses noise with, feature map, scale and regressors: built once the layout of observations is known."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from optimist.bonuses import features as feature_maps
from optimist.bonuses.acb.config import ACBConfig, Aggregate, Auto, BonusForm, Exact, Proximal, RMSprop, Streaming
from optimist.bonuses.acb.ensemble import Reader, draw_prior, in_form, squared_deviation
from optimist.bonuses.acb.solvers.averaging import Solver
from optimist.bonuses.acb.solvers.exact import ExactSolver
from optimist.bonuses.acb.solvers.proximal import ProximalSolver
from optimist.bonuses.acb.solvers.rmsprop import RMSpropSolver
from optimist.bonuses.acb.solvers.streaming import StreamingSolver
from optimist.bonuses.acb.standardize import FeatureScale, first_rollout, make_scale
from optimist.bonuses.checkpointing import seeded_generator
from optimist.bonuses.features import FeatureBatch, FeatureMap, Loss
from optimist.bonuses.features.per_state.isolation import readable
from optimist.bonuses.features.per_state.plan import real_probes
from optimist.bonuses.observations import (
    Observations,
    flatten_time,
    map_observations,
    named,
    shaped_rows,
    unnamed,
)
from optimist.ranks import ALONE, Ranks

EXACT_DIMENSIONS = 4096
"""Up to here solver "auto" is exact: a matrix of 134 MB in float64, and 33 million operations per state."""
STREAMING_DIMENSIONS = 2**18
"""Up to here it is streaming: its 640 rows of 262,144 numbers take 670 MB."""


@dataclass(frozen=True)
class Regression:
    """The regression of noise on the features of observations of one layout."""

    example: Observations
    """The layout: one observation of zeros, (1, ...), or real ones where the network behaves otherwise there."""
    features: FeatureMap
    read: Callable[[nn.Module, Any], Tensor]
    """A forward pass of the network, ``read(network, observations)``: outputs (n, ...)."""
    scale: FeatureScale
    solver: Solver
    reader: Reader
    """How the solver's regressors are read; it forgets what it keeps of them when they are settled anew."""

    def bonuses(
        self,
        features: FeatureBatch,
        scale: FeatureScale,
        aggregate: Aggregate,
        form: BonusForm,
        ranks: Ranks = ALONE,
    ) -> Tensor:
        """``max_m <w_m, x_n>^2``, or the mean over m, in ``form``, x the features in coordinates of ``scale``, (n,).

        Of several ensembles, as a streaming solver may keep, the one with the smallest deviation counts.
        """
        ensembles = self.solver.ensembles
        weights, lasts = [block.flatten(0, 1) for block in ensembles], scale.today() is not None
        predicted = self.reader.predictions(weights, scale.standardize(features, ranks), lasts=lasts)
        squares = squared_deviation(predicted.unflatten(1, ensembles[0].shape[:2]), aggregate).amin(1)
        if form != "bounded" and isinstance(self.solver, ExactSolver | StreamingSolver):
            squares = squares / first_rollout(self.scale, scale)
        return in_form(squares, form)

    def rows(self, observations: Observations) -> Observations:
        """The tensors of a rollout that the example has too, checked against it. Shapes: (T, N, ...) -> (T N, ...)."""
        return unnamed(shaped_rows(_sizes(self.example), observations), like=self.example)


def require_network(network: nn.Module | None, config: ACBConfig) -> nn.Module:
    """The policy network; with ``features="observations"``, which reads none, an empty one may stand for it."""
    if config.features == "observations":
        return nn.Identity()
    if network is None:
        raise ValueError(
            f"features={config.features!r} are those of a policy network: pass it, or features='observations' with "
            "vectors of your own"
        )
    return network


def vector_example(config: ACBConfig) -> Observations | None:
    """An example of vectors of ``n_features`` numbers, if the configuration says how many."""
    return torch.zeros(1, config.n_features) if config.n_features else None


class LateSizing:
    """The regression, built from an example observation, or else when ``update`` sees its first observations.

    Every draw depends on ``seed`` alone, so it does not matter when it is built. Until the first update what is built
    is a prospect: the network is probed again on the real states, and if it behaves otherwise there than at the
    example, the regression is built anew for them. A network that mixes the states of a batch is refused.
    """

    def __init__(
        self,
        network: nn.Module,
        example: Observations | None,
        config: ACBConfig,
        *,
        seed: int,
        logits: Callable[[nn.Module, Any], Tensor],
        loss: Loss | None,
    ):
        self._network = network
        self._config = config
        self._seed = seed
        self._logits = logits
        self._loss = loss
        self._regression = None if example is None else self._build(_zeros(example))
        self._is_settled = False  # whether an update has confirmed the regression on real states
        self._prospect: Regression | None = None  # what an update would start from: a cache; not part of the state

    @property
    def dimensions(self) -> int | None:
        """d, the size of a feature; None before it is known."""
        regression = self._regression
        return None if regression is None else sum(shape.numel() for shape in regression.features.shapes)

    @property
    def is_settled(self) -> bool:
        """Whether an update has confirmed the regression on real states."""
        return self._is_settled and self._regression is not None

    def regression_for(self, observations: Observations, probes: Observations | None = None) -> Regression:
        """The regression; before it is settled, the one that an update on ``observations`` (T, N, ...) starts from.

        ``probes`` (n, 1, ...) are the states on which all ranks probe the network; None: the observations themselves.
        """
        if self._is_settled and self._regression is not None:
            return self._regression
        started = self._regression or self._prospect_of(flatten_time(observations))
        rows = started.rows(observations if probes is None else probes)
        with explained(rows):
            if feature_maps.still_fits(started.features, rows):
                return started
            return self._build(real_probes(rows))

    def settle(self, regression: Regression) -> None:
        """Keep ``regression``, which was given by ``regression_for``, from now on."""
        self._regression, self._is_settled, self._prospect = regression, True, None
        regression.reader.forget()

    def state_dict(self) -> dict[str, Any]:
        """The seed and, once the layout of observations is known, the layout, the scale and the solver."""
        regression = self._regression
        if regression is None:
            return {"seed": self._seed, "settled": False, "example": {}, "scale": {}, "solver": {}}
        kind = "tensor" if isinstance(regression.example, Tensor) else "dict"
        return {
            "seed": self._seed,
            "settled": self._is_settled,
            "example": {kind: map_observations(torch.clone, regression.example)},
            "scale": regression.scale.state_dict(),
            "solver": regression.solver.state_dict(),
        }

    def loaded(self, state: Mapping[str, Any]) -> "LateSizing":
        """A new one that continues where ``state`` was taken; this one is not changed."""
        example = _loaded_example(state["example"])
        made = LateSizing(self._network, None, self._config, seed=state["seed"], logits=self._logits, loss=self._loss)
        if example is not None:
            made._regression, made._is_settled = made._build(example), bool(state["settled"])
            made._regression.scale.load_state_dict(state["scale"])
            made._regression.solver.load_state_dict(state["solver"])
        return made

    def _prospect_of(self, observations: Observations) -> Regression:
        """The regression of the layout of observations (n, ...), built once for each layout."""
        if self._prospect is None or _sizes(self._prospect.example) != _sizes(observations):
            self._prospect = self._build(_zeros(observations))
        return self._prospect

    def _build(self, example: Observations) -> Regression:
        """The regression of observations like ``example`` (n, ...), at which the network is probed."""
        config = self._config
        example = readable(example, self._network)
        with explained(example):
            features = feature_maps.make(
                config.features,
                self._network,
                example,
                seed=self._seed,
                loss=self._loss,
                feature_loss=config.feature_loss,
                weighting=config.weighting,
                logits=self._logits,
                sketch_size=config.sketch_size,
            )
        self._network.eval()  # it is never read in another mode, and setting the mode at every read takes time
        prior, ridge = config.solver.prior, config.solver.ridge
        generator = seeded_generator(self._seed, "acb prior")
        initial = draw_prior(features.shapes, config.ensemble_size, prior, ridge, generator=generator)
        vectors = next(iter(named(example).values()))
        # Beside the network; where there is none, beside the vectors that the caller brings.
        like = next(self._network.parameters(), torch.empty(0, device=vectors.device))
        solver = make_solver([block.to(like) for block in initial], config)
        read = self._logits if self._loss is None else self._loss
        reader = Reader(products_dtype(config))
        return Regression(example, features, read, make_scale(features.shapes, features, config), solver, reader)


def make_solver(initial: list[Tensor], config: ACBConfig) -> Solver:
    """The solver that ``config`` asks for, started at the weights ``initial``."""
    chosen = config.solver
    if isinstance(chosen, Auto):
        chosen = solver_for(sum(block[0].numel() for block in initial), chosen.ridge)
    match chosen:
        case Exact():
            return ExactSolver(initial, chosen)
        case Streaming():
            return StreamingSolver(initial, chosen)
        case Proximal():
            return ProximalSolver(initial, chosen, products_dtype(config))
        case RMSprop():
            return RMSpropSolver(initial, chosen, products_dtype(config))


def solver_for(dimensions: int, ridge: float) -> Exact | Streaming | Proximal:
    """What ``Auto(ridge)`` is for features of so many dimensions."""
    if dimensions <= EXACT_DIMENSIONS:
        return Exact(ridge=ridge)
    return Streaming(ridge=ridge) if dimensions <= STREAMING_DIMENSIONS else Proximal(ridge, averaging="narrowest")


def products_dtype(config: ACBConfig) -> torch.dtype | None:
    """What ``config`` asks the regressors to be multiplied in; None: in the features' own dtype."""
    return torch.bfloat16 if config.precision == "bfloat16" else None


@contextmanager
def explained(observations: Observations) -> Iterator[None]:
    """Errors that a network raises inside become a ValueError that says which observations it was given."""
    try:
        yield
    except (LookupError, RuntimeError) as error:
        raise ValueError(
            f"the policy network could not read observations of the sizes {_sizes(observations)}: "
            f"{type(error).__name__}: {error}; "
            "give it the keys, sizes and values that it was made for; nothing was changed"
        ) from error


def _zeros(observations: Observations) -> Observations:
    """One observation of zeros of the same layout, (1, ...)."""
    return map_observations(lambda tensor: torch.zeros_like(tensor[:1]), observations)


def _sizes(observations: Observations) -> dict[str, tuple[int, ...]]:
    return {name: tuple(tensor.shape[1:]) for name, tensor in named(observations).items()}


def _loaded_example(state: Mapping[str, Any]) -> Observations | None:
    """The example that ``state_dict`` wrote, None if there was none."""
    match state:
        case {"tensor": Tensor() as example}:
            return example
        case {"dict": {**tensors}} if all(isinstance(tensor, Tensor) for tensor in tensors.values()):
            return tensors
    if state:
        raise ValueError("state['example'] must be {}, {'tensor': ...} or {'dict': ...}: was it saved by ACB?")
    return None
