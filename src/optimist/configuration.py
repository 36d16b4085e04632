"""Configurations: fields replaced by name, and checks of their values whose errors say what was meant."""

import dataclasses
import difflib
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any, TypeVar, get_args

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

    Config = TypeVar("Config", bound=DataclassInstance)


def replaced(config: "Config", settings: Mapping[str, Any], *, also: Collection[str] = ()) -> "Config":
    """``config`` with fields replaced by ``settings``; ``also`` are names, besides, that a caller could have meant."""
    names = [*(field.name for field in dataclasses.fields(config)), *also]
    unknown = next((key for key in settings if key not in names), None)
    if unknown is not None:
        raise ValueError(f"{type(config).__name__} has no setting {unknown!r}: {suggestion(unknown, names)}")
    return dataclasses.replace(config, **settings)


def suggestion(name: str, names: Collection[str]) -> str:
    """What to write instead of ``name``: the nearest of ``names``, and all of them."""
    near = difflib.get_close_matches(name, names, n=1, cutoff=0.5)
    return (f"did you mean {near[0]!r}? " if near else "") + f"choose one of {', '.join(sorted(names))}"


def require_choice(name: str, value: str, choices: object) -> None:
    """An error that lists the choices unless ``value`` is one of the literal type ``choices``."""
    if value not in get_args(choices):
        raise ValueError(f"{name} must be one of {', '.join(map(repr, get_args(choices)))}, got {value!r}")


def require_at_least(least: int, config: object, *names: str) -> None:
    """An error that names the first of these fields which is below ``least``."""
    for name in names:
        if not getattr(config, name) >= least:
            raise ValueError(f"{name} must be at least {least}, got {getattr(config, name)}")


def require_positive(config: object, *names: str, why: str = "") -> None:
    """An error that names the first of these fields which is not > 0 and finite, and says ``why`` it must be."""
    for name in names:
        if not 0 < getattr(config, name) < float("inf"):
            reason = f": {why}" if why else ""
            raise ValueError(f"{name} must be > 0 and finite, got {getattr(config, name)}{reason}")
