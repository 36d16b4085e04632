"""E3B: the elliptical bonus within one episode, for many environments at once (Henaff et al. 2022)."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor

from optimist.bonuses.checkpointing import require_same_layout
from optimist.bonuses.observations import Observations
from optimist.bonuses.protocol import Bonus, shown
from optimist.bonuses.transitions import Transitions, at_valid_steps, read_on_cpu, require_environments
from optimist.checks import require_positive_fields
from optimist.ranks import ALONE, Ranks


class Embedding(Protocol):
    """A learned or fixed map ``phi`` from observations to d numbers: `InverseDynamics`, `ICM`, `FixedEmbedding`."""

    @property
    def size(self) -> int:
        """d, the length of an embedding."""
        ...

    @property
    def needs_warm_up(self) -> bool:
        """Whether ``warm_up`` does something."""
        ...

    def embed(self, observations: Observations) -> Tensor:
        """``phi`` of every observation. Shapes: (T, N, ...) -> (T N, d)."""
        ...

    def require(self, transitions: Transitions) -> None:
        """An error if ``update`` could not learn from ``transitions``."""
        ...

    def update(self, transitions: Transitions) -> dict[str, float]:
        """Metrics of learning from the valid steps of a rollout."""
        ...

    def warm_up(self, transitions: Transitions) -> None:
        """Take the statistics of random play in before training."""
        ...

    def state_dict(self) -> dict[str, Any]:
        """Everything that ``update`` changes."""
        ...

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from a saved state."""
        ...


class FixedEmbedding:
    """An embedding given by any function (T, N, ...) -> (T N, d); it never learns; saving it is the caller's part."""

    needs_warm_up = False

    def __init__(self, embed: Callable[[Observations], Tensor], size: int):
        self._embed = embed
        self._size = size

    @property
    def size(self) -> int:
        """d, the length of an embedding."""
        return self._size

    def embed(self, observations: Observations) -> Tensor:
        """``phi`` of every observation. Shapes: (T, N, ...) -> (T N, d)."""
        return self._embed(observations)

    def __repr__(self) -> str:
        return f"FixedEmbedding({self._size})"

    def require(self, transitions: Transitions) -> None:
        """Nothing is learned, so anything will do."""

    def update(self, transitions: Transitions) -> dict[str, float]:
        """Learns nothing."""
        return {}

    def warm_up(self, transitions: Transitions) -> None:
        """Nothing."""

    def state_dict(self) -> dict[str, Any]:
        """Nothing."""
        return {}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Nothing."""
        require_same_layout(state, {})


@dataclass(frozen=True)
class E3BConfig:
    """Every default of E3B."""

    ridge: float = 0.1
    """lambda: an episode's covariance starts as lambda I. Henaff et al. 2022, the default of its code."""

    def __post_init__(self) -> None:
        require_positive_fields(self, "ridge", why="with no ridge the covariance starts singular")


