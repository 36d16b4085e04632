"""The sections that are read first: what is in here, how it is judged, how it was learned and how it ended."""

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from optimist.reporting.report.charts import final_bars, learning_curves
from optimist.reporting.report.conditions import Condition
from optimist.reporting.report.folders import Contents, Problem, Study
from optimist.reporting.report.markup import (
    Content,
    Html,
    chart,
    element,
    folded,
    grouped_table,
    joined,
    picture,
    table,
)
from optimist.reporting.report.measures import MEASURES, Estimate, final, is_evaluation, is_share, seconds_of

JUDGEMENTS = {"holds": "good", "does not hold": "bad", "not enough data": "open"}
"""The class of a judgement's badge."""
ENDS = {"return_mean": "return", "success_rate": "success", "unique_states": "unique states"}
NOTHING = "-"
PICTURE_BYTES = 5_000_000
"""Of all pictures together: a page that is sent around stays below 12 MB."""


@dataclass(frozen=True)
class Section:
    """A part of the page with its heading and its place in the table of contents."""

    anchor: str
    title: str
    body: Html


def summary(contents: Contents, groups: Sequence[Condition]) -> Section:
    """What is in here in a line of numbers, the verdicts, and what could not be read."""
    runs, studies = contents.runs, contents.studies
    finished = sum(run.is_finished for run in runs)
    seconds = sum(sum(seconds_of(run).values()) for run in runs)
    judged = Counter(row.get("judgement", "") for study in studies for row in study.tables.get("verdicts", []))
    cards: list[tuple[str, str]] = []
    if runs:
        unfinished = f", {len(runs) - finished} unfinished" if finished < len(runs) else ""
        cards = [
            (counted(len(runs), "run", "runs"), f"{finished} finished{unfinished}"),
            (counted(len({group.task for group in groups}), "task", "tasks"), "environments and rewards"),
            (counted(len({group.learner for group in groups}), "learner", "learners"), "bonuses and variants"),
            (f"{shortened(sum(run.step for run in runs))} steps", f"in {duration(seconds)} of training"),
        ]
    if studies:
        names = ", ".join(study.folder.name for study in studies[:4])
        cards.append((counted(len(studies), "study", "studies"), names))
    if judged:
        judgements = ", ".join(f"{name}: {count}" for name, count in judged.items())
        cards.append((counted(judged.total(), "claim", "claims"), judgements))
    boxes = [
        element(
            "div",
            element("strong", value.split(" ")[0]),
            " ",
            value.partition(" ")[2],
            element("small", note),
            class_="card",
        )
        for value, note in cards
    ]
    parts = [element("div", joined(boxes), class_="cards"), *map(verdicts, studies), *notes(contents.problems)]
    return Section("summary", "Summary", joined(parts))


def verdicts(study: Study) -> Html:
    """The claims of a study with what was measured and the judgement, in color and in words."""
    rows = study.tables.get("verdicts", [])
    if not rows:
        return Html("")
    cells = [[row.get("claim", ""), measured(row), badge(row.get("judgement", ""))] for row in rows]
    shown = table(["claim", "measured", "judgement"], cells, class_="claims")
    return joined([element("h3", f"Verdicts: {study.folder.name}"), shown])


def measured(row: dict[str, str]) -> Html:
    """What was measured, and in small print on how many seeds and for how long."""
    seeds, budget = row.get("seeds", ""), row.get("budget", "")
    small = ", ".join([f"{seeds} seeds"] * bool(seeds) + [budget] * bool(budget))
    return element("span", row.get("measured", ""), " ", element("small", small))


def badge(judgement: str) -> Html:
    """A judgement in its color."""
    return element("span", judgement, class_=f"badge {JUDGEMENTS.get(judgement, 'open')}")


def notes(problems: Sequence[Problem]) -> list[Html]:
    """What could not be read, one note a problem."""
    if not problems:
        return []
    items = []
    for problem in problems:
        contents: list[Content] = [element("b", str(problem.folder)), ": ", problem.message]
        contents += [folded("the whole text", element("pre", problem.details))] if problem.details else []
        items.append(element("li", *contents))
    return [element("h3", "Notes"), element("ul", *items, class_="notes")]


