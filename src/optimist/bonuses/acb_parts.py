"""What ACB is made of, as its configuration says: the feature map, the feature scale and the solver."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from optimist.bonuses import features as feature_maps
from optimist.bonuses.acb_config import ACBConfig
from optimist.bonuses.ensemble import draw_prior
from optimist.bonuses.feature_scale import BatchScale, FeatureScale, RunningScale, Unscaled
from optimist.bonuses.features import FeatureMap, Loss
from optimist.bonuses.features.feature_map import map_observations
from optimist.bonuses.protocol import Observations
from optimist.bonuses.proximal import AveragedProximal
from optimist.bonuses.recursive import RecursiveLeastSquares
from optimist.bonuses.rmsprop import AveragedRMSprop, RMSpropSettings
from optimist.bonuses.solvers import Solver
from optimist.bonuses.state import seeded_generator

EXACT_DIMENSIONS = 4096
"""Up to here solver "auto" is exact: a matrix of 134 MB in float64, and 33 million operations a state."""


@dataclass(frozen=True)
class Parts:
    """What can only be built once the layout of an observation is known; ``example`` is one observation of zeros."""

    example: Observations
    features: FeatureMap
    scale: FeatureScale
    solver: Solver


def build(
    network: nn.Module,
    example: Observations,
    config: ACBConfig,
    *,
    seed: int,
    logits: Callable[[nn.Module, Any], Tensor],
    loss: Loss | None,
) -> Parts:
    """The parts for observations of the layout of ``example`` (n, ...); every draw depends on ``seed`` alone."""
    zeros = map_observations(lambda tensor: torch.zeros_like(tensor[:1]), example)
    features = feature_maps.make(
        config.features,
        network,
        zeros,
        seed=seed,
        loss=loss,
        weighting=config.weighting,
        logits=logits,
        side=config.sketch_size,
    )
    generator = seeded_generator(seed, "acb prior")
    initial = draw_prior(features.shapes, config.ensemble_size, config.prior, config.ridge, generator=generator)
    like = next(network.parameters())
    solver = make_solver([block.to(like) for block in initial], config)
    return Parts(zeros, features, make_scale(features, config), solver)


def make_scale(features: FeatureMap, config: ACBConfig) -> FeatureScale:
    """The batch normalisation that ``config`` asks for."""
    relative = config.epsilon_form == "relative"
    match config.statistics:
        case "running":
            return RunningScale(features.shapes, epsilon=config.epsilon, relative=relative)
        case "batch" | "rollout":
            return BatchScale(epsilon=config.epsilon, relative=relative)
        case _:
            return Unscaled()


def make_solver(initial: list[Tensor], config: ACBConfig) -> Solver:
    """The solver that ``config`` asks for, started at the weights ``initial``."""
    dimensions = sum(block[0].numel() for block in initial)
    affordable = "proximal" if dimensions > EXACT_DIMENSIONS else "recursive"
    match affordable if config.solver == "auto" else config.solver:
        case "recursive":
            return RecursiveLeastSquares(initial, ridge=config.ridge)
        case "proximal":
            return AveragedProximal(
                initial, ridge=config.ridge, averaging=config.averaging, averaging_rate=config.averaging_rate
            )
        case _:
            settings = RMSpropSettings(
                step_size=config.step_size,
                smoothing=config.smoothing,
                epsilon=config.optimizer_epsilon,
                pull=config.pull,
                loss_form=config.loss_form,
                affine=config.affine,
                averaging=config.averaging,
                averaging_rate=config.averaging_rate,
            )
            return AveragedRMSprop(initial, settings)
