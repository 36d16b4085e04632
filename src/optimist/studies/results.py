"""The page about a folder of studies, by question: numbers, seeds, budget, command, figure and verdicts, as measured.

Everything on it is read in the folders: tables, ``record.json``, ``verdicts.csv``, ``failures.csv``. A folder may hold
a ``note.md``, which stands above its numbers: what a reader must know of how they came about.
"""

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import optimist
from optimist.reporting.improvement import ALL, improvement_rows
from optimist.reporting.tables import Row, is_number, write_csv
from optimist.studies.claims import StudyFolder, budget_of, claim_rows, markdown_table, read_study, standing
from optimist.studies.questions import QUESTIONS, Exhibit
from optimist.studies.registry import find_study
from optimist.studies.study import ALL_RUNS_FINISH, FAILURES, VERDICTS, read_csv, read_tables, verdict_row
from optimist.studies.training.verdicts import number

NOTE = "note.md"

# ---- Exploration value -----------------------------------------------------------------------------------------------

VALUE = "exploration_value"
"""The name of the first figure of the page, and of its table."""
PAIRS = {
    "RND": (("acb", "rnd"), ("acb-noveld", "rnd-noveld")),
    "counts": (("acb", "count"), ("acb*episodic-count", "episodic-count")),
    "no bonus": (("acb", "none"), ("acb*episodic-count", "none")),
}
"""Who is set against whom, by the rival: where levels change, ACB in the form that the rival has too."""
FEWEST_RUNS = 3
"""Of each side: a task that has fewer, in a study that is not played to its end, is not shown."""


def exploration_value(folder: Path) -> list[Row]:
    """The chance that ACB improves on each rival, by task and over all tasks, from every ``runs.csv`` in ``folder``.

    Over all tasks only runs of today's version count: those of a former one had other defaults.
    """
    runs = [
        {"study": study.name, "world": world, "score": score, "counts": is_of_today(study), **row}
        for place in study_folders(folder)
        if (place / "runs.csv").is_file()
        for study in [read_study(place)]
        for row, score in with_scores(read_csv(place / "runs.csv"))
        for world in [worlds_of(study).get(row["task"], "")]
    ]
    return improvement_rows(runs, PAIRS, least=FEWEST_RUNS)


def worlds_of(study: StudyFolder) -> dict[str, str]:
    """What is played in each task of a study, in words: the environment and what it is played with.

    Where a run ends and on how many threads its environments run is no part of it.
    """
    result: dict[str, str] = {}
    for task in study.settings.get("tasks", ()):
        changes = {name: value for name, value in task["changes"].items() if name != "stop_at_success"}
        options = [text for text in changes.pop("env_options", ()) if not text.startswith("num_threads=")]
        result[task["name"]] = json.dumps([task["env"], changes, options], sort_keys=True)
    return result


def with_scores(rows: Sequence[Row]) -> Iterator[tuple[Row, float]]:
    """Every run with its score: of a task that some run solved, how soon it did; all that did not are equal, and last.

    Of other tasks it is the ``area``, the mean of what the study measures over the steps.
    """
    solving = {row["task"] for row in rows if is_number(row.get("solved_at"))}
    never = 2 * max((row["steps"] for row in rows), default=0)
    for row in rows:
        if row["task"] in solving:
            yield row, -row["solved_at"] if is_number(row["solved_at"]) else -never
        else:
            yield row, row["area"]


def is_of_today(study: StudyFolder) -> bool:
    """Whether the runs of a study were played by this version of Optimist."""
    return study.version == optimist.__version__


def valued(folder: Path) -> Iterator[str]:
    """The lines about the value of exploration; none where no task was played by ACB and a rival."""
    rows = exploration_value(folder)
    if not rows:
        return
    yield "## In one picture: is ACB better?"
    yield ""
    if (folder / f"{VALUE}.png").is_file():
        yield f"![The chance that ACB improves on RND, counts and no bonus, by task and over all]({VALUE}.png)"
        yield ""
    head = ("ACB improves over", "tasks", "runs of ACB, of the rival", "P(improvement)", "95 % interval")
    overall = [row for row in rows if row["task"] == ALL]
    yield from markdown_table(
        head,
        [
            (
                row["rival"],
                row["tasks"],
                f"{row['runs']}, {row['rival_runs']}",
                number(row["improvement"], 2),
                f"{number(row['low'], 2)} to {number(row['high'], 2)}",
            )
            for row in overall
        ],
    )
    yield ""
    former = sorted({row["study"] for row in rows if not row["counts"]})
    if former:
        yield f"Drawn in gray and not counted, because a former version played them: {', '.join(former)}."
        yield ""


# ---- The page --------------------------------------------------------------------------------------------------------


def page(folder: Path) -> str:
    """The page about the studies in ``folder``, as Markdown."""
    lines = ["# Results, by question", "", INTRODUCTION.strip(), "", *valued(folder)]
    studies = study_folders(folder)
    if studies:
        lines += ["## What holds of the paper, what does not, what two cores cannot decide?", ""]
        lines += [line for paragraph in standing(claim_rows(studies)) for line in (paragraph, "")]
    for question in QUESTIONS:
        found = [line for exhibit in question.exhibits for line in exhibited(folder, exhibit)]
        if found:
            lines += [f"## {question.words}", "", *found]
    missing = [line for study in studies for line in unplayed(study)]
    if missing:
        lines += ["## What was not played, or failed?", "", *missing, ""]
    return "\n".join(lines).rstrip() + "\n"


