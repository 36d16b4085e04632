"""Where things stand in the paper: its outline, and the words by which a place is known.

Facts of the paper (arXiv 2110.11202), so that a citation can be checked on any machine. Where the paper itself lies
beside the project, `test_paper_map.py` checks this table against it.
"""

SECTIONS = {
    "section 1": "Introduction",
    "section 2": "Preliminaries",
    "section 3": "Anti-concentrated confidence bounds for linear bandits",
    "section 4": "Extending ACB to deep reinforcement learning",
    "section 5": "Experiments",
    "section 6": "Conclusion",
    "appendix A": "Experimental details",
    "appendix A.1": "Bandit experiments",
    "appendix A.2": "Atari experiments",
    "appendix B": "Proofs of regret bounds",
    "appendix C": "Lazily re-randomized ACB",
}
"""Places that have a title."""

ALGORITHM_LINES = {1: 10, 2: 14, 3: 17}
"""The number of the last line of each algorithm, its ``end for`` lines included."""
NUMBERED = {"Proposition": 2, "Theorem": 2, "Lemma": 6, "Figure": 7, "equation": 1}
"""How many there are of each."""

QUOTES = {
    "section 2": ("Multi-armed bandits", "Fixed actions"),
    "section 3": (
        "Polyak-averaged SGD updates to each regressor",
        "We conjecture that the incrementally-updated version guarantees can be extended to linear bandits beyond MAB",
        "Synthetic bandit experiments",
        "Up to a point, increasing ensemble size improves cumulative regret",
    ),
    "section 4": (
        "hallucinated gradient",
        "penultimate layer representation",
        "tail-averaged set of policy weights",
        "the number of unique states encountered by the agent (using a hash)",
        "a sort of rank-one approximation of the pointwise Fisher information",
    ),
    "section 5": (
        "Batch normalization is applied to gradient features before passing them to the auxiliary weight ensemble",
        "a Polyak-averaged version of the ensemble rather than the ensemble itself",
        "We use the RMSprop variant of SGD in optimizing auxiliary weights",
        "We use an ensemble of 128 auxiliary weights and regularize aggressively towards their initialization with "
        "lambda = 10^3",
        "normalize intrinsic bonuses by a running estimate of their standard deviation",
        "128 parallel agents and rollouts of 128 timesteps",
        "the ACB bonus typically drops by a significant margin",
        "These intrinsic bonuses encourage the agent to avoid the start state",
        "two value heads, one for intrinsic and another for extrinsic rewards",
        "visiting as many or more states than baselines in most of the environments considered",
        "alpha is fixed at 10^-6",
    ),
    "section 6": ("ACB is still not able to perform as well as RND on Montezuma's Revenge",),
    "appendix A.1": ("powers of 2 from 1 to 256", "Standard deviations are shown over 100 independent trials"),
    "appendix A.2": (
        "three convolutional layers followed by two linear layers, and leaky ReLU activations",
        "4 update epochs, an entropy coefficient of 0.001",
        "We use a learning rate of 0.0001 and 128 simultaneous agents universally",
    ),
}
"""Words of the paper by the place where they stand."""

TOPICS = {
    r"batch.normali[sz]ation of g|batch statistics of g": "section 5",
    r"\bM = 128\b|ensemble of 128": "section 5",
    r"lambda = (10\^3|1e3)|regularize aggressively": "section 5",
    r"RMSprop variant": "section 5",
    r"Polyak-averaged version of the ensemble": "section 5",
    r"divided by their running deviation": "section 5",
    r"gradient feature g|equation 1": "section 4",
    r"penultimate feature": "section 4",
    r"unique states, by a hash": "section 4",
    r"policy network: three convolutions": "appendix A.2",
    r"two value heads": "section 5",
    r"Montezuma": "section 6",
    r"conjecture": "section 3",
}
"""Where a subject is treated: a row or line that names it and cites a section must cite this one."""
