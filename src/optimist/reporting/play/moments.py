"""The moments of a game that are worth a look: where the bonus peaks, where it has dropped, and no picture twice."""

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy.signal import find_peaks

Kind = Literal["peak", "drop", "between"]


@dataclass(frozen=True, order=True)
class Moment:
    """A step of a game and what the bonus does there."""

    step: int
    kind: Kind


def peaks(values: NDArray[np.float64], *, most: int) -> NDArray[np.int64]:
    """The steps, in order, of the ``most`` most prominent maxima of ``values`` that keep a distance of each other.

    Prominence is the height above the higher of the two valleys beside a maximum; a maximum must stand out by half a
    standard deviation of ``values``, so that a flat curve has none. The first and the last step may be maxima too.
    """
    return np.sort(by_prominence(values, distance=max(1, len(values) // (4 * most)))[:most])


def drops(values: NDArray[np.float64], *, most: int) -> NDArray[np.int64]:
    """The steps, in order, of the ``most`` most prominent minima."""
    return peaks(-values, most=most)


def by_prominence(values: NDArray[np.float64], *, distance: int) -> NDArray[np.int64]:
    """The steps of all maxima at least ``distance`` apart that stand out, the most prominent first."""
    level = values.min(initial=0.0) - 1.0
    # A valley at either side, so that a maximum at the border is one.
    padded = np.concatenate([[level], values, [level]])
    found, told = find_peaks(padded, distance=distance, prominence=max(0.5 * float(values.std()), 1e-12))
    return found[np.argsort(told["prominences"], kind="stable")[::-1]] - 1


def moments(values: NDArray[np.float64], pictures: NDArray[np.uint8], *, most: int) -> list[Moment]:
    """At most ``most`` moments in the order of time, half of them peaks and half drops, whose pictures all differ.

    An agent that has settled plays one episode again and again: where its peaks and drops have too few pictures, others
    of the game are taken from between. Shapes: values (T,), pictures (T, height, width, 3).
    """
    marks = np.array([hash(picture.tobytes()) for picture in pictures])
    seen: set[int] = set()
    result: list[Moment] = []

    def take(steps: NDArray[np.int64], kind: Kind, count: int) -> None:
        for step in steps:
            if count > 0 and int(marks[step]) not in seen:
                seen.add(int(marks[step]))
                result.append(Moment(int(step), kind))
                count -= 1

    distance = max(1, len(values) // (2 * most))
    for kind, curve in (("peak", values), ("drop", -values)):
        take(by_prominence(curve, distance=distance), kind, most // 2)
    _, first = np.unique(marks, return_index=True)
    fresh = np.array([step for step in np.sort(first) if int(marks[step]) not in seen], dtype=np.int64)
    missing = most - len(result)
    if missing and len(fresh):
        spread = np.unique(np.linspace(0, len(fresh) - 1, missing).round().astype(int))
        take(fresh[spread], "between", missing)
    return sorted(result)
