"""What one measurement of fidelity consists of."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Row:
    """One measurement. ``scale`` is the median of ACB over exact, a maximum being divided by its expectation first.

    ``reference`` is "own" against the exact bonus with the ridge that the variant's first weights stand for, "common"
    against that with one small ridge for all, which is nearly free of the prior.
    """

    environment: str
    features: str
    dimensions: int
    variant: str
    ensemble_size: int
    aggregate: str
    replicate: int
    states: int
    reference: str
    ridge: float
    correlation: float
    scale: float
    ceiling: float

    @property
    def gap(self) -> float:
        """How far the rank correlation is below the ceiling at the same ensemble size and aggregate."""
        return self.ceiling - self.correlation
