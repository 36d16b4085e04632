"""The sections that answer questions: what a setting changes, where time goes, what differs, how to repeat it."""

import json
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any

from optimist.reporting.report.charts import time_shares
from optimist.reporting.report.conditions import Condition, differing, learner_of, short
from optimist.reporting.report.folders import Contents
from optimist.reporting.report.markup import Content, Html, chart, code, element, folded, grouped_table, joined, table
from optimist.reporting.report.measures import seconds_of
from optimist.reporting.report.sections import (
    ENDS,
    NOTHING,
    Section,
    by_task,
    counted,
    duration,
    end_cells,
    number,
    runs_of,
)
from optimist.training.presets import train_command

ROWS = 40
"""Of a study's table, at most."""


def ablations(groups: Sequence[Condition]) -> Section | None:
    """A table for each setting that alone sets some conditions of a task apart."""
    rows: dict[str, list[list[Content]]] = {}
    for task, members in by_task(groups).items():
        for setting, variants in single_differences(members):
            found = rows.setdefault(f"{task}, {variants[0].fields['bonus']}: by {short(setting)}", [])
            found += [[str(g.fields.get(setting, "default")), runs_of(g), *end_cells(g, ENDS)] for g in variants]
    if not rows:
        return None
    lead = element("p", "Conditions that differ in this one setting, and in nothing else but the seed.", class_="lead")
    shown = grouped_table(["setting", "runs", *ENDS.values()], rows)
    return Section("ablations", "Ablations", joined([lead, shown]))


def single_differences(groups: Sequence[Condition]) -> Iterator[tuple[str, list[Condition]]]:
    """The settings other than the bonus, each with the conditions that differ in it alone."""
    trained = [group for group in groups if learner_of(group.fields) != "random"]
    for setting in differing([group.fields for group in trained]):
        alike: dict[frozenset[tuple[str, Any]], list[Condition]] = {}
        for group in trained if setting != "bonus" else ():
            rest = frozenset((name, value) for name, value in group.fields.items() if name != setting)
            alike.setdefault(rest, []).append(group)
        yield from ((setting, variants) for variants in alike.values() if len(variants) > 1)


def timing(groups: Sequence[Condition]) -> Section:
    """Steps a second and where the time went: a chart by learner, a table by condition."""
    by_learner: dict[str, dict[str, float]] = {}
    for group in groups:
        sums = by_learner.setdefault(group.learner, {})
        for part, seconds in total_seconds(group).items():
            sums[part] = sums.get(part, 0.0) + seconds
    parts = list(dict.fromkeys(part for sums in by_learner.values() for part in sums))
    drawn = chart(time_shares(list(by_learner.items()), "where the time goes, by learner"), "where the time goes")
    rows = {task: [time_row(group, parts) for group in members] for task, members in by_task(groups).items()}
    shown = grouped_table(["learner", "steps/s", "a run takes", *parts], rows)
    return Section("timing", "Timing", joined([drawn, shown]))


def time_row(group: Condition, parts: Sequence[str]) -> list[str]:
    """The speed of a condition, how long one of its runs took, and the share of every part."""
    seconds = total_seconds(group)
    total = sum(seconds.values())
    if not total:
        return [group.learner, *[NOTHING] * (2 + len(parts))]
    speed = number(sum(run.step for run in group.runs) / total)
    shares = [f"{100 * seconds.get(part, 0.0) / total:.1f} %" for part in parts]
    return [group.learner, speed, duration(total / len(group.runs)), *shares]


def total_seconds(group: Condition) -> dict[str, float]:
    """The seconds of all runs of a condition, by part."""
    result: dict[str, float] = {}
    for run in group.runs:
        for part, value in seconds_of(run).items():
            result[part] = result.get(part, 0.0) + value
    return result


def configuration(groups: Sequence[Condition]) -> Section:
    """The settings that are not the same everywhere, and every setting folded away."""
    names = [name for name in differing([group.fields for group in groups]) if name not in ("env", "bonus")]
    rows = {
        task: [[g.learner, seeds(g), *(str(g.fields.get(name, NOTHING)) for name in names)] for g in members]
        for task, members in by_task(groups).items()
    }
    lead = "Only what differs between runs; all other settings are the same." if names else "All settings are the same."
    whole = [folded(f"{group.task} · {group.learner}", plain(asdict(group.runs[0].config))) for group in groups]
    shown = grouped_table(["learner", "seeds", *(name.replace("_options.", " ") for name in names)], rows)
    parts = [element("p", lead, class_="lead"), shown, folded("Every setting", *whole)]
    return Section("configuration", "Configuration", joined(parts))


def seeds(group: Condition) -> str:
    """The seeds of a condition."""
    return ", ".join(str(run.config.seed) for run in group.runs)


def commands(contents: Contents, groups: Sequence[Condition]) -> Section:
    """What to type to get each study and each run again, and to go on with those that are not at their end."""
    parts: list[Html] = []
    for study in contents.studies:
        record = study.record
        if "command" in record:
            parts += [element("h3", study.folder.name), code(str(record["command"]))]
            parts.append(folded("version, settings, seconds and machine", plain(record)))
    parts += [element("h3", "Runs")] if groups else []
    for task, members in by_task(groups).items():
        runs = [run for group in members for run in group.runs]
        stopped = [code(f"optimist resume {shlex.quote(str(run.folder))}") for run in runs if not run.is_finished]
        parts.append(
            folded(
                f"{task}: {counted(len(runs), 'run', 'runs')}",
                *(code(train_command(run.config)) for run in runs),
                *stopped,
            )
        )
    return Section("commands", "Repeat it", joined(parts))


def plain(value: Any) -> Html:
    """Anything as JSON, to be read."""
    return element("pre", json.dumps(value, indent=2), tabindex="0")


def tables(contents: Contents) -> Section | None:
    """The studies' tables of numbers, folded."""
    parts = []
    for study in contents.studies:
        for name, rows in study.tables.items():
            if name == "verdicts" or not rows:
                continue
            cut = f", first {ROWS} of {len(rows)} rows" if len(rows) > ROWS else f", {len(rows)} rows"
            shown = table(list(rows[0]), [list(row.values()) for row in rows[:ROWS]])
            parts.append(folded(f"{study.folder.name}: {name}.csv{cut}", shown))
    return Section("tables", "Tables of the studies", joined(parts)) if parts else None
