"""A plain PPO loop alone, and with the five lines of ``examples/ppo_acb.py`` in it."""

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from optimist import bonuses
from optimist.adapters.intrinsic import IntrinsicReward
from plain_ppo import PlainPPO, cart_poles


def overhead_case(*, quick: bool = False) -> tuple[Callable[[], None], Callable[[], None]]:
    """One iteration of 128 x 8 steps without the bonus, and one with ACB of the example's sketch of 16."""
    steps = 8 if quick else 128
    explorer = PlainPPO(cart_poles(), steps=steps, extra=lambda samples: paid(intrinsic, samples))
    bonus = bonuses.ACB(explorer.policy, sketch_size=16, seed=0)
    intrinsic = IntrinsicReward(bonus, learning_starts=0, train_every=1)
    return PlainPPO(cart_poles(), steps=steps).iterate, explorer.iterate


def paid(intrinsic: IntrinsicReward, samples: dict[str, np.ndarray]) -> Tensor:
    """The rewards of a rollout, which is then learned from."""
    names = ("observations", "actions", "next_observations", "terminateds", "truncateds")
    rollout = bonuses.Transitions(*(torch.as_tensor(samples[name]) for name in names))
    rewards = intrinsic.reward(rollout)
    intrinsic.observe(rollout)
    return rewards
