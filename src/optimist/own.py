"""A user's own code: a function named ``package.module:function``, called so that its errors are known as theirs."""

import inspect
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from typing import Any

from optimist.config import suggestion

NOTE = "This error comes from code of your own: "
GIVEN = "given:"
"""Stands before the name of an object that was passed from Python and cannot be imported by that name."""


def name_of(thing: object) -> str:
    """``package.module:function`` if ``thing`` is a function or class that can be imported so, else ``given:NAME``."""
    name, module = getattr(thing, "__qualname__", type(thing).__qualname__), getattr(thing, "__module__", "")
    is_found = module != "__main__" and getattr(sys.modules.get(module), name, None) is thing
    return f"{module}:{name}" if is_found else f"{GIVEN}{name}"


def imported(name: str) -> Callable[..., Any]:
    """The function that ``package.module:function`` names. Errors inside the module are the module's own."""
    if name.startswith(GIVEN):
        raise ValueError(
            f"{name.removeprefix(GIVEN)!r} was passed from Python and cannot be found by its name: pass it again, as "
            "optimist.training.resume(folder, env=..., bonus=..., network=...)"
        )
    module, _, function = name.partition(":")
    if not all(part.isidentifier() for part in (*module.split("."), function)):
        raise ValueError(f"code of your own must be named as package.module:function, got {name!r}")
    try:
        with errors_of(f"the module {module!r}"):
            found = import_module(module)
    except ModuleNotFoundError as missing:
        if missing.name is None or not f"{module}.".startswith(f"{missing.name}."):
            raise  # the module is there, and something that it imports is not
        raise ValueError(
            f"there is no module {module!r}, which {name!r} names: is it in the current folder, or installed?"
        ) from None
    if not callable(getattr(found, function, None)):
        offered = [key for key, value in vars(found).items() if callable(value) and not key.startswith("_")]
        there = suggestion(function, offered) if offered else "it has none"
        raise ValueError(f"the module {module!r} has no function {function!r}: {there}")
    return getattr(found, function)


def called(function: Callable[..., Any], *arguments: Any, settings: Mapping[str, Any], what: str) -> Any:
    """``function(*arguments, **settings)``; settings that it does not take are refused before it is called.

    What it raises itself passes through with its traceback, and with the note that it comes from ``what``.
    """
    try:
        signature = inspect.signature(function)
    except ValueError:  # written in C, without a signature: Python will say what is wrong
        signature = None
    if signature is not None:
        try:
            signature.bind(*arguments, **settings)
        except TypeError as error:
            taken = _settings(signature, len(arguments))
            unknown = next((name for name in settings if name not in taken), None)
            hint = suggestion(unknown, taken) if unknown and taken else f"it takes {', '.join(taken) or 'none'}"
            raise ValueError(f"{what} cannot be called with the settings {dict(settings)}, {error}: {hint}") from None
    with errors_of(what):
        return function(*arguments, **settings)


@contextmanager
def errors_of(what: str) -> Iterator[None]:
    """An exception that is raised inside carries the note that it comes from the user's own ``what``."""
    try:
        yield
    except Exception as error:
        if not is_own(error):
            error.add_note(f"{NOTE}{what}")
        raise


def is_own(error: BaseException) -> bool:
    """Whether ``error`` was raised by a user's own code: its traceback is then what helps."""
    return any(note.startswith(NOTE) for note in getattr(error, "__notes__", ()))


def _settings(signature: inspect.Signature, positional: int) -> list[str]:
    """The names that can be given as settings, after as many arguments by position."""
    named = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    return [
        name
        for k, (name, parameter) in enumerate(signature.parameters.items())
        if parameter.kind in named and (k >= positional or parameter.kind is inspect.Parameter.KEYWORD_ONLY)
    ]
