"""How Figure 2 is judged: its caption, "up to a point, increasing ensemble size improves cumulative regret"."""

from collections.abc import Mapping
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from optimist.studies.verdicts import Verdict

CLAIM = "Figure 2: up to a point, increasing ensemble size improves cumulative regret ({})"
SIGNIFICANT = 3.0
"""Standard errors: for normal means, a false alarm in 370 comparisons."""


def judge(final: Mapping[tuple[str, int], NDArray[np.float64]]) -> list[Verdict]:
    """A verdict for each line of the figure, from the regrets of the reported trials by (line, M)."""
    lines = dict.fromkeys(line for line, _ in final)
    return [judge_panel(line, {size: r for (name, size), r in final.items() if name == line}) for line in lines]


def judge_panel(panel: str, regret: Mapping[int, NDArray[np.float64]]) -> Verdict:
    """Holds if the best M beats M = 1 significantly and no step on the way to it is significantly worse."""
    sizes = sorted(regret)
    best = min(sizes, key=lambda size: regret[size].mean())
    gain, error = difference(regret[sizes[0]], regret[best])
    way = [size for size in sizes if size <= best]
    setbacks = [b for a, b in pairwise(way) if significantly_less(regret[a], regret[b])]
    last = regret[sizes[-1]].mean()
    measured = (
        f"regret {regret[sizes[0]].mean():.1f} at M = {sizes[0]}, {regret[best].mean():.1f} at M = {best} "
        f"(less by {gain:.1f} ± {error:.1f}), {last:.1f} at M = {sizes[-1]}; {len(regret[best])} trials"
    )
    claim = CLAIM.format(panel)
    if best != sizes[0] and gain > SIGNIFICANT * error and not setbacks:
        return Verdict(claim, measured, "holds")
    if setbacks or significantly_less(regret[sizes[0]], regret[sizes[1]]):
        where = f"; significantly worse again at M = {', '.join(map(str, setbacks))}" if setbacks else ""
        return Verdict(claim, measured + where, "does not hold")
    return Verdict(claim, measured, "not enough data")


def difference(a: NDArray[np.float64], b: NDArray[np.float64]) -> tuple[float, float]:
    """``mean(a) - mean(b)`` and its standard error, the trials being independent."""
    return float(a.mean() - b.mean()), float(np.sqrt(a.var(ddof=1) / a.size + b.var(ddof=1) / b.size))


def significantly_less(a: NDArray[np.float64], b: NDArray[np.float64]) -> bool:
    """Whether the mean of a is below that of b by more than chance explains."""
    gap, error = difference(b, a)
    return gap > SIGNIFICANT * error
