"""The figure of all games together: interquartile means, probabilities of improvement and performance profiles."""

from collections.abc import Sequence
from pathlib import Path

from matplotlib.axes import Axes

from optimist.reporting.learning_curves import colour_of
from optimist.reporting.style import sheet
from optimist.reporting.tables import Row


def draw_aggregates(rows: Sequence[Row], profiles: Sequence[Row], unit: str, reference: str, path: Path) -> None:
    """Three panels with 95 % intervals: the interquartile mean, how likely ``reference`` is better, the profiles.

    Rows: learner, iqm, improvement, each of the latter with _low and _high. Profiles: learner, score, share, low, high.
    """
    others = [row for row in rows if row["learner"] != reference]
    with sheet(path, 11.5, 1.6 + 0.35 * max(4, len(rows))) as figure:
        left, middle, right = figure.subplots(1, 3)
        draw_intervals(left, rows, "iqm")
        left.set(title="interquartile mean", xlabel=unit)
        left.locator_params(axis="x", nbins=5)  # small numbers are long: more of them would touch
        draw_intervals(middle, others, "improvement")
        middle.axvline(0.5, color="black", linewidth=0.8, linestyle=":")
        middle.set(title=f"P({reference} improves on ...)", xlim=(-0.03, 1.03), xlabel="probability")
        for learner in dict.fromkeys(row["learner"] for row in profiles):
            line = [row for row in profiles if row["learner"] == learner]
            scores, colour = [row["score"] for row in line], colour_of(learner)
            low, high = [row["low"] for row in line], [row["high"] for row in line]
            right.step(scores, [row["share"] for row in line], where="post", color=colour, label=learner)
            right.fill_between(scores, low, high, step="post", color=colour, alpha=0.15, linewidth=0)
        right.set(title="performance profile", xlabel="τ", ylabel="share of runs above τ", ylim=(-0.03, 1.03))
        right.legend(fontsize=8)


def draw_intervals(axes: Axes, rows: Sequence[Row], column: str) -> None:
    """A point and its interval for each row, from top to bottom."""
    for place, row in enumerate(rows):
        colour = colour_of(row["learner"])
        axes.plot([row[f"{column}_low"], row[f"{column}_high"]], [place, place], color=colour, linewidth=5, alpha=0.4)
        axes.plot(row[column], place, "o", color=colour)
    axes.set_yticks(range(len(rows)), [row["learner"] for row in rows])
    axes.set_ylim(len(rows) - 0.4, -0.6)
