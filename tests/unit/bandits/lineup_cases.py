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
    Stochastic,
)


def stochastic(n_features, *, epsilon=0.3, **parameters):
    return Stochastic(ACB(n_features, **parameters), epsilon=epsilon)


VARIANTS = {
    "acb": (ACB, {}),
    "acb-rms": (ACB, {"aggregate": "rms"}),
    "acb-rerandomized": (ACB, {"history": "rerandomized"}),
    "acb-lazy": (ACB, {"history": "lazy"}),
    "acb-sgd": (ACB, {"solver": "sgd"}),
    "acb-sgd-uniform": (ACB, {"solver": "sgd", "averaging": "uniform"}),
    "acb-sgd-explicit": (ACB, {"solver": "sgd", "averaging": "uniform", "is_implicit": False, "learning_rate": 0.1}),
    "linucb": (LinUCB, {}),
    "linucb-theory": (LinUCB, {"beta": "theory"}),
    "lints": (LinTS, {}),
    "linphe": (LinPHE, {}),
    "ensemble-sampling": (EnsembleSampling, {}),
    "greedy": (Greedy, {}),
    "epsilon-greedy": (EpsilonGreedy, {"epsilon": 0.3}),
    "diagonal-linucb": (DiagonalLinUCB, {}),
    "stochastic": (stochastic, {}),
    "acb-decay": (ACB, {"decay": 0.9}),
    "acb-rerandomized-decay": (ACB, {"history": "rerandomized", "decay": 0.99}),
    "linucb-decay": (LinUCB, {"decay": 0.99}),
    "linphe-decay": (LinPHE, {"decay": 0.99}),
    "greedy-decay": (Greedy, {"decay": 0.99}),
    "acb-sgd-decay": (ACB, {"solver": "sgd", "decay": 0.99}),
    "greedy-sgd": (Greedy, {"solver": "sgd"}),
    "diagonal-linucb-decay": (DiagonalLinUCB, {"decay": 0.99}),
}
WITHOUT_BETA = {"linucb-theory", "greedy", "greedy-decay", "greedy-sgd", "epsilon-greedy", "stochastic"}
HAVE_BETA = sorted(set(VARIANTS) - WITHOUT_BETA)
WITHOUT_CHANCE = {name for name in VARIANTS if name.startswith(("linucb", "greedy", "diagonal-linucb"))}
RANDOMIZED = sorted(set(VARIANTS) - WITHOUT_CHANCE)
WITHOUT_MATRIX = {name for name in VARIANTS if "sgd" in name or "diagonal" in name}


def make(name, n_features=4, **changes):
    policy, parameters = VARIANTS[name]
    return policy(n_features, **parameters | changes)
