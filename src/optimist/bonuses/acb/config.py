"""`ACBConfig`: every choice of the deep ACB bonus and its default, the configs of its solvers, and three presets."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, ClassVar, Literal

from optimist.bonuses.features.losses import FeatureLoss, Weighting
from optimist.bonuses.features.maps import FeatureName
from optimist.checks import require_choice, require_counts, require_fields, require_positive_fields
from optimist.config import suggestion

Statistics = Literal["running", "rollout", "batch", "none"]
EpsilonForm = Literal["relative", "absolute"]
FloorOver = Literal["all", "layer"]
Prior = Literal["gaussian", "uniform"]
Averaging = Literal["uniform", "polynomial", "exponential"]
ProximalAveraging = Literal["uniform", "polynomial", "exponential", "narrowest"]
LossForm = Literal["sum", "mean"]
Targets = Literal["per-rollout", "fresh"]
Aggregate = Literal["max", "rms"]
Precision = Literal["float32", "bfloat16"]
BonusForm = Literal["square", "width", "bounded"]
TrainOn = Literal["observations", "next_observations"]

_NO_RIDGE = "with no ridge the covariance starts singular"


@dataclass(frozen=True)
class Exact:
    """Exact least squares on the noise, with a d x d matrix: for features of up to 16,384 dimensions."""

    ridge: float = 1.0
    """lambda of the exact bonus: the precision of the prior N(0, 1 / ridge) in standardized coordinates."""

    prior: ClassVar[Prior] = "gaussian"
    epochs: ClassVar[int] = 1  # the solution is exact: a second pass would count every state twice

    def __post_init__(self) -> None:
        require_positive_fields(self, "ridge", why=_NO_RIDGE)


@dataclass(frozen=True)
class Auto:
    """`Exact` up to 4,096 dimensions, which sketches have, `Streaming` up to 262,144, and then `Proximal`.

    The last one, with ``averaging="narrowest"``, has no rows to remember: at a million dimensions they would cost five
    times what the ensemble does.
    """

    ridge: float = 1.0
    """The ridge of whichever solver it is."""

    prior: ClassVar[Prior] = "gaussian"
    epochs: ClassVar[int] = 1

    def __post_init__(self) -> None:
        require_positive_fields(self, "ridge", why=_NO_RIDGE)


@dataclass(frozen=True)
class Streaming:
    """Recursive least squares that remembers ``rank`` directions: a stream in O((M + rank) d) per state, no matrix.

    States that differ in no more than ``rank`` directions are learned exactly, and so, nearly, are collinear features,
    whose other directions are weak. It learns unrounded whatever `ACBConfig.precision` says: rounded products would
    drown the weak directions. Evidence: docs/experiment_log.md, sessions 10 and 11.
    """

    ridge: float = 1.0
    """lambda of the exact bonus: the precision of the prior N(0, 1 / ridge) in standardized coordinates."""
    rank: int = 640
    """The directions in which the covariance is kept: rank x d numbers beside the M x d of the regressors."""

    prior: ClassVar[Prior] = "gaussian"
    epochs: ClassVar[int] = 1  # a second pass would count every state twice

    def __post_init__(self) -> None:
        require_positive_fields(self, "ridge", why=_NO_RIDGE)
        require_counts(self, "rank")


@dataclass(frozen=True)
class Proximal:
    """Averaged proximal steps: a stream in O(M d) per state, without a matrix."""

    ridge: float = 1.0
    """The inverse of the step size, and the precision of a Gaussian prior. 1,000 follows the exact bonus's scale
    best."""
    prior: Prior = "gaussian"
    """The first weights: gaussian, N(0, 1 / ridge), or uniform in +-1 / sqrt d."""
    averaging: ProximalAveraging = "uniform"
    """The average of the iterates: uniform since the start, polynomial (later ones weigh more), exponential, or
    narrowest: several averages side by side, of which the one with the smallest deviation at a state counts."""
    powers: tuple[int, ...] = (0, 3, 15)
    """narrowest: the t-th iterate weighs about t^p in the average of each power p, 0 being uniform. (0, 3) where old
    states are left for good."""
    averaging_rate: float = 0.01
    """How far an exponential average moves towards each iterate."""
    epochs: int = 1
    """Passes over a rollout."""

    def __post_init__(self) -> None:
        require_positive_fields(self, "ridge", why="the step is its inverse")
        _require_powers(self.powers)
        require_choice("averaging", self.averaging, ProximalAveraging)
        _require_stream(self)


@dataclass(frozen=True)
class RMSprop:
    """The paper's solver: RMSprop with averaged iterates, a stream in O(M d) per state, without a matrix.

    It explores best with ``statistics="batch"`` (see `Auto`).
    """

    learning_rate: float = 1e-2
    """The step size: a weight moves by about this much in a step, whatever the scale of the features."""
    smoothing: float = 0.99
    """The weight of the past in the mean of squared gradients."""
    optimizer_epsilon: float = 1e-8
    """Added to the root of the mean of squared gradients."""
    pull: float = 0.0
    """lambda of Algorithm 2, the pull of the weights towards w_0; 0 keeps no copy of w_0."""
    loss_form: LossForm = "sum"
    """sum: the loss of Algorithm 2, per member; mean: squares averaged over members and coordinates too."""
    affine: bool = False
    """Whether batch normalization's gain and shift are trained along; the bonus never reads them."""
    ridge: float = 1.0
    """The precision of a Gaussian prior."""
    prior: Prior = "gaussian"
    """The first weights: gaussian, N(0, 1 / ridge), or uniform in +-1 / sqrt d."""
    averaging: Averaging = "uniform"
    """The average of the iterates: uniform since the start, polynomial (later ones weigh more), or exponential."""
    averaging_rate: float = 0.01
    """How far an exponential average moves towards each iterate."""
    epochs: int = 1
    """Passes over a rollout."""

    def __post_init__(self) -> None:
        require_positive_fields(self, "learning_rate", why="the regressors would never move")
        require_positive_fields(self, "optimizer_epsilon", why="a gradient of 0 would be divided by 0")
        require_positive_fields(self, "ridge", why="it is the precision of the prior")
        require_fields(self, "smoothing", least=0, most=1)
        require_fields(self, "pull", least=0)
        require_choice("loss_form", self.loss_form, LossForm)
        require_choice("averaging", self.averaging, Averaging)
        _require_stream(self)


