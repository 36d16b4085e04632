"""How fast and how large the deep ACB is beside the released code, bare matrix multiplies, and PPO's own learning."""

from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from measuring import MEGABYTE, Row, in_subprocess, interleaved, memory_growth
from optimist import bonuses
from optimist.bonuses.features import ArgmaxLoss, GradientFeatures
from paper_setting import FRAMES, NUMBERS, PPO, PaperNetwork, Scale, rollout, vector_network
from released_acb import ReleasedACB

ROUNDED = "gradient bfloat16"
VARIANTS = ("released", "alone", "gradient", ROUNDED, "sketch")
RATIOS = {
    "gradient": ("released", "alone", "bare"),
    ROUNDED: ("released", "alone", "gradient", "bare bfloat16"),
    "sketch": ("released", "alone"),
}
METHODS = ("compute", "update")
STEP_ENVIRONMENTS = 8
Action = Callable[[], object]


def variant(name: str, network: PaperNetwork, scale: Scale) -> dict[str, Action]:
    """``compute`` and ``update`` of one batch of states: of the released code, read in two ways, and of our own.

    All train on the whole batch in one step; the exact gradient by RMSprop, the released code's own solver, the sketch
    as it is by default. ``update`` is given states that ``compute`` has not seen, whose features it cannot reuse.
    """
    batch, other = rollout(FRAMES, 1, scale.batch, seed=1), rollout(FRAMES, 1, scale.batch, seed=4)
    if name in ("released", "alone"):
        slow = ReleasedACB(network, network.actor_parameters(), scale.ensemble_size, alone=name == "alone")
        frames, others = batch.next_observations[0], other.next_observations[0]
        return {"compute": lambda: slow.compute(frames), "update": lambda: slow.update(others)}
    settings: dict[str, Any] = {"ensemble_size": scale.ensemble_size, "fraction": 1.0}
    if name.startswith("gradient"):
        settings |= {"features": "gradient", "solver": "rmsprop", "minibatch_size": scale.batch}
        settings |= {"precision": "bfloat16" if name == ROUNDED else "float32"}
    ours = bonuses.ACB(network, torch.zeros(1, *FRAMES, dtype=torch.uint8), seed=0, **settings)
    return {"compute": lambda: ours.compute(batch), "update": lambda: ours.update(other)}


def bare_multiplies(network: PaperNetwork, scale: Scale, dtype: torch.dtype = torch.float32) -> dict[str, Action]:
    """The matrix multiplies alone, 2 M d operations a state each: of a read-out, and of a read-out and a pullback."""
    example = torch.zeros(1, *FRAMES, dtype=torch.uint8)
    shapes = GradientFeatures(network, ArgmaxLoss(), example).shapes
    n, m = scale.batch, scale.ensemble_size
    # A linear layer (o, i): (n, i) by (i, m o). Convolutions and biases are written out: (n, k) by (k, m).
    sizes = [(m * shape[0], shape[1]) if len(shape) == 2 else (m, shape.numel()) for shape in shapes]
    weights = [torch.full(size, 1e-3, dtype=dtype) for size in sizes]
    inputs = [torch.full((n, i), 1e-3, dtype=dtype) for _, i in sizes]
    outputs = [torch.full((n, mo), 1e-3, dtype=dtype) for mo, _ in sizes]
    gradient = torch.empty(max(w.numel() for w in weights), dtype=dtype)

    def read() -> None:
        for h, w, out in zip(inputs, weights, outputs, strict=True):
            torch.mm(h, w.T, out=out)

    def read_and_pull() -> None:
        read()
        for h, w, out in zip(inputs, weights, outputs, strict=True):
            torch.mm(out.T, h, out=gradient[: w.numel()].view_as(w))

    return {"compute": read, "update": read_and_pull}


