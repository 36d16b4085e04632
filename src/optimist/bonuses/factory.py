"""A bonus by its name, from the same arguments whichever it is: what a command line or a study needs."""

import copy
import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from optimist.bonuses import features
from optimist.bonuses.acb import ACB
from optimist.bonuses.acb_config import ACBConfig
from optimist.bonuses.actions import Actions
from optimist.bonuses.combination import Product
from optimist.bonuses.counts import HashCount, HashCountConfig
from optimist.bonuses.elliptical import Elliptical, EllipticalConfig
from optimist.bonuses.episodic import E3B, E3BConfig
from optimist.bonuses.episodic_count import EpisodicCount, EpisodicCountConfig
from optimist.bonuses.icm import ICM, ICMConfig
from optimist.bonuses.inverse_dynamics import InverseDynamics, InverseDynamicsConfig
from optimist.bonuses.observations import WHOLE, Discrete, ObservationShape, parts_of
from optimist.bonuses.presets import DEFAULT, PRESETS
from optimist.bonuses.protocol import Bonus
from optimist.bonuses.rnd import RND, RNDConfig
from optimist.configuration import replaced, suggestion
from optimist.seeding import require_seed

FEATURE_SETTINGS = ("features", "side", "weighting", "loss", "logits")


@dataclass(frozen=True)
class Task:
    """What a bonus is built for. A field that a bonus needs and that is None makes an error that names it."""

    name: str
    seed: int
    observation_shape: ObservationShape | None
    actions: Actions | None
    policy_network: nn.Module | None

    def require(self, field: str) -> Any:
        """The field's value, or an error that says which bonus needs it."""
        value = getattr(self, field)
        if value is None:
            raise ValueError(f"the bonus {self.name!r} needs {field}: pass make({self.name!r}, {field}=..., seed=...)")
        return value


def make(
    name: str,
    *,
    seed: int,
    observation_shape: ObservationShape | None = None,
    actions: Actions | None = None,
    policy_network: nn.Module | None = None,
    **settings: Any,
) -> Bonus:
    """The bonus called ``name``; ``settings`` replace fields of its configuration.

    ============== ================================== ===================================================
    name           needs                              settings
    ============== ================================== ===================================================
    acb            policy_network                     those of ``ACBConfig``; preset, config, logits, loss
    rnd            observation_shape                  those of ``RNDConfig``
    icm            observation_shape, actions         those of ``ICMConfig``
    elliptical     observation_shape, policy_network  those of ``EllipticalConfig``; features, side, loss ...
    e3b            observation_shape, actions         those of ``E3BConfig`` and ``InverseDynamicsConfig``
    count          observation_shape                  those of ``HashCountConfig``
    episodic-count observation_shape                  those of ``EpisodicCountConfig``
    acb*e3b        what both need                     those of both: ``acb.ridge``, ``e3b.ridge``
    ============== ================================== ===================================================

    Any two names with ``*`` between them are the `Product` of both, made from the one seed: each draws from streams
    named after itself. What a bonus does not need may be given all the same, so that one call serves every name.
    """
    factors = [factor.strip() for factor in name.split("*")]
    unknown = next((factor for factor in factors if factor not in BUILDERS), None)
    if unknown is not None:
        raise ValueError(f"there is no bonus {unknown!r}: {suggestion(unknown, BUILDERS)}")
    task = Task(name, require_seed(seed), observation_shape, actions, policy_network)
    if len(factors) == 1:
        return BUILDERS[factors[0]](task, settings)
    if len(factors) > 2 or factors[0] == factors[1]:
        raise ValueError(f"a product has two different factors, such as 'acb*e3b', got {name!r}")
    routed = _routed(factors, settings)
    return Product(*(BUILDERS[factor](dataclasses.replace(task, name=factor), routed[factor]) for factor in factors))


def _acb(task: Task, settings: Mapping[str, Any]) -> Bonus:
    example = None if task.observation_shape is None else _zeros(task.observation_shape)
    chosen, others = _split(settings, ("preset",))
    if chosen:
        others["config"] = _preset(chosen["preset"], others)
    return ACB(task.require("policy_network"), example, seed=task.seed, **others)


