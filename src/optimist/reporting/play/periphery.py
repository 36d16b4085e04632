"""Two more claims about the bonus along a game: it is large where the agent has not been, and small at the start."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from optimist.training.playback import Game


@dataclass(frozen=True)
class Periphery:
    """How the bonuses of one agent's games are ordered. Shares are NaN where there is nothing to compare."""

    new: int
    """Steps to states that the agent has not acted on in training."""
    chance: float
    """The chance that the bonus of such a step exceeds that of a step to a familiar state; ties count one half."""
    starts: int
    """First steps of episodes."""
    above_start: float
    """The share of all bonuses that exceed that of a first step, over all first steps; ties count one half."""


def periphery_of(games: Sequence[Game]) -> Periphery:
    """The order of the bonuses in ``games``.

    Nobody acts on the last state of an episode: a step that leads there is neither new nor familiar.

    Paper: Figure 1, "Large bonuses often correspond to the visitation of states on the periphery of the agent's current
    experience"; section 5, "These intrinsic bonuses encourage the agent to avoid the start state".
    Deviation: the paper shows games and measures nothing. Here the periphery is what has not been seen in training,
    images compared coarsely, and the start state is whatever the first step of an episode leads to.
    """
    new, familiar, starts = list[np.ndarray](), list[np.ndarray](), list[np.ndarray]()
    for game in games:
        goes_on = ~(game.terminated | game.truncated)
        if game.familiar is not None:
            new.append(game.bonuses[goes_on & ~game.familiar])
            familiar.append(game.bonuses[goes_on & game.familiar])
        firsts = [0, *(int(t) + 1 for t in game.ends)]
        starts.append(game.bonuses[[t for t in firsts if t < len(game)]])
    every = _joined([game.bonuses for game in games])
    unseen, first = _joined(new), _joined(starts)
    chance, above = chance_of_more(unseen, _joined(familiar)), chance_of_more(every, first)
    return Periphery(len(unseen), chance, len(first), above)


def chance_of_more(ours: NDArray[np.float64], theirs: NDArray[np.float64]) -> float:
    """The chance that one of ``ours`` exceeds one of ``theirs``, ties one half; NaN without a pair.

    It is the U of Mann and Whitney over the number of pairs. Shapes: ours (n,), theirs (m,).
    """
    if not len(ours) or not len(theirs):
        return float("nan")
    ranks = stats.rankdata(np.concatenate([ours, theirs]))[: len(ours)]
    return float((ranks.sum() - len(ours) * (len(ours) + 1) / 2) / (len(ours) * len(theirs)))


def _joined(parts: Sequence[np.ndarray]) -> NDArray[np.float64]:
    return np.concatenate([np.empty(0), *parts])
