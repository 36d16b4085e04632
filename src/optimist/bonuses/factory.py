"""A bonus by its name, from the same arguments whichever it is: what a command line or a study needs."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from importlib.metadata import EntryPoint, entry_points
from typing import Any

import torch
from torch import nn

from optimist.bonuses import features
from optimist.bonuses.acb.auxiliary import copied
from optimist.bonuses.acb.bonus import ACB
from optimist.bonuses.acb.config import DEFAULT, PRESETS, ACBConfig
from optimist.bonuses.actions import Actions
from optimist.bonuses.combination import NoveltyGain, NoveltyGainConfig, Product
from optimist.bonuses.counting.episodic_count import EpisodicCount, EpisodicCountConfig
from optimist.bonuses.counting.hash_count import HashCount, HashCountConfig
from optimist.bonuses.e3b import E3B, E3BConfig
from optimist.bonuses.elliptical import Elliptical, EllipticalConfig
from optimist.bonuses.features import Loss
from optimist.bonuses.learned.icm import ICM, ICMConfig
from optimist.bonuses.learned.inverse_dynamics import InverseDynamics, InverseDynamicsConfig
from optimist.bonuses.learned.rnd import RND, RNDConfig
from optimist.bonuses.observations import Discrete, Observations, ObservationShape, parts_of, unnamed
from optimist.bonuses.protocol import Bonus, require_bonus
from optimist.checks import require_seed
from optimist.config import replaced, suggestion
from optimist.own import called, imported, name_of
from optimist.ranks import ALONE, Ranks

FEATURE_SETTINGS = ("features", "n_features", "sketch_size", "feature_loss", "weighting", "logits")
PLUG_INS = "optimist.bonuses"
"""The entry point group in which an installed package offers bonuses: ``name = package.module:factory``."""


@dataclass(frozen=True)
class Task:
    """What a bonus is built for. A field is None if the host did not give it; `require` says so."""

    name: str
    seed: int
    observation_shape: ObservationShape | None
    actions: Actions | None
    policy_network: nn.Module | None
    loss: Loss | None
    """The loss of the policy's own action distribution; None for one discrete action, whose loss is the log-loss."""
    policy_inputs: ObservationShape | None = None
    """What the policy network reads, if it is more than an observation: a recurrent one reads its hidden state too."""
    ranks: Ranks = ALONE
    """The processes that play one run together; a bonus of your own may sum over them what it learns."""

    def require(self, field: str) -> Any:
        """The field's value, or an error that says which bonus needs it."""
        value = getattr(self, field)
        if value is None:
            raise ValueError(f"the bonus {self.name!r} needs {field}: pass make({self.name!r}, {field}=..., seed=...)")
        return value


Builder = Callable[[Task, Mapping[str, Any]], Bonus]


def make(
    name: str | Callable[..., Any],
    *,
    seed: int = 0,
    observation_shape: ObservationShape | None = None,
    actions: Actions | None = None,
    policy_network: nn.Module | None = None,
    loss: Loss | None = None,
    policy_inputs: ObservationShape | None = None,
    ranks: Ranks = ALONE,
    **settings: Any,
) -> Bonus:
    """The bonus called ``name``; ``settings`` replace fields of its configuration.

    ============== ================================== ===================================================
    name           needs                              settings
    ============== ================================== ===================================================
    acb            policy_network, unless             those of ``ACBConfig`` and of its solver; preset,
                   features="observations"            config, logits
    count          observation_shape                  those of ``HashCountConfig``
    e3b            observation_shape, actions         those of ``E3BConfig`` and ``InverseDynamicsConfig``
    elliptical     observation_shape, policy_network  those of ``EllipticalConfig``; features,
                                                      sketch_size, feature_loss, weighting, logits:
                                                      `features.make`
    episodic-count observation_shape                  those of ``EpisodicCountConfig``
    icm            observation_shape, actions         those of ``ICMConfig``
    rnd            observation_shape                  those of ``RNDConfig``
    module:factory what it asks its `Task` for        the keyword arguments of the factory
    acb*e3b        what both need                     those of both: ``acb.ridge``, ``e3b.ridge``
    novelty-gain(  what the bonus inside needs        those of ``NoveltyGainConfig`` and of the bonus inside
    acb)
    ============== ================================== ===================================================

    ``package.module:factory`` is a bonus of your own: ``factory(task, **settings)`` returns a `Bonus` for the `Task`.
    The function itself may be given too. An installed package offers one under a short name, by an entry point of the
    group ``optimist.bonuses``. Any two names with ``*`` between them are the `Product` of both, and a setting carries
    the name of its factor before a dot. Both are made from the one seed: each draws from streams named after itself.
    ``novelty-gain(acb)`` is the `NoveltyGain` of a bonus that scores each state by itself; NovelD's form of ACB is
    ``novelty-gain(acb)*episodic-count`` with ``episodic-count.form`` "first-visit"; ``novelty-gain(acb).alpha`` and
    ``novelty-gain(acb).ridge`` are settings of its first factor.
    What a bonus does not need may be given all the same, so that one call serves every name. ``policy_inputs`` is for a
    network that reads more than an observation, e.g. its hidden state: the transitions must have it, under its name.
    With several ``ranks`` every process makes the bonus alike and shows it the transitions of its own environments.
    """
    text = name if isinstance(name, str) else name_of(name)
    task = Task(text, require_seed(seed), observation_shape, actions, policy_network, loss, policy_inputs, ranks)
    if not isinstance(name, str):
        return _built_by(name, f"your bonus factory {text!r}")(task, settings)
    return _built(task, settings)