def _require_stream(solver: Proximal | RMSprop) -> None:
    require_choice("prior", solver.prior, Prior)
    _require_share(solver, "averaging_rate")
    require_counts(solver, "epochs")


def _require_powers(powers: Any) -> None:
    whole = isinstance(powers, tuple) and all(isinstance(p, int) and not isinstance(p, bool) for p in powers)
    if not whole or not powers or min(powers) < 0 or len(set(powers)) < len(powers):
        raise ValueError(f"powers must be a tuple of different whole numbers >= 0, such as (0, 3, 15), got {powers!r}")


SolverConfig = Auto | Exact | Streaming | Proximal | RMSprop
SOLVERS: Mapping[str, type[SolverConfig]] = {
    "auto": Auto,
    "exact": Exact,
    "streaming": Streaming,
    "proximal": Proximal,
    "rmsprop": RMSprop,
}
"""The solvers by the names that `with_settings` reads."""


@dataclass(frozen=True)
class ACBConfig:
    """Every default of ACB; they are the preset DEFAULT. Evidence: `optimist study deepsea` and `... fidelity`."""

    features: FeatureName = "sketch"
    """The feature of a state: sketch, gradient, last-layer or penultimate of the policy network, or observations: the
    vectors themselves that the caller brings, without a network (see `optimist.bonuses.features`)."""
    n_features: int = 0
    """features="observations": the length of the vectors, so that no example is needed; 0: that of the first ones."""
    sketch_size: int = 0
    """Side of the sketch of a layer: 16 gives 16 x 16 numbers per layer; 0 is the largest that 2,500 dimensions in all
    allow. There must be more dimensions than kinds of states to tell apart: on DeepSea-50, with 1,275 states, the 544
    dimensions of size 16 found 1,094 and no more."""
    feature_loss: FeatureLoss = "fisher"
    """The pseudo-loss whose gradient is the feature: argmax, the paper's log-loss at the most likely action, or fisher,
    which has no label to flip (see `FisherLoss`)."""
    weighting: Weighting = "none"
    """What the log-loss is multiplied with: none, or the square root of the probability of the most likely action."""
    statistics: Statistics = "running"
    """Batch normalization with the statistics of everything seen (running), of the N states of one step (batch, as the
    released code), of a rollout, or none."""
    epsilon: float = 1e-3
    """Added to the variance of a coordinate: one that has hardly varied is multiplied by at most 30."""
    epsilon_form: EpsilonForm = "relative"
    """absolute: epsilon itself; relative: epsilon times the mean variance of all coordinates, which always whitens."""
    floor: FloorOver = "layer"
    """The coordinates whose mean variance a relative epsilon is a share of: all, or those of the same layer, so that no
    layer drowns the others."""
    ensemble_size: int = 128
    """M, the number of regressors."""
    solver: SolverConfig = Auto()
    """How the regressors are fitted to noise: exact, streaming, proximal or rmsprop; auto chooses by the number of
    dimensions."""
    precision: Precision = "float32"
    """What regressors and features are rounded to where they are multiplied: float32, the network's own dtype, or
    bfloat16, in a third of the time on processors that have it. What is learned is kept unrounded, and the exact and
    the streaming solver learn unrounded too: with them only the bonus is read in bfloat16. A rounded bonus tells states
    apart down to about a five hundredth of what it would be for an unseen state."""
    targets: Targets = "per-rollout"
    """Noise drawn once per rollout and tied to its state through all epochs, or fresh in every minibatch."""
    minibatches: int = 0
    """Steps per epoch; 0: as many as the selected states fill."""
    minibatch_size: int = 512
    """States per step, at most. With the proximal solver more follow the exact bonus better, and cost O(n d) per state:
    take 128 with features="gradient"."""
    fraction: float = 1.0
    """Share of a rollout's states that an epoch draws from. All of them: on a quarter, as RND and the released code
    take, the bonus follows the exact one less closely, and with cached features the others cost little."""
    aggregate: Aggregate = "rms"
    """The bonus: the maximum of the members' squared predictions, or their mean, which follows the exact bonus more
    closely (0.97 against 0.92 on Breakout at M = 128)."""
    form: BonusForm = "bounded"
    """square: q of Algorithm 2, line 6; width: its root, LinUCB's own width of a confidence interval; bounded: the
    root of q / (1 + q), the width once the state itself is counted. A state never seen has about 1 and one seen n times
    about 1 / sqrt(n + 1), whatever the dimensions; the width of a state never seen is sqrt(d), a hundred times that."""
    train_on: TrainOn = "next_observations"
    """The states that the regressors learn: next_observations, which are also those rewarded, or observations."""
    auxiliary_rate: float = 1e-6
    """alpha, how far the auxiliary network moves towards the policy after a rollout."""
    auxiliary_biases: bool = True
    """Whether the auxiliary network's vectors (biases, gains) move too, or matrices and filters alone."""

    def __post_init__(self) -> None:
        for name, choices in _CHOICES.items():
            require_choice(name, getattr(self, name), choices)
        _require_solver(self.solver)
        require_counts(self, "ensemble_size", "minibatch_size")
        require_counts(self, "minibatches", "sketch_size", "n_features", least=0)
        if self.n_features and self.features != "observations":
            raise ValueError(
                f"n_features is the length of vectors with features='observations', not of {self.features!r}: "
                "use sketch_size, or leave it out"
            )
        require_positive_fields(self, "epsilon", why="a coordinate that never varied would be divided by 0")
        require_fields(self, "auxiliary_rate", least=0, most=1)
        _require_share(self, "fraction")
        if isinstance(self.solver, RMSprop) and self.solver.affine and self.statistics == "none":
            raise ValueError("affine is a part of batch normalization: set statistics='batch' or 'running'")
        if self.statistics in ("batch", "rollout") and self.minibatch_size < 2:
            raise ValueError(
                f"statistics={self.statistics!r} needs minibatch_size of at least 2: one state has no variance"
            )
        require_floor(self.floor, self.epsilon_form)
        if self.feature_loss == "fisher" and self.weighting != "none":
            raise ValueError(f"weighting={self.weighting!r} belongs to feature_loss='argmax': use weighting='none'")
        if self.statistics == "rollout" and self.features == "gradient":
            raise ValueError("statistics='rollout' writes the features of a rollout out: use features='sketch'")


