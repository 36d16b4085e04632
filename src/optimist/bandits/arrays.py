"""The names of array types. Compiled functions carry them for the reader; Numba infers its own."""

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.floating]
Integers = NDArray[np.integer]
Streams = NDArray[np.uint64]
"""Random states, four words each: see ``streams.py``."""
Arrays = dict[str, NDArray]
"""The arrays of a state, by name."""
