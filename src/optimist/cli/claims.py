"""``optimist claims``: one table of the verdicts of many studies."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro
from rich.console import Console

from optimist.cli.console import print_line, print_table
from optimist.cli.outputs import output_folder, require_folder
from optimist.files import write_text
from optimist.reporting.tables import write_csv


@dataclass(frozen=True)
class ClaimsCommand:
    """Gather the verdicts of studies into one table: every claim of the paper, measured or not."""

    folders: Annotated[tuple[Path, ...], tyro.conf.Positional]
    """Folders of studies, e.g. results/*; those without verdicts are passed over."""
    out: Path | None = None
    """The folder for claims.csv and claims.md; if not given the table is only printed."""


def run_claims(command: ClaimsCommand, screen: Console) -> None:
    """``optimist claims``."""
    from optimist.studies.claims import claim_rows, markdown

    if command.out is not None:
        require_folder(command.out)
    rows = claim_rows(command.folders)
    names = ("place", "claim", "measured", "seeds", "budget", "judgement")
    cells = [tuple(str(row[name]) for name in names) for row in rows]
    print_table(screen, f"{len(rows)} claims", (*names[:-1], "verdict"), cells)
    if command.out is not None:
        with output_folder(command.out, may_overwrite=True) as folder:
            write_csv(folder / "claims.csv", rows)
            write_text(folder / "claims.md", markdown(rows))
        for name in ("claims.csv", "claims.md"):
            print_line(screen, f"  {command.out / name}")
