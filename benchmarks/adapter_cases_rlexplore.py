"""The plain PPO alone, and with the rewards of a whole rollout added before its advantages."""

from collections.abc import Callable

from optimist.adapters.rlexplore import ACB
from plain_ppo import PlainPPO, cart_poles


def overhead_case(*, quick: bool = False) -> tuple[Callable[[], None], Callable[[], None]]:
    """One iteration of 128 x 8 steps without the bonus, and one with it."""
    steps = 8 if quick else 128
    envs = cart_poles()
    reward = ACB(envs, seed=0, gamma=0.99)
    return PlainPPO(cart_poles(), steps=steps).iterate, PlainPPO(envs, steps=steps, extra=reward.compute).iterate
