"""A plain PPO on eight CartPoles, as small as CleanRL's: the host beside which the adapters' overhead is measured."""

from collections.abc import Callable

import gymnasium
import numpy as np
import torch
from gymnasium.vector import AutoresetMode, SyncVectorEnv, VectorEnv
from torch import Tensor, nn

ENVIRONMENTS = 8
Extra = Callable[[dict[str, np.ndarray]], Tensor]


def cart_poles() -> SyncVectorEnv:
    """The environments, with their final observations in ``infos``."""
    makers = [lambda: gymnasium.make("CartPole-v1")] * ENVIRONMENTS
    return SyncVectorEnv(makers, autoreset_mode=AutoresetMode.SAME_STEP)


class PlainPPO:
    """Policy and value of 64 tanh units each; `iterate` plays a rollout and learns in 4 epochs of 4 minibatches."""

    def __init__(self, envs: VectorEnv, *, steps: int, extra: Extra | None = None):
        self.envs, self.steps, self._extra = envs, steps, extra
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            self.policy, self.value = (
                nn.Sequential(nn.Linear(4, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, outputs))
                for outputs in (2, 1)
            )
        self._generator = torch.Generator().manual_seed(0)
        parameters = [*self.policy.parameters(), *self.value.parameters()]
        self._optimizer = torch.optim.Adam(parameters, lr=2.5e-4)
        self._observations, _ = envs.reset(seed=0)

    def iterate(self) -> None:
        """One rollout and one update."""
        samples = self._played()
        rewards = torch.as_tensor(samples["rewards"], dtype=torch.float32)
        if self._extra is not None:
            rewards = rewards + self._extra(samples)
        x, after = (torch.as_tensor(samples[name]) for name in ("observations", "next_observations"))
        actions = torch.as_tensor(samples["actions"]).flatten()
        terminated, ended = (torch.as_tensor(samples[name]) for name in ("terminateds", "ended"))
        with torch.no_grad():
            values, next_values = self.value(x).squeeze(-1), self.value(after).squeeze(-1) * ~terminated
            errors = rewards + 0.99 * next_values - values
            gains, gain = torch.zeros_like(errors), torch.zeros(ENVIRONMENTS)
            for t in reversed(range(self.steps)):
                gains[t] = gain = errors[t] + 0.99 * 0.95 * gain * ~ended[t]
            old = self.policy(x).log_softmax(-1).flatten(0, 1).gather(1, actions[:, None]).squeeze(1)
        returns, gains, x = (values + gains).flatten(), gains.flatten(), x.flatten(0, 1)
        for _ in range(4):
            for rows in torch.randperm(len(x), generator=self._generator).chunk(4):
                logs = self.policy(x[rows]).log_softmax(1)
                ratio = (logs.gather(1, actions[rows, None]).squeeze(1) - old[rows]).exp()
                loss = -torch.min(ratio * gains[rows], ratio.clamp(0.8, 1.2) * gains[rows]).mean()
                loss = loss + 0.5 * (self.value(x[rows]).squeeze(1) - returns[rows]).square().mean()
                loss = loss + 0.01 * (logs.exp() * logs).sum(1).mean()
                self._optimizer.zero_grad()
                loss.backward()
                self._optimizer.step()

    @torch.no_grad()
    def _played(self) -> dict[str, np.ndarray]:
        rows = []
        for _ in range(self.steps):
            before = self._observations
            probabilities = self.policy(torch.as_tensor(before)).softmax(1)
            actions = probabilities.multinomial(1, generator=self._generator).squeeze(1).numpy()
            after, rewards, terminated, truncated, infos = self.envs.step(actions)
            successors, ended = after.copy(), terminated | truncated
            for i in np.flatnonzero(ended):
                successors[i] = infos["final_obs"][i]
            rows.append((before, actions, rewards, terminated, truncated, successors, ended))
            self._observations = after
        names = ("observations", "actions", "rewards", "terminateds", "truncateds", "next_observations", "ended")
        return {name: np.stack(column) for name, column in zip(names, zip(*rows, strict=True), strict=True)}
