"""The paper's parameters for your problem, and its lemmas held against simulations.

python examples/check_the_theory.py
Needs: pip install optimist
"""

import numpy as np

from optimist import bandits
from optimist.bandits import theory

SETTING = {"horizon": 500, "n_features": 4, "n_actions": 10, "delta": 0.1, "sigma": 0.3}


def main() -> None:
    """Print parameters, the two tails of Lemma 1, the law of the regressors, and regret beside its bound."""
    arms = SETTING | {"n_features": 10}  # Proposition 2 is for multi-armed bandits: one feature per action
    for history, setting in (("rerandomized", SETTING), ("incremental", arms), ("lazy", SETTING)):
        p = theory.acb_parameters(**setting, history=history)
        numbers = f"M {p.ensemble_size:3d}  beta {p.beta:6.2f}  lambda {p.ridge:.3f}  bound {p.regret_bound:9.0f}"
        print(f"{history:13s} {numbers}")

    p = theory.acb_parameters(**SETTING, history="rerandomized")
    members, rng = p.sufficient_ensemble_size, np.random.default_rng(0)
    largest = np.abs(rng.normal(size=(20_000, members))).max(axis=1)
    low, high = theory.gaussian_maximum_lower(members, 0.05), theory.gaussian_maximum_upper(members, 0.05)
    print(
        f"Lemma 1, M = {members}: below {low:.2f} in {(largest < low).mean():.2%}, "
        f"above {high:.2f} in {(largest > high).mean():.2%} of draws; each must be at most 5 %"
    )

    x, r, actions = rng.normal(size=(30, 4)), rng.normal(size=30), rng.normal(size=(5, 4))
    exact = bandits.LinUCB(4, beta=1.0, ridge=0.7).partial_fit(x, r).bonus(actions)
    acb = bandits.ACB(4, history="rerandomized", aggregate="rms", ensemble_size=5_000, beta=1.0, ridge=0.7)
    ratio = acb.partial_fit(x, r).bonus(actions) / exact
    print(f"rms of 5,000 regressors over LinUCB's elliptical norm: {ratio.min():.3f} to {ratio.max():.3f}")

    problem = bandits.FixedActions.random(10, 4, noise=0.3, seed=0)
    policy = bandits.ACB(4, history="rerandomized", ensemble_size=members, beta=p.beta, ridge=p.ridge)
    played = bandits.simulate(policy, problem, horizon=500, trials=20, seed=0)
    vacuous = " (more than any policy can lose)" if p.regret_bound > 2 * 500 else ""
    print(
        f"regret after 500 rounds: at most {played.final.max():.0f} of 20 trials; bound {p.regret_bound:.0f}{vacuous}"
    )


if __name__ == "__main__":
    main()
