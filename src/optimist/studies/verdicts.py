"""How a study ends: the claim it tests, what was measured, and whether the claim holds."""

import csv
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, Literal

Judgement = Literal["holds", "does not hold", "not enough data"]


@dataclass(frozen=True)
class Verdict:
    """One claim of the paper, held against one measurement."""

    claim: str
    measured: str
    """Our number, with its interval."""
    judgement: Judgement
    seeds: int | None = None
    """Runs of the side that has fewest; None where the measurement has none."""
    budget: str = ""
    """How long was played, in words."""


def verdict_row(verdict: Verdict) -> dict[str, Any]:
    """A row of ``verdicts.csv``."""
    return asdict(verdict)


def read_verdicts(path: Path) -> list[Verdict]:
    """The verdicts in a CSV; columns that an older one lacks are empty."""
    names = {field.name for field in fields(Verdict)}
    with path.open(newline="") as file:
        rows: list[dict[str, Any]] = [{n: v for n, v in row.items() if n in names} for row in csv.DictReader(file)]
    if not all({"claim", "measured", "judgement"} <= row.keys() for row in rows):
        raise ValueError(f"{path} has no verdicts: its columns must be claim, measured and judgement")
    return [Verdict(**row | {"seeds": int(row["seeds"]) if row.get("seeds") else None}) for row in rows]
