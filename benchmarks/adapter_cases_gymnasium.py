"""The plain PPO on Gymnasium's own vector environment, and on the same one wrapped."""

from collections.abc import Callable

from optimist.adapters.gymnasium import BonusVectorEnv
from plain_ppo import ENVIRONMENTS, PlainPPO, cart_poles


def overhead_case(*, quick: bool = False) -> tuple[Callable[[], None], Callable[[], None]]:
    """One iteration of 128 x 8 steps: PPO alone, and with ACB, which scores every step as it comes."""
    return ppo(quick), ppo(quick, bonus="acb")


def rnd_case(*, quick: bool = False) -> tuple[Callable[[], None], Callable[[], None]]:
    """The same with RND."""
    return ppo(quick), ppo(quick, bonus="rnd")


def ppo(quick: bool, *, bonus: str | None = None) -> Callable[[], None]:
    """A function that trains for one more iteration."""
    steps = 8 if quick else 128
    if bonus is None:
        return PlainPPO(cart_poles(), steps=steps).iterate
    train_every = steps * ENVIRONMENTS
    wrapped = BonusVectorEnv(cart_poles(), bonus, seed=0, learning_starts=0, train_every=train_every)
    return PlainPPO(wrapped, steps=steps).iterate
