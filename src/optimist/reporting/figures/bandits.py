"""Figures of bandits: regret against the ensemble size (Figure 2), along the rounds, by policy; the cost of a round."""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path

import matplotlib as mpl
import numpy as np
from matplotlib import ticker
from matplotlib.axes import Axes

from optimist.reporting.figures.labels import Label, label_ends, legend_above
from optimist.reporting.style import BAND, GRID, INK, LOOKS, PUBLISHED, PUBLISHED_HATCH, RESERVE, looks_of, sheet
from optimist.reporting.tables import Row, is_number

PANEL_TITLES = {"exact": "exact least squares", "sgd": "SGD, Polyak averaging"}
FAMILIES: Mapping[str, tuple[str, ...]] = {
    "ACB": ("acb", "acb-rms", "acb-lazy", "acb-rerandomized", "acb-sgd", "acb-decay", "acb-sgd-decay"),
    "LinUCB": ("linucb", "linucb-theory", "diagonal-linucb", "linucb-decay"),
    "posterior and perturbation": ("lints", "linphe", "ensemble-sampling", "lints-decay"),
    "greedy": ("greedy", "epsilon-greedy"),
}
"""Policies that are kin have one color and a panel."""
OTHERS = "others"
FEW = 5
"""Policies that fit into one panel."""
WIDE = 10.0
"""The ratio of regrets from which on an axis is logarithmic."""


def draw_ensemble_sizes(regret: Sequence[Row], curves: Sequence[Row], path: Path) -> None:
    """Figure 2: above, the regret at the horizon against M; below, the regret along the rounds for every M."""
    horizon, trials = max(row["round"] for row in curves), max(row["trials"] for row in regret)
    caption = (
        f"ACB, incremental, on the paper's 50 arms: mean cumulative regret of {trials} trials at T = {horizon:,}; bars "
        "and bands along the rounds are ± 1 standard error, the shade above is 10 to 90 % of the trials. β is selected "
        "on other trials (lines) or, as in the paper, on the trials shown (crosses), which are not those of the lines: "
        f"with few members a trial now and then never leaves a bad arm and regrets {horizon // 2:,}, so that crosses "
        "can lie above."
    )
    with sheet(path, 8.2, caption=caption) as figure:
        axes = figure.subplots(2, 2, sharex="row", sharey="row", squeeze=False)
        for column, (panel, title) in enumerate(PANEL_TITLES.items()):
            draw_final_regret(axes[0][column], [row for row in regret if row["panel"] == panel])
            axes[0][column].set_title(title)
        for ax in axes[0]:
            ax.legend(fontsize=8.5, loc="upper right")
        axes[0][0].set_ylim(top=4 * axes[0][0].get_ylim()[1])  # room for the legends
        draw_curves(axes[1][0], [row for row in curves if row["panel"] == "exact"], trials)
        slower = [row for row in curves if row["role"] == "fixed rate"]
        rate = max(row["learning_rate"] for row in slower)
        draw_curves(axes[1][1], [row for row in slower if row["learning_rate"] == rate], trials)
        axes[1][0].set_title("exact, λ = 1")
        axes[1][1].set_title(f"SGD, λ = 1, learning rate {rate:g}")
        axes[1][0].set_ylim(bottom=0)  # shared: only once both are drawn
        axes[0][0].set_ylabel("regret at the horizon")
        axes[1][0].set_ylabel("cumulative regret")
        axes[1][1].legend(
            title="ensemble size M", ncols=3, fontsize=8, title_fontsize=8, loc="upper right", columnspacing=1.2
        )
        axes[1][0].set_ylim(top=1.3 * axes[1][0].get_ylim()[1])


