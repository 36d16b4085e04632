"""How functions are compiled: by Numba, kept on disk where possible; and the array types of their signatures."""

import functools
import logging
from collections.abc import Callable, Set
from typing import Any, TypeVar

import numpy as np
from numba import njit
from numpy.typing import NDArray

Floats = NDArray[np.floating]
Integers = NDArray[np.integer]
"""Names for the reader: Numba infers its own types."""

Function = TypeVar("Function", bound=Callable[..., Any])


def compiled(
    *, nogil: bool = False, inline: bool = False, fastmath: Set[str] = frozenset()
) -> Callable[[Function], Function]:
    """Compiles a function at its first call, and keeps the machine code on disk for the next process.

    Where neither the package's folder nor the user's cache can be written (a read-only container), the code lives as
    long as the process: nothing fails, but every process compiles anew. The temporary folder of the system would be no
    safe place for it: cached code is executed, and other users can write there.
    """
    options: dict[str, Any] = {"nogil": nogil, "inline": "always" if inline else "never"}
    if fastmath:
        options["fastmath"] = set(fastmath)

    def decorate(function: Function) -> Function:
        try:
            return njit(cache=True, **options)(function)
        except RuntimeError:  # Numba's "no locator available": it found no folder that can be written
            _say_once_that_nothing_is_kept()
            return njit(**options)(function)

    return decorate


@functools.cache
def _say_once_that_nothing_is_kept() -> None:
    logging.getLogger("optimist").warning(
        "compiled code cannot be kept on disk here, so every process compiles it anew, which takes seconds: "
        "set NUMBA_CACHE_DIR to a folder that you can write to"
    )
