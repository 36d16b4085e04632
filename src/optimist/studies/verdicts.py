"""How a study ends: the claim it tests, what was measured, and whether the claim holds."""

from dataclasses import dataclass
from typing import Literal

Judgement = Literal["holds", "does not hold", "not enough data"]


@dataclass(frozen=True)
class Verdict:
    """One claim of the paper, held against one measurement."""

    claim: str
    measured: str
    judgement: Judgement
