"""PPO in one file, and the five lines that put ACB into it, marked "ACB 1/5" to "ACB 5/5". All else is plain PPO.

python examples/ppo_acb.py                        # DeepSea: one path of 2^14 pays; found and kept in 30,000 steps
python examples/ppo_acb.py --weight 0             # the same without the bonus: never
python examples/ppo_acb.py --env CartPole-v1 --weight 0.1 --steps 100000
Needs: pip install 'optimist[cli,rl]'
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import gymnasium
import numpy as np
import torch
import tyro
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from torch import Tensor, nn
from torch.distributions import Categorical

from optimist import bonuses
from optimist.adapters import IntrinsicReward


@dataclass(frozen=True)
class Args:
    """Everything that can be set."""

    env: str = "DeepSea-14"
    """DeepSea-N, or an id of Gymnasium with vector observations and discrete actions."""
    weight: float = 0.5
    """Of the bonus, in units of its own discounted sums' deviation; 0 is plain PPO."""
    extrinsic_weight: float = 1.0
    """Of the environment's reward; 0 explores without it."""
    seed: int = 0
    steps: int = 60_000
    """Steps of all environments together."""
    n_envs: int = 8
    rollout: int = 128
    learning_rate: float = 1e-3
    discount: float = 0.99
    gae: float = 0.95
    epochs: int = 4
    minibatches: int = 4
    clip: float = 0.2
    entropy: float = 0.01
    value: float = 0.5
    gradient_norm: float = 0.5