def against_released(scale: Scale) -> list[Row]:
    """States a second of every variant and of the bare multiplies, and their ratios."""
    network = PaperNetwork(scale)
    pairs = {name: variant(name, network, scale) for name in VARIANTS} | {
        "bare": bare_multiplies(network, scale),
        "bare bfloat16": bare_multiplies(network, scale, torch.bfloat16),
    }
    actions = {f"{name} {method}": pair[method] for name, pair in pairs.items() for method in METHODS}
    seconds = interleaved(actions, scale.repeats)
    rows = [
        Row("batch", name, f"{method} speed", scale.batch / seconds[f"{name} {method}"], "states/s")
        for name in pairs
        for method in METHODS
    ]
    for name, others in RATIOS.items():
        for method in METHODS:
            for other in others:
                ratio = seconds[f"{other} {method}"] / seconds[f"{name} {method}"]
                rows.append(Row("batch", name, f"{method} speed over {other}", ratio, "ratio"))
    both = {name: sum(seconds[f"{name} {method}"] for method in METHODS) for name in pairs}
    for name in RATIOS:
        rows.append(
            Row("batch", name, "compute and update speed over released", both["released"] / both[name], "ratio")
        )
    return rows


def step_by_step(repeats: int) -> list[Row]:
    """Milliseconds of ``compute`` for one step of 8 environments, by default, on one thread: what a wrapper waits for.

    Networks of two layers of 64 tanh on 4 numbers (CartPole's in PPO) and of 256 ReLU on 16; all after two updates.
    """
    hidden = [nn.Linear(4, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 2)]
    networks = {"64 x 64": (nn.Sequential(*hidden), (4,)), "256 x 256": (vector_network(), NUMBERS)}
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    rows = []
    for name, (network, shape) in networks.items():
        for precision in ("float32", "bfloat16"):
            acb = bonuses.ACB(network, torch.zeros(1, *shape), seed=0, precision=precision)
            for seed in range(2):
                acb.update(rollout(shape, 128, STEP_ENVIRONMENTS, seed=seed))
            steps = iter([rollout(shape, 1, STEP_ENVIRONMENTS, seed=seed) for seed in range(repeats + 1)])
            seconds = interleaved({name: lambda acb=acb, steps=steps: acb.compute(next(steps))}, repeats)[name]
            what = "sketch" if precision == "float32" else f"sketch {precision}"
            rows.append(Row("step", what, f"compute of 8 states, network {name}", 1e3 * seconds, "ms"))
    torch.set_num_threads(threads)
    return rows


def memory(scale: Scale, command: list[str]) -> list[Row]:
    """The peak memory of each variant, and that of the exact gradient over what the ensemble itself must hold.

    ``command`` with ``--memory NAME`` added prints ``measured_memory`` of a variant, in a process of its own.
    """
    peaks = {name: float(in_subprocess([*command, "--memory", name])) for name in VARIANTS}
    d = sum(parameter.numel() for parameter in PaperNetwork(scale).actor_parameters())
    held = 3 * 4 * scale.ensemble_size * d  # weights, mean squares of RMSprop, average, in single precision
    return [
        *(Row("memory", name, "peak", peak / MEGABYTE, "MB") for name, peak in peaks.items()),
        Row("memory", "gradient", "weights, optimizer state and average", held / MEGABYTE, "MB"),
        Row("memory", "gradient", "peak over these", peaks["gradient"] / held, "ratio"),
    ]


def measured_memory(name: str, scale: Scale) -> float:
    """The bytes by which ``compute`` and ``update`` of a variant raise this process above the network's own passes."""
    network = PaperNetwork(scale)
    network(rollout(FRAMES, 1, scale.batch, seed=1).next_observations[0]).sum().backward()

    def run() -> None:
        for action in variant(name, network, scale).values():
            action()

    return memory_growth(run)


def against_ppo(scale: Scale) -> list[Row]:
    """``compute`` and then ``update`` of one rollout, all by default, as a share of PPO's four epochs on it."""
    network = PaperNetwork(scale)
    transitions = rollout(FRAMES, scale.steps, scale.environments, seed=2)
    frames = transitions.next_observations.flatten(0, 1)
    acb = bonuses.ACB(network, frames[:1], seed=0, ensemble_size=scale.ensemble_size)
    ppo = PPO(network)
    actions: dict[str, Action] = {
        "PPO": lambda: ppo.learn(frames),
        "compute": lambda: acb.compute(transitions),
        "update": lambda: acb.update(transitions),
    }
    seconds = interleaved(actions, scale.repeats)
    share = (seconds["compute"] + seconds["update"]) / seconds["PPO"]
    return [
        *(Row("rollout", "sketch", f"{method} time", seconds[method], "s") for method in METHODS),
        Row("rollout", "PPO", "four epochs time", seconds["PPO"], "s"),
        Row("rollout", "sketch", "compute and update over PPO's four epochs", share, "ratio"),
    ]
