"""What every policy has in common for its users: it scores actions, plays the best, learns from rewards, can be saved.

How it does that, for one learner or many, is in ``learners``. Letters in shapes are those of ``compiled``.
"""

import copy
import inspect
from pathlib import Path
from typing import Any, ClassVar, Literal, Self, TypeVar, cast, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from optimist.bandits import inputs, storage
from optimist.bandits.compiled.streams import Streams, fork
from optimist.bandits.learners import PROBABILITIES, SEEDED, SNAPSHOTS, Learners
from optimist.bandits.locking import unlocked
from optimist.bandits.probabilities import DRAWS, Chances
from optimist.bandits.rows import as_sparse
from optimist.bandits.sgd import AdaptiveSGD
from optimist.bandits.storage import Saved
from optimist.checks import require_count, require_seed
from optimist.compiling import Floats
from optimist.config import suggestion
from optimist.memory import allowed_memory

Scalar = TypeVar("Scalar", bound=np.generic)

_MOST_LOADED = 2**24  # bytes that an untrained policy may take, whatever the size of the file that names it

POLICIES: dict[str, "type[Policy]"] = {}
"""Every policy by the name of its class; a subclass of ``Policy`` enters itself."""


class Policy(Learners):
    """A linear bandit policy. Abstract; its subclasses are final and override none of its public methods.

    Many threads may call it at once: decisions run side by side, learning waits for them and runs alone.
    """

    ADJUSTABLE: ClassVar[frozenset[str]] = frozenset({"beta"})
    """Parameters that may be set on a policy in use; they are checked as in the constructor."""

    def __init_subclass__(cls, **arguments: Any):
        super().__init_subclass__(**arguments)
        POLICIES[cls.__name__] = cls

    # What users call -----------------------------------------------------------------------------------------------

    @overload
    def predict(
        self,
        X: ArrayLike,
        mask: ArrayLike | None = None,
        return_probability: Literal[False] = False,
        *,
        draws: int = DRAWS,
    ) -> int | NDArray[np.int64]: ...

    @overload
    def predict(
        self, X: ArrayLike, mask: ArrayLike | None = None, *, return_probability: Literal[True], draws: int = DRAWS
    ) -> tuple[int, float] | tuple[NDArray[np.int64], NDArray[np.float64]]: ...

    def predict(
        self, X: ArrayLike, mask: ArrayLike | None = None, return_probability: bool = False, *, draws: int = DRAWS
    ) -> int | NDArray[np.int64] | tuple[int, float] | tuple[NDArray[np.int64], NDArray[np.float64]]:
        """The action of the largest score, ties broken at random: an int, or (batch,) ints for a batch of decisions.

        With ``return_probability`` the pair (action, probability) for a log. Where ``probabilities`` counts ``draws``,
        the decision counts as one draw more, ``(1 + k) / (1 + draws)``: never 0, and 1 over it has the mean of the
        exact weight, but for ``(1 - p)^(1 + draws)`` of it.
        Shapes: X (n_actions, d) or (batch, n_actions, d), or a list of action sets of different sizes; mask of the
        same leading shape, True where an action may be played.
        """
        x, allowed, is_batch = self._actions(X, mask)
        if not return_probability:
            chosen = self._play(x[None], allowed[None])[0]
            return chosen if is_batch else int(chosen[0])
        require_count("draws", draws)

        def decide(streams: Streams) -> tuple[NDArray[np.int64], Chances]:
            chances = self._chances(x[None], self._models_of(allowed), allowed, fork(streams, PROBABILITIES, 0), draws)
            return self._decide(x[None], allowed[None], streams)[0], chances

        chosen, chances = self._deciding(decide)
        probability = chances.values[np.arange(len(chosen)), chosen]
        if chances.is_counted:
            probability = (1 + probability * draws) / (1 + draws)
        return (chosen, probability) if is_batch else (int(chosen[0]), float(probability[0]))

    def probabilities(self, X: ArrayLike, mask: ArrayLike | None = None, draws: int = DRAWS) -> NDArray[np.float64]:
        """The chance of each action under the policy's own randomness, ties included; changes nothing.

        Exact where there is a formula: policies that decide without chance, ``EpsilonGreedy``, ``EnsembleSampling``,
        ``Stochastic``. For ``LinTS``, ``LinPHE`` and re-randomized ``ACB`` the frequency in ``draws`` draws, with a
        standard deviation of at most ``1 / (2 sqrt(draws))``; the same state gives the same answer.
        Shapes: X and mask as for ``predict``; (n_actions,), or (batch, n_actions).
        """
        x, allowed, is_batch = self._actions(X, mask)
        require_count("draws", draws)
        with self._lock.reading:
            chances = self._chances(
                x[None], self._models_of(allowed), allowed, fork(self._streams, PROBABILITIES, 0), draws
            ).values
        return chances if is_batch else chances[0]

    def slate(self, X: ArrayLike, k: int, mask: ArrayLike | None = None) -> NDArray[np.int64]:
        """The ``k`` best actions, best first, none of them twice: (k,), or (batch, k).

        Each place is a decision among the actions that are left; policies that draw for every decision draw anew for
        every place. Shapes: X and mask as for ``predict``.
        """
        x, allowed, is_batch = self._actions(X, mask)
        if (short := allowed.sum(axis=1) < require_count("k", k)).any():
            where = int(np.argmax(short))
            raise ValueError(f"a slate of k={k} needs as many actions, decision {where} has {allowed[where].sum()}")
        chosen = self._deciding(self._decide_slate, k, x[None], allowed)
        return chosen if is_batch else chosen[0]

    def partial_fit(
        self, x: ArrayLike, reward: ArrayLike, arm: ArrayLike | None = None, sample_weight: ArrayLike | None = None
    ) -> Self:
        """Learns from one sample or a batch, in order, at once or late.

        ``sample_weight`` says how much each sample counts: 2 is two samples with the same features and reward. With
        ``decay`` below 1 it fades by that factor with every later sample of the same model.
        Shapes: x (d,) or (n, d); reward, arm and sample_weight () or (n,).
        """
        dtype = np.dtype(self.dtype)
        features, arms, rewards = inputs.samples(x, reward, arm, self.n_features, self.n_arms, dtype)
        weights = None if sample_weight is None else inputs.sample_weights(sample_weight, np.shape(reward))
        self._learn(self._as_read(features), arms, rewards, weights)
        return self

    def mean(self, X: ArrayLike) -> Floats:
        """The estimated rewards ``<x, theta>``. Shapes: (n, d) -> (n,), (batch, n, d) -> (batch, n)."""
        return self._look(X)[0]

    def bonus(self, X: ArrayLike) -> Floats:
        """What the policy adds to the means to explore. Shapes: (n, d) -> (n,), (batch, n, d) -> (batch, n)."""
        return self._look(X)[1]

    def scores(self, X: ArrayLike) -> Floats:
        """``mean + bonus``, the very numbers that the next ``predict(X)`` maximizes; changes nothing."""
        mean, bonus = self._look(X)
        return mean + bonus

    def save(self, path: str | Path) -> None:
        """Writes one ``.npz`` file, random state included: ``bandits.load`` goes on exactly where this stopped."""
        with self._lock.reading:
            parameters, arrays = self.parameters, self._shared()
        storage.write(path, Saved(type(self).__name__, parameters, arrays))

    def copy(self) -> Self:
        """A policy that goes on as this one would, apart from it. Nothing is copied until one of the two learns."""
        with self._lock.reading:
            return self._twin()

    def snapshot(self, seed: int | None = None) -> Self:
        """A view that decides as this policy does now and never learns, to serve from while this one goes on learning.

        It costs nothing; the next update of this policy copies the state once. It draws random numbers of its own,
        which depend on the policy's state and on how many snapshots were taken before. Processes that were forked from
        one, or that load one file, agree in both: they give each snapshot another ``seed``, the number of the worker
        for instance, which then takes the place of that count.
        """
        with self._lock.reading:
            view = self._twin()
            given = next(self._lock.forks) if seed is None else require_seed(seed) % 2**63
            view._streams = fork(self._streams, SNAPSHOTS if seed is None else SEEDED, given)
        view._is_snapshot = True
        if not view._ensemble.remembers_decisions:  # then nothing of it ever changes
            view._lock = unlocked()
        return view

    def __copy__(self) -> Self:
        return self.copy()

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self.copy()

    @property
    def n_samples(self) -> int:
        """How many samples the policy has learned from."""
        return int(self._samples[0])

    def __repr__(self) -> str:
        declared = inspect.signature(type(self)).parameters
        given = {name: value for name, value in self.parameters.items() if value != declared[name].default}
        arguments = ", ".join(f"{name}={value!r}" for name, value in given.items())
        return f"{type(self).__name__}({arguments})  # {self._amount()}"

    def _amount(self) -> str:
        """How much it has learned, in words."""
        learners = "" if len(self._samples) == 1 else f" in each of {len(self._samples):,} learners"
        return f"{self.n_samples:,} samples{learners}"

    # What there is to look at and to set ---------------------------------------------------------------------------

    @property
    def coefficients(self) -> Floats:
        """The estimate theta, (d,), or (n_arms, d) with arms. A copy, not writable."""
        with self._lock.reading:
            theta = self._ensemble.regression.theta()[0]
        return read_only(theta[0] if self.n_arms is None else theta)

    @property
    def condition(self) -> float | Floats:
        """The condition number of Sigma, with arms (n_arms,) of them: beyond 1e12 the estimate has few digits left."""
        with self._lock.reading:
            numbers = self._ensemble.regression.condition()[0]
        return float(numbers[0]) if self.n_arms is None else read_only(numbers)

    @property
    def last_bonuses(self) -> Floats | None:
        """The bonuses of the latest decision, (n,), or (batch, n); None before the first. Not saved, not writable."""
        bonuses = self._last_bonuses
        if bonuses is None:
            return None
        return read_only(bonuses[0, 0] if bonuses.shape[1] == 1 else bonuses[0])

    def __setattr__(self, name: str, value: Any) -> None:
        if name[0] == "_" or "_ensemble" not in self.__dict__:  # inside, or in the constructor
            object.__setattr__(self, name, value)
        else:
            self._adjust(name, value)

    def _adjust(self, name: str, value: Any) -> None:
        """Sets a parameter of a policy in use, checked as the constructor checks it."""
        declared = inspect.signature(type(self)).parameters
        if name not in declared:
            raise AttributeError(f"{type(self).__name__} has no parameter {name!r}: {suggestion(name, set(declared))}")
        if name not in self.ADJUSTABLE:
            may = ", ".join(sorted(self.ADJUSTABLE)) or "none"
            raise AttributeError(f"{name} is fixed when a policy is made: make a new one (what can be set: {may})")
        self._require_learns()
        checked = getattr(self._made_anew(n_features=1, n_arms=None, **{name: value}), name)
        with self._lock.writing:
            self._detach()
            object.__setattr__(self, name, checked)
            self._adjusted()

    def _adjusted(self) -> None:
        """Called after a parameter was set, for those that the ensemble keeps too."""

    # Arms that come and go -----------------------------------------------------------------------------------------

    @property
    def arms(self) -> NDArray[np.int64]:
        """The ids of the arms that may be played: all that were ever added but for those removed."""
        return np.flatnonzero(~self._retired)

    @property
    def counts(self) -> NDArray[np.int64]:
        """How many samples every arm has learned from, by id, (n_arms,); not writable. (1,) without arms."""
        return read_only((self._samples[:1] if self.n_arms is None else self._counts[0]).copy())

    def add_arm(self, like: int | None = None) -> int:
        """Adds an arm and returns its id, the next number; ids never change and are never given twice.

        The new arm knows nothing, or all that the arm ``like`` knows, its noise and its uncertainty included.
        """
        self._require_changes_arms()
        with self._lock.writing:
            arm = cast(int, self.n_arms)
            self._require_arm("like", like)
            self.require_fits(len(self._streams), arm + 1)
            regression = self._ensemble.regression
            if isinstance(regression, AdaptiveSGD):
                grown = copy.deepcopy(self._ensemble)
                cast(AdaptiveSGD, grown.regression).add_arm(like)
            else:
                grown = self._begin(len(self._streams), arm + 1)
            for name, array in () if isinstance(regression, AdaptiveSGD) else grown.arrays.items():
                old = self._ensemble.arrays[name]
                if array.shape == old.shape:  # what the arms share
                    array[...] = old
                    continue
                array[:, :arm] = old
                if like is not None:
                    array[:, arm] = old[:, like]
            if "rounds_left" in grown.arrays:  # what the lazy history has frozen lacks the new arm
                grown.arrays["rounds_left"][...] = 0
            self._counts = np.pad(self._counts, ((0, 0), (0, 1)))
            self._retired = np.pad(self._retired, (0, 1))
            self._adopt(grown)
            self._is_shared = False
            object.__setattr__(self, "n_arms", arm + 1)
        return arm

    def remove_arm(self, arm: int) -> None:
        """Never plays ``arm`` again. Its id stays: late rewards may still be learned, and ``like`` may name it."""
        self._require_changes_arms()
        with self._lock.writing:
            self._require_arm("arm", arm)
            left = set(self.arms.tolist()) - {arm}
            if self._retired[arm] or not left:
                why = "it was removed before" if self._retired[arm] else "it is the last one"
                raise ValueError(f"arm {arm} cannot be removed: {why}")
            retired = self._retired.copy()  # decisions may be reading the other
            retired[arm] = True
            self._retired = retired

    def _require_changes_arms(self) -> None:
        self._require_learns()
        if self.n_arms is None:
            raise ValueError(
                "arms come and go with n_arms; without it every row of X is an action: add or leave out rows"
            )

    def _require_arm(self, name: str, arm: int | None) -> None:
        if arm is not None and (not isinstance(arm, int | np.integer) or not 0 <= arm < len(self._retired)):
            raise ValueError(f"{name} must be the id of an arm, 0 .. {len(self._retired) - 1}, got {arm!r}")

    # What users give, checked --------------------------------------------------------------------------------------

    def _look(self, X: ArrayLike) -> tuple[Floats, Floats]:
        """Mean and bonus of every action, with the draws that the next decision will make."""
        x, allowed, is_batch = self._actions(X, None)
        with self._lock.reading:
            mean, bonus, _ = self._evaluate(x[None], self._models_of(allowed), self._streams.copy())
        return (mean[0], bonus[0]) if is_batch else (mean[0, 0], bonus[0, 0])

    def _actions(self, X: ArrayLike, mask: ArrayLike | None) -> tuple[Floats, NDArray[np.bool_], bool]:
        """The checked features of the actions (b, n, d), which may be played (b|1, n), and whether it is a batch."""
        x, allowed, is_batch = inputs.action_features(X, mask, self.n_features, self.n_arms, np.dtype(self.dtype))
        if self.n_arms is not None and (retired := self._retired[: allowed.shape[1]]).any():
            allowed = allowed & ~retired
            if not allowed.any(axis=1).all():
                raise ValueError(f"mask leaves only arms that were removed: the others are {self.arms.tolist()}")
        return self._as_read(x), allowed, is_batch

    def _as_read(self, x: Floats) -> Floats:
        """Sparse rows with their zeros, if this policy reads dense ones: its d x d matrix is the larger of the two."""
        sparse = as_sparse(x)
        return x if sparse is None or self._ensemble.reads_sparse else sparse.dense()


def read_only(array: NDArray[Scalar]) -> NDArray[Scalar]:
    """A view of ``array`` that cannot be written to."""
    view = array.view()
    view.flags.writeable = False
    return view


def load(path: str | Path) -> Policy:
    """The policy that ``Policy.save`` wrote to ``path``; it goes on exactly where it stopped.

    Raises FileNotFoundError where there is no file, and ValueError for every file that is not such a policy.
    """
    kind, parameters, arrays = storage.read(path)
    if kind not in POLICIES:
        raise ValueError(f"{path} holds an unknown policy {kind!r}; known are {', '.join(POLICIES)}")
    stored = sum(array.nbytes for array in arrays.values())
    try:
        with allowed_memory(_MOST_LOADED + 8 * stored):  # a small forged file must not make a large policy
            policy = POLICIES[kind].from_parameters(parameters)
        policy.restore(arrays)
    except Exception as problem:  # whatever parameters of wrong kinds make a constructor raise
        raise ValueError(f"{path} holds no {kind} that this version can make: {problem}") from problem
    return policy
