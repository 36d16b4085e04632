"""The figure of fidelity: how closely each solver follows the exact elliptical bonus, and at which scale."""

from collections.abc import Sequence
from pathlib import Path
from statistics import mean

from matplotlib.axes import Axes

from optimist.reporting.style import COLOURS, sheet
from optimist.reporting.tables import Row

MARKS = {"rms": ("o", COLOURS[0]), "max": ("s", COLOURS[1])}


def draw_fidelity(rows: Sequence[Row], reference: str, path: Path) -> None:
    """Rank correlation with the exact bonus at the end, for every environment, feature and variant, and the scale.

    A dot is the mean over replicates, the bar behind it the ceiling that as many fresh exact draws reach.
    """
    most = max(row["ensemble_size"] for row in rows)
    last = [row for row in rows if row["reference"] == reference and row["ensemble_size"] == most]
    places = list(dict.fromkeys((row["environment"], row["features"]) for row in last))
    columns = len({features for _, features in places})
    lines = len(places) // columns
    with sheet(path, 4.8 * columns, 3.2 * lines + 0.4) as figure:
        axes = figure.subplots(lines, columns, squeeze=False, sharey=True).ravel()
        for ax, place in zip(axes, places, strict=False):
            mine = [row for row in last if (row["environment"], row["features"]) == place]
            end = max(row["states"] for row in mine)
            draw_place(ax, [row for row in mine if row["states"] == end])
            ax.set_title(
                f"{place[0].removesuffix('-v5').removesuffix('-v0')}\n{place[1]}, d = {mine[0]['dimensions']:,}"
            )
        names = axes[0].get_legend_handles_labels()
        figure.legend(*names, loc="outside lower center", ncols=2, title="dot: measured; bar: ceiling of exact draws")
        ridge = "its own ridge" if reference == "own" else "ridge 1"
        figure.suptitle(f"Rank correlation with the exact elliptical bonus at {ridge}, M = {most}, {end:,} states")


def draw_place(axes: Axes, rows: Sequence[Row]) -> None:
    """One line a variant: correlation of max and rms, their ceilings, and the scale of the rms in words."""
    variants = list(dict.fromkeys(row["variant"] for row in rows))
    for height, variant in enumerate(variants):
        for aggregate, (mark, colour) in MARKS.items():
            mine = [row for row in rows if (row["variant"], row["aggregate"]) == (variant, aggregate)]
            ceiling = mean(row["ceiling"] for row in mine)
            axes.plot([ceiling, ceiling], [height - 0.32, height + 0.32], color=colour, linewidth=2.5, alpha=0.4)
            label = aggregate if height == 0 else None
            axes.plot(mean(row["correlation"] for row in mine), height, mark, color=colour, markersize=5, label=label)
        scale = mean(row["scale"] for row in rows if (row["variant"], row["aggregate"]) == (variant, "rms"))
        axes.annotate(
            f"scale {scale:.2g}", (1.02, height), xycoords=("axes fraction", "data"), fontsize=6.5, va="center"
        )
    axes.set_yticks(range(len(variants)), variants, fontsize=8)
    axes.invert_yaxis()
    axes.grid(axis="y", visible=False)