INTRODUCTION = """
Written by `optimist results results` from the tables and records in these folders; `tests` compare it with them. Cells
are means ± standard errors with the number of seeds in brackets, unless a head says otherwise. *Published* numbers are
others': where they stand is said in the study's own file. A verdict holds, does not hold, or says that there is not
enough data; all of them in one table are in [claims.md](claims.md). How the runs came about is told in
[the experiment log](../docs/experiment_log.md). Each exhibit names the version of Optimist that played it: the deep
bonus and the SGD of bandits have changed between 0.1.0 and 0.2.0 (see the [changelog](../CHANGELOG.md)).
"""


def exhibited(folder: Path, exhibit: Exhibit) -> Iterator[str]:
    """The lines of one exhibit; none if its folder is missing, or the table of its benchmark."""
    place = folder / exhibit.folder
    if not place.is_dir():
        return
    tables = read_tables(place)
    if (exhibit.script or exhibit.title) and not exhibit.show(tables)[1]:
        return
    yield f"### {exhibit.title or exhibit.script or exhibit.folder}"
    yield ""
    if exhibit.script:
        conditions = f"{exhibit.folder}/{exhibit.script}.md"
        told = f"; [conditions]({conditions})" if (folder / conditions).is_file() else ""
        yield f"`python benchmarks/bench_{exhibit.script}.py`{told}."
        yield ""
    study = read_study(place) if (place / f"{VERDICTS}.csv").is_file() else None
    if study is not None:
        yield f"{facts(study)}."
        yield ""
    if (place / NOTE).is_file():
        yield from (f"> {line}".rstrip() for line in (place / NOTE).read_text().strip().splitlines())
        yield ""
    former = study is not None and is_of_a_former_default(study)
    if former:
        tables = {
            name: [row for row in rows if not row.get("variant", "").startswith("DEFAULT")]
            for name, rows in tables.items()
        }
    yield from markdown_table(*exhibit.show(tables))
    yield ""
    for name, caption in exhibit.figures:
        if (place / f"{name}.png").is_file():
            yield f"![{caption}]({exhibit.folder}/{name}.png)"
            yield ""
    if study is not None and not former:
        shown = [v for v in study.verdicts if re.search(exhibit.claims, v.claim) and v.claim != ALL_RUNS_FINISH]
        yield from markdown_table(("claim", "measured", "verdict"), [(v.claim, v.measured, v.judgement) for v in shown])
        yield ""


def facts(study: StudyFolder) -> str:
    """The command that makes a study, its seeds, how long each run is, and the version of Optimist that played it."""
    command = re.sub(r" --(workers \d+|overwrite)", "", study.command)
    seeds, budget = budget_of(study.settings)
    unit = "seeds" if "tasks" in study.settings.get("training", study.settings) else "trials"
    words = [f"`{command}`", f"{seeds} {unit}" if seeds else "", budget, f"version {study.version}"]
    return "; ".join(word for word in words if word)


def is_of_a_former_default(study: StudyFolder) -> bool:
    """Whether the rows and verdicts of a study that are called DEFAULT are of another preset than today's."""
    if "variants" not in study.settings:
        return False
    today = getattr(find_study(study.name).scales["laptop"], "default", None)
    return study.settings.get("default") != json.loads(json.dumps(today))


def study_folders(folder: Path) -> list[Path]:
    """The folders of studies in ``folder``."""
    return sorted(path.parent for path in folder.glob(f"*/{VERDICTS}.csv"))


def unplayed(folder: Path) -> list[str]:
    """One line per task and learner of which runs are missing."""
    path = folder / f"{FAILURES}.csv"
    rows = read_csv(path) if path.is_file() else []
    counts = Counter((row["task"], row["learner"], row["error"]) for row in rows)
    return [
        f"- {folder.name}, {task}, {learner}: {times} run{'s' * (times > 1)}, {error}"
        for (task, learner, error), times in counts.items()
    ]


def judge_again(folder: Path) -> Path:
    """Writes the verdicts of the study in ``folder`` anew, from its tables, as today's code judges them; their path."""
    study = read_study(folder)
    added = study.settings.get("training", study.settings).get("added", ())  # no claim is about a user's learners
    tables = {name: [r for r in rows if r.get("learner") not in added] for name, rows in read_tables(folder).items()}
    path = folder / f"{VERDICTS}.csv"
    write_csv(path, [verdict_row(verdict) for verdict in find_study(study.name).judge(tables)])
    return path


def redraw(folder: Path, suffix: str) -> list[Path]:
    """Draws the figures of the study in ``folder`` again, from its tables; those that need more stay as they are."""
    figures: Mapping[str, Any] = find_study(read_study(folder).name).figures(read_tables(folder))
    paths = [folder / f"{name}.{suffix}" for name in figures]
    for path, draw in zip(paths, figures.values(), strict=True):
        draw(path)
    return paths
