"""One or many learners in one object: their state behind a lock, how they decide, learn and are copied.

A policy in use is one learner. A simulation plays many independent learners side by side, which is why every array of
the state has a leading axis l. Letters in shapes are those of ``compiled``.

Threads may share a policy: what only reads its state runs side by side, what changes it runs alone (``locking``). The
state is copied on write: a copy or a snapshot shares it until one side changes it.
"""

import copy
import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, NamedTuple, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from optimist.bandits import storage
from optimist.bandits.compiled.linear import choose
from optimist.bandits.compiled.streams import Streams, fork, make_streams
from optimist.bandits.ensembles import Ensemble
from optimist.bandits.locking import ReadersWriterLock
from optimist.bandits.probabilities import Chances, shared_by_best
from optimist.bandits.rows import as_sparse
from optimist.bandits.sgd import is_kept_sparse
from optimist.bandits.storage import Arrays
from optimist.checks import require_choice, require_count, require_number, require_positive, require_seed
from optimist.compiling import Floats, Integers
from optimist.memory import require_memory
from optimist.seeding import split

Result = TypeVar("Result")

DECISIONS, PROBABILITIES, SNAPSHOTS, SEEDED = range(4)  # what streams are forked for


class Evaluation(NamedTuple):
    """What a decision is made from."""

    mean: Floats
    """``<x, theta>``, (l, b, n)."""
    bonus: Floats
    """What is added to it to explore, (l, b, n)."""
    columns: Floats
    """The regressors that both were read from, (l, b|1, a, d, 1 + M)."""


