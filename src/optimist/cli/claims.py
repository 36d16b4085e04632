"""``optimist claims``: one table of the verdicts of many studies."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro
from rich.console import Console
from rich.markup import escape
from rich.table import Table

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

    rows = claim_rows(command.folders)
    table = Table("place", "claim", "measured", "seeds", "budget", "verdict", title=f"{len(rows)} claims")
    for row in rows:
        cells = (row[name] for name in ("place", "claim", "measured", "seeds", "budget", "judgement"))
        table.add_row(*(escape(str(cell)) for cell in cells))
    screen.print(table)
    if command.out is not None:
        command.out.mkdir(parents=True, exist_ok=True)
        write_csv(command.out / "claims.csv", rows)
        (command.out / "claims.md").write_text(markdown(rows))
        for name in ("claims.csv", "claims.md"):
            screen.print(f"  {command.out / name}", markup=False, highlight=False, soft_wrap=True)
