"""``optimist results``: the figures and the page of a folder of studies, made again from its tables."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import tyro
from rich.console import Console

from optimist.cli.console import print_line, progress_bar
from optimist.files import write_text
from optimist.reporting.tables import write_csv


@dataclass(frozen=True)
class ResultsCommand:
    """Redraw the figures of studies from their tables, and write README.md and claims.md, which tell what was found.

    Verdicts are judged again from the tables too, by today's rules.
    """

    folder: Annotated[Path, tyro.conf.Positional] = Path("results")
    """The folder whose folders are studies."""
    figures: bool = True
    """Redraw the figures too; those that need more than tables, such as film strips, stay as they are."""
    format: Literal["png", "pdf", "svg"] = "png"
    """The format of the figures; the page shows PNG."""


def run_results(command: ResultsCommand, screen: Console) -> None:
    """``optimist results``."""
    from optimist.reporting.figures.improvement import draw_improvement
    from optimist.studies.claims import claim_rows, markdown
    from optimist.studies.results import VALUE, exploration_value, judge_again, page, redraw, study_folders

    studies = study_folders(command.folder)
    if not studies:
        raise FileNotFoundError(f"there is no study in {command.folder}: a study's folder has a verdicts.csv")
    require_own_page(command.folder / "README.md", page(command.folder))
    for folder in studies:
        print_line(screen, f"  {judge_again(folder)}")
    with progress_bar(screen) as progress:
        for done, folder in enumerate(studies if command.figures else ()):
            progress(done, len(studies), folder.name)
            for path in redraw(folder, command.format):
                print_line(screen, f"  {path}")
    value = exploration_value(command.folder)
    if value:
        write_csv(command.folder / f"{VALUE}.csv", value)
        print_line(screen, f"  {command.folder / VALUE}.csv")
    if value and command.figures:
        draw_improvement(value, command.folder / f"{VALUE}.{command.format}")
        print_line(screen, f"  {command.folder / VALUE}.{command.format}")
    rows = claim_rows(studies)
    write_csv(command.folder / "claims.csv", rows)
    print_line(screen, f"  {command.folder / 'claims.csv'}")
    for name, text in (("claims.md", markdown(rows)), ("README.md", page(command.folder))):
        write_text(command.folder / name, text)
        print_line(screen, f"  {command.folder / name}")


def require_own_page(path: Path, text: str) -> None:
    """An error if ``path`` is a page that this command did not write: it begins with another title."""
    title = text.partition("\n")[0]
    if path.is_file() and not path.read_text(encoding="utf-8", errors="replace").startswith(title):
        raise FileExistsError(f"{path} was not written by optimist results, so it is not replaced: move it first")
