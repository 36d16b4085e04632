"""A bonus beside a host's own loop: scored as steps come, normalized, weighted, trained on a schedule of its own."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from optimist.adapters.files import read_state, write_state
from optimist.adapters.pending import Pending
from optimist.bonuses.protocol import Bonus, require_bonus
from optimist.bonuses.scaling import ReturnScale
from optimist.bonuses.transitions import Transitions
from optimist.checks import require_count, require_counts, require_fields, require_seed
from optimist.config import replaced

KIND = "intrinsic reward"
COUNTS = ("seed", "n_envs", "steps", "updates", "scored")
ENTRIES = {"bonus", "scale", "pending", *COUNTS}


@dataclass(frozen=True)
class IntrinsicConfig:
    """How a bonus becomes a reward, and when it learns. Steps are those of all environments together."""

    weight: float = 1.0
    """What the normalized bonus is multiplied with; 0 gives no reward at all."""
    normalize: bool = True
    """Whether bonuses are divided by the running deviation of their discounted sums."""
    discount: float = 0.99
    """The discount of those sums: RND's."""
    memory_steps: int = 0
    """Steps that their deviation remembers; 0: all, as RND. See `ReturnScale`."""
    train_every: int = 1_024
    """Steps from one update of the bonus to the next, which learns from all of them, once."""
    batch_size: int = 1_024
    """Steps that one update is given at most; more are given in several, in their order."""
    learning_starts: int = 1_000
    """First steps, which earn nothing and teach nothing: they only set the observation statistics of RND and ICM."""

    def __post_init__(self) -> None:
        require_counts(self, "memory_steps", "learning_starts", least=0)
        require_counts(self, "train_every", "batch_size")
        require_fields(self, "weight", least=0)
        if not 0 <= self.discount < 1:
            raise ValueError(f"discount must lie in [0, 1), got {self.discount}: discounted sums must stay finite")

    @property
    def settling(self) -> int:
        """Steps of every environment after which a discounted sum is full: before, its deviation means nothing."""
        return math.ceil(round(1 / (1 - self.discount), 6)) if self.normalize else 0


