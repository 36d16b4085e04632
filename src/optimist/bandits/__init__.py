"""Linear bandits with anti-concentrated confidence bonuses. Imports NumPy and Numba only."""

from optimist.bandits import theory
from optimist.bandits.policies import (
    ACB,
    POLICIES,
    DiagonalLinUCB,
    EnsembleSampling,
    EpsilonGreedy,
    Greedy,
    LinPHE,
    LinTS,
    LinUCB,
    Policy,
    load,
)
from optimist.bandits.problems import ChangingActions, FixedActions, LabelledData, MultiArmed, Noise, Problem
from optimist.bandits.simulation import Simulation, simulate

__all__ = [
    "ACB",
    "POLICIES",
    "ChangingActions",
    "DiagonalLinUCB",
    "EnsembleSampling",
    "EpsilonGreedy",
    "FixedActions",
    "Greedy",
    "LabelledData",
    "LinPHE",
    "LinTS",
    "LinUCB",
    "MultiArmed",
    "Noise",
    "Policy",
    "Problem",
    "Simulation",
    "load",
    "simulate",
    "theory",
]
