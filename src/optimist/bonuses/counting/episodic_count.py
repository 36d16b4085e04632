"""Counts within one episode: how often its environment has visited a code since the episode began."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor

from optimist.bonuses.checkpointing import require_same_layout, seeded_generator, unchanged_on_error
from optimist.bonuses.counting.codes import CodeName, make_code, require_code
from optimist.bonuses.counting.hash_count import visits_so_far
from optimist.bonuses.observations import Channels, ObservationShape
from optimist.bonuses.protocol import Bonus
from optimist.bonuses.transitions import Transitions, at_valid_steps, read_on_cpu, require_environments
from optimist.checks import require_choice
from optimist.ranks import ALONE, Ranks

Form = Literal["inverse-root", "first-visit"]


@dataclass(frozen=True)
class EpisodicCountConfig:
    """Every default of episodic counts."""

    form: Form = "inverse-root"
    """The bonus of visit n: "inverse-root" 1 / sqrt(n), as RIDE (Raileanu and Rocktaeschel 2020); "first-visit" 1 at
    the first and 0 after it, as NovelD (Zhang et al. 2021)."""
    code: CodeName = "auto"
    """What is one state: "exact" equal observations, "simhash" similar ones; "auto" is exact where all is discrete."""
    bits: int = 32
    """k, the bits of a SimHash, 1 .. 64, as `HashCountConfig`."""
    clip: float = 5.0
    """Whitened observations are clipped to +-5 before SimHash, as RND's."""
    channels: Channels = "newest"
    """Channels of an image that are read: of the newest frame, as `HashCountConfig`."""

    def __post_init__(self) -> None:
        require_choice("form", self.form, Form)
        require_code(self)


@dataclass(frozen=True)
class Visits:
    """The visits of running episodes: ``counts[k]`` by the environment ``environments[k]`` to the code ``keys[k]``."""

    environments: Tensor
    keys: Tensor
    counts: Tensor


def nothing_visited() -> Visits:
    """The visits before the first step."""
    return Visits(*torch.zeros(3, 0, dtype=torch.int64))


