"""The value of exploration in one picture: the chance that our learner improves on each rival, task by task."""

from collections.abc import Sequence
from pathlib import Path

from optimist.reporting.improvement import ALL
from optimist.reporting.style import GRAY, INK, LOOKS, QUIET, sheet
from optimist.reporting.tables import Row


def draw_improvement(rows: Sequence[Row], path: Path) -> None:
    """A panel for each rival, a line for each task, all tasks on top: P(improvement) with its interval.

    Rows: those of `improvement_rows`. What does not count over all tasks is gray, with a hollow mark.
    """
    rivals = list(dict.fromkeys(row["rival"] for row in rows))
    tasks = list(dict.fromkeys((row["study"], row["task"]) for row in rows if row["task"] != ALL))
    counted = {(row["study"], row["task"]) for row in rows if row["counts"]}
    tasks.sort(key=lambda task: (task not in counted, task[0]))  # stable: within a study as they come
    lines = {(study, task): place for place, (study, task) in enumerate([("", ALL), *tasks])}
    runs = max(row["runs"] for row in rows if row["task"] != ALL)
    caption = (
        f"The chance that a run with ACB does better than one of the rival on the same task, at most {runs:g} runs of "
        "each; 0.5 is no difference. Better: it solves the task sooner; where no run solves it, the mean over it of "
        "success, states or score is higher. Bars: 95 % stratified bootstrap over runs, too narrow for so few. Gray: "
        "played by a former version, not in the sum. "
        "Where levels change in every episode, both have an episodic count beside them."
    )
    with sheet(path, 1.9 + 0.19 * len(lines), caption=caption) as figure:
        panels = figure.subplots(1, len(rivals), sharey=True, squeeze=False)[0]
        for axes, rival in zip(panels, rivals, strict=True):
            axes.axvline(0.5, color=QUIET, linewidth=0.9, linestyle=":")
            for row in (row for row in rows if row["rival"] == rival):
                place, whole = lines[row["study"], row["task"]], row["task"] == ALL
                color = LOOKS["acb"].light if row["counts"] else GRAY[0]
                size = {"linewidth": 6 if whole else 3, "alpha": 0.45, "solid_capstyle": "butt"}
                axes.plot([row["low"], row["high"]], [place, place], color=color, **size)
                face = color if row["counts"] else "none"
                mark = {"markersize": 9 if whole else 5, "markerfacecolor": face, "markeredgecolor": color}
                axes.plot(row["improvement"], place, "D" if whole else "o", **mark)
            axes.set(title=f"over {rival}", xlim=(-0.04, 1.04), ylim=(len(lines) - 0.4, -0.8))
            axes.set_xticks([0, 0.5, 1], ["0", "½", "1"])
        names = [task if task == ALL else f"{study}: {task}" for study, task in lines]
        panels[0].set_yticks(range(len(names)), names, fontsize=7.5)
        panels[0].get_yticklabels()[0].set(fontweight="bold", color=INK)
