"""Which locks are played and for how long, at three scales that differ only in numbers."""

from optimist.studies.training_tasks import Task, TrainingSettings, smoke

LEARNERS = ("acb", "rnd", "count", "none")
AIM = 0.9
"""The share of the last 100 episodes that must open the richer lock."""
SOLVED = 0.95
"""The share at which a run ends: PC-PG's."""


def lock_name(horizon: int) -> str:
    """The name of the task."""
    return f"lock, horizon {horizon}"


def lock(horizon: int, steps: int) -> Task:
    """The pair of locks with ``horizon`` steps an episode, other ones for every seed, as in PC-PG's runs.

    Every right step costs: with as much weight on rewards as on bonuses all learners, counts too, soon avoid the locks.
    So such a step weighs 1/300, whatever the horizon. And the entropy has three times the usual weight: a code whose
    successor the other chain has shown already is, we suppose, found by the policy's own chance alone. Both were tuned
    on seeds 0 to 2.
    """
    fields = {
        "env_options": (f"horizon={horizon}", "problem_seed={seed}"),
        "stop_at_success": SOLVED,
        "extrinsic_weight": (horizon - 2) / 300,
        "entropy_weight": 0.03,
    }
    return Task(lock_name(horizon), "CombinationLock", steps, LEARNERS, fields)


PUBLISHED = {(lock_name(11), "elliptical"): 0.95, (lock_name(11), "rnd"): 0.5, (lock_name(11), "none"): 0.0}
"""Success of PC-PG's elliptical bonus (at least), of PPO + RND (about) and of PPO, in its repository."""

SCALES = {
    "smoke": smoke(lock(4, 256)),
    "laptop": TrainingSettings((lock(6, 300_000), lock(11, 1_000_000))),
    "paper": TrainingSettings((lock(6, 1_000_000), lock(11, 2_000_000), lock(16, 5_000_000))),
}
