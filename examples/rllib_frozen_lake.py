"""RLlib's own curiosity tasks, FrozenLake 8x8 and 12x12, with a bonus of Optimist in its PPO: three lines.

An episode has just the steps of a shortest path, 14 or 22, so that PPO alone never sees the reward. RLlib's examples of
curiosity state 194,000 steps (8x8, counts, return 0.99) and 786,000 (12x12, a curiosity module, return 1.0).

The limit is part of the task, and nothing observed tells the time. So an episode ends here at its limit. `--limit cuts`
is as RLlib's examples have it: Gymnasium calls that end a truncation, after which RLlib's PPO goes on with the value of
where the episode was cut. To be cut near the goal is then worth as much as to reach it, and what was learned is lost.

python examples/rllib_frozen_lake.py --size 8 --seed 100
python examples/rllib_frozen_lake.py --size 12 --seed 100 --bonus rnd
python examples/rllib_frozen_lake.py --size 8 --seed 100 --bonus rllib-count
python examples/rllib_frozen_lake.py --size 8 --seed 100 --bonus none --steps 400000
Needs: pip install 'optimist[cli,rllib]'
"""

import csv
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import gymnasium
import ray
import torch
import tyro
from ray.rllib.algorithms.ppo import PPOConfig
from ray.rllib.connectors.env_to_module import FlattenObservations
from ray.rllib.examples.connectors.classes.count_based_curiosity import CountBasedCuriosity
from ray.tune.registry import register_env

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
    """A bonus by name; none; or rllib-count, the counts of RLlib's own example."""
    weight: float = 0.2
    """Of the normalized bonus; that of the reward is 1."""
    seed: int = 0
    steps: int = 800_000
    """Steps at most."""
    limit: Literal["ends", "cuts"] = "ends"
    """Whether the limit of steps ends an episode or, as in RLlib's examples, cuts it."""
    stop_at: float = 0.99
    """Mean return of the last 80 to 100 episodes, as RLlib reports it, at which training stops."""
    n_envs: int = 20
    """Environments; RLlib's examples have 5, which is slower and else the same."""
    out: Path | None = None
    """A CSV file to which the result is added as a row."""


class EndsAtLimit(gymnasium.Wrapper):
    """An episode that the limit of steps would cut ends there."""

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """A step after which nothing is truncated."""
        observation, reward, terminated, truncated, info = self.env.step(action)
        return observation, reward, terminated or truncated, False, info


def configured(args: Args) -> PPOConfig:
    """PPO as RLlib's example has it, with the bonus."""
    register_env("FrozenLakeThatEnds", lambda options: EndsAtLimit(gymnasium.make("FrozenLake-v1", **options)))
    config = (
        PPOConfig()
        .environment(
            "FrozenLakeThatEnds" if args.limit == "ends" else "FrozenLake-v1",
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
    if args.bonus == "rllib-count":
        return config.training(learner_connector=lambda *spaces, **more: CountBasedCuriosity())
    # 576 dimensions are plenty for the 64 or 144 states of a lake, and cost a tenth of the default's 2,176.
    settings = {"sketch_size": 16} if args.bonus == "acb" else {}
    return with_bonus(config, args.bonus, seed=args.seed, weight=args.weight, settings=settings)  # 2 of 3


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
        "limit": args.limit,
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
