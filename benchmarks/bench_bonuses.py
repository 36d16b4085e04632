"""Speed and memory of the deep bonuses beside the released ACB, bare matrix multiplies and PPO, in one run.

python benchmarks/bench_bonuses.py            # the paper's network, M = 128: some ten minutes on two cores
python benchmarks/bench_bonuses.py --quick    # a small network, half a minute: only that everything runs
"""

import argparse
import csv
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from bonus_speed import METHODS, VARIANTS, against_ppo, against_released, measured_memory, memory, step_by_step
from measuring import MEGABYTE, Row, interleaved, machine, tensor_bytes
from optimist import bonuses
from optimist.bonuses import Bonus, DiscreteActions, Transitions
from paper_setting import ACTIONS, FRAMES, NUMBERS, PAPER, QUICK, PaperNetwork, Scale, rollout, vector_network

KINDS = {"image 4 x 84 x 84": FRAMES, "vector of 16": NUMBERS}
NOTE = (
    "Microseconds per transition of a rollout, and megabytes of state. `update` follows `compute` of the same rollout, "
    "as in training: ACB reuses its features where they are written out."
)
TABLE: Mapping[str, tuple[str, dict[str, Any]]] = {
    "ACB (default: sketch, exact)": ("acb", {}),
    "ACB sketch, bfloat16": ("acb", {"precision": "bfloat16"}),
    "ACB sketch, exact": ("acb", {"solver": "exact"}),
    "ACB last-layer": ("acb", {"features": "last-layer"}),
    "ACB penultimate": ("acb", {"features": "penultimate"}),
    "ACB gradient (exact)": ("acb", {"features": "gradient", "minibatch_size": 128}),
    "ACB gradient, bfloat16": ("acb", {"features": "gradient", "minibatch_size": 128, "precision": "bfloat16"}),
    "RND": ("rnd", {}),
    "ICM": ("icm", {}),
    "Elliptical (sketch 16 x 16)": ("elliptical", {"sketch_size": 16}),
    "E3B": ("e3b", {}),
    "HashCount": ("count", {}),
}


def every_bonus(scale: Scale) -> list[Row]:
    """Microseconds per transition for ``compute`` and ``update`` of a rollout, and megabytes of state."""
    rows = []
    for kind, shape in KINDS.items():
        transitions = rollout(shape, scale.steps, scale.environments, seed=3)
        for name, (bonus_name, settings) in TABLE.items():
            bonus = make(bonus_name, settings, shape, scale)
            rows += [Row(kind, name, *column) for column in per_transition(bonus, transitions, scale)]
    return rows


def make(name: str, settings: Mapping[str, Any], shape: tuple[int, ...], scale: Scale) -> Bonus:
    """The bonus ``name`` for images or vectors."""
    return bonuses.make(
        name,
        seed=0,
        observation_shape=shape,
        actions=DiscreteActions(ACTIONS),
        policy_network=PaperNetwork(scale) if shape == FRAMES else vector_network(),
        **settings,
        **({"ensemble_size": scale.ensemble_size} if name == "acb" else {}),
    )


def per_transition(bonus: Bonus, transitions: Transitions, scale: Scale) -> list[tuple[str, float, str]]:
    """Quantity, value and unit of each of the table's columns."""
    actions = {"compute": lambda: bonus.compute(transitions), "update": lambda: bonus.update(transitions)}
    seconds = interleaved(actions, scale.table_repeats)
    each = 1e6 / (transitions.steps * transitions.n_envs)
    times = [(method, seconds[method] * each, "us/transition") for method in METHODS]
    return [*times, ("state", tensor_bytes(bonus.state_dict()) / MEGABYTE, "MB")]


def report(rows: list[Row], scale: Scale, machine_line: str, command: str) -> str:
    """The rows as a page of markdown."""
    d = sum(parameter.numel() for parameter in PaperNetwork(scale).actor_parameters())
    lines = [
        "# Speed and memory of the deep bonuses",
        "",
        f"`{command}` on {machine_line}. Medians of interleaved rounds.",
        "",
        f"Convolutions of {scale.convolutions} channels, layers of {scale.hidden}, {ACTIONS} actions: d = {d:,}. "
        f"M = {scale.ensemble_size}, batches of {scale.batch}, rollouts of {scale.steps} x {scale.environments}. "
        "*released*: the released code by the facts known of it, each state's backward pass through the graph of the "
        "whole batch; *alone*: a kinder reading of it, each state passed by itself; *bare*: the matrix multiplies of "
        "the exact gradient's size and nothing else. A rounded variant rounds its regressors anew at the first compute "
        "after an update, which is the only one here.",
        "",
        "| measurement | what | quantity | value | unit |",
        "|---|---|---|---:|---|",
    ]
    for row in rows:
        if row.section not in KINDS:
            lines.append(f"| {row.section} | {row.what} | {row.quantity} | {row.value:.4g} | {row.unit} |")
    for kind in KINDS:
        lines += ["", f"## Every bonus: {kind}", "", NOTE]
        lines += ["", "| bonus | compute, us | update, us | state, MB |", "|---|---:|---:|---:|"]
        for name in TABLE:
            values = {row.quantity: row.value for row in rows if (row.section, row.what) == (kind, name)}
            lines.append(f"| {name} | {values['compute']:.4g} | {values['update']:.4g} | {values['state']:.4g} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    """Measure, print, and write ``bonuses.csv`` and ``bonuses.md``."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a small network: only that everything runs")
    parser.add_argument("--out", type=Path, default=Path("results/benchmarks"), help="folder of the two files")
    parser.add_argument("--memory", choices=VARIANTS, help="print the bytes that one variant needs, and nothing else")
    chosen = parser.parse_args()
    scale = QUICK if chosen.quick else PAPER
    torch.set_num_threads(scale.threads)
    if chosen.memory:
        print(measured_memory(chosen.memory, scale))
        return
    flags = ["--quick"] if chosen.quick else []
    machine_line = machine()
    rows = memory(scale, [__file__, *flags]) + against_released(scale) + against_ppo(scale)
    rows += step_by_step(5 if chosen.quick else 200) + every_bonus(scale)
    page = report(rows, scale, machine_line, " ".join(["python benchmarks/bench_bonuses.py", *flags]))
    chosen.out.mkdir(parents=True, exist_ok=True)
    with (chosen.out / "bonuses.csv").open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["section", "what", "quantity", "value", "unit"])
        writer.writerows([row.section, row.what, row.quantity, f"{row.value:.6g}", row.unit] for row in rows)
    (chosen.out / "bonuses.md").write_text(page)
    print(page)


if __name__ == "__main__":
    main()
