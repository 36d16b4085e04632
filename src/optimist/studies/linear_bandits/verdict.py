"""How the study of linear bandits is judged."""

import math
from collections.abc import Sequence

import numpy as np

from optimist.reporting.tables import Row
from optimist.studies.verdicts import Judgement, Verdict

NEAR = 1.5
"""Regret within this factor of the re-randomized history counts as the same rate."""
ROOT = 0.75
"""Regret that grows no faster than T^0.75 over the second half of the run counts as sublinear."""


def judge(published: Sequence[Row], open_question: Sequence[Row], curves: Sequence[Row]) -> list[Verdict]:
    """Three verdicts: ACB beside LinUCB, incremental beside re-randomized, lazy beside re-randomized."""
    return [
        judge_ratio("ACB (re-randomized) is near LinUCB, fixed actions", published, "acb-rerandomized", "linucb"),
        judge_incremental(open_question, curves),
        judge_ratio("lazy ACB is near re-randomized ACB", open_question, "acb-lazy", "acb-rerandomized"),
    ]


def judge_ratio(claim: str, rows: Sequence[Row], policy: str, reference: str) -> Verdict:
    """Holds if the regret of ``policy`` is below NEAR times that of ``reference`` on every problem."""
    ratios = [ratio(rows, place, policy, reference) for place in places(rows)]
    worst = max(ratios)
    least = min(ratios)[0]
    measured = f"regret ratio {least:.2f} to {worst[0]:.2f} (± {worst[1]:.2f}) over {len(ratios)} problems"
    return Verdict(claim, measured, judgement(ratios, NEAR))


def judge_incremental(rows: Sequence[Row], curves: Sequence[Row]) -> Verdict:
    """The conjecture of section 3: regret near that of the re-randomized history, and sublinear, at every d."""
    ratios = {place: ratio(rows, place, "acb", "acb-rerandomized") for place in places(rows)}
    slopes = [growth(curves, place, "acb") for place in places(rows)]
    text = ", ".join(f"{name} d = {d}: {value:.2f} ± {error:.2f}" for (name, d), (value, error) in ratios.items())
    tails = [find(rows, p, "acb")["q95"] / find(rows, p, "acb-rerandomized")["q95"] for p in places(rows)]
    measured = (
        f"regret over the re-randomized one: {text}; 95 % quantiles: {min(tails):.2f} to {max(tails):.2f} times; "
        f"grows as T^{min(slopes):.2f} to T^{max(slopes):.2f}"
    )
    verdict = judgement(list(ratios.values()), NEAR)
    if verdict == "holds" and max(slopes) > ROOT:
        verdict = "not enough data"
    return Verdict("conjecture, section 3: incremental ACB extends to linear bandits beyond MAB", measured, verdict)


def judgement(ratios: Sequence[tuple[float, float]], limit: float) -> Judgement:
    """Holds if every ratio is below the limit by three standard errors, does not if one is above it by as many."""
    if any(value - 3 * error > limit for value, error in ratios):
        return "does not hold"
    return "holds" if all(value + 3 * error < limit for value, error in ratios) else "not enough data"


def places(rows: Sequence[Row]) -> list[tuple[str, int]]:
    """The problems of a table."""
    return list(dict.fromkeys((row["problem"], row["d"]) for row in rows))


def ratio(rows: Sequence[Row], place: tuple[str, int], policy: str, reference: str) -> tuple[float, float]:
    """Mean regret of ``policy`` over that of ``reference``, and the standard error by the delta method."""
    a, b = (find(rows, place, name) for name in (policy, reference))
    value = a["mean"] / b["mean"]
    return value, value * math.hypot(a["se"] / a["mean"], b["se"] / b["mean"])


def find(rows: Sequence[Row], place: tuple[str, int], policy: str) -> Row:
    """The row of a policy on a problem."""
    return next(row for row in rows if (row["problem"], row["d"], row["policy"]) == (*place, policy))


def growth(curves: Sequence[Row], place: tuple[str, int], policy: str) -> float:
    """The exponent p of ``regret ~ t^p`` over the second half of the run, by least squares in logarithms."""
    line = [row for row in curves if (row["problem"], row["d"], row["policy"]) == (*place, policy)]
    late = [row for row in line if row["round"] >= line[-1]["round"] / 2 and row["mean"] > 0]
    if len(late) < 2:
        return 0.0
    return float(np.polyfit(np.log([row["round"] for row in late]), np.log([row["mean"] for row in late]), 1)[0])