def _built(task: Task, settings: Mapping[str, Any]) -> Bonus:
    factors = parse(task.name)
    if len(factors) == 1:
        return builder(factors[0])(replace(task, name=factors[0]), settings)
    routed = _routed(factors, settings)
    return Product(*(builder(factor)(replace(task, name=factor), routed[factor]) for factor in factors))


def parse(name: str) -> tuple[str, ...]:
    """The one or two names that ``name`` is the product of, blanks allowed: the only reader of ``a*b`` and ``a(b)``."""
    factors, depth = [""], 0
    for letter in name:
        depth += (letter == "(") - (letter == ")")
        if letter == "*" and depth == 0:
            factors.append("")
        else:
            factors[-1] += letter
    found = tuple(factor.strip() for factor in factors)
    if depth or not all(found) or len(found) > 2 or len(set(found)) < len(found):
        raise ValueError(f"a bonus is one name or a product of two different ones, such as 'acb*e3b', got {name!r}")
    return tuple(factor if (inner := wrapped(factor)) is None else f"{inner[0]}({inner[1]})" for factor in found)


def wrapped(factor: str) -> tuple[str, str] | None:
    """What ``wrapper(name)`` is made of, both without needless blanks; None for a single name."""
    found = re.fullmatch(r"\s*([^()*]*?)\s*\((.*)\)\s*", factor)
    if found is None:
        return None
    if found[1] not in WRAPPERS:
        raise ValueError(f"no bonus wraps another by the name {found[1]!r}: {suggestion(found[1], WRAPPERS)}")
    return found[1], "*".join(parse(found[2]))


def names() -> list[str]:
    """The names of all bonuses there are: our own, and those of installed packages."""
    return sorted({*BUILDERS, *entry_points(group=PLUG_INS).names})


def builder(name: str) -> Builder:
    """What builds the single bonus called ``name``: one of ours, your own ``module:factory``, or an installed one."""
    if name in BUILDERS:
        return BUILDERS[name]
    parts = wrapped(name)
    if parts is not None:
        return WRAPPERS[parts[0]](parts[1])
    if ":" in name:
        return _built_by(imported(name), f"your bonus factory {name!r}")
    found = list(entry_points(group=PLUG_INS, name=name))
    if not found:
        raise ValueError(
            f"there is no bonus {name!r}: {suggestion(name, names())}, or your own as package.module:factory"
        )
    if len({entry.value for entry in found}) > 1:
        offers = " and ".join(sorted(_offer(entry) for entry in found))
        raise ValueError(f"two packages offer a bonus {name!r}, {offers}: name one as package.module:factory")
    return _built_by(imported(found[0].value), f"the bonus {name!r}, {_offer(found[0])},")


def _offer(entry: EntryPoint) -> str:
    return entry.value if entry.dist is None else f"{entry.value} of {entry.dist.name}"


def _built_by(factory: Callable[..., Any], what: str) -> Builder:
    return lambda task, settings: require_bonus(called(factory, task, settings=settings, what=what), what)


def _acb(task: Task, settings: Mapping[str, Any]) -> Bonus:
    chosen, others = _split(settings, ("preset",))
    if chosen:
        others["config"] = _preset(chosen["preset"], others)
    shape = task.observation_shape if _reads_vectors(others) else task.policy_inputs or task.observation_shape
    example = None if shape is None else _zeros(shape)
    network = task.policy_network if _reads_vectors(others) else task.require("policy_network")
    return ACB(network, example, seed=task.seed, loss=task.loss, ranks=task.ranks, **others)


def _reads_vectors(settings: Mapping[str, Any]) -> bool:
    config = settings.get("config")
    return settings.get("features", getattr(config, "features", None)) == "observations"


def _preset(name: str, others: Mapping[str, Any]) -> ACBConfig:
    if "config" in others:
        raise ValueError(f"preset={name!r} and config are two answers to one question: give one of them")
    if name not in PRESETS:
        raise ValueError(f"there is no preset {name!r}: {suggestion(name, PRESETS)}")
    return PRESETS[name]


def _rnd(task: Task, settings: Mapping[str, Any]) -> Bonus:
    return RND(
        task.require("observation_shape"), seed=task.seed, config=replaced(RNDConfig(), settings), ranks=task.ranks
    )