class Learners(ABC):
    """What a policy is made of; ``Policy``, its only heir, is what users call."""

    def __init__(self, n_features: int, n_arms: int | None, ridge: float, decay: float, dtype: str, seed: int):
        self.n_features = require_count("n_features", n_features)
        self.n_arms = None if n_arms is None else require_count("n_arms", n_arms)
        self.ridge = require_positive("ridge", ridge, "with no ridge the covariance starts singular")
        self.decay = require_positive("decay", decay, "a sample's weight is multiplied by it with every later sample")
        require_number("decay", decay, most=1, why="the past may fade, and not grow; 1 forgets nothing")
        self.dtype = require_choice("dtype", dtype, ("float64", "float32"))
        self.seed = require_seed(seed)

    # What a policy must say ----------------------------------------------------------------------------------------

    @abstractmethod
    def _begin(self, learners: int, models: int) -> Ensemble:
        """The untrained estimates of ``learners`` learners, each with ``models`` models; may draw from the streams."""

    @abstractmethod
    def _evaluate(self, x: Floats, arms: Integers, streams: Streams) -> Evaluation:
        """Mean and bonus of every action. Moves ``streams`` and nothing else.

        Shapes: x (l|1, b, n|1, d), arms (n,): the model of each action.
        """

    def _chances(self, x: Floats, arms: Integers, allowed: NDArray[np.bool_], streams: Streams, draws: int) -> Chances:
        """The probability of every action, of one learner; may move ``streams`` and nothing else.

        Here for a policy that decides without chance: 1, shared by the best actions where they tie.
        Shapes: x (1, b, n|1, d), arms (n,), allowed (b|1, n) -> (b, n).
        """
        mean, bonus, _ = self._evaluate(x, arms, streams)
        return Chances(shared_by_best((mean + bonus)[0], allowed), is_counted=False)

    @property
    def _draws_for_every_decision(self) -> bool:
        """Whether two equal decisions may differ by chance, ties apart."""
        return False

    def _state_per_model(self) -> tuple[int, int]:
        """How many d x d matrices, and how many columns of length d, the state of one model holds."""
        return 1, 1

    @classmethod
    def from_parameters(cls, parameters: dict[str, Any]) -> Self:
        """An untrained policy with these ``parameters``, as the property of that name has them."""
        return cls(**parameters)

    @property
    def parameters(self) -> dict[str, Any]:
        """The arguments of the constructor, by name."""
        return {name: getattr(self, name) for name in inspect.signature(type(self)).parameters}

    # Many learners at once -----------------------------------------------------------------------------------------

    def spawn(self, streams: Streams, **changes: Any) -> Self:
        """Untrained copies of this policy, one per stream, side by side in one object: what a simulation plays."""
        many = self._made_anew(**changes)
        many._start(streams)
        return many

    def play(self, x: Floats) -> NDArray[np.int64]:
        """The action that every learner plays, (l,). Shapes: x (l|1, n|1, d)."""
        arms = self.n_arms or x.shape[1]
        return self._play(x[:, None], np.ones((1, 1, arms), bool))[:, 0]

    def learn(self, x: Floats, actions: NDArray[np.int64], rewards: Floats) -> None:
        """Each learner learns from its own play. Shapes: x (l, d), actions and rewards (l,)."""
        arms = np.zeros_like(actions) if self.n_arms is None else actions
        self._learn(x[:, None].astype(self.dtype, copy=False), arms[:, None], rewards[:, None], None)

    def state_bytes(self, learners: int = 1, n_arms: int | None = None) -> int:
        """About how much memory the state of so many learners takes; that of a sparse one grows as it learns."""
        if learners == 1 and self._is_kept_sparse(n_arms):
            return 0
        matrices, columns = self._state_per_model()
        if matrices and self.decay < 1:
            matrices, columns = matrices + 1, 3 * columns  # the sums that fade, and the prior that does not
        elif self.decay < 1:
            columns += 1  # up to when each has faded
        d, models = self.n_features, learners * (n_arms or self.n_arms or 1)
        return models * (8 * matrices * d * d + np.dtype(self.dtype).itemsize * columns * d)

    def _is_kept_sparse(self, n_arms: int | None) -> bool:
        """Whether one learner keeps only the columns that it has learned from."""
        matrices, columns = self._state_per_model()
        models = n_arms or self.n_arms or 1
        return matrices == 0 and is_kept_sparse(models, self.n_features, columns - 2, self.dtype)  # two are moments

    def require_fits(self, learners: int = 1, n_arms: int | None = None) -> None:
        """An error if the state of so many learners cannot fit into this machine's memory."""
        n_arms = n_arms or self.n_arms
        sizes = {"n_features": self.n_features, "n_arms": n_arms, "learners": learners if learners > 1 else None}
        what = ", ".join(f"{name}={size:,}" for name, size in sizes.items() if size is not None)
        has_matrix = self._state_per_model()[0] > 0
        without = ", or solver='sgd' or DiagonalLinUCB, which keep no n_features x n_features matrix"
        advice = "use fewer features" + (without if has_matrix else " or a smaller ensemble")
        require_memory(self.state_bytes(learners, n_arms), f"{type(self).__name__} with {what}", advice)

    def restore(self, arrays: Arrays) -> None:
        """Takes over a saved state, after checking that all of it fits."""
        with self._lock.writing:
            self._detach()
            self._ensemble.make_room(arrays)
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
        own = {"streams": self._streams, "samples": self._samples}
        if self.n_arms is not None:
            own |= {"counts": self._counts, "retired": self._retired}
        return self._ensemble.arrays | own

    def _start(self, streams: Streams | None = None) -> None:
        """Begins untrained: called once at the end of every constructor."""
        self._lock = ReadersWriterLock()
        self._is_shared = self._is_snapshot = False
        self._last_bonuses: Floats | None = None
        self._streams = make_streams(split(self.seed, "policy"), [0]) if streams is None else streams.copy()
        self._samples = np.zeros(len(self._streams), np.int64)
        self._counts = np.zeros((len(self._streams), self.n_arms or 1), np.int64)
        self._retired = np.zeros(self.n_arms or 1, bool)  # replaced, never written to, once there are decisions
        self.require_fits(len(self._streams))
        self._adopt(self._begin(len(self._streams), self.n_arms or 1))

    def _made_anew(self, **changes: Any) -> Self:
        """An untrained policy of the same parameters, but for ``changes``."""
        return type(self)(**self.parameters | changes)

    # Decisions and updates, each behind the lock -------------------------------------------------------------------

    def _play(self, x: Floats, allowed: NDArray[np.bool_]) -> NDArray[np.int64]:
        """The chosen actions, (l, b). Shapes: x (l|1, b, n|1, d), allowed (l|1, b|1, n)."""
        return self._deciding(self._decide, x, allowed)

    def _deciding(self, decide: Callable[..., Result], *arguments: Any) -> Result:
        """``decide(*arguments, streams)`` behind the lock, with random numbers that no other decision sees."""
        lock = self._lock
        if self._ensemble.remembers_decisions:
            with lock.writing:
                self._detach()
                return self._moving(decide, arguments)
        with lock.reading:
            # One reader at a time moves the policy's own stream. The others do not wait for it: theirs are forks.
            if not lock.draws.acquire(False):
                return decide(*arguments, fork(self._streams, DECISIONS, next(lock.forks)))
            try:
                return self._moving(decide, arguments)
            finally:
                lock.draws.release()

    def _moving(self, decide: Callable[..., Result], arguments: tuple[Any, ...]) -> Result:
        """``decide`` with the policy's own random numbers, which are then used up."""
        streams = self._streams.copy()
        result = decide(*arguments, streams)
        self.__dict__["_streams"] = streams  # not by __setattr__: this is the inner loop
        return result

    def _decide(self, x: Floats, allowed: NDArray[np.bool_], streams: Streams) -> NDArray[np.int64]:
        """The chosen actions, (l, b); moves ``streams``. Shapes as for ``_play``."""
        mean, bonus, columns = self._evaluate(x, self._models_of(allowed), streams)
        chosen = _choose(mean + bonus, allowed, streams)
        self._ensemble.commit(columns, bonus, chosen)
        self.__dict__["_last_bonuses"] = bonus
        return chosen

    def _decide_slate(self, k: int, x: Floats, allowed: NDArray[np.bool_], streams: Streams) -> NDArray[np.int64]:
        """The k chosen actions, (b, k); moves ``streams``. Shapes: x (1, b, n|1, d), allowed (b|1, n)."""
        decisions, arms = np.arange(x.shape[1]), self._models_of(allowed)
        left = np.broadcast_to(allowed, (x.shape[1], arms.size)).copy()
        mean, bonus, columns = self._evaluate(x, arms, streams)
        slate = np.empty((x.shape[1], k), np.int64)
        for place in range(k):
            if place and self._draws_for_every_decision:
                mean, bonus, columns = self._evaluate(x, arms, streams)
            slate[:, place] = _choose(mean + bonus, left[None], streams)[0]
            left[decisions, slate[:, place]] = False
        self._ensemble.commit(columns, bonus, slate[None, :, 0])
        self.__dict__["_last_bonuses"] = bonus
        return slate

    def _learn(self, x: Floats, arms: Integers, rewards: Floats, weights: Floats | None) -> None:
        """Learns from samples in their order. Shapes: x (l, s, d), arms, rewards and weights (l, s).

        A sample of weight v is the row ``sqrt(v) x`` with the reward ``sqrt(v) r`` and noise of variance 1, for which
        Sigma grows by ``v x x'`` and the members keep the law N(0, Sigma^-1).
        """
        self._require_learns()
        if weights is not None:
            root = np.sqrt(weights)
            rewards = rewards * root
            sparse = as_sparse(x)
            x = (x * root[..., None]).astype(x.dtype, copy=False) if sparse is None else sparse.scaled(root[0])
        with self._lock.writing:
            self._detach()
            self._ensemble.update(x, arms, rewards, self._streams)
            np.add(self._samples, rewards.shape[1], out=self._samples)  # not by __setattr__
            if self.n_arms is not None:
                np.add.at(self._counts, (np.arange(len(arms))[:, None], arms), 1)

    def _read(self, x: Floats, arms: Integers, streams: Streams) -> tuple[Floats, Floats, Floats]:
        """``<x, theta>`` (l, b, n), ``<x, w^(m)>`` (l, b, n, m), and the columns that they were read from."""
        answers, columns = self._ensemble.read(x, arms, streams)
        return answers[..., 0], answers[..., 1:], columns

    def _models_of(self, allowed: NDArray[np.bool_]) -> NDArray[np.int64]:
        """The model that scores each action: its own with arms, the shared one otherwise. Shapes: (..., n) -> (n,)."""
        actions = allowed.shape[-1]
        return np.zeros(actions, np.int64) if self.n_arms is None else np.arange(actions)

    # Copies on write -----------------------------------------------------------------------------------------------

    def _adopt(self, ensemble: Ensemble) -> None:
        """Takes ``ensemble`` as the state."""
        self._ensemble = ensemble

    def _detach(self) -> None:
        """Before every change, with the lock held for writing: a state that copies or snapshots share is copied."""
        if self._is_shared:
            self._adopt(copy.deepcopy(self._ensemble))
            self._is_shared = False

    def _require_learns(self) -> None:
        if self._is_snapshot:
            raise RuntimeError(
                "a snapshot never changes: change the policy that it was taken from, or a copy() of that"
            )

    def _shared(self) -> Arrays:
        """Every array of the state, none of which will change any more; with the lock held for reading."""
        self._is_shared = True
        held = self._ensemble.arrays
        return {name: array if name in held else array.copy() for name, array in self._arrays.items()}

    def _twin(self) -> Self:
        """A policy that shares this one's state, and copies it when it changes; with the lock held for reading."""
        self._is_shared = True  # before the copy, which is to know it too
        twin = object.__new__(type(self))
        twin.__dict__.update(self.__dict__)
        twin._lock = ReadersWriterLock()
        twin._is_snapshot = False
        twin._streams, twin._samples, twin._counts = self._streams.copy(), self._samples.copy(), self._counts.copy()
        twin._adopt(self._ensemble)
        return twin


def _choose(scores: Floats, allowed: NDArray[np.bool_], streams: Streams) -> NDArray[np.int64]:
    chosen = choose(scores, allowed, streams)
    if chosen.item() < 0 if chosen.size == 1 else (chosen < 0).any():
        raise FloatingPointError("the scores are not finite: the regression diverged, so lower learning_rate")
    return chosen
