"""`ACBConfig`: every choice of the deep ACB bonus and its default. The presets are named instances of it."""

from dataclasses import dataclass
from typing import Literal

from optimist.bonuses.ensemble import Aggregate, Prior
from optimist.bonuses.features.loss import Weighting
from optimist.bonuses.rmsprop import LossForm
from optimist.bonuses.solvers import Averaging
from optimist.configuration import require_at_least, require_choice, require_positive

SolverName = Literal["auto", "recursive", "proximal", "rmsprop"]
Statistics = Literal["running", "rollout", "batch", "none"]
EpsilonForm = Literal["relative", "absolute"]
Targets = Literal["per-rollout", "fresh"]
BonusForm = Literal["square", "width"]
TrainOn = Literal["observations", "next_observations"]


@dataclass(frozen=True)
class ACBConfig:
    """Every default of ACB; they are the preset DEFAULT. Evidence: `optimist study deepsea` and `... fidelity`."""

    features: str = "sketch"
    """The feature of a state: sketch, gradient, last-layer or penultimate (see `optimist.bonuses.features`)."""
    sketch_size: int = 0
    """Side of the sketch of a layer, 16: 16 x 16 numbers a layer; 0 is the largest that 2,500 dimensions in all allow.
    There must be more dimensions than kinds of states to tell apart: on DeepSea-50, with 1,275 states, the 544
    dimensions of side 16 found 1,094 and no more."""
    weighting: Weighting = "none"
    """What the log-loss is multiplied with: none, or the square root of the probability of the most likely action."""
    statistics: Statistics = "running"
    """Batch normalisation with the statistics of everything seen (running), of the N states of one step (batch, as the
    released code), of a rollout, or none. Streaming solvers explore only with batch (see ``solver``)."""
    epsilon: float = 1e-3
    """Added to the variance of a coordinate: one that has hardly varied is multiplied by at most 30."""
    epsilon_form: EpsilonForm = "relative"
    """absolute: epsilon itself; relative: epsilon times the mean variance of all coordinates, which always whitens."""
    affine: bool = False
    """Whether batch normalisation's gain and shift are trained along (rmsprop only; the bonus never reads them)."""
    ensemble_size: int = 128
    """M, the number of regressors."""
    prior: Prior = "gaussian"
    """The first weights: gaussian, N(0, 1 / ridge), or uniform in +-1 / sqrt d."""
    ridge: float = 1.0
    """Precision of the prior in standardised coordinates, lambda of the exact bonus; the step of the proximal solver
    is its inverse, and there 1,000 follows the exact bonus's scale best."""
    solver: SolverName = "auto"
    """recursive is exact least squares on the noise, with a d x d matrix; proximal and rmsprop stream in O(M d) without
    one; auto is recursive up to 4,096 dimensions, which sketches have, and proximal beyond. On DeepSea-30, 160,000
    steps, recursive found all 465 states, as exact counts do, rmsprop 412 to 452 with batch and 398 with running
    statistics, proximal 394: in the average of a stream the initial weights outlive the first visits of a state that
    is found late, and hold the policy there."""
    step_size: float = 1e-2
    """RMSprop's step size: a weight moves by about this much a step, whatever the scale of the features."""
    smoothing: float = 0.99
    """RMSprop's smoothing of squared gradients."""
    optimizer_epsilon: float = 1e-8
    """Added to the root of RMSprop's mean square."""
    pull: float = 0.0
    """lambda, the pull of RMSprop's weights towards w_0; 0 keeps no copy of w_0."""
    loss_form: LossForm = "sum"
    """sum: the loss of Algorithm 2, per member; mean: squares averaged over members and coordinates too."""
    averaging: Averaging = "uniform"
    """The iterates' average: uniform since the start, polynomial (later ones weigh more), or exponential."""
    averaging_rate: float = 0.01
    """How far an exponential average moves towards each iterate."""
    targets: Targets = "per-rollout"
    """Noise drawn once a rollout and tied to its state through all passes, or fresh in every minibatch."""
    passes: int = 1
    """Passes over a rollout."""
    minibatches: int = 0
    """Steps a pass; 0: as many as the selected states fill."""
    minibatch_size: int = 512
    """States a step, at most. With the proximal solver more follow the exact bonus better, and cost O(n d) a state:
    take 128 with features="gradient"."""
    fraction: float = 1.0
    """Share of a rollout's states that a pass draws from. All of them: on a quarter, as RND and the released code take,
    the bonus follows the exact one less closely, and with held features the others cost little."""
    aggregate: Aggregate = "rms"
    """The bonus: the maximum of the members' squared predictions, or their mean, which follows the exact bonus more
    closely (0.97 against 0.92 on Breakout at M = 128)."""
    form: BonusForm = "width"
    """square: Algorithm 2, line 6; width: its root, which is LinUCB's own width of a confidence interval. With
    the exact solver on DeepSea-30 the square found 424 to 431 states in 120,000 steps, the width 440 to 458."""
    train_on: TrainOn = "next_observations"
    """The states that the regressors learn: the successors, which are also those rewarded, or the states before."""
    auxiliary_rate: float = 1e-6
    """alpha, how far the auxiliary network moves towards the policy after a rollout."""
    auxiliary_biases: bool = True
    """Whether the auxiliary network's vectors (biases, gains) move too, or matrices and filters alone."""

    def __post_init__(self) -> None:
        for name, choices in _CHOICES.items():
            require_choice(name, getattr(self, name), choices)
        for name, why in _WHY_POSITIVE.items():
            require_positive(self, name, why=why)
        require_at_least(1, self, "ensemble_size", "passes", "minibatch_size")
        require_at_least(0, self, "pull", "minibatches", "sketch_size")
        for name in ("fraction", "averaging_rate"):
            if not 0 < getattr(self, name) <= 1:
                raise ValueError(f"{name} must lie in (0, 1], got {getattr(self, name)}: it is a share")
        for name in ("smoothing", "auxiliary_rate"):
            if not 0 <= getattr(self, name) <= 1:
                raise ValueError(f"{name} must lie in [0, 1], got {getattr(self, name)}")
        self._require_consistent()

    def _require_consistent(self) -> None:
        if self.solver in ("auto", "recursive") and self.passes > 1:
            raise ValueError(
                f"solver={self.solver!r} counts a state once, got passes={self.passes}: use passes=1, or "
                "solver='proximal' or 'rmsprop'"
            )
        if self.solver in ("auto", "recursive") and self.prior != "gaussian":
            raise ValueError(
                f"solver={self.solver!r} needs prior='gaussian': its ridge is the precision of that draw; another "
                "prior goes with solver='proximal' or 'rmsprop'"
            )
        if self.solver != "rmsprop" and (self.pull or self.affine):
            raise ValueError(f"pull and affine belong to solver='rmsprop', got solver={self.solver!r}: leave them out")
        if self.affine and self.statistics == "none":
            raise ValueError("affine is a part of batch normalisation: set statistics='batch' or 'running'")
        if self.statistics in ("batch", "rollout") and self.minibatch_size < 2:
            raise ValueError(
                f"statistics={self.statistics!r} needs minibatch_size of at least 2: one state has no variance"
            )
        if self.statistics == "rollout" and self.features == "gradient":
            raise ValueError("statistics='rollout' writes the features of a rollout out: use features='sketch'")


_CHOICES = {
    "weighting": Weighting,
    "statistics": Statistics,
    "epsilon_form": EpsilonForm,
    "prior": Prior,
    "solver": SolverName,
    "loss_form": LossForm,
    "averaging": Averaging,
    "targets": Targets,
    "aggregate": Aggregate,
    "form": BonusForm,
    "train_on": TrainOn,
}
_WHY_POSITIVE = {
    "ridge": "with no ridge the covariance starts singular",
    "epsilon": "a coordinate that never varied would be divided by 0",
    "step_size": "the regressors would never move",
    "optimizer_epsilon": "a gradient of 0 would be divided by 0",
}
