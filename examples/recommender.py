"""A recommender as a contextual bandit: 200 articles, new users every hour, rewards that arrive an hour late.

python examples/recommender.py
Needs: pip install optimist
"""

import numpy as np

from optimist import bandits

ARTICLES, USERS_PER_HOUR, HOURS = 200, 50, 24
TOPICS, TRAITS = 6, 4


def features(articles: np.ndarray, user: np.ndarray) -> np.ndarray:
    """Every product of an article's topic and a user's trait, one row per article."""
    return (articles[:, :, None] * user).reshape(len(articles), -1)


def main() -> None:
    """Play a day, hour by hour, and print how much of the best possible revenue was earned."""
    rng = np.random.default_rng(0)
    articles = rng.normal(size=(ARTICLES, TOPICS))
    taste = rng.normal(size=TOPICS * TRAITS) / 5  # what nobody knows
    policy = bandits.ACB(n_features=TOPICS * TRAITS, beta=0.3, seed=0)
    print(policy)
    for hour in range(HOURS):
        users = rng.normal(size=(USERS_PER_HOUR, TRAITS))
        x = np.stack([features(articles, user) for user in users])  # (users, articles, features)
        in_stock = rng.random((USERS_PER_HOUR, ARTICLES)) < 0.5
        shown = policy.predict(x, mask=in_stock)
        chosen = x[np.arange(USERS_PER_HOUR), shown]  # all that learning needs later
        revenue = chosen @ taste + 0.3 * rng.normal(size=USERS_PER_HOUR)
        best = np.where(in_stock, x @ taste, -np.inf).max(axis=1)
        share = (chosen @ taste).mean() / best.mean()
        if hour % 4 == 0 or hour == HOURS - 1:
            print(f"hour {hour:2d}: {share:4.0%} of the best revenue, mean bonus {policy.bonus(x).mean():.3f}")
        policy.partial_fit(chosen, revenue)  # an hour later, all at once
    policy.save("recommender.npz")
    again = bandits.load("recommender.npz")  # plain arrays: loading executes no code
    print("saved and loaded, same decisions:", bool((again.predict(x) == policy.predict(x)).all()))


if __name__ == "__main__":
    main()
