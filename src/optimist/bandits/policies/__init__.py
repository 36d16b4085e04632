"""Who plays: every policy has the interface of ``policy.Policy``."""

from pathlib import Path

from optimist.bandits.policies import storage
from optimist.bandits.policies.acb import ACB
from optimist.bandits.policies.ensemble_sampling import EnsembleSampling
from optimist.bandits.policies.greedy import EpsilonGreedy, Greedy
from optimist.bandits.policies.linphe import LinPHE
from optimist.bandits.policies.linucb import DiagonalLinUCB, LinUCB
from optimist.bandits.policies.policy import Policy
from optimist.bandits.policies.thompson import LinTS

POLICIES: dict[str, type[Policy]] = {
    policy.__name__: policy
    for policy in (ACB, LinUCB, LinTS, LinPHE, EnsembleSampling, Greedy, EpsilonGreedy, DiagonalLinUCB)
}


def load(path: str | Path) -> Policy:
    """The policy that ``Policy.save`` wrote to ``path``; it goes on exactly where it stopped."""
    kind, parameters, arrays = storage.read(Path(path))
    if kind not in POLICIES:
        raise ValueError(f"{path} holds an unknown policy {kind!r}; known are {', '.join(POLICIES)}")
    try:
        policy = POLICIES[kind](**parameters)
    except TypeError as problem:
        raise ValueError(f"{path} holds parameters that {kind} does not take: {problem}") from problem
    policy.restore(arrays)
    return policy


__all__ = [
    "ACB",
    "POLICIES",
    "DiagonalLinUCB",
    "EnsembleSampling",
    "EpsilonGreedy",
    "Greedy",
    "LinPHE",
    "LinTS",
    "LinUCB",
    "Policy",
    "load",
]
