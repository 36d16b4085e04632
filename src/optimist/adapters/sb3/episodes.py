"""How stable-baselines3 tells that episodes ended, and the true observations after the steps that ended them."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch

from optimist.adapters.spaces import SpaceReader
from optimist.bonuses.observations import Observations, named, unnamed

Finals = dict[tuple[int, int], Any]
"""Raw final observations by their place (t, n) in a rollout."""


def endings(dones: np.ndarray, infos: list[dict[str, Any]], t: int) -> tuple[np.ndarray, np.ndarray, Finals]:
    """Which environments terminated, which were truncated, (N,) each, and the final observations of step ``t``."""
    ended = [int(n) for n in np.flatnonzero(dones)]
    for n in ended:
        if infos[n].get("terminal_observation") is None:
            raise ValueError(
                f"environment {n} ended an episode without infos['terminal_observation'], which a VecEnv must give: "
                "without it the last step would be scored with the first observation of the next episode"
            )
    truncated = np.zeros(len(dones), bool)
    truncated[ended] = [bool(infos[n].get("TimeLimit.truncated", False)) for n in ended]
    finals = {(t, n): infos[n]["terminal_observation"] for n in ended}
    return np.asarray(dones, bool) & ~truncated, truncated, finals


def next_observations(
    observations: Observations, last: Observations, finals: Finals, read: SpaceReader
) -> Observations:
    """What truly followed each observation: the next one, or the final one of its episode.

    Shapes: observations (T, N, ...), last (1, N, ...), after all of them -> (T, N, ...).
    """
    after = named(last)
    result = {key: torch.cat([part[1:], after[key]]) for key, part in named(observations).items()}
    if finals:
        times, environments = map(list, zip(*finals, strict=True))
        for key, part in named(read(batch(list(finals.values())))).items():
            result[key][times, environments] = part
    return unnamed(result, like=observations)


def batch(raw: list[Any]) -> Any:
    """Single raw observations as one batch. Shapes: n times (...) -> (n, ...), for every key of a Dict."""
    if isinstance(raw[0], Mapping):
        return {key: np.stack([one[key] for one in raw]) for key in raw[0]}
    return np.stack(raw)
