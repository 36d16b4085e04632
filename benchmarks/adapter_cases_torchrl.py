"""TorchRL's PPO on CartPole without and with a bonus: what `bench_adapters` times side by side."""

from collections.abc import Callable
from typing import Any

import torch
from tensordict.nn import TensorDictModule
from torch import nn
from torchrl.envs import ExplorationType, GymEnv, SerialEnv, TransformedEnv, set_exploration_type
from torchrl.modules import ProbabilisticActor, ValueOperator
from torchrl.objectives import ClipPPOLoss
from torchrl.objectives.value import GAE

from optimist.adapters.torchrl import BonusLoss, bonus_transform

ENVIRONMENTS, STEPS = 8, 128
ITERATION = ENVIRONMENTS * STEPS
"""Steps of one call, of all environments."""


def overhead_case(*, quick: bool = False) -> tuple[Callable[[], Any], Callable[[], Any]]:
    """One rollout and its update: PPO alone, and with ACB, which scores the whole rollout."""
    return ppo(quick), ppo(quick, bonus="acb")


def transform_case(*, quick: bool = False) -> tuple[Callable[[], Any], Callable[[], Any]]:
    """The same with RND inside the environment, which scores every step as it comes."""
    return ppo(quick), ppo(quick, bonus="rnd", inside=True)


def ppo(quick: bool, *, bonus: str | None = None, inside: bool = False) -> Callable[[], Any]:
    """A function that trains for one more iteration."""
    steps = 8 if quick else STEPS
    env = SerialEnv(ENVIRONMENTS, lambda: GymEnv("CartPole-v1", categorical_action_encoding=True))
    net = nn.Sequential(nn.Linear(4, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 2))
    value = nn.Sequential(nn.Linear(4, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 1))
    actor = ProbabilisticActor(
        TensorDictModule(net, in_keys=["observation"], out_keys=["logits"]),
        in_keys=["logits"],
        distribution_class=torch.distributions.Categorical,
        return_log_prob=True,
    )
    critic = ValueOperator(value, in_keys=["observation"])
    loss, gae = ClipPPOLoss(actor, critic), GAE(gamma=0.99, lmbda=0.95, value_network=critic)
    optimizer = torch.optim.Adam(loss.parameters(), lr=3e-4)
    transform = None if bonus is None else bonus_transform(env, bonus, policy_network=net)
    if transform is not None:
        gae.set_keys(reward="total_reward")
    learn = None if transform is None else BonusLoss(transform)
    played = TransformedEnv(env, transform) if transform is not None and inside else env

    def iteration() -> None:
        with torch.no_grad(), set_exploration_type(ExplorationType.RANDOM):
            data = played.rollout(steps, actor, break_when_any_done=False)
            if transform is not None and learn is not None:
                data = data if inside else transform(data)
                learn(data)
            gae(data)
        flat = data.reshape(-1)
        for _ in range(10):  # stable-baselines3's number, so that the adapters' ratios can be compared
            for rows in torch.randperm(len(flat)).chunk(4):
                losses = loss(flat[rows])
                optimizer.zero_grad()
                (losses["loss_objective"] + losses["loss_critic"] + losses["loss_entropy"]).backward()
                optimizer.step()

    return iteration
