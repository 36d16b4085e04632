"""How the fidelity study is judged: does a solver follow the exact bonus as closely as exact draws do, at its scale?"""

import math
from collections.abc import Sequence
from statistics import mean, stdev

from optimist.studies.fidelity.measurement import Row
from optimist.studies.verdicts import Verdict

LARGEST_GAP = 0.02
"""Rank correlation below the ceiling of exact draws with the same ensemble size and aggregate."""
LARGEST_FACTOR = 2.0
"""Median scale against the exact bonus, either way."""
SIGNIFICANT = 2.0
"""Standard errors over replicates."""

Key = tuple[str, str, str, int, str]


def judge(rows: Sequence[Row]) -> list[Verdict]:
    """A verdict for every environment, feature, variant, ensemble size and aggregate, at its worst checkpoint.

    Against the exact bonus of the variant's own ridge; the common reference is for the table.
    """
    groups: dict[Key, list[Row]] = {}
    for row in [row for row in rows if row.reference == "own"]:
        key = (row.environment, row.features, row.variant, row.ensemble_size, row.aggregate)
        groups.setdefault(key, []).append(row)
    return [judge_variant(key, group) for key, group in groups.items()]


def judge_variant(key: Key, rows: Sequence[Row]) -> Verdict:
    """Holds if the mean gap is significantly within 0.02 and every median scale within a factor of 2."""
    environment, features, variant, members, aggregate = key
    gap, error = max(mean_gap([r for r in rows if r.states == states]) for states in {r.states for r in rows})
    factor = max(math.exp(abs(math.log(row.scale))) if row.scale > 0 else math.inf for row in rows)
    claim = (
        f"{variant}, M = {members}, {aggregate}, {features} features of {environment}: "
        f"within {LARGEST_GAP} of the ceiling and a factor of {LARGEST_FACTOR:g} of the scale"
    )
    measured = f"gap {gap:.3f} ± {error:.3f} at the worst checkpoint, scale off by a factor of {factor:.2f} at most"
    if factor > LARGEST_FACTOR or gap - SIGNIFICANT * error > LARGEST_GAP:
        return Verdict(claim, measured, "does not hold")
    if gap + SIGNIFICANT * error <= LARGEST_GAP:
        return Verdict(claim, measured, "holds")
    return Verdict(claim, measured, "not enough data")


def mean_gap(rows: Sequence[Row]) -> tuple[float, float]:
    """The mean gap to the ceiling and its standard error over replicates, infinite if there is only one."""
    gaps = [row.gap for row in rows]
    return mean(gaps), stdev(gaps) / math.sqrt(len(gaps)) if len(gaps) > 1 else math.inf