_CHOICES = {
    "features": FeatureName,
    "feature_loss": FeatureLoss,
    "weighting": Weighting,
    "statistics": Statistics,
    "epsilon_form": EpsilonForm,
    "floor": FloorOver,
    "precision": Precision,
    "targets": Targets,
    "aggregate": Aggregate,
    "form": BonusForm,
    "train_on": TrainOn,
}


def require_floor(floor: FloorOver, epsilon_form: EpsilonForm) -> None:
    """An error if an absolute epsilon, which knows no layers, is asked for one floor per layer."""
    if floor == "layer" and epsilon_form == "absolute":
        raise ValueError("floor='layer' is a share of each layer's mean variance: use epsilon_form='relative'")


def _require_solver(solver: Any) -> SolverConfig:
    if not isinstance(solver, SolverConfig):
        raise ValueError(
            f"solver must be one of Auto(), Exact(), Streaming(), Proximal() and RMSprop(), got {solver!r}: a name "
            "goes to ACB(network, solver=...) or bonuses.make, which know how to read it"
        )
    return solver


def _require_share(config: object, name: str) -> None:
    value = getattr(config, name)
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value <= 1:
        raise ValueError(f"{name} must lie in (0, 1], got {value!r}: it is a share")


FORMER = {"step_size": "learning_rate", "passes": "epochs", "side": "sketch_size", "recursive": "exact"}
"""What names of version 0.1 are called now."""