class E3B(Bonus):
    """The bonus ``phi' C^-1 phi`` of a next state, ``C = ridge I + sum phi phi'`` over those before it in its episode.

    A step's bonus is read before its own phi joins C; C starts anew after a step that ended an episode, by termination
    or truncation. ``compute`` advances copies of the carried inverses; ``update``
    advances them with the same embedding and then trains the embedding. Memory: N d^2 numbers in float64 (rank-one
    updates drift in float32), twice that within a call. Time: O(d^2) per transition; the loop is over T, never over N.

    Paper: E3B, Algorithm 1. Multiply with a life-long bonus through `Product`.
    Deviation: the first observation of an episode, which no step has led to, is not in C.
    """

    depends_on_order = True
    is_episodic = True
    shares_ranks = True

    def __init__(self, embedding: Embedding, *, config: E3BConfig | None = None, ranks: Ranks = ALONE):
        self.ranks = ranks
        self.config = config or E3BConfig()
        self._embedding = embedding
        self.needs_warm_up = embedding.needs_warm_up
        d = embedding.size
        self._inverses = torch.zeros(0, d, d, dtype=torch.float64)  # C^-1 by environment; sized by the first update

    @read_on_cpu
    def compute(self, transitions: Transitions) -> Tensor:
        """``phi' C^-1 phi`` at every next state, (T, N); changes nothing."""
        bonuses, _ = self._advanced(transitions)
        return bonuses

    @read_on_cpu
    def update(self, transitions: Transitions) -> dict[str, float]:
        """Advance every environment's inverse over the rollout, then train the embedding; returns its metrics."""
        self._embedding.require(transitions)
        _, inverses = self._advanced(transitions)
        metrics = self._embedding.update(transitions)
        self._inverses = inverses
        return metrics

    @read_on_cpu
    def warm_up(self, transitions: Transitions) -> None:
        """Pass random play before training on to the embedding."""
        self._embedding.warm_up(transitions)

    def forget_episodes(self, which: Tensor | None = None) -> None:
        """Start the covariances of the chosen environments anew; of all: with any number of environments."""
        if which is None:
            self._inverses = self._inverses[:0]
        elif len(self._inverses):
            require_environments(which, len(self._inverses))
            self._inverses = torch.where(which.cpu()[:, None, None], self._fresh(), self._inverses)

    def state_dict(self) -> dict[str, Any]:
        """The inverse covariance of every environment's current episode, and the embedding."""
        inverses = self.ranks.gather(self._inverses) if len(self._inverses) else self._inverses
        return {"inverses": inverses.clone(), "embedding": self._embedding.state_dict()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue exactly where ``state`` was taken."""
        state = require_same_layout(state, self.state_dict(), growing={"inverses"})
        self._embedding.load_state_dict(state["embedding"])
        self._inverses = self.ranks.mine(state["inverses"]).clone()

    def __repr__(self) -> str:
        return shown(self, self._embedding)

    def _advanced(self, transitions: Transitions) -> tuple[Tensor, Tensor]:
        """The bonuses (T, N) and the inverses (N, d, d) after the rollout."""
        n_envs = transitions.n_envs
        carried = len(self._inverses) or n_envs
        if carried != n_envs:
            raise ValueError(
                f"transitions must be of {carried} environments as before, got {n_envs}: E3B carries one covariance "
                "per environment from rollout to rollout; forget_episodes() lets their number change"
            )
        # A phi of 0, as where a step is not valid, earns nothing and leaves C as it is.
        phi = at_valid_steps(transitions, self._embedded, size=(self._embedding.size,))
        fresh = self._fresh()
        inverses = self._inverses.clone() if len(self._inverses) else fresh.repeat(n_envs, 1, 1)
        bonuses = episodic_bonuses(phi.double(), transitions.ended, inverses, fresh)
        return bonuses.float(), inverses

    def _fresh(self) -> Tensor:
        """The inverse covariance of an episode that has just begun, (d, d)."""
        return torch.eye(self._embedding.size, dtype=torch.float64) / self.config.ridge

    def _embedded(self, transitions: Transitions) -> Tensor:
        """The finite ``phi`` of every next state, (T N, d)."""
        phi = self._embedding.embed(transitions.next_observations).detach().cpu()
        expected = (transitions.ended.numel(), self._embedding.size)
        if phi.shape != expected or not bool(torch.isfinite(phi).all()):
            raise ValueError(
                f"the embedding must give finite rows of shape {expected}, "
                f"got shape {tuple(phi.shape)} or values that are not finite"
            )
        return phi


def episodic_bonuses(phi: Tensor, ended: Tensor, inverses: Tensor, fresh: Tensor) -> Tensor:
    """``phi_t' C_t^-1 phi_t`` of every step; advances ``inverses`` in place, by Sherman-Morrison, renewed at ends.

    ``C^-1 <- C^-1 - u u' / (1 + b)`` with ``u = C^-1 phi``, ``b = phi' u``.

    Shapes: phi (T, N, d), ended (T, N), inverses (N, d, d), fresh (d, d) -> (T, N).
    """
    bonuses = []
    for x, over in zip(phi.unsqueeze(-2), ended, strict=True):
        # Rows times symmetric matrices, and a broadcast product: ten times faster than bmm and baddbmm of columns.
        u = torch.bmm(x, inverses)
        b = (x * u).sum(-1, keepdim=True)
        w = u / (1 + b).sqrt()
        inverses.addcmul_(w.mT, w, value=-1)  # keeps the matrices symmetric to the last bit
        inverses[over] = fresh
        bonuses.append(b.flatten())
    return torch.stack(bonuses)