def curves(groups: Sequence[Condition]) -> Section:
    """A panel of charts for each task."""
    parts = [
        element(
            "p",
            "Lines are interquartile means over runs, bands their 95 % bootstrap intervals, which are too narrow for "
            "fewer than five runs. Click a name to hide it, “single runs” to see each run.",
            class_="lead",
        )
    ]
    for task, members in by_task(groups).items():
        charts = [(title, learning_curves(members, measure, title)) for measure, title in MEASURES.items()]
        drawn = [chart(found, f"{task}: {title}") for title, found in charts if found is not None]
        parts += [element("h3", task), element("div", joined(drawn), class_="panels")]
    return Section("curves", "Learning curves", joined(parts))


def ends(groups: Sequence[Condition]) -> Section:
    """Unique states at the end as bars, and a table of all final numbers."""
    charts = [(task, final_bars(members, "unique_states", task)) for task, members in by_task(groups).items()]
    drawn = [chart(found, f"unique states at the end: {task}") for task, found in charts if found is not None]
    evaluated = [name for name in MEASURES if is_evaluation(name) and any(_has(group, name) for group in groups)]
    shown = ENDS | {name: MEASURES[name] for name in evaluated}
    rows = {
        task: [[group.learner, runs_of(group), *end_cells(group, shown)] for group in members]
        for task, members in by_task(groups).items()
    }
    parts = [
        element("p", "Unique states at the end: interquartile mean, 95 % interval, one dot per run.", class_="lead"),
        element("div", joined(drawn), class_="panels"),
        element("h3", "Final numbers"),
        grouped_table(["learner", "runs", *shown.values()], rows),
    ]
    return Section("ends", "Unique states and final numbers", joined(parts))


def end_cells(group: Condition, measures: Iterable[str]) -> list[Html]:
    """The final numbers of a condition, in the order of ``measures``."""
    return [interval(final(group, measure), is_share=is_share(measure)) for measure in measures]


def _has(group: Condition, measure: str) -> bool:
    return any(math.isfinite(run.last(measure)) for run in group.runs)


def runs_of(group: Condition) -> str:
    """How many runs there are, and how many are at their end."""
    finished = sum(run.is_finished for run in group.runs)
    return str(finished) if finished == len(group.runs) else f"{finished} of {len(group.runs)} finished"


def interval(end: Estimate, *, is_share: bool = False) -> Html:
    """A number with its interval in small print."""
    if not end.values:
        return element("span", NOTHING, class_="number")
    written = (lambda value: f"{value:.0%}") if is_share else number
    bounds = f" {written(end.low)} to {written(end.high)}" if len(end.values) > 1 else ""
    return element("span", written(end.center), element("small", bounds), class_="number")


def pictures(contents: Contents) -> Section | None:
    """The figures of the studies and the film strips of the runs, as long as there is room."""
    found = [(path, study.folder) for study in contents.studies for path in study.pictures]
    found += [(path, run.folder) for run in contents.runs for path in run.pictures]
    if not found:
        return None
    parts, room = [], PICTURE_BYTES
    for path, folder in found:
        size = path.stat().st_size
        room -= size
        caption = element("span", element("b", caption_of(path)), f" {folder.name}{player_of(path)}")
        if room >= 0:
            parts.append(picture(path, caption))
        else:
            room += size
            parts.append(element("p", caption, f": left out for its size, see {path}", class_="lead"))
    return Section("pictures", "Pictures", joined(parts))


def caption_of(path: Path) -> str:
    """The name of a picture's file as words."""
    return path.stem.replace("_", " ").capitalize()


def player_of(path: Path) -> str:
    """Where the page to scrub through is, if a picture has one beside it."""
    player = path.with_name("player.html")
    return f", to scrub through in {player}" if player.is_file() else ""


def by_task(groups: Sequence[Condition]) -> dict[str, list[Condition]]:
    """The conditions of every task."""
    result: dict[str, list[Condition]] = {}
    for group in groups:
        result.setdefault(group.task, []).append(group)
    return result


def counted(count: int, singular: str, plural: str) -> str:
    """A number of things in words."""
    return f"{count} {singular if count == 1 else plural}"


def number(value: float) -> str:
    """A number as people write it: whole from 100 on, else with three digits."""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def shortened(value: float) -> str:
    """A large number in thousands (k), millions (M) or billions (B)."""
    for size, letter in ((1e9, "B"), (1e6, "M"), (1e3, "k")):
        if value >= size:
            return f"{value / size:.3g}{letter}"
    return f"{value:g}"


def duration(seconds: float) -> str:
    """Seconds, minutes or hours, whichever is read at a glance."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