def with_settings(config: ACBConfig, settings: Mapping[str, Any]) -> ACBConfig:
    """``config`` with fields replaced: its own, and those of its solver, written ``ridge`` or ``solver.ridge``.

    ``solver`` is one of the configs above, or the name of one, which then has its defaults; the name of the solver that
    ``config`` already has leaves it as it is.
    """
    own = {key: value for key, value in settings.items() if key in _names(ACBConfig) and key != "solver"}
    solver = _chosen_solver(settings.get("solver", config.solver), config.solver)
    changes: dict[str, Any] = {}
    for key in (key for key in settings if key not in own and key != "solver"):
        name = key.removeprefix("solver.")
        if name not in _names(type(solver)):
            raise ValueError(_unknown(key, solver))
        if name in changes:
            raise ValueError(f"{name} and solver.{name} are one setting: give it once")
        changes[name] = settings[key]
    return replace(config, solver=replace(solver, **changes), **own)


def _chosen_solver(given: Any, before: SolverConfig) -> SolverConfig:
    if not isinstance(given, str):
        return _require_solver(given)
    if given not in SOLVERS:
        raise ValueError(f"there is no solver {given!r}: {_suggestion(given, SOLVERS)}")
    return before if type(before) is SOLVERS[given] else SOLVERS[given]()


def _unknown(key: str, solver: SolverConfig) -> str:
    """What is wrong with a setting that neither ACB nor its solver has."""
    here, name = _name_of(solver), key.removeprefix("solver.")
    owners = [other for other, kind in SOLVERS.items() if name in _names(kind)]
    if owners:
        return (
            f"{name} is a setting of solver={' or '.join(map(repr, owners))}, not of solver={here!r}, which has "
            f"{', '.join(_names(type(solver)))}: choose that solver, or leave {name} out"
        )
    known = {*_names(ACBConfig)} if name == key else set()
    return f"ACBConfig has no setting {key!r}: " + _suggestion(name, known.union(*map(_names, SOLVERS.values())))


def _suggestion(name: str, names: Collection[str]) -> str:
    return f"it is called {FORMER[name]!r} since 0.2" if name in FORMER else suggestion(name, names)


def _name_of(solver: SolverConfig) -> str:
    return next(name for name, kind in SOLVERS.items() if type(solver) is kind)


def _names(kind: type[ACBConfig | SolverConfig]) -> list[str]:
    return [field.name for field in fields(kind)]


