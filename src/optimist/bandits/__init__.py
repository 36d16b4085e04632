"""Linear bandits with anti-concentrated confidence bonuses. Imports NumPy and Numba only.

    policy = bandits.ACB(n_features=20, beta=0.3)
    action = policy.predict(X)                    # X (n_actions, 20)
    policy.partial_fit(X[action], reward)

Policies: ``ACB`` (the paper's Algorithms 1 and 3), ``LinUCB``, ``DiagonalLinUCB``, ``LinTS``, ``LinPHE``,
``EnsembleSampling``, ``Greedy``, ``EpsilonGreedy``, and ``Stochastic`` around any of them; all share the methods of
``Policy``, and ``load`` reads what ``Policy.save`` wrote. Problems: ``MultiArmed``, ``FixedActions``,
``ChangingActions``, ``DriftingActions``, ``LabeledData``, each with a ``Noise``. ``simulate`` plays a policy on a
problem; ``evaluation`` judges policies by logs, which ``read_data`` reads from files; ``theory`` has the paper's
formulas.
"""

from optimist.bandits import evaluation, theory
from optimist.bandits.acb import ACB
from optimist.bandits.greedy import EpsilonGreedy, Greedy
from optimist.bandits.linucb import DiagonalLinUCB, LinUCB
from optimist.bandits.policy import POLICIES, Policy, load
from optimist.bandits.problems import (
    ChangingActions,
    DriftingActions,
    FixedActions,
    LabeledData,
    MultiArmed,
    Noise,
    Problem,
)
from optimist.bandits.reading import read_data
from optimist.bandits.sampling import EnsembleSampling, LinPHE, LinTS
from optimist.bandits.simulation import Simulation, simulate
from optimist.bandits.stochastic import Stochastic

__all__ = [
    "ACB",
    "POLICIES",
    "ChangingActions",
    "DiagonalLinUCB",
    "DriftingActions",
    "EnsembleSampling",
    "EpsilonGreedy",
    "FixedActions",
    "Greedy",
    "LabeledData",
    "LinPHE",
    "LinTS",
    "LinUCB",
    "MultiArmed",
    "Noise",
    "Policy",
    "Problem",
    "Simulation",
    "Stochastic",
    "evaluation",
    "load",
    "read_data",
    "simulate",
    "theory",
]
