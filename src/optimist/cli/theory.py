"""``optimist theory``: what the paper's propositions say for your numbers."""

from collections.abc import Callable
from dataclasses import dataclass, fields

from rich.console import Console

from optimist.bandits import theory
from optimist.cli.console import print_table

SYMBOLS = ("T", "d", "A", "delta", "sigma", "W", "B")


@dataclass(frozen=True)
class TheoryCommand:
    """The paper's parameters and bounds for your T, d, A, delta, sigma, W, B."""

    horizon: int = 10_000
    """T, the number of rounds."""
    n_features: int = 20
    """d."""
    n_actions: int = 100
    """A."""
    delta: float = 0.05
    """The probability that a lemma fails; the bounds spend it twice, so that they hold with 1 - 2 delta."""
    sigma: float = 1.0
    """The sub-Gaussian scale of the noise."""
    theta_norm: float = 1.0
    """W, a bound on the norm of the true parameters."""
    feature_norm: float = 1.0
    """B, a bound on the norm of the features."""


def run_theory(command: TheoryCommand, screen: Console) -> None:
    """``optimist theory``."""
    symbols = {f.name: getattr(command, f.name) for f in fields(command)}
    columns: dict[str, theory.ACBParameters] = {}
    for history, features in (
        ("rerandomized", command.n_features),
        ("incremental", command.n_actions),  # Proposition 2 is for multi-armed bandits: d = A
        ("lazy", command.n_features),
    ):
        columns[history] = theory.acb_parameters(**symbols | {"n_features": features, "history": history})
    title = ", ".join(f"{name} = {value:g}" for name, value in zip(SYMBOLS, symbols.values(), strict=True))
    header = ("", "re-randomized\nProposition 1", "incremental (d = A)\nProposition 2", "lazy\nTheorem 2")
    rows: dict[str, Callable[[theory.ACBParameters], float | int | None]] = {
        "ensemble size M, as stated": lambda p: p.ensemble_size,
        "M that the proof needs": lambda p: p.sufficient_ensemble_size,
        "beta": lambda p: p.beta,
        "lambda": lambda p: p.ridge,
        "gamma": lambda p: p.gamma,
        "max |z| of M at least (Lemma 1)": lambda p: theory.gaussian_maximum_lower(
            p.sufficient_ensemble_size, command.delta
        ),
        "max |z| of M at most (Lemma 1)": lambda p: theory.gaussian_maximum_upper(
            p.sufficient_ensemble_size, command.delta
        ),
        "regret at most": lambda p: p.regret_bound,
        "with probability 1 - 2 delta": lambda p: p.confidence,
        "re-randomizations at most": lambda p: p.max_rerandomizations,
    }
    cells = [(name, *(_number(value(parameters)) for parameters in columns.values())) for name, value in rows.items()]
    print_table(screen, title, header, cells)
    for caveat in dict.fromkeys(said for parameters in columns.values() for said in parameters.caveats):
        concerned = [history for history, parameters in columns.items() if caveat in parameters.caveats]
        screen.print(f"Note ({', '.join(concerned)}): {caveat}.", highlight=False, soft_wrap=True)


def _number(value: float | int | None) -> str:
    if value is None:
        return ""
    return f"{value:,}" if isinstance(value, int) else f"{value:,.4g}"