PAPER = ACBConfig(
    features="gradient",  # equation 1 in section 4: the gradient in theta
    n_features=0,  # the number of parameters
    feature_loss="argmax",  # equation 1: the label is the most likely action
    weighting="none",  # equation 1: the plain log-loss
    statistics="running",  # section 5: "batch normalization is applied"; which statistics is not said
    epsilon=1e-5,  # not said; torch's default
    epsilon_form="absolute",  # not said; batch normalization's own form
    floor="all",  # an absolute epsilon is one for all
    ensemble_size=128,  # section 5: "an ensemble of 128 auxiliary weights"
    solver=RMSprop(  # section 5: "the RMSprop variant of SGD"
        learning_rate=1e-4,  # appendix A.2: "We use a learning rate of 0.0001"
        smoothing=0.99,  # not said; torch's default
        optimizer_epsilon=1e-8,  # not said; torch's default
        pull=1e3,  # section 5: "regularize aggressively towards their initialization with lambda = 10^3"
        loss_form="sum",  # Algorithm 2, line 10: lambda |w - w_0|^2 for each member
        affine=False,  # not said
        prior="uniform",  # Algorithm 2, line 1: "initialize"; how is not said, torch's default for a linear layer
        averaging="uniform",  # section 5: "a Polyak-averaged version of the ensemble"
        epochs=1,  # Algorithm 2: one update every tau steps, tau = 128^2, which is a rollout
    ),
    precision="float32",  # not said; torch's default
    targets="fresh",  # Algorithm 2, line 10: drawn at the update
    minibatches=1,  # Algorithm 2: one update every tau steps
    minibatch_size=128,  # Algorithm 2 has one state g_t; batch normalization needs a batch: 128, as the released code
    fraction=1.0,  # not said
    aggregate="max",  # Algorithm 2, line 6
    form="square",  # Algorithm 2, line 6
    train_on="next_observations",  # Algorithm 2: trained on the states that are rewarded
    auxiliary_rate=1e-6,  # section 5: alpha = 10^-6
    auxiliary_biases=True,  # Algorithm 2, line 12: all of theta
)
"""The paper's text. Where it says nothing the field says so."""

RELEASED = ACBConfig(
    features="gradient",  # trunk and actor, weights and biases, no critic
    n_features=0,  # the number of parameters
    feature_loss="argmax",  # the label is the most likely action
    weighting="sqrt-probability",  # the log-loss times sqrt(p_argmax), p detached
    statistics="batch",  # BatchNorm1d always in training mode: relative to the states of that step
    epsilon=1e-5,  # BatchNorm1d's default
    epsilon_form="absolute",  # BatchNorm1d's form, which hardly whitens: "the eps trap"
    floor="all",  # an absolute epsilon is one for all
    ensemble_size=128,  # numAux
    solver=RMSprop(  # optFun
        learning_rate=1e-4,  # lr
        smoothing=0.99,  # torch's default
        optimizer_epsilon=1e-8,  # torch's default
        pull=0.0,  # written as 1e3 times a mean, but w_0 is an alias of w: always exactly 0
        loss_form="mean",  # mse_loss: the mean over states and members
        affine=True,  # BatchNorm1d's default; trained with the ensemble, never copied to the average that is read
        prior="uniform",  # torch.nn.Linear without bias: U(-1/sqrt d, 1/sqrt d)
        averaging="uniform",  # iterateAve = 1: the mean of all iterates since the start, w_0 not among them
        epochs=4,  # the four epochs of PPO
    ),
    precision="float32",  # torch's default
    targets="per-rollout",  # drawn once per rollout, tied to the state for the four epochs
    minibatches=4,  # the four minibatches of an epoch: 16 updates per rollout
    minibatch_size=128,  # the first 128 of a permutation of the masked states
    fraction=0.25,  # the mask of a minibatch of 4,096
    aggregate="max",  # the maximum of squares
    form="square",  # as above
    train_on="observations",  # trained on s_t, while the bonus is that of s_{t+1}
    auxiliary_rate=1e-6,  # tau, once per rollout
    auxiliary_biases=False,  # weights only: the biases stay the initial ones
)
"""The behavior of github JordanAsh/acb (2022), each field as FACTS.md section 1 records it."""

DEFAULT = ACBConfig()
"""What our own evidence shows to work best: the defaults of `ACBConfig`, each with its reason there."""

PRESETS = {"paper": PAPER, "released": RELEASED, "default": DEFAULT}
