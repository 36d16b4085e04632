"""rsl_rl's PPO on a valley that pays nothing: alone, with its own RND, with the subclass of docs/adapters/rsl_rl.md.

The valley is MountainCarContinuous's. Counted are the cells of a 30 x 30 grid of place and speed that were ever
visited, and arrivals at the top, which end an episode. 16 environments, 61,440 steps.

pip install rsl-rl-lib==5.5.1   # not part of Optimist's set-up
python benchmarks/rsl_rl_valley.py 100
"""

import contextlib
import io
import re
import sys
from pathlib import Path
from types import ModuleType

import torch
from rsl_rl.env import VecEnv
from rsl_rl.runners import OnPolicyRunner
from tensordict import TensorDict

PAGE = Path(__file__).parents[1] / "docs" / "adapters" / "rsl_rl.md"
LEARNERS = ("none", "rsl_rl's rnd", "rnd", "acb")


class Valley(VecEnv):
    """A car between two hills, too weak to drive up straight; 200 steps, no reward."""

    num_envs, num_actions, max_episode_length, device, step_dt = 16, 1, 200, "cpu", 1.0

    def __init__(self, seed: int):
        self.cfg, self.unwrapped = {}, self
        self.generator = torch.Generator().manual_seed(seed)
        self.episode_length_buf = torch.zeros(self.num_envs, dtype=torch.long)
        self.place, self.speed = torch.zeros(self.num_envs), torch.zeros(self.num_envs)
        self.cells: set[tuple[int, int]] = set()
        self.arrivals = 0
        self._reset(torch.ones(self.num_envs, dtype=torch.bool))

    def get_observations(self) -> TensorDict:
        """Place and speed, both about 1 in size."""
        return TensorDict({"policy": torch.stack([self.place, 15 * self.speed], 1)}, batch_size=[self.num_envs])

    def step(self, actions: torch.Tensor) -> tuple[TensorDict, torch.Tensor, torch.Tensor, dict[str, torch.Tensor]]:
        """One step of all cars; those at the top or out of time begin anew."""
        push = actions[:, 0].clamp(-1, 1)
        self.speed = (self.speed + 0.0015 * push - 0.0025 * torch.cos(3 * self.place)).clamp(-0.07, 0.07)
        self.place = (self.place + self.speed).clamp(-1.2, 0.6)
        self.speed[(self.place <= -1.2) & (self.speed < 0)] = 0
        self.episode_length_buf += 1
        columns, rows = ((self.place + 1.2) / 1.8 * 30).int(), ((self.speed + 0.07) / 0.14 * 30).int()
        self.cells |= set(zip(columns.tolist(), rows.tolist(), strict=True))
        arrived, late = self.place >= 0.45, self.episode_length_buf >= self.max_episode_length
        self.arrivals += int(arrived.sum())
        self._reset(arrived | late)
        return self.get_observations(), torch.zeros(self.num_envs), (arrived | late).long(), {"time_outs": late.float()}

    def _reset(self, which: torch.Tensor) -> None:
        self.place[which] = -0.6 + 0.2 * torch.rand(int(which.sum()), generator=self.generator)
        self.speed[which], self.episode_length_buf[which] = 0, 0


def played(learner: str, seed: int, iterations: int = 60) -> Valley:
    """The valley after training."""
    torch.manual_seed(seed)
    env, groups = Valley(seed), {"actor": ["policy"], "critic": ["policy"]}
    algorithm: dict = {"class_name": "PPO", "num_learning_epochs": 5, "num_mini_batches": 4, "entropy_coef": 0.003}
    if learner == "rsl_rl's rnd":
        groups["rnd_state"] = ["policy"]
        networks = {"num_outputs": 16, "predictor_hidden_dims": [64, 64], "target_hidden_dims": [64, 64]}
        normalized = {"state_normalization": True, "reward_normalization": True}
        algorithm["rnd_cfg"] = {**networks, **normalized, "weight": 1.0, "learning_rate": 1e-3}
    elif learner != "none":
        algorithm |= {"class_name": _page().BonusPPO, "bonus_cfg": {"name": learner, "seed": seed, "weight": 1.0}}
    model = {"class_name": "MLPModel", "hidden_dims": [64, 64], "activation": "elu"}
    config = {
        "num_steps_per_env": 64,
        "save_interval": 1000,
        "obs_groups": groups,
        "algorithm": algorithm,
        "actor": model | {"distribution_cfg": {"class_name": "GaussianDistribution", "init_std": 1.0}},
        "critic": dict(model),
    }
    with contextlib.redirect_stdout(io.StringIO()):  # it prints a table per rollout
        OnPolicyRunner(env, config, None, "cpu").learn(iterations)
    return env


def _page() -> ModuleType:
    (snippet,) = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.M | re.S)
    page = ModuleType("page")
    exec(compile(snippet, str(PAGE), "exec"), page.__dict__)
    return page


def main() -> None:
    """One line per learner."""
    torch.set_num_threads(1)
    seed = int(sys.argv[1]) if len(sys.argv) > 1 else 100
    for learner in LEARNERS:
        env = played(learner, seed)
        print(f"{learner:12}  {len(env.cells)} cells  {env.arrivals} arrivals", flush=True)


if __name__ == "__main__":
    main()
