"""Figures of regret: against the ensemble size (Figure 2) and along the rounds."""

from collections.abc import Sequence
from pathlib import Path

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes

from optimist.reporting.style import COLOURS, sheet
from optimist.reporting.tables import Row

PANEL_TITLES = {"exact": "exact least squares", "sgd": "SGD with Polyak averaging"}


def draw_ensemble_sizes(regret: Sequence[Row], curves: Sequence[Row], ridge: float, path: Path) -> None:
    """Figure 2: above, the regret at the horizon against M; below, the regret along the rounds for every M."""
    with sheet(path, 10, 7.4) as figure:
        axes = figure.subplots(2, 2, sharex="row", squeeze=False)
        for column, (panel, title) in enumerate(PANEL_TITLES.items()):
            mine = [row for row in regret if row["panel"] == panel]
            draw_final_regret(axes[0][column], mine, ridge)
            axes[0][column].set_title(title)
            draw_curves(axes[1][column], [row for row in curves if row["panel"] == panel and row["ridge"] == ridge])
        axes[0][0].set_ylabel("cumulative regret at the horizon")
        axes[1][0].set_ylabel("cumulative regret")
        axes[0][0].legend(fontsize=8)
        axes[1][1].legend(title="ensemble size M", ncols=2, fontsize=8)
        horizon = max(row["round"] for row in curves)
        trials = max(row["trials"] for row in regret)
        figure.suptitle(
            f"ACB, incremental, 50 arms: T = {horizon:,}, {trials} trials; band: one standard deviation", fontsize=11
        )


def draw_final_regret(axes: Axes, rows: Sequence[Row], ridge: float) -> None:
    """Mean, spread and quantiles against M for the main ridge; means for the other ridges; the paper's selection."""
    held_out = [row for row in rows if row["protocol"] == "held-out"]
    for colour, value in zip(COLOURS, sorted({row["ridge"] for row in rows}, key=lambda r: -r), strict=False):
        line = [row for row in held_out if row["ridge"] == value]
        sizes, mean = [row["ensemble_size"] for row in line], np.array([row["mean"] for row in line])
        axes.plot(sizes, mean, "o-", color=colour, markersize=4, label=f"λ = {value:g}")
        if value == ridge:
            spread = np.array([row["sd"] for row in line])
            axes.fill_between(sizes, mean - spread, mean + spread, color=colour, alpha=0.15, linewidth=0)
            axes.plot(sizes, [row["q90"] for row in line], ":", color=colour, linewidth=1, label="90 % quantile")
            paper = [row["mean"] for row in rows if row["protocol"] == "paper" and row["ridge"] == ridge]
            axes.plot(
                sizes, paper, "x--", color="black", linewidth=0.9, markersize=4, label="selected on the same runs"
            )
    axes.set_xscale("log", base=2)
    axes.set_ylim(bottom=0)
    axes.set_xlabel("ensemble size M")
    axes.xaxis.set_major_formatter(mpl.ticker.FuncFormatter(lambda value, _: f"{value:g}"))


def draw_curves(axes: Axes, rows: Sequence[Row]) -> None:
    """Mean regret along the rounds, one line an ensemble size, from light to dark."""
    sizes = sorted({row["ensemble_size"] for row in rows})
    shades = mpl.colormaps["viridis"](np.linspace(0.92, 0.05, len(sizes)))
    for size, shade in zip(sizes, shades, strict=True):
        line = [row for row in rows if row["ensemble_size"] == size]
        axes.plot([row["round"] for row in line], [row["mean"] for row in line], color=shade, label=f"{size}")
    axes.set_xlabel("round")
    axes.set_ylim(bottom=0)