class EpisodicCount(Bonus):
    """The bonus ``1 / sqrt(n)`` of the next state, n its environment's visits to its code within the episode so far.

    n includes this step. An episode goes on from rollout to rollout and ends by termination or truncation; the counts
    of running episodes alone are carried, 24 bytes per code and environment. Multiply with a life-long bonus through
    `Product`.

    Paper: RIDE (Raileanu and Rocktaeschel 2020), the episodic state count N_ep.
    Deviation: the first observation of an episode, which no step has led to, is not counted.
    """

    depends_on_order = True
    is_episodic = True
    shares_ranks = True

    def __init__(
        self,
        observation_shape: ObservationShape,
        *,
        seed: int = 0,
        config: EpisodicCountConfig | None = None,
        ranks: Ranks = ALONE,
    ):
        self.ranks = ranks
        self.config = config or EpisodicCountConfig()
        generator = seeded_generator(seed, "episodic count")
        self._code = make_code(observation_shape, self.config, generator=generator, ranks=ranks)
        self._n_envs = 0  # N; set by the first update
        self._carried = nothing_visited()

    @read_on_cpu
    def compute(self, transitions: Transitions) -> Tensor:
        """The bonus of every next state, (T, N); changes nothing."""
        self._require(transitions)

        def bonuses(valid: Transitions) -> Tensor:
            n, _ = visits_within_episodes(self._carried, self._code.keys(valid.next_observations), transitions)
            return n.float().rsqrt() if self.config.form == "inverse-root" else (n == 1).float()

        return at_valid_steps(transitions, bonuses)

    @read_on_cpu
    def update(self, transitions: Transitions) -> dict[str, float]:
        """Count the next states of a rollout; returns the codes of running episodes, and the share of first visits."""
        self._require(transitions)
        valid = transitions.only_valid
        if valid is None:
            return {}
        with unchanged_on_error(self._code):
            self._code.update(valid.next_observations)
            keys = self._code.keys(valid.next_observations)
            n, carried = visits_within_episodes(self._carried, keys, transitions)
            told = torch.tensor([len(carried.keys), int((n == 1).sum()), len(n)])
            codes, new, visits = self.ranks.sum(told).tolist()
        self._carried = carried
        self._n_envs = transitions.n_envs
        return {"codes": float(codes), "new": new / visits}

    def forget_episodes(self, which: Tensor | None = None) -> None:
        """Drop the visits of the chosen environments' running episodes."""
        if which is None:
            self._n_envs, self._carried = 0, nothing_visited()
        elif self._n_envs:
            require_environments(which, self._n_envs)
            kept = ~which.cpu()[self._carried.environments]
            self._carried = Visits(*(values[kept] for values in vars(self._carried).values()))

    def state_dict(self) -> dict[str, Any]:
        """The code's own state, N, and the visits of running episodes."""
        carried, n_envs = self._carried, self._n_envs * self.ranks.count
        columns = torch.stack([carried.environments + self.ranks.rank * self._n_envs, carried.keys, carried.counts], 1)
        whole = torch.cat(self.ranks.gather_uneven(columns))
        named = dict(zip(vars(carried), whole.T.clone(), strict=True))
        return {"code": self._code.state_dict(), "n_envs": n_envs, "carried": named}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue exactly where ``state`` was taken."""
        state = require_same_layout(state, self.state_dict(), growing={"environments", "keys", "counts"})
        carried = Visits(**{name: value.clone() for name, value in state["carried"].items()})
        if not len(carried.environments) == len(carried.keys) == len(carried.counts):
            raise ValueError("environments, keys and counts must be of one length: the saved table is damaged")
        self._code.load_state_dict(state["code"])
        self._n_envs = state["n_envs"] // self.ranks.count
        first = self.ranks.rank * self._n_envs
        mine = (carried.environments >= first) & (carried.environments < first + self._n_envs)
        self._carried = Visits(carried.environments[mine] - first, carried.keys[mine], carried.counts[mine])

    def _require(self, transitions: Transitions) -> None:
        if self._n_envs not in (0, transitions.n_envs):
            raise ValueError(
                f"transitions must be of {self._n_envs} environments as before, got "
                f"{transitions.n_envs}: counts are carried for each environment from rollout to rollout; "
                "forget_episodes() lets their number change"
            )


def visits_within_episodes(carried: Visits, keys: Tensor, transitions: Transitions) -> tuple[Tensor, Visits]:
    """How often each valid step's key was visited in its episode until then, (K,), and what its end leaves to carry.

    Shapes: keys (K,) of the valid steps in time order.
    """
    n_envs, rows, old = transitions.n_envs, transitions.rows, len(carried.keys)
    ends = transitions.ended.long().cumsum(0)
    episode = (ends - transitions.ended.long()).flatten()[rows]  # within this rollout; what is carried is of episode 0
    episode = torch.cat([torch.zeros_like(carried.environments), episode])
    environment = torch.cat([carried.environments, rows % n_envs])
    codes, code = torch.cat([carried.keys, keys]).unique(return_inverse=True)
    # One integer for an episode, an environment and a code: what is counted.
    cells, cell = ((episode * n_envs + environment) * len(codes) + code).unique(return_inverse=True)
    before = torch.zeros_like(cells).index_add(0, cell[:old], carried.counts)
    visits = before[cell[old:]] + visits_so_far(cell[old:].unsqueeze(1)).squeeze(1)
    after = before.index_add(0, cell[old:], torch.ones_like(keys))
    episode, environment, code = cells // len(codes) // n_envs, cells // len(codes) % n_envs, cells % len(codes)
    running = episode == ends[-1][environment]
    return visits, Visits(environment[running], codes[code[running]], after[running])