class IntrinsicReward:
    """Rewards of a ``bonus`` for what a host plays.

    A host with whole rollouts calls `reward` and then `observe` with each; a host that goes step by step calls `step`;
    one with a schedule of its own calls `reward`, `hold` and `learn_from`. Each step is scored before it is learned
    from. A host that resets environments in mid-episode says so by `end_episodes`.

    Rewards are 0 in the first ``learning_starts`` steps, and then until the scale has seen ``1 / (1 - discount)`` steps
    of every environment. A bonus that depends on the order of steps is shown the steps since its last update again with
    each new one: a small ``train_every`` is cheaper there. With ``training`` off neither the bonus nor its scale moves.

    ``config`` owns every choice; single fields may be given by name. ``seed`` is the one that the bonus was made from,
    None if unknown. A state of another seed is refused, because what was drawn from the seed, such as a random network
    or a sketch, need not be part of the state.
    """

    def __init__(
        self, bonus: Bonus, *, seed: int | None = None, config: IntrinsicConfig | None = None, **overrides: Any
    ):
        self.config = replaced(config or IntrinsicConfig(), overrides)
        self._seed = -1 if seed is None else require_seed(seed)
        self.bonus = require_bonus(bonus, "the argument bonus")
        self.training = True
        self.n_envs = 0
        """Environments that are played; 0 before the first step."""
        self.steps = 0
        """Steps observed so far, of all environments."""
        self.updates = 0
        """Updates of the bonus so far."""
        self.metrics: dict[str, float] = {}
        """What the bonus said about its last update."""
        self._scale = self._new_scale()
        self._scored = 0
        self._pending = Pending()
        self._was_loaded = False  # and nothing was played since

    def __repr__(self) -> str:
        return (
            f"IntrinsicReward({self.bonus!r}, weight={self.config.weight:g}, n_envs={self.n_envs}, "
            f"steps={self.steps}, updates={self.updates}, training={self.training})"
        )

    @property
    def reads_in_order(self) -> bool:
        """Whether the bonus of a step depends on the steps before it, so that it must be shown all of them."""
        return self.bonus.depends_on_order or self.bonus.is_episodic

    @property
    def warming_up(self) -> bool:
        """Whether these are still the first steps, which earn nothing."""
        return self.steps < self.config.learning_starts

    def raw(self, transitions: Transitions) -> Tensor:
        """The bonus as it is, neither normalized nor weighted; changes nothing. Shapes: -> (T, N)."""
        if not (self.reads_in_order and self._pending.steps):
            return self.bonus.compute(transitions).cpu()
        self._require_n_envs(transitions.n_envs)
        return self.bonus.compute(self._pending.followed_by(transitions))[-transitions.steps :].cpu()

    def reward(self, transitions: Transitions) -> Tensor:
        """The weighted, normalized bonus; moves the scale by it first. Shapes: -> (T, N)."""
        if self.warming_up:
            return torch.zeros(transitions.terminated.shape)
        if self.reads_in_order or (self.training and self.config.normalize):
            self._take_n_envs(transitions.n_envs)
        raw = self.raw(transitions)
        if not self.config.normalize:
            return raw * self.config.weight
        if self.training:
            self._scale.update(raw)
            self._scored += len(raw)
        if self._scored < self.config.settling:
            return raw.new_zeros(raw.shape)
        return self._scale.normalize(raw) * self.config.weight

    def observe(self, transitions: Transitions) -> dict[str, float]:
        """The metrics of training if it was due with these steps; otherwise none."""
        if not self.training:
            return {}
        self.hold(transitions)
        return self._learn() if self._due else {}

    def step(self, transitions: Transitions) -> Tensor:
        """The rewards of one more step of a host that goes step by step; learns first, if due, from those before it.

        Shapes: -> (1, N).
        """
        if self.training and self._due:
            self._learn()
        rewards = self.reward(transitions)
        if self.training:
            self.hold(transitions)
        return rewards

    def hold(self, transitions: Transitions) -> None:
        """Keep steps to learn from, and to show the bonus again until then if it depends on their order."""
        self._take_n_envs(transitions.n_envs)
        self.steps += self._pending.add(transitions)

    def learn_from(self, transitions: Transitions) -> dict[str, float]:
        """The metrics of one update by what the host chose, in place of the steps held, which are dropped."""
        metrics = self.bonus.update(transitions)
        if self._pending.steps:
            self.bonus.forget_episodes(self._pending.over)  # a reset may have come after these transitions were taken
            self._pending = Pending()
        self._note([metrics])
        return metrics

    def end_episodes(self, which: Any = None) -> None:
        """The host resets the chosen environments, (N,) bool, or all: their running episodes are over for the bonus.

        The latest step of such an environment counts as truncated; if it was learned from already, the bonus forgets
        the episode. Nothing changes where the episode had ended.
        """
        if not self.n_envs:
            return  # nothing was played yet
        if which is None:
            chosen = torch.ones(self.n_envs, dtype=torch.bool)
        else:
            chosen = torch.as_tensor(which).bool()
            if chosen.ndim != 1:
                raise ValueError(
                    f"which must have one entry per environment, ({self.n_envs},), got {tuple(chosen.shape)}"
                )
            self._take_n_envs(len(chosen))
        learned_from = self._pending.cut(chosen)
        if learned_from.any():
            self.bonus.forget_episodes(learned_from)

    def resize(self, n_envs: int) -> None:
        """Go on with another number of environments; after loading a state the first step does this by itself.

        The steps held are learned from, running episodes are forgotten, and the new environments take over the
        discounted sums of the former ones in turn, so that the scale goes on as it was.
        """
        require_count("n_envs", n_envs)
        if self.n_envs not in (0, n_envs):
            self._learn()
            self.bonus.forget_episodes()
            state = self._scale.state_dict()
            self._scale.load_state_dict(dealt_out(state, n_envs))
        self.n_envs = n_envs

    @property
    def _pending_warms_up(self) -> bool:
        return self.steps - self._pending.steps < self.config.learning_starts

    @property
    def _due(self) -> bool:
        return self._pending.steps >= self.config.train_every or (self._pending_warms_up and not self.warming_up)

    def _learn(self) -> dict[str, float]:
        """The metrics of learning from all steps observed since the last time; their mean over several updates."""
        warms_up = self._pending_warms_up
        pieces = self._pending.taken(self.config.batch_size)
        if warms_up:
            for piece in pieces:
                self.bonus.warm_up(piece)
            return {}
        return self._note([self.bonus.update(piece) for piece in pieces])

    def _note(self, updates: list[dict[str, float]]) -> dict[str, float]:
        """The mean of the metrics of some updates, counted and kept. An update without valid steps has none."""
        found = [metrics for metrics in updates if metrics]
        self.updates += len(found)
        if found:
            self.metrics = {name: sum(metrics[name] for metrics in found) / len(found) for name in found[0]}
        return dict(self.metrics) if found else {}

    def _take_n_envs(self, n_envs: int) -> None:
        """The first steps, or the first ones after loading, decide how many environments there are."""
        if self._was_loaded or not self.n_envs:
            self.resize(n_envs)
            self._was_loaded = False
        self._require_n_envs(n_envs)

    def _require_n_envs(self, n_envs: int) -> None:
        if n_envs != self.n_envs:
            raise ValueError(
                f"transitions must be of {self.n_envs} environments as before, got {n_envs}: "
                f"use one intrinsic reward for one vector environment, or call resize({n_envs}) first"
            )

    def state_dict(self) -> dict[str, Any]:
        """Everything: the bonus, its scale, the steps it has not learned from yet, the counts."""
        return {
            "bonus": self.bonus.state_dict(),
            "scale": self._scale.state_dict(),
            "pending": self._pending.state_dict(),
            "seed": self._seed,
            "n_envs": self.n_envs,
            "steps": self.steps,
            "updates": self.updates,
            "scored": self._scored,
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue exactly where ``state`` was taken. A state that does not fit raises and changes nothing.

        If the next steps are of another number of environments, `resize` is called for them.
        """
        if state.keys() != ENTRIES or not all(isinstance(state[name], int) for name in COUNTS):
            raise ValueError(
                f"state must have the entries {sorted(ENTRIES)}, got {sorted(state)}: "
                f"was it saved by an {KIND} of this version?"
            )
        if state["seed"] != self._seed:
            raise ValueError(
                f"the bonus must be made from the seed saved, {_seed_named(state['seed'])}, "
                f"got one of {_seed_named(self._seed)}: build it again with that seed; nothing was changed"
            )
        scale, pending = self._new_scale(), Pending()
        scale.load_state_dict(state["scale"])
        pending.load_state_dict(state["pending"])
        self.bonus.load_state_dict(state["bonus"])
        self._scale, self._pending, self._was_loaded = scale, pending, True
        self.n_envs, self.steps = state["n_envs"], state["steps"]
        self.updates, self._scored = state["updates"], state["scored"]

    def save(self, path: str | Path) -> None:
        """Write the state to one file, complete or not at all. Reading it executes no code."""
        write_state(Path(path), self.state_dict(), kind=KIND)

    def load(self, path: str | Path) -> None:
        """Continue exactly where `save` was called."""
        self.load_state_dict(read_state(Path(path), kind=KIND))

    def _new_scale(self) -> ReturnScale:
        return ReturnScale(discount=self.config.discount, memory_steps=self.config.memory_steps)


def dealt_out(scale: Mapping[str, Any], n_envs: int) -> dict[str, Any]:
    """The state of a `ReturnScale` for ``n_envs`` environments, which get the running sums of the former in turn."""
    returns: Tensor = scale["returns"]
    dealt = returns[torch.arange(n_envs) % len(returns)] if len(returns) else returns
    return {**scale, "returns": dealt}


def _seed_named(seed: int) -> str:
    return "none (a ready bonus)" if seed < 0 else str(seed)
