"""At which numbers the fidelity study runs: environments, features, solvers, and how much experience."""

from dataclasses import dataclass, replace
from typing import Any

from optimist.bonuses.acb_config import ACBConfig


@dataclass(frozen=True)
class Variant:
    """A solver under test: the fields of `ACBConfig` in which it differs from the study's common ground."""

    name: str
    fields: tuple[tuple[str, Any], ...]


def _variant(name: str, **fields: Any) -> Variant:
    return Variant(name, tuple(fields.items()))


def _rmsprop(step_size: float, passes: int, averaging: str = "uniform") -> Variant:
    suffix = "" if averaging == "uniform" else f" {averaging}"
    return _variant(
        f"rmsprop {step_size:g} x{passes}{suffix}",
        solver="rmsprop",
        prior="uniform",
        step_size=step_size,
        minibatch_size=128,
        passes=passes,
        averaging=averaging,
    )


def _proximal(ridge: float, minibatch_size: int, passes: int = 1) -> Variant:
    return _variant(
        f"proximal {ridge:g} n={minibatch_size} x{passes}",
        solver="proximal",
        ridge=ridge,
        minibatch_size=minibatch_size,
        passes=passes,
    )


def _default(fraction: float = ACBConfig().fraction) -> Variant:
    """The preset DEFAULT as it stands, or on a share of the states; DEFAULT is the study's common ground."""
    return _variant("DEFAULT" if fraction == 1 else f"DEFAULT on {fraction:g}", fraction=fraction)


def _recursive(ridge: float) -> Variant:
    return _variant(f"recursive {ridge:g}", solver="recursive", ridge=ridge)


@dataclass(frozen=True)
class FidelitySettings:
    """One run of the study. Every variant meets every environment, feature and ensemble size."""

    environments: tuple[str, ...] = ("Breakout-v5", "MiniGrid-MultiRoom-N4-S5-v0")
    """EnvPool ids whose states a uniformly random policy visits."""
    features: tuple[tuple[str, int], ...] = (("sketch", 16), ("last-layer", 0))
    """Feature maps of a fresh policy network with the side of the sketch, which the others do not have."""
    variants: tuple[Variant, ...] = (
        _rmsprop(1e-4, 4),
        _rmsprop(1e-3, 4),
        _proximal(100.0, 512),
        _proximal(1000.0, 512),
        _default(),
        _default(fraction=0.25),
        _recursive(100.0),
    )
    """The solvers under test."""
    ensemble_sizes: tuple[int, ...] = (128,)
    """M."""
    parallel: int = 16
    """Environments stepped side by side; the last quarter of them is held out."""
    rollout: int = 125
    """Steps between two updates."""
    checkpoints: tuple[int, ...] = (1, 3, 6)
    """After how many rollouts the fidelity is measured."""
    queries: int = 1000
    """Held-out states, evenly spaced in time."""
    replicates: int = 2
    """Seeds of the ensemble; the states and the network stay the same."""
    ceiling_draws: int = 8
    """Ensembles of fresh exact draws whose mean fidelity is the ceiling."""
    epsilon: float = ACBConfig().epsilon
    """Relative epsilon of the whitening, common to all."""
    common_ridge: float = 1.0
    """The ridge of the reference that is the same for all variants."""
    seed: int = 0
    """Of environments, random policy, networks and projections."""

    def __post_init__(self) -> None:
        if self.parallel < 4:
            raise ValueError(
                f"parallel must be at least 4, got {self.parallel}: a quarter of the environments is held out"
            )
        if not self.checkpoints or sorted(set(self.checkpoints)) != list(self.checkpoints) or self.checkpoints[0] < 1:
            raise ValueError(f"checkpoints must be rising numbers of rollouts, at least 1, got {self.checkpoints}")


LAPTOP = FidelitySettings()
SMOKE = replace(
    LAPTOP,
    environments=("MiniGrid-MultiRoom-N4-S5-v0",),
    features=(("sketch", 4), ("last-layer", 0)),
    variants=(_rmsprop(1e-3, 4), _default(), _recursive(100.0)),
    ensemble_sizes=(64,),
    parallel=8,
    rollout=32,
    checkpoints=(1, 2),
    queries=60,
    replicates=1,
    ceiling_draws=2,
)
PAPER = replace(
    LAPTOP,
    variants=(
        *LAPTOP.variants,
        _rmsprop(1e-3, 4, "exponential"),
        _rmsprop(1e-3, 20),
        _rmsprop(1e-2, 4),
        _proximal(10.0, 512),
        _proximal(100.0, 128),
        _proximal(100.0, 512, passes=4),
        _proximal(1000.0, 128),
        _recursive(1.0),
        _recursive(1000.0),
    ),
    features=(*LAPTOP.features, ("penultimate", 0)),
    parallel=128,
    rollout=128,
    checkpoints=(1, 3, 10, 30),
    ensemble_sizes=(16, 64, 128, 512),
    replicates=5,
)
SCALES = {"smoke": SMOKE, "laptop": LAPTOP, "paper": PAPER}