def _icm(task: Task, settings: Mapping[str, Any]) -> Bonus:
    config = replaced(ICMConfig(), settings)
    return ICM(
        task.require("observation_shape"), task.require("actions"), seed=task.seed, config=config, ranks=task.ranks
    )


def _count(task: Task, settings: Mapping[str, Any]) -> Bonus:
    return HashCount(
        task.require("observation_shape"),
        seed=task.seed,
        config=replaced(HashCountConfig(), settings),
        ranks=task.ranks,
    )


def _episodic_count(task: Task, settings: Mapping[str, Any]) -> Bonus:
    config = replaced(EpisodicCountConfig(), settings)
    return EpisodicCount(task.require("observation_shape"), seed=task.seed, config=config, ranks=task.ranks)


def _e3b(task: Task, settings: Mapping[str, Any]) -> Bonus:
    own, others = _split(settings, tuple(field.name for field in fields(E3BConfig)))
    config = replaced(InverseDynamicsConfig(), others, also=tuple(own))
    shape, actions = task.require("observation_shape"), task.require("actions")
    embedding = InverseDynamics(shape, actions, seed=task.seed, config=config, ranks=task.ranks)
    return E3B(embedding, config=replaced(E3BConfig(), own), ranks=task.ranks)


def _elliptical(task: Task, settings: Mapping[str, Any]) -> Bonus:
    chosen, others = _split(settings, FEATURE_SETTINGS)
    config = replaced(EllipticalConfig(), others, also=FEATURE_SETTINGS)
    vectors, size = _reads_vectors(chosen), chosen.pop("n_features", 0)
    if size and not vectors:
        raise ValueError("n_features is the length of vectors with features='observations': use sketch_size instead")
    shape: ObservationShape = (size,) if vectors and size else task.require("observation_shape")
    if not vectors and task.policy_inputs is not None:
        shape = task.policy_inputs
    # The features must not move with the policy; vectors of the caller's own need none.
    network = nn.Identity() if vectors else copied(task.require("policy_network"))
    name = chosen.pop("features", DEFAULT.features)  # by default the very features of ACB, drawn from the same seed
    chosen.setdefault("sketch_size", DEFAULT.sketch_size)
    chosen.setdefault("feature_loss", DEFAULT.feature_loss)
    feature_map = features.make(name, network, _zeros(shape), seed=task.seed, loss=task.loss, **chosen)
    return Elliptical(feature_map, shape, config=config, ranks=task.ranks)


def _novelty_gain(inner: str) -> Builder:
    for factor in parse(inner):
        builder(factor)  # a name that there is not has its error before anything is built

    def build(task: Task, settings: Mapping[str, Any]) -> Bonus:
        own, others = _split(settings, tuple(field.name for field in fields(NoveltyGainConfig)))
        return NoveltyGain(_built(replace(task, name=inner), others), config=replaced(NoveltyGainConfig(), own))

    return build


BUILDERS: dict[str, Builder] = {
    "acb": _acb,
    "count": _count,
    "e3b": _e3b,
    "elliptical": _elliptical,
    "episodic-count": _episodic_count,
    "icm": _icm,
    "rnd": _rnd,
}

WRAPPERS: dict[str, Callable[[str], Builder]] = {"novelty-gain": _novelty_gain}
"""What makes the builder of ``wrapper(name)`` from the name inside, which may be a product itself."""

CONFIGS: dict[str, tuple[type, ...]] = {
    "acb": (ACBConfig,),
    "count": (HashCountConfig,),
    "e3b": (E3BConfig, InverseDynamicsConfig),
    "elliptical": (EllipticalConfig,),
    "episodic-count": (EpisodicCountConfig,),
    "icm": (ICMConfig,),
    "novelty-gain": (NoveltyGainConfig,),
    "rnd": (RNDConfig,),
}
"""The dataclasses whose fields are the settings of each bonus."""


def _routed(factors: Sequence[str], settings: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """The settings of every factor, by its name, which they carry before a dot."""
    routed: dict[str, dict[str, Any]] = {factor: {} for factor in factors}
    for setting, value in settings.items():
        owner = max((factor for factor in factors if setting.startswith(f"{factor}.")), key=len, default=None)
        if owner is None:
            ways = " or ".join(f"{factor}.{setting.rpartition('.')[2]}" for factor in factors)
            raise ValueError(f"the setting {setting!r} belongs to neither factor of {'*'.join(factors)}: write {ways}")
        routed[owner][setting.removeprefix(f"{owner}.")] = value
    return routed


def _zeros(shape: ObservationShape) -> Observations:
    zeros = {
        name: torch.zeros(1, *part.raw_shape, dtype=torch.int64 if isinstance(part, Discrete) else torch.float32)
        for name, part in parts_of(shape, channels="all").items()
    }
    return unnamed(zeros, like=shape)


def _split(settings: Mapping[str, Any], names: tuple[str, ...]) -> tuple[dict[str, Any], dict[str, Any]]:
    chosen = {key: value for key, value in settings.items() if key in names}
    return chosen, {key: value for key, value in settings.items() if key not in names}
