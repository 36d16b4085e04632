"""The page: sections, style and script in one file that needs nothing else."""

import base64
import hashlib
import json
from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path

import optimist
from optimist.files import require_replaceable, write_text
from optimist.reporting.report.conditions import conditions
from optimist.reporting.report.details import ablations, commands, configuration, tables, timing
from optimist.reporting.report.folders import Contents, read_folders
from optimist.reporting.report.markup import Html, element, joined, text
from optimist.reporting.report.sections import Section, curves, ends, pictures, summary
from optimist.reporting.style import on_dark

MARK = "<!doctype html><!-- optimist report -->"
"""How every report begins: a file that does not is never overwritten."""
NAMED = 3
"""Folders in the title, at most."""


def write_report(folders: Sequence[Path], out: Path) -> Contents:
    """What was found in ``folders``, after ``out`` was written: one page about all of it."""
    require_report(out)
    contents = read_folders(folders)
    names = [folder.resolve().name for folder in folders]
    page = page_of(contents, title=", ".join(names[:NAMED] + ["…"] * (len(names) > NAMED)))
    out.parent.mkdir(parents=True, exist_ok=True)
    write_text(out, page)
    return contents


def require_report(out: Path) -> None:
    """An error unless ``out`` can be made, or is a report that may be replaced."""
    if out.is_dir():
        raise FileExistsError(f"{out} is a folder: name a file with --out, such as {out / 'report.html'}")
    if out.parent.exists():
        require_replaceable(out)
    if out.is_file() and not out.read_bytes().startswith(MARK.encode()):
        raise FileExistsError(f"{out} is in use and is not a report: choose another file with --out")


def page_of(contents: Contents, *, title: str) -> str:
    """The whole page as text."""
    sections = sections_of(contents)
    links = [element("a", section.title, href=f"#{section.anchor}") for section in sections]
    bodies = [element("section", element("h2", section.title), section.body, id=section.anchor) for section in sections]
    scripts = [plotly_script(), f"const DARK = {json.dumps(on_dark())};\n{_file('page.js')}"]
    return f"""{MARK}
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta http-equiv="Content-Security-Policy" content="{policy(scripts)}">
<title>{text(title)} · Optimist</title>
<style>{_file("page.css")}</style>
</head>
<body>
<nav aria-label="Contents"><b>Optimist</b>{joined(links).markup}</nav>
<main>
<header>
<h1>{text(title)}</h1>
<p class="lead">Runs and studies, reported by Optimist {optimist.__version__}.</p>
</header>
{joined(bodies).markup}
</main>
{"".join(f"<script>{script}</script>" for script in scripts)}
</body>
</html>
"""


def sections_of(contents: Contents) -> list[Section]:
    """The sections for which there is something to show."""
    groups = conditions(contents.runs)
    of_runs = [curves(groups), ends(groups)] if groups else []
    last = [timing(groups), configuration(groups)] if groups else []
    found = [
        summary(contents, groups), *of_runs, pictures(contents), ablations(groups), *last,
        commands(contents, groups), tables(contents),
    ]  # fmt: skip
    return [section for section in found if section is not None and section.body != Html("")]


def policy(scripts: Sequence[str]) -> str:
    """Which scripts the browser may run: ours, known by their hash, and none that a name or a text brought in."""
    hashes = [base64.b64encode(hashlib.sha256(script.encode()).digest()).decode() for script in scripts]
    allowed = " ".join(f"'sha256-{known}'" for known in hashes)
    return f"default-src 'none'; img-src data: blob:; style-src 'unsafe-inline'; script-src {allowed}"


def plotly_script() -> str:
    """Plotly's own JavaScript."""
    from plotly.offline import get_plotlyjs

    return get_plotlyjs()


def _file(name: str) -> str:
    return files("optimist.reporting.report").joinpath(name).read_text(encoding="utf-8")
