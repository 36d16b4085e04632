"""The figures of fidelity: how closely each solver follows the exact elliptical bonus, and at which scale."""

from collections.abc import Sequence
from pathlib import Path
from statistics import mean

from matplotlib import ticker
from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from optimist.reporting.figures.labels import FewLogTicks, legend_above
from optimist.reporting.style import BAND, BLUE, GRAY, GREEN, INK, ORANGE, sheet
from optimist.reporting.tables import Row

SEEN = {"often": ("s", BLUE[0]), "rarely": ("D", ORANGE[0]), "never": ("^", GREEN[0])}
"""The marker and the color of states by how often they were seen."""
WITHIN = 2.0
"""The factor within which a scale is to lie."""
MARKS = {"rms": ("o", BLUE[0], -0.14), "max": ("s", ORANGE[0], 0.14)}
"""The marker, the color and the height of an aggregate within the line of its variant."""


def draw_fidelity(rows: Sequence[Row], reference: str, path: Path) -> None:
    """Rank correlation with the exact bonus at the end, by environment, policy, feature and variant, and the scale.

    Rows: environment, policy (random where there is no such column), features, dimensions, variant, ensemble_size,
    aggregate, states, reference, correlation, scale, ceiling; one for each replicate.
    """
    most = max(row["ensemble_size"] for row in rows)
    last = [row for row in rows if row["reference"] == reference and row["ensemble_size"] == most]
    end, replicates = max(row["states"] for row in last), len({row["replicate"] for row in last})
    last = [row for row in last if row["states"] == end]
    places = list(dict.fromkeys(map(place_of, last)))
    ridge = "at the ridge of each variant" if reference == "own" else "at ridge 1"
    caption = (
        f"Rank correlation with the exact elliptical bonus {ridge}, M = {most}, after {end:,} states of play: "
        f"mean of {replicates} replicates (filled) and each of them (small). A bar is the mean of fresh exact draws of "
        "as many members: one ensemble is one draw, so by chance it can lie to the right of the bar. On the right: the "
        "median scale of rms, 1 is exact. DEFAULT is the preset at the time of the measurement (see record.json), "
        "which need not be today's."
    )
    with sheet(path, 2.35 * len(places) + 1.2, caption=caption) as figure:
        axes = figure.subplots(len(places), 1, squeeze=False).ravel()
        for ax, place in zip(axes, places, strict=True):
            mine = [row for row in last if place_of(row) == place]
            draw_place(ax, mine)
            environment = place[0].removesuffix("-v5").removesuffix("-v0")
            ax.set_title(f"{environment}, {place[1]} policy, {place[2]}, d = {mine[0]['dimensions']:,}")
        handles = [Line2D([], [], color=c, marker=m, linestyle="", label=name) for name, (m, c, _) in MARKS.items()]
        handles.append(Line2D([], [], color=INK, marker="|", markersize=10, linestyle="", label="exact draws, mean"))
        legend_above(figure, handles)


def draw_frontier(rows: Sequence[Row], path: Path) -> None:
    """Rank correlation on every moving frontier, and the scale of often, rarely and never seen states.

    Rows: environment, policy, variant, ensemble_size, correlation, often, rarely, never; one for each replicate.
    """
    places = list(dict.fromkeys((row["environment"], row["policy"]) for row in rows))
    variants = list(dict.fromkeys(row["variant"] for row in rows))
    members, replicates = rows[0]["ensemble_size"], len({row["replicate"] for row in rows})
    caption = (
        f"Left: rank correlation with the exact elliptical bonus while a walk moves on through DeepSea, M = {members}. "
        "Right: the bonus over the exact one for states seen often, rarely and never, 1 is exact; gray: within a "
        f"factor of {WITHIN:g}. Means of {replicates} replicates."
    )
    with sheet(path, (0.28 * len(variants) + 0.75) * len(places) + 1.0, caption=caption) as figure:
        panels = figure.subplots(len(places), 2, squeeze=False, sharey=True, sharex="col")
        for (left, right), place in zip(panels, places, strict=True):
            right.axvspan(1 / WITHIN, WITHIN, color=GRAY[0], alpha=BAND, linewidth=0)
            for height, variant in enumerate(variants):
                mine = [row for row in rows if (row["environment"], row["policy"], row["variant"]) == (*place, variant)]
                left.plot(mean(row["correlation"] for row in mine), height, "o", color=BLUE[0], markersize=5.5)
                for name, (mark, color) in SEEN.items():
                    right.plot(mean(row[name] for row in mine), height, mark, color=color, markersize=5.5)
            left.set_yticks(range(len(variants)), variants, fontsize=8.5)
            left.set_title(f"{place[0]}, {place[1]} policy")
            right.set_xscale("log")
            right.xaxis.set_major_locator(FewLogTicks())
            right.xaxis.set_major_formatter(ticker.FormatStrFormatter("%g"))
            right.xaxis.set_minor_formatter(ticker.NullFormatter())
            for axes in (left, right):
                axes.grid(axis="y", visible=False)
        panels[0][0].invert_yaxis()
        panels[-1][0].set_xlabel("rank correlation")
        panels[-1][1].set_xlabel("bonus over the exact one")
        marks = [Line2D([], [], color=c, marker=m, linestyle="", label=f"{name} seen") for name, (m, c) in SEEN.items()]
        legend_above(figure, marks)


def place_of(row: Row) -> tuple[str, str, str]:
    """The environment, the policy and the features of a row."""
    return row["environment"], row.get("policy", "random"), row["features"]


def draw_place(axes: Axes, rows: Sequence[Row]) -> None:
    """One line for each variant: correlation of max and rms, what exact draws reach, and the scale of the rms."""
    variants = list(dict.fromkeys(row["variant"] for row in rows))
    for height, variant in enumerate(variants):
        for aggregate, (mark, color, shift) in MARKS.items():
            mine = [row for row in rows if (row["variant"], row["aggregate"]) == (variant, aggregate)]
            values, exact, at = (
                [row["correlation"] for row in mine],
                mean(row["ceiling"] for row in mine),
                height + shift,
            )
            axes.plot([exact, exact], [at - 0.14, at + 0.14], color=color, linewidth=2.5)
            axes.plot([min(values), max(values)], [at, at], color=color, linewidth=1.0)
            axes.plot(values, [at] * len(values), mark, color=color, markersize=2.5)
            axes.plot(mean(values), at, mark, color=color, markersize=5.5)
        scale = mean(row["scale"] for row in rows if (row["variant"], row["aggregate"]) == (variant, "rms"))
        axes.annotate(f"scale {scale:.2g}", (1.01, height), xycoords=("axes fraction", "data"), fontsize=8, va="center")
    axes.set_yticks(range(len(variants)), variants, fontsize=8.5)
    axes.invert_yaxis()
    axes.grid(axis="y", visible=False)
