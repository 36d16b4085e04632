"""Which seas are played and for how long, at three scales that differ only in numbers."""

from optimist.studies.training_tasks import RANDOM, Task, TrainingSettings, smoke

BONUSES = ("acb", "rnd", "icm", "count")
EPISODES = 10_000
"""bsuite's budget with reward; an episode of DeepSea-N has N steps."""
AIM = 0.9
"""The share of the last 100 episodes that must find the treasure."""

FREE_STEPS = {30: 150_000, 40: 200_000, 50: 250_000}
"""Steps without reward, by size."""
PUBLISHED_STATES = {("acb", 30): 161, ("acb", 40): 242, ("acb", 50): 313,
                    ("rnd", 30): 313, ("rnd", 40): 427, ("rnd", 50): 588}  # fmt: skip
"""Unique states without reward: the VBE repository, whose ACB is a stripped one."""


def free_name(size: int) -> str:
    """The name of the task without reward."""
    return f"reward-free, N = {size}"


def reward_name(size: int) -> str:
    """The name of the task with reward."""
    return f"reward, N = {size}"


def reward_free(size: int, steps: int) -> Task:
    """The sea of ``size`` without its reward; the policy that does not learn stands for no bonus."""
    return Task(free_name(size), f"DeepSea-{size}", steps, (*BONUSES, RANDOM), {"extrinsic_weight": 0.0})


def with_reward(size: int, episodes: int = EPISODES) -> Task:
    """The sea of ``size`` with its reward, until it is solved."""
    return Task(reward_name(size), f"DeepSea-{size}", episodes * size, (*BONUSES, "none"), {"stop_at_success": AIM})


PUBLISHED = {(free_name(size), learner): float(states) for (learner, size), states in PUBLISHED_STATES.items()}

FREE = tuple(reward_free(size, steps) for size, steps in FREE_STEPS.items())
SCALES = {
    "smoke": smoke(reward_free(5, 256), with_reward(4, 64)),
    "laptop": TrainingSettings(FREE + tuple(with_reward(size) for size in (10, 20, 30))),
    "paper": TrainingSettings(FREE + tuple(with_reward(size) for size in range(10, 52, 2))),  # bsuite's sweep
}
