"""What every bonus is: `Bonus`, with the traits by which a host knows how to treat it."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import is_dataclass
from typing import Any

from torch import Tensor

from optimist.bonuses.observations import Observations
from optimist.bonuses.transitions import Transitions
from optimist.config import changed
from optimist.ranks import ALONE, Ranks

__all__ = ["METHODS", "TRAITS", "Bonus", "Observations", "Transitions", "require_bonus", "shown"]


class Bonus(ABC):
    """An intrinsic reward: large where we have not learned enough about the state after a step yet.

    A bonus of your own is a subclass of this one, with `compute`, `update`, `state_dict` and `load_state_dict`. It says
    by its traits what a host must know of it. The defaults are those of a life-long bonus that reads observations, each
    state by itself. A combination has a trait if one of its two bonuses has it.
    """

    needs_warm_up: bool = False
    """Whether ``warm_up`` changes something: the host then plays at random for a while before training."""
    reads_policy: bool = False
    """Whether its features are those of the policy network: it then reads transitions on the network's device."""
    depends_on_order: bool = False
    """Whether a step's bonus depends on steps before it that were not learned from yet, as a count's does. A host that
    asks step by step then shows it those steps again."""
    is_episodic: bool = False
    """Whether it remembers the running episodes of every environment: rollouts must then be whole and in order."""
    reads_actions: bool = False
    """Whether a step's bonus depends on its action or on the state before it, and not on the state after it alone."""

    ranks: Ranks = ALONE
    """The processes that play one run together, each of which shows the bonus the steps of its own environments."""
    shares_ranks: bool = False
    """Whether it then is what it would be in one process: what it learns is summed, or gathered, over ``ranks``."""

    @abstractmethod
    def compute(self, transitions: Transitions) -> Tensor:
        """The bonus of every transition, (T, N). Changes nothing: two calls give one answer."""

    @abstractmethod
    def update(self, transitions: Transitions) -> dict[str, float]:
        """Metrics of learning from a rollout, none if no step is valid. On an error nothing was learned."""

    def warm_up(self, transitions: Transitions) -> None:  # noqa: B027 (nothing is the default)
        """Learn the statistics of observations from random play before training; most bonuses keep none."""

    def forget_episodes(self, which: Tensor | None = None) -> None:  # noqa: B027 (nothing is the default)
        """Let the running episodes of the chosen environments, (N,) bool, or of all end here, as if they were reset.

        After None the number of environments may change. A bonus that is not episodic has nothing to forget.
        """

    @abstractmethod
    def state_dict(self) -> dict[str, Any]:
        """Copies of everything that changes or a seed has drawn: tensors, numbers, strings, nested dicts."""

    @abstractmethod
    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue exactly where ``state`` was taken. A state of another layout raises and changes nothing."""

    def __repr__(self) -> str:
        return shown(self)


def shown(configured: object, *parts: object) -> str:
    """A class by name, what it is made of, and those fields of its ``config``, if it has one, that are not defaults."""
    config = getattr(configured, "config", None)
    settings = changed(config) if is_dataclass(config) and not isinstance(config, type) else {}
    arguments = [*map(repr, parts), *(f"{name}={value!r}" for name, value in settings.items())]
    return f"{type(configured).__name__}({', '.join(arguments)})"


TRAITS = ("needs_warm_up", "reads_policy", "depends_on_order", "is_episodic", "reads_actions")
METHODS = ("compute", "update", "warm_up", "forget_episodes", "state_dict", "load_state_dict")


def require_bonus(candidate: Any, where: str) -> Bonus:
    """``candidate`` itself if it has all that a bonus has; otherwise an error that says what is missing."""
    if candidate is None:
        raise ValueError(f"{where} must give a bonus, got None: does it return the bonus that it makes?")
    missing = [name for name in METHODS if not callable(getattr(candidate, name, None))]
    missing += [name for name in TRAITS if not isinstance(getattr(candidate, name, None), bool)]
    if missing:
        raise ValueError(
            f"{where} must give a bonus, got {type(candidate).__name__} without {', '.join(missing)}: "
            "make it a subclass of optimist.bonuses.Bonus, which has defaults for all but compute, update, "
            "state_dict and load_state_dict"
        )
    return candidate