def draw_comparison(curves: Sequence[Row], title: str, path: Path) -> None:
    """Mean regret along the rounds with a band of one standard error, one line a policy."""
    with sheet(path, 7.5, 4.6) as figure:
        axes = figure.subplots()
        names = list(dict.fromkeys(row["policy"] for row in curves))
        for index, name in enumerate(names):
            line = [row for row in curves if row["policy"] == name]
            rounds, mean = [row["round"] for row in line], np.array([row["mean"] for row in line])
            error = np.array([row["se"] for row in line])
            colour, dashes = COLOURS[index % len(COLOURS)], "-" if index < len(COLOURS) else "--"
            axes.plot(rounds, mean, dashes, color=colour, label=name)
            axes.fill_between(rounds, mean - error, mean + error, color=colour, alpha=0.15, linewidth=0)
            axes.annotate(
                name, (rounds[-1], mean[-1]), xytext=(4, 0), textcoords="offset points", fontsize=6.5, va="center"
            )
        axes.set_title(title)
        axes.set_xlabel("round")
        axes.set_ylabel("cumulative regret")
        axes.set_ylim(bottom=0)
        axes.margins(x=0.12)
        axes.legend(fontsize=8, ncols=2)


def draw_policies(rows: Sequence[Row], path: Path) -> None:
    """The regret of every policy on every problem, as bars with one standard error, the best first."""
    places = list(dict.fromkeys((row["problem"], row["d"]) for row in rows))
    columns = min(3, len(places))
    lines = -(-len(places) // columns)
    with sheet(path, 4.2 * columns, 3.4 * lines) as figure:
        axes = np.atleast_1d(figure.subplots(lines, columns)).ravel()
        for spare in axes[len(places) :]:
            spare.set_axis_off()
        for ax, (problem, d) in zip(axes, places, strict=False):
            mine = [row for row in rows if (row["problem"], row["d"]) == (problem, d)]
            names = [row["policy"] for row in mine]
            colours = [COLOURS[0] if name.startswith("acb") else COLOURS[5] for name in names]
            ax.barh(names, [row["mean"] for row in mine], xerr=[row["se"] for row in mine], color=colours, height=0.7)
            ax.invert_yaxis()
            ax.tick_params(axis="y", labelsize=7.5)
            ax.set_title(f"{problem}, d = {d}, T = {mine[0]['horizon']:,}")
            ax.set_xlabel("cumulative regret")
            ax.grid(axis="y", visible=False)


def draw_open_question(rows: Sequence[Row], curves: Sequence[Row], path: Path) -> None:
    """Incremental, lazy and re-randomized ACB: above, the regret at T against d; below, along the rounds at each d."""
    problems = list(dict.fromkeys(row["problem"] for row in rows))
    names = list(dict.fromkeys(row["policy"] for row in sorted(rows, key=lambda row: row["policy"])))
    with sheet(path, 4.8 * len(problems), 7.2) as figure:
        axes = figure.subplots(2, len(problems), squeeze=False)
        for column, problem in enumerate(problems):
            for colour, name in zip(COLOURS, names, strict=False):
                mine = sorted((r for r in rows if (r["problem"], r["policy"]) == (problem, name)), key=lambda r: r["d"])
                error = [row["se"] for row in mine]
                axes[0][column].errorbar(
                    [r["d"] for r in mine],
                    [r["mean"] for r in mine],
                    error,
                    fmt="o-",
                    color=colour,
                    label=name,
                    markersize=4,
                )
                for row in mine:
                    line = [c for c in curves if (c["problem"], c["policy"], c["d"]) == (problem, name, row["d"])]
                    axes[1][column].plot(
                        [c["round"] for c in line], [c["mean"] for c in line], color=colour, linewidth=1.2
                    )
                    axes[1][column].annotate(f"d = {row['d']}", (line[-1]["round"], line[-1]["mean"]), fontsize=6.5)
            axes[0][column].set(title=f"{problem} actions", xlabel="d", ylabel="regret at the horizon", ylim=(0, None))
            axes[1][column].set(xlabel="round", ylabel="cumulative regret", xscale="log", yscale="log")
        axes[0][0].legend()
