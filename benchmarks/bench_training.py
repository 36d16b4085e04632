"""Steps a second of our training beside stable-baselines3's PPO, turn by turn in one run, and where our time goes.

python benchmarks/bench_training.py            # three tasks: some fifteen minutes on two idle cores
python benchmarks/bench_training.py --quick    # a few tiny rollouts, seconds: only that everything runs
"""

import argparse
import csv
import importlib.metadata
import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from measuring import machine
from optimist.training.agent import multiplies_bf16
from optimist.training.config import Signal, TrainConfig
from optimist.training.environments.envpool_pool import ATARI
from optimist.training.ppo import Trainer
from sb3_setting import sb3_iteration, sb3_ppo

SB3, SB3_FUSED = "stable-baselines3", "stable-baselines3, fused Adam"
OURS: dict[str, dict[str, Any]] = {
    "optimist, no bonus": {"bonus": "none"},
    "optimist, ACB (default)": {"bonus": "acb"},
    "optimist, RND": {"bonus": "rnd"},
}
IN_BF16 = {f"{name}, bf16": changes | {"precision": "bf16"} for name, changes in OURS.items() if "RND" not in name}
"""Only for images: the networks of grids and vectors are too small to gain."""
PARTS = ("environment", "inference", "bonus", "update", "bookkeeping")
NOTE = (
    "Each number is of whole iterations, a rollout and its update, after one that is not counted; all variants of a "
    "task take turns in one process, in reversed order every other round. Ratio: steps per second over those of "
    "stable-baselines3 in the same round, its median and quartiles. Both play the same EnvPool with the same threads, "
    "the same modules make up both networks, and every hyper-parameter is the same, gradient clipping and normalized "
    "advantages included. Ours always carries its second, intrinsic value head, which is idle without a bonus, and "
    "counts unique states; stable-baselines3 has neither, and logs to nowhere. Our Adam is PyTorch's fused one, which "
    "stable-baselines3 does not use by itself: a row shows it with that too. bf16: our trunk multiplies in bfloat16, "
    "where the CPU has it; stable-baselines3 has no such setting."
)


@dataclass(frozen=True)
class Task:
    """One environment, the hyper-parameters of both sides, and over how many rounds they are measured."""

    config: TrainConfig
    rounds: int
    images: bool = False

    @property
    def ours(self) -> dict[str, dict[str, Any]]:
        """The variants of ours, and what each changes."""
        return OURS | (IN_BF16 if self.images and multiplies_bf16(torch.device("cpu")) else {})

    def quick(self) -> "Task":
        """The same in tiny rollouts."""
        small = replace(self.config, n_envs=4, steps=8, epochs=1, minibatches=2, warm_up_steps=4, threads=1)
        return Task(small, rounds=1, images=self.images)


@dataclass(frozen=True)
class Result:
    """What one variant needed. ``parts`` has the milliseconds an iteration of each of ours."""

    task: str
    variant: str
    rounds: int
    speed: float
    ratio: tuple[float, float, float]
    parts: Mapping[str, float]


def setting(env: str, environments: int, options: Mapping[str, object]) -> TrainConfig:
    """RND's hyper-parameters, and what stable-baselines3 cannot leave out: the clipping of gradients."""
    return TrainConfig(
        env=env,
        n_envs=environments,
        steps=128,
        env_options=tuple(f"{key}={json.dumps(value)}" for key, value in {"num_threads": 2, **options}.items()),
        extrinsic=Signal(weight=2.0, discount=0.99, episodic=True),
        max_gradient_norm=0.5,
        normalize_advantages=True,
        warm_up_steps=128,
        device="cpu",
        threads=2,
    )


TASKS = (
    Task(setting("CartPole-v1", 8, {}), rounds=30),
    Task(setting("MiniGrid-DoorKey-8x8-v0", 16, {}), rounds=20),
    Task(setting("Breakout-v5", 16, ATARI), rounds=7, images=True),
)


def measure(task: Task) -> list[Result]:
    """One result for stable-baselines3 and for each variant of ours."""
    models = {SB3: sb3_ppo(task.config), SB3_FUSED: sb3_ppo(task.config, fused=True)}
    trainers = {name: started(replace(task.config, **changes)) for name, changes in task.ours.items()}
    theirs = {name: partial(sb3_iteration, model) for name, model in models.items()}
    seconds, metrics = take_turns(theirs | {name: trainer.iterate for name, trainer in trainers.items()}, task.rounds)
    for model in models.values():
        model.env.close()
    for trainer in trainers.values():
        trainer.environments.close()
    steps = task.config.rollout_steps
    results = []
    for name, values in seconds.items():
        low, middle, high = np.quantile(seconds[SB3] / values, [0.25, 0.5, 0.75])
        parts = {part: 1e3 * _median_of(metrics[name], f"seconds/{part}") for part in PARTS} if name in trainers else {}
        results.append(
            Result(task.config.env, name, task.rounds, float(steps / np.median(values)), (low, middle, high), parts)
        )
    return results


