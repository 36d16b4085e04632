"""RLlib's own curiosity tasks, FrozenLake 8x8 and 12x12, with a bonus of Optimist in its PPO: three lines.

An episode has just the steps of a shortest path, 14 or 22, so that PPO alone never sees the reward. RLlib's examples of
curiosity state 194,000 steps (8x8, counts, return 0.99) and 786,000 (12x12, a curiosity module, return 1.0).

python examples/rllib_frozen_lake.py --size 8 --seed 100
python examples/rllib_frozen_lake.py --size 12 --seed 100 --bonus rnd
python examples/rllib_frozen_lake.py --size 8 --seed 100 --bonus none --steps 400000
Needs: pip install 'optimist[cli,rllib]'
"""

import csv
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import ray
import torch
import tyro
from ray.rllib.algorithms.ppo import PPOConfig
from ray.rllib.connectors.env_to_module import FlattenObservations

from optimist.adapters.rllib import with_bonus  # 1 of 3

MAPS = {
    8: ["SFFHFFFH", "FFFHFFFF", "FFFHHFFF", "FFFFFFFH", "HFFHFFFF", "HHFHFFHF", "FFFHFHHF", "FHFFFFFG"],
    12: ["S" + 11 * "F", *(10 * [12 * "F"]), 11 * "F" + "G"],
}
"""The maps of RLlib's examples: holes, and none."""
TRAINING: dict[int, dict[str, Any]] = {
    8: {"num_epochs": 10, "vf_loss_coeff": 0.01},
    12: {"num_epochs": 6, "train_batch_size_per_learner": 2000, "lr": 3e-4},
}
"""PPO's settings of RLlib's examples; all else is RLlib's default."""


@dataclass(frozen=True)
class Args:
    """Everything that can be set."""

    size: Literal[8, 12] = 8
    """Side of the lake."""
    bonus: str = "acb"
    """A bonus by name, or none."""
    weight: float = 0.2
    """Of the normalized bonus; that of the reward is 1."""
    seed: int = 0
    steps: int = 800_000
    """Steps at most."""
    stop_at: float = 0.99
    """Mean return of the last 100 episodes at which training stops."""
    n_envs: int = 20
    """Environments; RLlib's examples have 5, which is slower and else the same."""
    out: Path | None = None
    """A CSV file to which the result is added as a row."""


def configured(args: Args) -> PPOConfig:
    """PPO as RLlib's example has it, with the bonus."""
    config = (
        PPOConfig()
        .environment(
            "FrozenLake-v1",
            env_config={"desc": MAPS[args.size], "is_slippery": False, "max_episode_steps": 2 * args.size - 2},
        )
        .env_runners(
            num_env_runners=0,
            num_envs_per_env_runner=args.n_envs,
            env_to_module_connector=lambda env, spaces=None, device=None: FlattenObservations(),
        )
        .training(**TRAINING[args.size])
        .rl_module(model_config={"vf_share_layers": True})
        .debugging(seed=args.seed)
    )
    if args.bonus == "none":
        return config
    return with_bonus(config, args.bonus, seed=args.seed, weight=args.weight)  # 2 of 3


def main(args: Args) -> None:
    """Train, print a line per rollout, and write down where it ended."""
    torch.set_num_threads(1)
    ray.init(address="local", num_cpus=1, include_dashboard=False, _node_ip_address="127.0.0.1")
    algorithm = configured(args).build_algo()
    started, steps, found, reached = time.process_time(), 0, None, 0.0
    while steps < args.steps and reached < args.stop_at:
        told = algorithm.train()
        steps = int(told["env_runners"]["num_env_steps_sampled_lifetime"])
        reached = float(told["env_runners"].get("episode_return_mean", 0.0))
        if found is None and reached > 0:
            found = steps
        learned = told["learners"]["default_policy"]
        bonus = float(
            learned.get("intrinsic_reward_mean", 0.0)
        )  # 3 of 3: logged beside the return, which is without it
        print(f"{steps:>8,} steps  return {reached:.2f}  mean bonus {bonus:.3f}", flush=True)
    row = {
        "size": args.size,
        "bonus": args.bonus,
        "weight": args.weight,
        "seed": args.seed,
        "solved": reached >= args.stop_at,
        "steps": steps,
        "return": round(reached, 3),
        "first_reward_by": found,
        "cpu_seconds": round(time.process_time() - started),
    }
    if args.out is not None:
        args.out.parent.mkdir(parents=True, exist_ok=True)
        new = not args.out.exists()
        with args.out.open("a", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, row)
            if new:
                writer.writeheader()
            writer.writerow(row)
    algorithm.stop()


if __name__ == "__main__":
    main(tyro.cli(Args))
