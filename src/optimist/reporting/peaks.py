"""The moments of a game that are worth a look: where the bonus peaks, and where it has dropped."""

import numpy as np
from numpy.typing import NDArray
from scipy.signal import find_peaks


def peaks(values: NDArray[np.float64], *, most: int) -> NDArray[np.int64]:
    """The steps, in order, of the ``most`` most prominent maxima of ``values`` that keep a distance of each other.

    Prominence is the height above the higher of the two valleys beside a maximum; a maximum must stand out by half a
    standard deviation of ``values``, so that a flat curve has none. The first and the last step may be maxima too.
    """
    level = values.min(initial=0.0) - 1.0
    distance = max(1, len(values) // (4 * most))
    # A valley at either side, so that a maximum at the border is one.
    padded = np.concatenate([[level], values, [level]])
    found, told = find_peaks(padded, distance=distance, prominence=max(0.5 * float(values.std()), 1e-12))
    best = np.argsort(told["prominences"], kind="stable")[::-1][:most]
    return np.sort(found[best] - 1)


def drops(values: NDArray[np.float64], *, most: int) -> NDArray[np.int64]:
    """The steps, in order, of the ``most`` most prominent minima."""
    return peaks(-values, most=most)
