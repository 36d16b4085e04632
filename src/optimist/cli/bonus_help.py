"""The settings of a bonus as a tree, for ``optimist train --bonus NAME --help``: read from its configuration."""

import ast
import dataclasses
import inspect
import textwrap
from collections.abc import Iterator
from importlib.metadata import entry_points
from itertools import pairwise
from typing import Any, Literal, get_args, get_origin, get_type_hints

from rich.console import Console

from optimist.bonuses import factory
from optimist.cli.console import print_line
from optimist.own import imported


def print_settings(bonus: str, screen: Console) -> None:
    """Print what ``--bonus-options key=value ...`` can set, with defaults and meaning, for each factor of ``bonus``."""
    if bonus == "none":
        return
    factors = factory.parse(bonus)
    for factor in factors:
        prefix = f"{factor}." if len(factors) > 1 else ""
        print_line(screen, f"Settings of the bonus {factor}, each written  --bonus-options {prefix}key=value ...\n")
        for line in _lines(factor, screen.width):
            print_line(screen, line)
        print_line(screen, "")


def _lines(factor: str, width: int) -> Iterator[str]:
    if factor in factory.CONFIGS:
        for config in factory.CONFIGS[factor]:
            yield from tree(config, width)
        return
    parts = factory.wrapped(factor)
    if parts is not None:
        yield from _lines(parts[0], width)
        for inner in factory.parse(parts[1]):
            yield from _lines(inner, width)
        return
    factory.builder(factor)  # a name that there is not has its error there
    plug_ins = [entry.value for entry in entry_points(group=factory.PLUG_INS, name=factor)]
    taken = inspect.signature(imported((*plug_ins, factor)[0])).parameters.values()
    for parameter in list(taken)[1:]:  # without the task
        yield f"  {parameter}"


def tree(config: type, width: int, indent: str = "  ", default: Any = None) -> Iterator[str]:
    """One entry per field of a dataclass: ``name = default``, choices, meaning; nested ones are indented under it."""
    hints, meanings = get_type_hints(config), field_docstrings(config)
    owner = config() if default is None else default
    for field in dataclasses.fields(config):
        value, kind = getattr(owner, field.name), hints[field.name]
        options = [option for option in (kind, *get_args(kind)) if dataclasses.is_dataclass(option)]
        choices = get_args(kind) if get_origin(kind) is Literal else ()
        shown = type(value).__name__.lower() if options else value
        yield f"{indent}{field.name} = {shown}" + (f"   ({', '.join(map(str, choices))})" if choices else "")
        meaning = meanings.get(field.name, "")
        margin = f"{indent}    "
        yield from textwrap.wrap(meaning, max(width, 40), initial_indent=margin, subsequent_indent=margin)
        for option in options:
            yield f"{margin}{field.name}={option.__name__.lower()}"  # pyrefly: ignore
            chosen = value if type(value) is option else None
            yield from tree(option, width, f"{margin}  ", chosen)  # pyrefly: ignore


def field_docstrings(config: type) -> dict[str, str]:
    """The docstring under each field of a dataclass, in one line."""
    body = ast.parse(textwrap.dedent(inspect.getsource(config))).body[0].body  # pyrefly: ignore
    found = {}
    for field, after in pairwise(body):
        if isinstance(field, ast.AnnAssign) and isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant):
            found[ast.unparse(field.target)] = " ".join(str(after.value.value).split())
    return found
