"""What every policy has in common: it scores actions, plays the best, learns from rewards, and can be saved.

A policy in use is one learner. A simulation plays many independent learners side by side, which is why every array of
a policy's state has a leading axis l. Letters in shapes are those of ``kernels.py``.
"""

import inspect
from abc import ABC, abstractmethod
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from optimist.bandits import inputs, kernels
from optimist.bandits.arrays import Arrays, Floats, Integers, Streams
from optimist.bandits.policies import storage
from optimist.bandits.policies.ensembles import Ensemble
from optimist.bandits.regression import read_columns
from optimist.bandits.streams import make_streams
from optimist.seeding import require_seed, split


@dataclass(frozen=True)
class Question:
    """What a bonus is computed from: actions, their estimates and the random numbers of the decision."""

    x: Floats
    """Features, (l|1, b, n|1, d)."""
    arms: Integers
    """The model of each action, (n,)."""
    mean: Floats
    """``<x, theta>``, (l, b, n)."""
    deviations: Floats
    """``<x, w^(m)>``, (l, b, n, m)."""
    lots: Floats
    """What the policy drew for itself."""


class Policy(ABC):
    """A linear bandit policy. Abstract; its subclasses are final and override none of its public methods."""

    def __init__(self, n_features: int, n_arms: int | None, ridge: float, dtype: str, seed: int):
        self.n_features = inputs.require_count("n_features", n_features)
        self.n_arms = None if n_arms is None else inputs.require_count("n_arms", n_arms)
        self.ridge = inputs.require_positive("ridge", ridge, "with no ridge the covariance starts singular")
        self.dtype = inputs.require_choice("dtype", dtype, ("float64", "float32"))
        self.seed = require_seed(seed)

    # What a policy must say ---------------------------------------------------------------------------------------

    @abstractmethod
    def _begin(self, learners: int, models: int) -> Ensemble:
        """The untrained estimates of ``learners`` learners, each with ``models`` models; may draw from the streams."""

    @abstractmethod
    def _bonuses(self, question: Question) -> Floats:
        """What is added to the mean of every action, (l, b, n)."""

    def _lots(self, streams: Streams, decisions: int, actions: int) -> Floats:
        """Random numbers that decisions need beside those of the ensemble; moves ``streams`` and nothing else."""
        return np.empty(0)

    # What users call ----------------------------------------------------------------------------------------------

    def predict(self, X: ArrayLike, mask: ArrayLike | None = None) -> int | NDArray[np.int64]:
        """The action of the largest score, ties broken at random: an int, or (batch,) ints for a batch of decisions.

        Shapes: X (n_actions, d) or (batch, n_actions, d), or a list of action sets of different sizes; mask of the
        same leading shape, True where an action may be played.
        """
        x, allowed, is_batch = inputs.action_features(X, mask, self.n_features, self.n_arms, np.dtype(self.dtype))
        chosen = self._play(x[None], allowed[None])[0]
        return chosen if is_batch else int(chosen[0])

    def partial_fit(self, x: ArrayLike, reward: ArrayLike, arm: ArrayLike | None = None) -> Self:
        """Learns from one sample or a batch, in order, at once or late. Shapes: x (d,) or (n, d), reward () or (n,)."""
        self._learn(*inputs.samples(x, reward, arm, self.n_features, self.n_arms, np.dtype(self.dtype)))
        return self

    def mean(self, X: ArrayLike) -> Floats:
        """The estimated rewards ``<x, theta>``. Shapes: (n, d) -> (n,), (batch, n, d) -> (batch, n)."""
        return self._look(X)[0]

    def bonus(self, X: ArrayLike) -> Floats:
        """What the policy adds to the means to explore. Shapes: (n, d) -> (n,), (batch, n, d) -> (batch, n)."""
        return self._look(X)[1]

    def scores(self, X: ArrayLike) -> Floats:
        """``mean + bonus``, the very numbers that the next ``predict(X)`` maximises; changes nothing."""
        mean, bonus = self._look(X)
        return mean + bonus

    def save(self, path: str | Path) -> None:
        """Writes one ``.npz`` file, random state included: ``bandits.load`` goes on exactly where this stopped."""
        storage.write(Path(path), type(self).__name__, self.parameters, self._arrays)

    @property
    def parameters(self) -> dict[str, Any]:
        """The arguments of the constructor, by name."""
        return {name: getattr(self, name) for name in inspect.signature(type(self)).parameters}

    # Many learners at once ----------------------------------------------------------------------------------------

    def spawn(self, streams: Streams, **changes: Any) -> Self:
        """Untrained copies of this policy, one a stream, side by side in one object: what a simulation plays."""
        many = type(self)(**self.parameters | changes)
        many._start(streams)
        return many

    def play(self, x: Floats) -> NDArray[np.int64]:
        """The action that every learner plays, (l,). Shapes: x (l|1, n|1, d)."""
        arms = self.n_arms or x.shape[1]
        return self._play(x[:, None], np.ones((1, 1, arms), bool))[:, 0]

    def learn(self, x: Floats, actions: NDArray[np.int64], rewards: Floats) -> None:
        """Each learner learns from its own play. Shapes: x (l, d), actions and rewards (l,)."""
        arms = np.zeros_like(actions) if self.n_arms is None else actions
        self._learn(x[:, None].astype(self.dtype, copy=False), arms[:, None], rewards[:, None])

    def restore(self, arrays: Arrays) -> None:
        """Takes over a saved state, after checking that all of it fits."""
        own = self._arrays
        storage.require_same_layout(own, arrays)
        for name, array in own.items():
            array[...] = arrays[name]

    @property
    def streams(self) -> Streams:
        """The random state of every learner, (l, 4)."""
        return self._streams.copy()

    @property
    def _arrays(self) -> Arrays:
        """Every array of the state, by name, live."""
        return self._ensemble.arrays | {"streams": self._streams}

    def _start(self, streams: Streams | None = None) -> None:
        """Begins untrained: called once at the end of every constructor."""
        self._streams = make_streams(split(self.seed, "policy"), [0]) if streams is None else streams.copy()
        self._ensemble = self._begin(len(self._streams), self.n_arms or 1)

    def _play(self, x: Floats, allowed: NDArray[np.bool_]) -> NDArray[np.int64]:
        """The chosen actions, (l, b). Shapes: x (l|1, b, n|1, d), allowed (l|1, b|1, n)."""
        streams = self._streams.copy()
        columns, mean, bonus = self._evaluate(x, streams)
        chosen = kernels.choose(mean + bonus, allowed, streams)
        if (chosen < 0).any():
            raise FloatingPointError("the scores are not finite: the regression diverged, so lower learning_rate")
        self._streams = streams
        self._ensemble.commit(columns, bonus, chosen)
        return chosen

    def _learn(self, x: Floats, arms: Integers, rewards: Floats) -> None:
        """Learns from samples in their order. Shapes: x (l, s, d), arms and rewards (l, s)."""
        self._ensemble.update(x, arms, rewards, self._streams)

    def _look(self, X: ArrayLike) -> tuple[Floats, Floats]:
        """Mean and bonus of every action, with the draws that the next decision will make."""
        x, _, is_batch = inputs.action_features(X, None, self.n_features, self.n_arms, np.dtype(self.dtype))
        _, mean, bonus = self._evaluate(x[None], self._streams.copy())
        return (mean[0], bonus[0]) if is_batch else (mean[0, 0], bonus[0, 0])

    def _evaluate(self, x: Floats, streams: Streams) -> tuple[Floats, Floats, Floats]:
        """The columns drawn, and mean and bonus of every action, each (l, b, n). Moves ``streams`` and nothing else."""
        arms = self._models_of(x)
        columns = self._ensemble.draw(streams, x.shape[1])
        lots = self._lots(streams, x.shape[1], arms.size)
        answers = read_columns(x, arms, columns)
        mean = answers[..., 0]
        return columns, mean, self._bonuses(Question(x, arms, mean, answers[..., 1:], lots))

    def _models_of(self, x: Floats) -> NDArray[np.int64]:
        """The model that scores each action: its own with arms, the shared one otherwise."""
        return np.zeros(x.shape[2], np.int64) if self.n_arms is None else np.arange(self.n_arms)