def draw_final_regret(axes: Axes, rows: Sequence[Row]) -> None:
    """Against M: the selected setting with its quantiles and the paper's way beside; other ridges or learning rates."""
    held_out = [row for row in rows if row["protocol"] == "held-out"]
    main, color = [row for row in held_out if row["role"] == "selected"], LOOKS["acb"].light
    sizes = np.array([row["ensemble_size"] for row in main], np.float64)
    bounds = [row["q10"] for row in main], [row["q90"] for row in main]
    axes.fill_between(sizes, *bounds, color=color, alpha=BAND, linewidth=0)
    others = [row for row in held_out if row["role"] != "selected"]
    names = dict.fromkeys(map(line_name, others))
    for look, name in zip(RESERVE, names, strict=False):
        draw_errors(
            axes, sizes / 1.04, [row for row in others if line_name(row) == name], f"{look.marker}-", look.light, name
        )
    draw_errors(axes, sizes, main, "o-", color, line_name(main[0]))
    paper = [row for row in rows if row["protocol"] == "paper"]
    draw_errors(axes, sizes * 1.06, paper, "x--", INK, f"{line_name(main[0])}, selected on shown trials")
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    axes.set_xlabel("ensemble size M")
    axes.set_xticks(sizes, [f"{size:g}" for size in sizes], fontsize=9)
    axes.minorticks_off()


def draw_errors(axes: Axes, places: np.ndarray, rows: Sequence[Row], mark: str, color: str, name: str) -> None:
    """A line of means with one standard error, whose lower end never leaves a logarithmic axis."""
    mean, error = np.array([row["mean"] for row in rows]), np.array([row["se"] for row in rows])
    reach = [np.minimum(error, 0.9 * mean), error]
    axes.errorbar(
        places, mean, reach, fmt=mark, color=color, label=name, linewidth=1.2, markersize=4, elinewidth=0.9, capsize=2
    )


def line_name(row: Row) -> str:
    """What tells a line of the figure from the others in its panel."""
    if row["panel"] == "exact":
        return f"λ = {row['ridge']:g}"
    return "rate selected" if row["role"] == "selected" else f"rate {row['learning_rate']:g}"


def draw_curves(axes: Axes, rows: Sequence[Row], trials: int) -> None:
    """Mean regret along the rounds with one standard error, one line for each ensemble size, from light to dark."""
    sizes = sorted({row["ensemble_size"] for row in rows})
    shades = mpl.colormaps["viridis"](np.linspace(0.82, 0.05, len(sizes)))
    for size, shade in zip(sizes, shades, strict=True):
        line = [row for row in rows if row["ensemble_size"] == size]
        rounds, mean = [row["round"] for row in line], np.array([row["mean"] for row in line])
        error = np.array([row["sd"] for row in line]) / math.sqrt(trials)
        axes.plot(rounds, mean, color=shade, label=f"{size}")
        axes.fill_between(rounds, mean - error, mean + error, color=shade, alpha=BAND, linewidth=0)
    axes.set_xlabel("round")
    axes.xaxis.set_major_formatter(ticker.EngFormatter(sep=""))


