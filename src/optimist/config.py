"""Configurations by name: fields replaced, also nested ones, texts ``key=value`` read, near names suggested."""

import dataclasses
import difflib
import json
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

    Config = TypeVar("Config", bound=DataclassInstance)


def replaced(config: "Config", settings: Mapping[str, Any], *, also: Collection[str] = ()) -> "Config":
    """``config`` with fields replaced by ``settings``; ``extrinsic.weight`` is the field of a nested configuration.

    ``also`` are names, besides, that a caller could have meant.
    """
    names = [*(field.name for field in dataclasses.fields(config)), *leaves(config), *also]
    unknown = next((key for key in settings if key not in names), None)
    if unknown is not None:
        raise ValueError(f"{type(config).__name__} has no setting {unknown!r}: {suggestion(unknown, set(names))}")
    own = {key: value for key, value in settings.items() if "." not in key}
    for outer in dict.fromkeys(key.partition(".")[0] for key in settings if "." in key):
        inner = {key.partition(".")[2]: value for key, value in settings.items() if key.startswith(f"{outer}.")}
        own[outer] = replaced(own.get(outer, getattr(config, outer)), inner)
    return dataclasses.replace(config, **own)


def leaves(config: "Config") -> dict[str, Any]:
    """The fields by name, those of nested configurations as ``extrinsic.weight``."""
    result: dict[str, Any] = {}
    for field in dataclasses.fields(config):
        value = getattr(config, field.name)
        if dataclasses.is_dataclass(value) and not isinstance(value, type):
            result |= {f"{field.name}.{name}": inner for name, inner in leaves(value).items()}
        else:
            result[field.name] = value
    return result


def changed(config: "DataclassInstance") -> dict[str, Any]:
    """The fields of ``config`` that differ from their defaults, for a short ``repr``."""
    values = {field: getattr(config, field.name) for field in dataclasses.fields(config)}
    return {field.name: value for field, value in values.items() if value != _default(field)}


def _default(field: dataclasses.Field) -> Any:
    """The default of a field, or a mark that equals nothing else."""
    return field.default if field.default_factory is dataclasses.MISSING else field.default_factory()


def suggestion(name: str, names: Collection[str]) -> str:
    """What to write instead of ``name``: the nearest of ``names``, and all of them."""
    near = difflib.get_close_matches(name, names, n=1, cutoff=0.5)
    return (f"did you mean {near[0]!r}? " if near else "") + f"choose one of {', '.join(sorted(names))}"


def key_values(name: str, texts: Sequence[str]) -> dict[str, Any]:
    """The mapping that texts ``key=value`` write: a value is read as JSON where it is JSON, else as it stands."""
    result: dict[str, Any] = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not key or not equals:
            raise ValueError(f"{name} must be written key=value, got {text!r}")
        if key in result:
            raise ValueError(f"{name} gives {key} twice: {text!r}")
        try:
            result[key] = json.loads(value)
        except json.JSONDecodeError:
            result[key] = value
    return result
