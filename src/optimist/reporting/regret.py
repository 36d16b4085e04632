"""Figures of regret: against the ensemble size (Figure 2) and along the rounds."""

from collections.abc import Sequence
from pathlib import Path

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes

from optimist.reporting.style import COLOURS, sheet
from optimist.reporting.tables import Row

PANEL_TITLES = {"exact": "exact least squares", "sgd": "SGD with Polyak averaging"}


def draw_ensemble_sizes(regret: Sequence[Row], curves: Sequence[Row], path: Path) -> None:
    """Figure 2: above, the regret at the horizon against M; below, the regret along the rounds for every M."""
    with sheet(path, 10, 7.4) as figure:
        axes = figure.subplots(2, 2, sharex="row", sharey="row", squeeze=False)
        for column, (panel, title) in enumerate(PANEL_TITLES.items()):
            draw_final_regret(axes[0][column], [row for row in regret if row["panel"] == panel])
            axes[0][column].set_title(title)
            axes[0][column].legend(fontsize=8, loc="upper right" if column == 0 else "lower right")
        draw_curves(axes[1][0], [row for row in curves if row["panel"] == "exact"])
        slower = [row for row in curves if row["role"] == "fixed rate"]
        rate = max(row["learning_rate"] for row in slower)
        draw_curves(axes[1][1], [row for row in slower if row["learning_rate"] == rate])
        axes[1][1].set_title(f"learning rate {rate:g}")
        axes[1][0].set_ylim(bottom=0)  # shared: only once both are drawn
        axes[0][0].set_ylabel("cumulative regret at the horizon")
        axes[1][0].set_ylabel("cumulative regret, λ = 1")
        axes[1][1].legend(title="ensemble size M", ncols=2, fontsize=8)
        horizon = max(row["round"] for row in curves)
        trials = max(row["trials"] for row in regret)
        figure.suptitle(
            f"ACB, incremental, 50 arms: T = {horizon:,}, mean of {trials} trials, β selected on others", fontsize=11
        )


def draw_final_regret(axes: Axes, rows: Sequence[Row]) -> None:
    """Against M: the selected setting with its quantiles and the paper's way beside; other ridges or learning rates."""
    held_out = [row for row in rows if row["protocol"] == "held-out"]
    main = [row for row in held_out if row["role"] == "selected"]
    sizes = [row["ensemble_size"] for row in main]
    band = [row["q10"] for row in main], [row["q90"] for row in main]
    axes.fill_between(sizes, *band, color=COLOURS[0], alpha=0.15, linewidth=0, label="10 % to 90 % of the trials")
    axes.plot(sizes, [row["mean"] for row in main], "o-", color=COLOURS[0], markersize=4, label=line_name(main[0]))
    others = [row for row in held_out if row["role"] != "selected"]
    for colour, name in zip(COLOURS[1:], dict.fromkeys(map(line_name, others)), strict=False):
        means = [row["mean"] for row in others if line_name(row) == name]
        axes.plot(sizes, means, "o-", color=colour, markersize=3, linewidth=1.2, label=name)
    paper = [row["mean"] for row in rows if row["protocol"] == "paper"]
    axes.plot(sizes, paper, "x--", color="black", linewidth=0.9, markersize=4, label="selected on the runs themselves")
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    axes.set_xlabel("ensemble size M")
    axes.xaxis.set_major_formatter(mpl.ticker.FuncFormatter(lambda value, _: f"{value:g}"))


def line_name(row: Row) -> str:
    """What tells a line of the figure from the others in its panel."""
    if row["panel"] == "exact":
        return f"λ = {row['ridge']:g}"
    return "learning rate selected" if row["role"] == "selected" else f"learning rate {row['learning_rate']:g}"


def draw_curves(axes: Axes, rows: Sequence[Row]) -> None:
    """Mean regret along the rounds, one line an ensemble size, from light to dark."""
    sizes = sorted({row["ensemble_size"] for row in rows})
    shades = mpl.colormaps["viridis"](np.linspace(0.92, 0.05, len(sizes)))
    for size, shade in zip(sizes, shades, strict=True):
        line = [row for row in rows if row["ensemble_size"] == size]
        axes.plot([row["round"] for row in line], [row["mean"] for row in line], color=shade, label=f"{size}")
    axes.set_xlabel("round")


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
        axes.set_title(title)
        axes.set_xlabel("round")
        axes.set_ylabel("cumulative regret")
        axes.set_ylim(bottom=0)
        axes.legend(fontsize=8, ncols=2, title="the best first")


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
