"""Which numbers Figure 2 is made of, at three scales that differ only in numbers."""

from dataclasses import dataclass

GRID = (0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 10.0)
"""The grid of beta and of the learning rate. Paper: Appendix A.1."""


@dataclass(frozen=True)
class Settings:
    """Everything that Figure 2 depends on."""

    horizon: int
    """T. Not stated in the paper."""
    trials: int
    """Trials on which the figure reports, and as many others on which beta and learning rate are selected."""
    ensemble_sizes: tuple[int, ...]
    """M."""
    betas: tuple[float, ...] = GRID
    learning_rates: tuple[float, ...] = GRID
    ridge: float = 1.0
    """lambda of the main figure. Not stated in the paper."""
    other_ridges: tuple[float, ...] = (0.1, 0.01)
    """The lambdas that show how much it matters (exact panel)."""
    shown_rates: tuple[float, ...] = (0.5, 0.1)
    """Learning rates shown beside the selected one (SGD panel): at 1 the averaged descent is the exact fit itself."""
    selection_seed: int = 1
    """The run on which beta and learning rate are selected."""
    report_seed: int = 2
    """The run that is reported."""


SCALES = {
    "smoke": Settings(
        horizon=150,
        trials=6,
        ensemble_sizes=(1, 4, 16),
        betas=(0.1, 0.5),
        learning_rates=(0.5, 1.0, 5.0),
        other_ridges=(0.1,),
        shown_rates=(0.5,),
    ),
    "laptop": Settings(horizon=2_000, trials=100, ensemble_sizes=(1, 2, 4, 8, 16, 32, 64, 128, 256)),
    "paper": Settings(horizon=10_000, trials=100, ensemble_sizes=(1, 2, 4, 8, 16, 32, 64, 128, 256)),
}
"""T is 10,000 at the scale of the paper; laptop takes a fifth of it."""
