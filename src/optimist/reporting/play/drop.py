"""The claim of the paper's Figure 1 in numbers: does the bonus drop when an episode ends and the game starts anew?"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from optimist.training.playback import Game

WINDOW = 10
"""Steps before and after an end, at most."""
FEWEST_ENDS = 3
"""With fewer there is never enough data."""
LEVEL = 0.95
"""Of the interval that decides."""


@dataclass(frozen=True, eq=False)
class Drop:
    """The mean bonus just before every end of an episode and just after it. Shapes: (ends,) each."""

    before: NDArray[np.float64]
    after: NDArray[np.float64]

    @property
    def ends(self) -> int:
        """How many ends were seen with something after them."""
        return len(self.before)

    @property
    def mean(self) -> float:
        """``mean(before - after)``; NaN without an end."""
        return float(np.mean(self.before - self.after)) if self.ends else float("nan")

    @property
    def share(self) -> float:
        """The mean drop as a share of the mean bonus before an end; NaN without an end or a bonus."""
        level = float(np.mean(self.before)) if self.ends else 0.0
        return self.mean / level if level else float("nan")

    @property
    def error(self) -> float:
        """The standard error of ``mean`` over ends; infinite for fewer than two."""
        return float(stats.sem(self.before - self.after)) if self.ends > 1 else float("inf")

    @property
    def judgement(self) -> Literal["holds", "does not hold", "not enough data"]:
        """Holds if Student's 95 % interval of ``mean`` lies above 0, does not if no part of it does.

        Ends that are alike to the last digit are one: an agent that has settled plays the same episode again and again.
        """
        if len({*zip(self.before.tolist(), self.after.tolist(), strict=True)}) < FEWEST_ENDS:
            return "not enough data"
        half = float(stats.t.ppf((1 + LEVEL) / 2, self.ends - 1)) * self.error
        if self.mean - half > 0:
            return "holds"
        return "does not hold" if self.mean + half <= 0 else "not enough data"

    def __str__(self) -> str:
        if not self.ends:
            return "no episode ended before the last step: play more steps"
        fallen = int(np.sum(self.after < self.before))
        error = f" ± {self.error:.3g}" if self.ends > 1 else ""
        change = "drop" if self.mean >= 0 else "rise"
        return (
            f"{np.mean(self.before):.3g} before an end, {np.mean(self.after):.3g} after it: a {change} of "
            f"{abs(self.mean):.3g}{error} ({abs(self.share):.0%}); it fell at {fallen} of {self.ends} ends"
        )


def drop_at_ends(games: Sequence[Game], *, window: int = WINDOW) -> Drop:
    """The bonus around every end of an episode, by termination or truncation, at step t of a game:

    - before: its mean over the last ``window`` steps of the episode, t included (all of a shorter episode);
    - after: its mean over the first ``window`` steps of the next one, from t + 1 (what there is of a shorter one).

    An end with nothing after it is not counted. The error is over the ends of one agent: it says how sure this agent's
    drop is, not that of another one trained anew.
    Paper: Figure 1, "When the agent dies, and the game is reset to a familiar state, intrinsic reward drops
    precipitously"; section 5, "the ACB bonus typically drops by a significant margin".
    """
    before, after = [], []
    for game in games:
        borders = [0, *(int(t) + 1 for t in game.ends), len(game)]
        for start, end, stop in zip(borders, borders[1:], borders[2:], strict=False):
            if stop > end:
                before.append(game.bonuses[max(start, end - window) : end].mean())
                after.append(game.bonuses[end : min(stop, end + window)].mean())
    return Drop(np.array(before, dtype=np.float64), np.array(after, dtype=np.float64))
