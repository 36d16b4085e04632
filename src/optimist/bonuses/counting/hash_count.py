"""Hash counts: one over the square root of how often an observation's code has been seen (Tang et al. 2017)."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from optimist.bonuses.checkpointing import require_same_layout, seeded_generator, unchanged_on_error
from optimist.bonuses.counting.codes import CodeName, make_code, require_code
from optimist.bonuses.observations import Channels, ObservationShape
from optimist.bonuses.protocol import Bonus
from optimist.bonuses.transitions import Transitions, at_valid_steps, from_valid_steps, read_on_cpu, shared_rows
from optimist.ranks import ALONE, Ranks, SharedRows


@dataclass(frozen=True)
class HashCountConfig:
    """Every default of hash counts."""

    code: CodeName = "auto"
    """What is one state: "exact" equal observations, "simhash" similar ones; "auto" is exact where all is discrete."""
    bits: int = 32
    """k, the bits of a SimHash, 1 .. 64: more bits tell more states apart. Ours: Tang et al. vary it by task."""
    clip: float = 5.0
    """Whitened observations are clipped to +-5 before SimHash, as RND's."""
    channels: Channels = "newest"
    """Channels of an image that are read: of the newest frame, which a hash of states is usually taken of."""

    def __post_init__(self) -> None:
        require_code(self)


class HashCount(Bonus):
    """The bonus ``1 / sqrt(n)`` of the next state, n the visits to its code up to and including this step.

    n counts every visit of past updates, and in the rollout at hand those of all environments at this step or before,
    so it is what counting online would have given, and does not depend on the order of the environments: k environments
    that reach a new state in the same step all get ``1 / sqrt(k)``. Memory: 16 bytes per code seen.

    Paper: Tang et al. 2017, equation 1, with beta = 1.
    """

    depends_on_order = True
    shares_ranks = True

    def __init__(
        self,
        observation_shape: ObservationShape,
        *,
        seed: int = 0,
        config: HashCountConfig | None = None,
        ranks: Ranks = ALONE,
    ):
        self.ranks = ranks
        self.config = config or HashCountConfig()
        generator = seeded_generator(seed, "hash count")
        self._code = make_code(observation_shape, self.config, generator=generator, ranks=ranks)
        self._table = CountTable()

    @read_on_cpu
    def compute(self, transitions: Transitions) -> Tensor:
        """``1 / sqrt(n)`` of every next state, (T, N); changes nothing."""

        rows = shared_rows(transitions, self.ranks)

        def bonuses(valid: Transitions) -> Tensor:
            keys = self._code.keys(valid.next_observations)
            steps, everyone = transitions.rows // transitions.n_envs, torch.arange(rows.total)
            so_far = visits_so_far(rows.together(everyone, keys), rows.together(everyone, steps))
            return (self._table.counts(keys) + rows.kept(everyone, so_far)).float().rsqrt()

        return at_valid_steps(transitions, bonuses)

    @read_on_cpu
    @from_valid_steps
    def update(self, transitions: Transitions, rows: SharedRows) -> dict[str, float]:
        """Count the next states of a rollout; returns the codes ever seen, and the new ones per transition."""
        with unchanged_on_error(self._code):
            self._code.update(transitions.next_observations)
            keys = rows.together(torch.arange(rows.total), self._code.keys(transitions.next_observations))
        known = len(self._table)
        self._table.add(keys)
        return {"codes": float(len(self._table)), "new": (len(self._table) - known) / len(keys)}

    def state_dict(self) -> dict[str, Any]:
        """The code's own state and the counts, as a tensor of keys and one of counts."""
        return {"code": self._code.state_dict(), "table": self._table.state_dict()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue exactly where ``state`` was taken."""
        state = require_same_layout(state, self.state_dict(), growing={"keys", "counts"})
        self._table.load_state_dict(state["table"])  # first, for it may still refuse
        self._code.load_state_dict(state["code"])


class CountTable:
    """Counts of 64-bit keys: a sorted tensor of K keys beside one of counts. Look-up O(log K), adding a batch O(K)."""

    def __init__(self) -> None:
        self._keys = torch.zeros(0, dtype=torch.int64)
        self._counts = torch.zeros(0, dtype=torch.int64)

    def __len__(self) -> int:
        return len(self._keys)

    def counts(self, keys: Tensor) -> Tensor:
        """How often each key was added; 0 for a new one. Shapes: any -> the same."""
        if not len(self._keys):
            return torch.zeros_like(keys)
        at = torch.searchsorted(self._keys, keys).clamp_max_(len(self._keys) - 1)
        return torch.where(self._keys[at] == keys, self._counts[at], 0)

    def add(self, keys: Tensor) -> None:
        """Count one visit for every entry. Shapes: keys (n,)."""
        visited, visits = torch.unique(keys, return_counts=True)
        at = torch.searchsorted(self._keys, visited)
        known = torch.zeros_like(visited, dtype=torch.bool)
        inside = at < len(self._keys)
        known[inside] = self._keys[at[inside]] == visited[inside]
        counts = self._counts.index_add(0, at[known], visits[known])
        new = at[~known] + torch.arange(int((~known).sum()))  # where the new keys stand after the merge
        old = torch.ones(len(self._keys) + len(new), dtype=torch.bool)
        old[new] = False
        merged = torch.empty(2, len(old), dtype=torch.int64)
        merged[:, old] = torch.stack([self._keys, counts])
        merged[:, new] = torch.stack([visited[~known], visits[~known]])
        self._keys, self._counts = merged[0].clone(), merged[1].clone()

    def state_dict(self) -> dict[str, Any]:
        """The sorted keys and their counts, each (K,)."""
        return {"keys": self._keys.clone(), "counts": self._counts.clone()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from a saved state."""
        state = require_same_layout(state, self.state_dict(), growing={"keys", "counts"})
        if len(state["keys"]) != len(state["counts"]) or bool((state["keys"].diff() <= 0).any()):
            raise ValueError("keys must be sorted, different, and as many as counts: the saved table is damaged")
        self._keys, self._counts = state["keys"].clone(), state["counts"].clone()


def visits_so_far(keys: Tensor, steps: Tensor | None = None) -> Tensor:
    """How often each key occurs at its own step or before, over all environments.

    Shapes: keys (T, N) -> (T, N); or keys (n,) with their steps (n,), which never fall -> (n,).
    """
    flat = keys.flatten()
    if steps is None:
        steps = torch.arange(len(flat)) // keys.shape[1]
    order = torch.argsort(flat, stable=True)  # by key, and within a key by time, for rows are in time order
    key, step, place = flat[order], steps[order], torch.arange(len(flat))
    new_key = torch.ones_like(place, dtype=torch.bool)
    new_key[1:] = key[1:] != key[:-1]
    first = torch.where(new_key, place, 0).cummax(0).values
    last_of_step = torch.ones_like(new_key)
    last_of_step[:-1] = new_key[1:] | (step[1:] != step[:-1])
    last = torch.where(last_of_step, place, len(flat)).flip(0).cummin(0).values.flip(0)
    return torch.empty_like(flat).index_copy_(0, order, last - first + 1).view(keys.shape)
