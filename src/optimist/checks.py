"""Checks of what users pass in. An error says what was expected, what came and what to do; nothing has changed then."""

import math
from typing import get_args

import numpy as np


def require_seed(seed: int) -> int:
    """``seed`` itself, or an error that says what a seed is."""
    if isinstance(seed, bool) or not isinstance(seed, int | np.integer) or seed < 0:
        raise ValueError(f"seed must be a non-negative integer, got {seed!r}: pass e.g. seed=0")
    return int(seed)


def require_number(
    name: str, value: float, *, least: float = -math.inf, most: float = math.inf, why: str = ""
) -> float:
    """``value`` itself if it is a finite number in ``least .. most``."""
    if not _is_number(value) or not math.isfinite(value) or not least <= value <= most:
        raise ValueError(f"{name} must be {_range(least, most)}, got {value!r}{_because(why)}")
    return float(value)


def require_positive(name: str, value: float, why: str = "") -> float:
    """``value`` itself if it is a finite number above 0."""
    if not _is_number(value) or not 0 < value < math.inf:
        raise ValueError(f"{name} must be > 0 and finite, got {value!r}{_because(why)}")
    return float(value)


def require_fraction(name: str, value: float, why: str = "") -> float:
    """``value`` itself if it lies strictly between 0 and 1."""
    if not _is_number(value) or not 0 < value < 1:
        raise ValueError(f"{name} must be in (0, 1), got {value!r}{_because(why)}")
    return float(value)


def require_count(name: str, value: int, *, least: int = 1, why: str = "") -> int:
    """``value`` itself if it is a whole number, ``least`` or above."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < least:
        raise ValueError(f"{name} must be a whole number >= {least}, got {value!r}{_because(why)}")
    return int(value)


def require_choice(name: str, value: str, choices: object) -> str:
    """``value`` itself if it is one of ``choices``: names, or a literal type of them."""
    names = get_args(choices) or tuple(choices)  # pyrefly: ignore
    if not isinstance(value, str) or value not in names:
        raise ValueError(f"{name} must be one of {', '.join(map(repr, names))}, got {value!r}")
    return value


def require_fields(
    config: object, *names: str, least: float = -math.inf, most: float = math.inf, why: str = ""
) -> None:
    """An error that names the first of these fields of ``config`` which is no finite number in ``least .. most``."""
    for name in names:
        require_number(name, getattr(config, name), least=least, most=most, why=why)


def require_positive_fields(config: object, *names: str, why: str = "") -> None:
    """An error that names the first of these fields of ``config`` which is not above 0 and finite."""
    for name in names:
        require_positive(name, getattr(config, name), why)


def require_counts(config: object, *names: str, least: int = 1, why: str = "") -> None:
    """An error that names the first of these fields of ``config`` which is no whole number of at least ``least``."""
    for name in names:
        require_count(name, getattr(config, name), least=least, why=why)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float | np.number) and not isinstance(value, bool)


def _range(least: float, most: float) -> str:
    if math.isinf(least) and math.isinf(most):
        return "a finite number"
    if math.isinf(most):
        return f"a finite number >= {least:g}"
    return f"a number in [{least:g}, {most:g}]"


def _because(why: str) -> str:
    return f": {why}" if why else ""
