"""Which lakes are played and for how long, at three scales that differ only in numbers."""

from optimist.studies.training_tasks import Task, TrainingSettings, smoke

LEARNERS = ("acb", "rnd", "icm", "count", "none")
AIM = 0.99
"""The share of the last 100 episodes that must reach the goal."""
PUBLISHED = {("FrozenLake-8x8", "count"): 194_000.0, ("FrozenLake-12x12", "icm"): 786_000.0}
"""Steps of RLlib's PPO to 0.99 and to 1.0; without a bonus it never gets there."""


def lake(env: str, steps: int) -> Task:
    """A lake, until it is solved."""
    return Task(env, env, steps, LEARNERS, {"stop_at_success": AIM})


SCALES = {
    "smoke": smoke(lake("FrozenLake-8x8", 256)),
    "laptop": TrainingSettings((lake("FrozenLake-8x8", 400_000), lake("FrozenLake-12x12", 400_000))),
    "paper": TrainingSettings((lake("FrozenLake-8x8", 5_000_000), lake("FrozenLake-12x12", 5_000_000))),
}