def draw_comparison(curves: Sequence[Row], title: str, path: Path) -> None:
    """Mean regret along the rounds with a band of one standard error: few policies in one panel, many by family.

    In the panel of a family the other policies are pale. Every line is named at its end. Rows: policy, round, mean, se.
    """
    names = list(dict.fromkeys(row["policy"] for row in curves))
    panels = {title: tuple(names)} if len(names) <= FEW else _by_family(names)
    columns = min(2, len(panels))
    lines = -(-len(panels) // columns)
    caption = f"{title}. Mean cumulative regret; bands are ± 1 standard error over trials."
    caption += " Each panel shows one family in color, the others pale." if len(panels) > 1 else ""
    ends = [row["mean"] for row in curves if row["round"] == max(row["round"] for row in curves)]
    is_log = max(ends) > WIDE * max(min(ends), 1e-9)
    caption += " Logarithmic axes." if is_log else ""
    looks = looks_of(names)
    with sheet(path, 3.0 * lines + 0.7, caption=caption) as figure:
        axes = figure.subplots(lines, columns, squeeze=False, sharex=True, sharey=True)
        for spare in axes.ravel()[len(panels) :]:
            spare.set_axis_off()
        for ax, (family, members) in zip(axes.ravel(), panels.items(), strict=False):
            for name in sorted(names, key=lambda name: name in members):
                line = [row for row in curves if row["policy"] == name]
                rounds, mean = [row["round"] for row in line], np.array([row["mean"] for row in line])
                if name not in members:
                    ax.plot(rounds, mean, color=GRID, linewidth=1.0)
                    continue
                error, look = np.array([row["se"] for row in line]), looks[name]
                ax.plot(rounds, mean, look.line, color=look.light)
                ax.fill_between(rounds, mean - error, mean + error, color=look.light, alpha=BAND, linewidth=0)
            ax.set_title(family)
        if is_log:
            axes[0][0].set(xscale="log", yscale="log")
        else:
            axes[0][0].set_ylim(bottom=0)  # shared: only once all are drawn
        for ax in axes[:, 0]:
            ax.set_ylabel("cumulative regret")
        for ax in axes.ravel()[max(0, len(panels) - columns) : len(panels)]:
            ax.set_xlabel("round")
            ax.tick_params(labelbottom=True)
        last = {name: [row for row in curves if row["policy"] == name][-1] for name in names}
        for ax, members in zip(axes.ravel(), panels.values(), strict=False):
            texts = [Label(last[n]["round"], last[n]["mean"], n, looks[n].light) for n in members if n in last]
            label_ends(ax, texts, size=8.5)


def _by_family(names: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """The names by family; those that no family knows are others."""
    known = {member for members in FAMILIES.values() for member in members}
    panels = {family: tuple(name for name in names if name in members) for family, members in FAMILIES.items()}
    panels[OTHERS] = tuple(name for name in names if name not in known)
    return {family: members for family, members in panels.items() if members}


def draw_policies(rows: Sequence[Row], path: Path) -> None:
    """The regret of every policy on every problem with one standard error, the best first.

    Rows: problem, d, horizon, policy, trials, mean, se, and where it is known ``published``, a hatched diamond.
    """
    places = list(dict.fromkeys((row["problem"], row["d"]) for row in rows))
    lines = -(-len(places) // 2)
    looks = looks_of(row["policy"] for row in rows)
    trials = sorted({int(row["trials"]) for row in rows})
    told = f"{trials[0]}" if len(trials) == 1 else f"{trials[0]} to {trials[-1]}"
    has_published = any(is_number(row.get("published")) for row in rows)
    caption = (
        f"Cumulative regret at the horizon T, mean of {told} trials ± 1 standard error, the best policy on top; axes "
        "that span more than a factor of 10 are logarithmic. A color is a family of policies."
    )
    caption += " Diamonds are numbers that others published for the same problem." if has_published else ""
    height = 0.21 * max(sum((row["problem"], row["d"]) == place for row in rows) for place in places) + 0.75
    with sheet(path, height * lines + 0.6, caption=caption) as figure:
        axes = figure.subplots(lines, 2, squeeze=False).ravel()
        for spare in axes[len(places) :]:
            spare.set_axis_off()
        for ax, (problem, d) in zip(axes, places, strict=False):
            mine = [row for row in rows if (row["problem"], row["d"]) == (problem, d)]
            for place, row in enumerate(mine):
                look = looks[row["policy"]]
                ax.errorbar(
                    row["mean"], place, xerr=row["se"], fmt=look.marker, color=look.light, markersize=5, capsize=2
                )
                if is_number(row.get("published")):
                    ax.scatter(
                        row["published"],
                        place,
                        42,
                        marker=PUBLISHED.marker,
                        facecolor="none",
                        edgecolor=INK,
                        hatch=PUBLISHED_HATCH,
                        linewidth=1.0,
                    )
            ax.set_yticks(range(len(mine)), [row["policy"] for row in mine], fontsize=8.5)
            ax.invert_yaxis()
            ax.set_title(f"{problem}, d = {d:,}, T = {mine[0]['horizon']:,}", fontsize=10)
            means = [row["mean"] for row in mine]
            if max(means) > WIDE * min(means):
                ax.set_xscale("log")
                ax.xaxis.set_minor_formatter(ticker.NullFormatter())
            else:
                ax.set_xlim(left=0)
        for ax in axes[max(0, len(places) - 2) : len(places)]:
            ax.set_xlabel("cumulative regret")


def draw_estimates(rows: Sequence[Row], title: str, path: Path) -> None:
    """Estimated rewards per decision with their intervals, a panel per method, the logged play as a line.

    Rows: policy, method, value, low, high; the first is that of the logged play.
    """
    logged, *others = rows
    methods = list(dict.fromkeys(row["method"] for row in others))
    names = list(dict.fromkeys(row["policy"] for row in others))
    looks = looks_of(names)
    caption = (
        f"{title}. Mean reward per decision with 95 % intervals, on the second half of the logs. Replay: of the policy "
        "as it learns that half. SNIPS and doubly robust: of the policy trained on the first half, as it stands. "
        "The dashed line is what was logged, with its interval."
    )
    with sheet(path, 0.24 * len(names) + 1.6, caption=caption) as figure:
        for ax, method in zip(figure.subplots(1, len(methods), sharey=True, squeeze=False)[0], methods, strict=True):
            ax.axvline(logged["value"], color=INK, linewidth=1.0, linestyle="--")
            ax.axvspan(logged["low"], logged["high"], color=GRID, alpha=0.5, linewidth=0)
            for row in (row for row in others if row["method"] == method and is_number(row["value"])):
                look = looks[row["policy"]]
                reach = [[row["value"] - row["low"]], [row["high"] - row["value"]]]
                place = names.index(row["policy"])
                ax.errorbar(row["value"], place, xerr=reach, fmt=look.marker, color=look.light, markersize=5, capsize=2)
            ax.set_title(method)
            ax.set_xlabel("reward per decision")
        ax.set_yticks(range(len(names)), names, fontsize=8.5)
        ax.invert_yaxis()


def draw_beta(rows: Sequence[Row], title: str, path: Path) -> None:
    """Against beta: left, the regret with its 95 % quantile as a thin line; right, the share of trials locked in.

    Rows: policy, beta_over_noise, mean, se, q95, locked_in.
    """
    names = list(dict.fromkeys(row["policy"] for row in rows))
    looks = looks_of(names)
    caption = (
        f"{title}. Left: mean regret ± 1 standard error over problems; thin lines are the 95 % quantile of the trials. "
        "Right: trials that played one wrong action, and no other, in the last tenth of their rounds."
    )
    with sheet(path, 3.9, caption=caption) as figure:
        left, right = figure.subplots(1, 2)
        for name in names:
            mine, look = [row for row in rows if row["policy"] == name], looks[name]
            betas = np.array([row["beta_over_noise"] for row in mine])
            drawn = f"{look.marker}{look.line}"
            draw_errors(left, betas, mine, drawn, look.light, name)
            left.plot(betas, [row["q95"] for row in mine], look.line, color=look.light, linewidth=0.6)
            right.plot(betas, [100 * row["locked_in"] for row in mine], drawn, color=look.light, markersize=4)
        left.set(xscale="log", yscale="log", xlabel="beta / noise", ylabel="regret at the horizon")
        left.yaxis.set_major_locator(ticker.LogLocator(subs=(1, 2, 5)))
        right.set(xscale="log", xlabel="beta / noise", ylabel="trials locked in, %")
        for axis in (left.xaxis, left.yaxis, right.xaxis):
            axis.set_major_formatter(ticker.FuncFormatter(lambda value, _: f"{value:g}"))
            axis.set_minor_formatter(ticker.NullFormatter())
        right.set_ylim(bottom=0)
        left.legend(fontsize=8.5)


def draw_open_question(rows: Sequence[Row], curves: Sequence[Row], path: Path) -> None:
    """Incremental, lazy and re-randomized ACB: above, the regret at T against d; below, along the rounds at each d."""
    problems = list(dict.fromkeys(row["problem"] for row in rows))
    looks = looks_of(sorted({row["policy"] for row in rows}))
    trials = max(int(row["trials"]) for row in rows)
    caption = (
        f"The three histories of ACB, mean regret of {trials} trials; bars and bands are ± 1 standard error. Above at "
        "the horizon against the dimension d, below along the rounds, on logarithmic axes; numbers at the lines are d."
    )
    with sheet(path, 7.0, caption=caption) as figure:
        axes = figure.subplots(2, len(problems), squeeze=False)
        for column, problem in enumerate(problems):
            above, below = axes[0][column], axes[1][column]
            for place, (name, look) in enumerate(looks.items()):
                mine = sorted((r for r in rows if (r["problem"], r["policy"]) == (problem, name)), key=lambda r: r["d"])
                shifted = [row["d"] + 0.25 * (place - 1) for row in mine]
                style = {"color": look.light, "linestyle": look.line, "marker": look.marker, "markersize": 5}
                above.errorbar(
                    shifted, [r["mean"] for r in mine], [r["se"] for r in mine], label=name, capsize=2, **style
                )
                for row in mine:
                    line = [c for c in curves if (c["problem"], c["policy"], c["d"]) == (problem, name, row["d"])]
                    rounds, mean = [c["round"] for c in line], np.array([c["mean"] for c in line])
                    error = np.array([c["se"] for c in line])
                    below.plot(rounds, mean, look.line, color=look.light, linewidth=1.3)
                    below.fill_between(rounds, mean - error, mean + error, color=look.light, alpha=BAND, linewidth=0)
            above.set(title=f"{problem} actions", xlabel="d", ylim=(0, None))
            below.set(xlabel="round", xscale="log", yscale="log")
            for axis in (below.xaxis, below.yaxis):
                axis.set_minor_formatter(ticker.NullFormatter())
        axes[0][0].set_ylabel("regret at the horizon")
        axes[1][0].set_ylabel("cumulative regret")
        legend_above(figure, axes[0][0].get_legend_handles_labels()[0])
        for column, problem in enumerate(problems):
            ends = [row for row in rows if row["problem"] == problem]
            last = max(row["round"] for row in curves)
            label_ends(
                axes[1][column], [Label(last, r["mean"], f"{r['d']}", looks[r["policy"]].light) for r in ends], size=8
            )


def draw_costs(rows: Sequence[Row], path: Path) -> None:
    """Milliseconds per round against d and against M, with a line of slope 1 through the last point."""
    caption = "ACB with the solver sgd, 10 actions: CPU milliseconds per round, the median of 12. Dashes: slope 1."
    with sheet(path, 3.4, caption=caption) as figure:
        look = LOOKS["acb-sgd"]
        for ax, axis in zip(figure.subplots(1, 2, sharey=True), ("d", "M"), strict=True):
            line = [row for row in rows if row["axis"] == axis]
            sizes = np.array([row[axis] for row in line], float)
            cost = np.array([row["milliseconds"] for row in line], float)
            ax.loglog(sizes, cost, f"{look.marker}-", color=look.light, label="ACB, sgd")
            ax.loglog(sizes, cost[-1] * sizes / sizes[-1], "--", color=INK, linewidth=0.9, label="linear")
            other = "M" if axis == "d" else "d"
            ax.set(xlabel=axis, title=f"{other} = {line[0][other]:,}")
            ax.legend()
        figure.axes[0].set_ylabel("milliseconds per round")
