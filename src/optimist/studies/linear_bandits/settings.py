"""Which numbers the study of linear bandits is made of, at three scales that differ only in numbers."""

from dataclasses import dataclass

PUBLISHED = {
    ("linucb-theory", 5): 468, ("linucb-theory", 10): 1049, ("linucb-theory", 20): 1571,
    ("linphe", 5): 517, ("linphe", 10): 827, ("linphe", 20): 1281,
    ("lints", 5): 78, ("lints", 10): 104, ("lints", 20): 182,
    ("linreboot", 5): 98, ("linreboot", 10): 107, ("linreboot", 20): 152,
}  # fmt: skip
"""Mean regret at T = 10,000 with K = 100 actions over 100 runs: the tables of LinReBoot (Wang et al., 2022)."""


@dataclass(frozen=True)
class Settings:
    """Everything that the study depends on."""

    horizon: int
    """T on the problems with published tables, and in the open question."""
    trials: int
    selection_trials: int
    """Trials, on other problem instances too, on which each policy's width is selected."""
    dimensions: tuple[int, ...]
    """d of the published tables."""
    n_actions: int
    changing_dimensions: tuple[int, ...]
    """d of the problems whose actions change every round."""
    changing_actions: int
    open_dimensions: tuple[int, ...]
    """d of the open question."""
    labelled: tuple[str, ...]
    """Data sets: digits (d = 640), mnist (d = 7,840)."""
    labelled_horizon: int
    labelled_trials: int
    labelled_widths: tuple[float, ...] = (0.1, 0.3, 1.0)
    widths: tuple[float, ...] = (0.03, 0.1, 0.3, 1.0, 3.0)
    seed: int = 2


SCALES = {
    "smoke": Settings(
        horizon=60,
        trials=4,
        selection_trials=2,
        dimensions=(5,),
        n_actions=10,
        changing_dimensions=(3,),
        changing_actions=5,
        open_dimensions=(2, 4),
        labelled=("digits",),
        labelled_horizon=30,
        labelled_trials=2,
        widths=(0.3, 1.0),
    ),
    "laptop": Settings(
        horizon=2_000,
        trials=50,
        selection_trials=20,
        dimensions=(5, 10, 20),
        n_actions=100,
        changing_dimensions=(10,),
        changing_actions=20,
        open_dimensions=(2, 5, 10, 20),
        labelled=("digits", "mnist"),
        labelled_horizon=1_000,
        labelled_trials=4,
    ),
    "paper": Settings(
        horizon=10_000,
        trials=100,
        selection_trials=10,
        dimensions=(5, 10, 20),
        n_actions=100,
        changing_dimensions=(10,),
        changing_actions=20,
        open_dimensions=(5, 10, 20),
        labelled=("digits", "mnist"),
        labelled_horizon=2_000,
        labelled_trials=6,
    ),
}
"""T, K and the number of runs are those of the published tables at the scale of the paper."""