def _preset(name: str, others: Mapping[str, Any]) -> ACBConfig:
    if "config" in others:
        raise ValueError(f"preset={name!r} and config are two answers to one question: give one of them")
    if name not in PRESETS:
        raise ValueError(f"there is no preset {name!r}: {suggestion(name, PRESETS)}")
    return PRESETS[name]


def _rnd(task: Task, settings: Mapping[str, Any]) -> Bonus:
    return RND(task.require("observation_shape"), seed=task.seed, config=replaced(RNDConfig(), settings))


def _icm(task: Task, settings: Mapping[str, Any]) -> Bonus:
    config = replaced(ICMConfig(), settings)
    return ICM(task.require("observation_shape"), task.require("actions"), seed=task.seed, config=config)


def _count(task: Task, settings: Mapping[str, Any]) -> Bonus:
    return HashCount(task.require("observation_shape"), seed=task.seed, config=replaced(HashCountConfig(), settings))


def _episodic_count(task: Task, settings: Mapping[str, Any]) -> Bonus:
    config = replaced(EpisodicCountConfig(), settings)
    return EpisodicCount(task.require("observation_shape"), seed=task.seed, config=config)


def _e3b(task: Task, settings: Mapping[str, Any]) -> Bonus:
    own, others = _split(settings, tuple(field.name for field in dataclasses.fields(E3BConfig)))
    config = replaced(InverseDynamicsConfig(), others, also=tuple(own))
    shape, actions = task.require("observation_shape"), task.require("actions")
    embedding = InverseDynamics(shape, actions, seed=task.seed, config=config)
    return E3B(embedding, config=replaced(E3BConfig(), own))


def _elliptical(task: Task, settings: Mapping[str, Any]) -> Bonus:
    chosen, others = _split(settings, FEATURE_SETTINGS)
    config = replaced(EllipticalConfig(), others, also=FEATURE_SETTINGS)
    shape: ObservationShape = task.require("observation_shape")
    network = copy.deepcopy(task.require("policy_network"))  # the features must not move with the policy
    name = chosen.pop("features", DEFAULT.features)  # by default the very features of ACB, drawn from the same seed
    chosen.setdefault("side", DEFAULT.sketch_size)
    feature_map = features.make(name, network, _zeros(shape), seed=task.seed, **chosen)
    return Elliptical(feature_map, shape, config=config)


BUILDERS: dict[str, Callable[[Task, Mapping[str, Any]], Bonus]] = {
    "acb": _acb,
    "count": _count,
    "e3b": _e3b,
    "elliptical": _elliptical,
    "episodic-count": _episodic_count,
    "icm": _icm,
    "rnd": _rnd,
}


def _routed(factors: list[str], settings: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """The settings of every factor, by its name, which they carry before a dot."""
    routed: dict[str, dict[str, Any]] = {factor: {} for factor in factors}
    for setting, value in settings.items():
        factor, dot, field = setting.partition(".")
        if not dot or factor not in routed:
            ways = " or ".join(f"{factor}.{field if dot else setting}" for factor in factors)
            raise ValueError(f"the setting {setting!r} belongs to neither factor of {'*'.join(factors)}: write {ways}")
        routed[factor][field] = value
    return routed


def _zeros(shape: ObservationShape) -> torch.Tensor | dict[str, torch.Tensor]:
    zeros = {
        name: torch.zeros(1, *part.raw_shape, dtype=torch.int64 if isinstance(part, Discrete) else torch.float32)
        for name, part in parts_of(shape, channels="all").items()
    }
    return zeros if isinstance(shape, Mapping) else zeros[WHOLE]


def _split(settings: Mapping[str, Any], names: tuple[str, ...]) -> tuple[dict[str, Any], dict[str, Any]]:
    chosen = {key: value for key, value in settings.items() if key in names}
    return chosen, {key: value for key, value in settings.items() if key not in names}