class DeepSea(gymnasium.Env):
    """``size`` rows: each step goes one down, and right or left; right costs a little, right all the way pays 1."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.observation_space = gymnasium.spaces.Box(0, 1, (size * size,), np.float32)
        self.action_space = gymnasium.spaces.Discrete(2)
        self.rightwards = np.random.default_rng(42).integers(2, size=(size, size))  # which action is right, by cell
        self.row = self.column = 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[np.ndarray, dict]:
        """The top left cell."""
        super().reset(seed=seed)
        self.row = self.column = 0
        return self._observation(), {}

    def step(self, action: int) -> tuple[np.ndarray, float, bool, bool, dict]:
        """One row down; the observation after the last row is all zero."""
        right = bool(action == self.rightwards[self.row, self.column])
        reward = float(right and self.column == self.size - 1) - 0.01 / self.size * right
        self.column = min(max(self.column + (1 if right else -1), 0), self.size - 1)
        self.row += 1
        return self._observation(), reward, self.row == self.size, False, {}

    def _observation(self) -> np.ndarray:
        cells = np.zeros((self.size, self.size), np.float32)
        if self.row < self.size:
            cells[self.row, self.column] = 1
        return cells.flatten()


class Agent(nn.Module):
    """An actor and a critic, two hidden layers each."""

    def __init__(self, inputs: int, actions: int, generator: torch.Generator) -> None:
        super().__init__()
        self.actor = mlp(inputs, actions, 0.01, generator)
        self.critic = mlp(inputs, 1, 1.0, generator)

    def value(self, observations: Tensor) -> Tensor:
        """Shapes: (..., inputs) -> (...)."""
        return self.critic(observations).squeeze(-1)


def mlp(inputs: int, outputs: int, gain: float, generator: torch.Generator) -> nn.Sequential:
    """A network with orthogonal weights, drawn from ``generator`` alone."""
    layers = [nn.Linear(inputs, 64), nn.Linear(64, 64), nn.Linear(64, outputs)]
    for layer, scale in zip(layers, (2**0.5, 2**0.5, gain), strict=True):
        nn.init.orthogonal_(layer.weight, scale, generator=generator)
        nn.init.zeros_(layer.bias)
    return nn.Sequential(layers[0], nn.Tanh(), layers[1], nn.Tanh(), layers[2])


def make_envs(args: Args) -> SyncVectorEnv:
    """The environments; SAME_STEP gives an episode's final observation apart from the next one's first."""

    def one() -> gymnasium.Env:
        name, _, size = args.env.partition("-")
        return DeepSea(int(size)) if name == "DeepSea" else gymnasium.make(args.env)

    return SyncVectorEnv([one] * args.n_envs, autoreset_mode=AutoresetMode.SAME_STEP)


def advantages_of(
    args: Args, rewards: Tensor, values: Tensor, after: Tensor, terminated: Tensor, ended: Tensor
) -> Tensor:
    """Generalized advantages; ``after`` are the values of what truly followed. Shapes: all (T, N)."""
    deltas = rewards + args.discount * after * ~terminated - values
    advantage, advantages = torch.zeros(values.shape[1]), torch.zeros_like(values)
    for t in reversed(range(len(rewards))):
        advantage = deltas[t] + args.discount * args.gae * advantage * ~ended[t]
        advantages[t] = advantage
    return advantages


def improve(
    args: Args, agent: Agent, optimizer: torch.optim.Optimizer, batch: dict[str, Tensor], generator: torch.Generator
) -> None:
    """PPO's clipped update on a rollout, flat."""
    size = len(batch["actions"])
    for _ in range(args.epochs):
        for rows in torch.randperm(size, generator=generator).split(size // args.minibatches):
            b = {name: value[rows] for name, value in batch.items()}
            distribution = Categorical(logits=agent.actor(b["observations"]))
            ratio = (distribution.log_prob(b["actions"]) - b["log_probs"]).exp()
            a = (b["advantages"] - b["advantages"].mean()) / (b["advantages"].std() + 1e-8)
            policy_loss = -torch.min(a * ratio, a * ratio.clamp(1 - args.clip, 1 + args.clip)).mean()
            value_loss = 0.5 * (agent.value(b["observations"]) - b["returns"]).square().mean()
            loss = policy_loss - args.entropy * distribution.entropy().mean() + args.value * value_loss
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(agent.parameters(), args.gradient_norm)
            optimizer.step()


def train(args: Args, report: Callable[[str], object] = print) -> tuple[Agent, float]:
    """The trained agent, and the mean return of the environment alone over the last tenth of training."""
    generator = torch.Generator().manual_seed(args.seed)
    envs = make_envs(args)
    inputs, actions_count = envs.single_observation_space.shape[0], int(envs.single_action_space.n)
    agent = Agent(inputs, actions_count, generator)
    optimizer = torch.optim.Adam(agent.parameters(), lr=args.learning_rate, eps=1e-5)
    bonus = bonuses.ACB(agent.actor, sketch_size=16, seed=args.seed)  # ACB 1/5
    intrinsic = IntrinsicReward(bonus, weight=args.weight, learning_starts=0, train_every=1)  # ACB 2/5

    T, N = args.rollout, args.n_envs
    observations, next_observations = torch.zeros(T, N, inputs), torch.zeros(T, N, inputs)
    actions = torch.zeros(T, N, dtype=torch.int64)
    log_probs, rewards = torch.zeros(T, N), torch.zeros(T, N)
    terminated, truncated = torch.zeros(T, N, dtype=torch.bool), torch.zeros(T, N, dtype=torch.bool)
    observation = torch.as_tensor(envs.reset(seed=args.seed)[0])
    running, finished, late = np.zeros(N), [], []
    iterations = args.steps // (T * N)
    for iteration in range(1, iterations + 1):
        for t in range(T):
            with torch.no_grad():
                logits = agent.actor(observation)
            action = torch.multinomial(logits.softmax(-1), 1, generator=generator).squeeze(-1)
            after, reward, terminal, cut, infos = envs.step(action.numpy())
            observations[t], actions[t] = observation, action
            log_probs[t] = logits.log_softmax(-1).gather(1, action[:, None]).squeeze(1)
            rewards[t] = torch.as_tensor(reward)
            terminated[t], truncated[t] = torch.as_tensor(terminal), torch.as_tensor(cut)
            observation = next_observations[t] = torch.as_tensor(np.array(after))
            running += reward
            for i in np.flatnonzero(terminal | cut):  # what truly followed is the final observation
                next_observations[t, i] = torch.as_tensor(infos["final_obs"][i])
                finished.append(running[i])
                running[i] = 0

        rollout = bonuses.Transitions(observations, actions, next_observations, terminated, truncated)  # ACB 3/5
        mixed = args.extrinsic_weight * rewards + intrinsic.reward(rollout)  # ACB 4/5: before advantages
        intrinsic.observe(rollout)  # ACB 5/5: learns, after it has scored these steps

        with torch.no_grad():
            values, values_after = agent.value(observations), agent.value(next_observations)
        ended = terminated | truncated
        advantages = advantages_of(args, mixed, values, values_after, terminated, ended)
        batch = {"observations": observations, "actions": actions, "log_probs": log_probs, "advantages": advantages}
        batch["returns"] = advantages + values
        improve(args, agent, optimizer, {name: value.flatten(0, 1) for name, value in batch.items()}, generator)

        if iteration > 0.9 * iterations:
            late += finished
        if finished and (iteration % 10 == 0 or iteration == iterations):
            report(f"{iteration * T * N:>8,} steps: return {np.mean(finished):7.3f}, with bonus {mixed.mean():7.4f}")
        finished = []
    envs.close()
    return agent, float(np.mean(late)) if late else float("nan")


if __name__ == "__main__":
    torch.set_num_threads(1)
    train(tyro.cli(Args))
