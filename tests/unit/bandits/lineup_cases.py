"""Every policy in every variant, for the contract test."""

from optimist.bandits import (
    ACB,
    DiagonalLinUCB,
    EnsembleSampling,
    EpsilonGreedy,
    Greedy,
    LinPHE,
    LinTS,
    LinUCB,
)

VARIANTS = {
    "acb": (ACB, {}),
    "acb-rms": (ACB, {"aggregate": "rms"}),
    "acb-rerandomized": (ACB, {"history": "rerandomized"}),
    "acb-lazy": (ACB, {"history": "lazy"}),
    "acb-sgd": (ACB, {"solver": "sgd"}),
    "acb-sgd-explicit": (ACB, {"solver": "sgd", "is_implicit": False, "learning_rate": 0.1}),
    "linucb": (LinUCB, {}),
    "linucb-theory": (LinUCB, {"width": "theory"}),
    "lints": (LinTS, {}),
    "linphe": (LinPHE, {}),
    "ensemble-sampling": (EnsembleSampling, {}),
    "greedy": (Greedy, {}),
    "epsilon-greedy": (EpsilonGreedy, {"epsilon": 0.3}),
    "diagonal-linucb": (DiagonalLinUCB, {}),
}
WIDTH_OF = {
    "acb": "beta",
    "acb-rms": "beta",
    "acb-rerandomized": "beta",
    "acb-lazy": "beta",
    "acb-sgd": "beta",
    "acb-sgd-explicit": "beta",
    "linucb": "width",
    "lints": "scale",
    "linphe": "scale",
    "ensemble-sampling": "scale",
    "diagonal-linucb": "width",
}
RANDOMISED = sorted(set(VARIANTS) - {"linucb", "linucb-theory", "greedy", "diagonal-linucb"})


def make(name, n_features=4, **changes):
    policy, parameters = VARIANTS[name]
    return policy(n_features, **parameters | changes)
