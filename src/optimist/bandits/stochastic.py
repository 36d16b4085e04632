"""Stochastic play for policies that decide without chance, so that their logs can be reweighted."""

from typing import Any, ClassVar, Self, final

import numpy as np
from numpy.typing import NDArray

from optimist.bandits.compiled.streams import Streams, uniforms
from optimist.bandits.ensembles import Ensemble
from optimist.bandits.learners import Evaluation
from optimist.bandits.policy import POLICIES, Policy
from optimist.bandits.probabilities import Chances
from optimist.checks import require_number
from optimist.compiling import Floats, Integers


@final
class Stochastic(Policy):
    """Plays as ``policy`` does, or with probability epsilon an action at random.

    Every action that may be played then has a probability of at least ``epsilon / n_actions``, so that importance
    weights are at most ``n_actions / epsilon``. The probabilities are exact where those of ``policy`` are.
    It goes on from what ``policy`` has learned and from its random state, and leaves ``policy`` itself alone.
    """

    ADJUSTABLE: ClassVar[frozenset[str]] = frozenset({"epsilon"})

    def __init__(self, policy: Policy, *, epsilon: float = 0.1):
        if not isinstance(policy, Policy) or isinstance(policy, Stochastic):
            raise ValueError(f"policy must be one of {', '.join(sorted(set(POLICIES) - {'Stochastic'}))}, got {policy}")
        if policy.parameters.get("history") == "lazy":
            raise ValueError("history='lazy' holds an action for many rounds, so there is no mixing in others: use ACB")
        super().__init__(policy.n_features, policy.n_arms, policy.ridge, policy.decay, policy.dtype, policy.seed)
        self.epsilon = require_number("epsilon", epsilon, least=0, most=1, why="it is a probability")
        self._inner = policy.copy()
        self._start()
        self.restore(policy.copy()._arrays)

    @property
    def policy(self) -> Policy:
        """A snapshot of the policy inside, to look at."""
        with self._lock.reading:
            self._is_shared = True
            view = self._inner.snapshot()
            view._samples = self._samples.copy()
        return view

    @property
    def parameters(self) -> dict[str, Any]:
        """The name and the parameters of the policy inside, and epsilon."""
        inside = {"name": type(self._inner).__name__, "parameters": self._inner.parameters | {"n_arms": self.n_arms}}
        return {"policy": inside, "epsilon": self.epsilon}

    @classmethod
    def from_parameters(cls, parameters: dict[str, Any]) -> Self:
        """An untrained policy with these ``parameters``."""
        inside, epsilon = parameters["policy"], parameters["epsilon"]
        if not isinstance(inside, dict) or inside.get("name") not in set(POLICIES) - {cls.__name__}:
            raise ValueError(f"the policy inside must be given by name and parameters, got {str(inside)[:100]}")
        return cls(POLICIES[inside["name"]].from_parameters(inside["parameters"]), epsilon=epsilon)

    def __repr__(self) -> str:
        inside = repr(self.policy).partition("  # ")[0]
        return f"Stochastic({inside}, epsilon={self.epsilon})  # {self._amount()}"

    def _made_anew(self, **changes: Any) -> Self:
        epsilon = changes.pop("epsilon", self.epsilon)
        return type(self)(self._inner._made_anew(**changes), epsilon=epsilon)

    def _begin(self, learners: int, models: int) -> Ensemble:
        self._inner._streams = self._streams  # the prior is drawn from them
        return self._inner._begin(learners, models)

    def _adopt(self, ensemble: Ensemble) -> None:
        super()._adopt(ensemble)
        inner = self._inner._twin()
        inner._adopt(ensemble)
        self._inner = inner

    def _evaluate(self, x: Floats, arms: Integers, streams: Streams) -> Evaluation:
        mean, bonus, columns = self._inner._evaluate(x, arms, streams)
        learners, decisions, actions = mean.shape
        lots = uniforms(streams, decisions * (1 + actions)).reshape(learners, decisions, 1 + actions)
        is_exploring = lots[..., :1] < self.epsilon  # a coin per decision, then a lot per action
        return Evaluation(mean, np.where(is_exploring, lots[..., 1:] - mean, bonus), columns)

    def _chances(self, x: Floats, arms: Integers, allowed: NDArray[np.bool_], streams: Streams, draws: int) -> Chances:
        inside = self._inner._chances(x, arms, allowed, streams, draws).values
        uniform = allowed / allowed.sum(axis=-1, keepdims=True)
        return Chances((1 - self.epsilon) * inside + self.epsilon * uniform, is_counted=False)

    @property
    def _draws_for_every_decision(self) -> bool:
        return self.epsilon > 0 or self._inner._draws_for_every_decision

    def _state_per_model(self) -> tuple[int, int]:
        return self._inner._state_per_model()