def started(config: TrainConfig) -> Trainer:
    """A run of ours, its bonus warmed up and its environments begun."""
    trainer = Trainer(config)
    trainer.start()
    return trainer


def take_turns(
    actions: Mapping[str, Callable[[], Mapping[str, float] | None]], rounds: int
) -> tuple[dict[str, np.ndarray], dict[str, list[Mapping[str, float]]]]:
    """The seconds of every action in every round, and what it returned. A first round warms up and is not counted.

    The order is reversed every other round, so that nobody always follows the same neighbor.
    """
    seconds: dict[str, list[float]] = {name: [] for name in actions}
    answers: dict[str, list[Mapping[str, float]]] = {name: [] for name in actions}
    for number in range(rounds + 1):
        for name in list(actions) if number % 2 else reversed(actions):
            start = time.perf_counter()
            answer = actions[name]()
            if number:
                seconds[name].append(time.perf_counter() - start)
                answers[name].append(answer or {})
    return {name: np.array(values) for name, values in seconds.items()}, answers


def report(results: list[Result], tasks: tuple[Task, ...], machine_line: str, command: str) -> str:
    """The results as a page of markdown."""
    version = importlib.metadata.version("stable-baselines3")
    lines = ["# Speed of training", "", f"`{command}` on {machine_line}; stable-baselines3 {version}.", "", NOTE]
    for task in tasks:
        config, found = task.config, [result for result in results if result.task == task.config.env]
        lines += [
            "",
            f"## {config.env}",
            "",
            f"{config.n_envs} environments x {config.steps} steps, {config.epochs} epochs of "
            f"{config.minibatches} minibatches, {found[0].rounds} rounds.",
            "",
            f"| variant | steps/s | ratio | quartiles | {' | '.join(f'{part}, ms' for part in PARTS)} |",
            f"|---|{'---:|' * (3 + len(PARTS))}",
        ]
        for result in found:
            low, middle, high = result.ratio
            parts = [f"{result.parts[part]:.3g}" if result.parts else "" for part in PARTS]
            shown = [result.variant, f"{result.speed:,.0f}", f"{middle:.2f}", f"{low:.2f} .. {high:.2f}", *parts]
            lines.append(f"| {' | '.join(shown)} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    """Measure, print, and write ``training.csv`` and ``training.md``."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="tiny rollouts: only that everything runs")
    parser.add_argument("--out", type=Path, default=Path("results/benchmarks"), help="folder of the two files")
    parser.add_argument("--env", choices=[task.config.env for task in TASKS], help="this task alone")
    chosen = parser.parse_args()
    tasks = tuple(task for task in TASKS if chosen.env in (None, task.config.env))
    if chosen.quick:
        tasks = tuple(task.quick() for task in tasks)
    torch.set_num_threads(tasks[0].config.threads)
    machine_line = machine()
    results = [result for task in tasks for result in measure(task)]
    flags = [*(["--quick"] if chosen.quick else []), *(["--env", chosen.env] if chosen.env else [])]
    page = report(results, tasks, machine_line, " ".join(["python benchmarks/bench_training.py", *flags]))
    chosen.out.mkdir(parents=True, exist_ok=True)
    with (chosen.out / "training.csv").open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        milliseconds = [f"{part}_ms" for part in PARTS]
        writer.writerow(
            ["task", "variant", "rounds", "steps_per_second", "ratio", "ratio_q1", "ratio_q3", *milliseconds]
        )
        for result in results:
            low, middle, high = result.ratio
            numbers = [result.speed, middle, low, high, *(result.parts.get(part) for part in PARTS)]
            shown = ["" if number is None else f"{number:.6g}" for number in numbers]
            writer.writerow([result.task, result.variant, result.rounds, *shown])
    (chosen.out / "training.md").write_text(page)
    print(page)


def _median_of(rows: list[Mapping[str, float]], name: str) -> float:
    return float(np.median([row[name] for row in rows]))


if __name__ == "__main__":
    main()
