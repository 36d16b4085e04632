"""ACB left alone for two million states, few and many different ones, and held against an oracle in double precision.

python benchmarks/soak.py                        # twelve soaks, into results/soak/
python benchmarks/soak.py --solvers default      # six of them: the default alone
python benchmarks/soak.py --quick                # 40,960 states each, seconds: the same checks

A soak feeds rollouts of 3, 50 or 100,000 different states to ACB, all of them equally often (uniform) or so that the
first 1 % of them has nearly half the visits (skewed). *default* is the preset as it is; *streaming* is the same with
the solver that has no matrix. In every rollout the loss and the bonuses are finite. At the end the bonus of up to 200
states is divided by the exact one: features of all visits, standardized with a floor per layer, covariance and solve
in float64 (ratio: least, median, largest). *Law* is the median of the bonus over that half-way, times the root of (n
+ 1) over (n' + 1), the visits at the end and half-way: 1 where the bonus falls as 1 / sqrt(n + 1). It is of states
that are seen more often than the mean. *Least eigenvalue* is that of Sigma as the solver keeps it, whose ridge is 1;
the streaming solver has none. A second bonus is loaded from a saved state two rollouts before the end, and must learn
and pay the same to the last bit (identical).
"""

import argparse
import csv
import io
import math
import shlex
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from measuring import machine
from optimist.bonuses import ACB, Transitions, features
from optimist.bonuses.acb.config import DEFAULT

RESULTS = Path(__file__).parents[1] / "results" / "soak"
INPUTS = 6
ENVS = 16
EPSILON = 1e-3  # of the mean variance of a layer: the preset's own, written out, since the oracle is to be independent
VARIANTS: dict[str, dict[str, Any]] = {"default": {}, "streaming": {"solver": "streaming"}}
QUICK: dict[str, dict[str, Any]] = {
    "default": {"sketch_size": 8},
    "streaming": {"sketch_size": 8, "solver": "streaming", "rank": 96},
}
LEAST_EIGENVALUE = 0.99
LARGEST_FACTOR = 2.0
"""Of the streaming solver's median bonus against the exact one, either way."""
LAW = (0.7, 1.4)  # both are rms of M draws that share half their data: of one state 5.5 sd, 1 in 20 million
ASKED = 200


def policy() -> nn.Module:
    """A network whose features vary, the same at every call."""
    network = nn.Sequential(nn.Linear(INPUTS, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 3))
    generator = torch.Generator().manual_seed(0)
    for parameter in network.parameters():
        nn.init.normal_(parameter, std=0.3, generator=generator)
    return network


def transitions_of(states: Tensor) -> Transitions:
    """Transitions into ``states`` (T, N, ...)."""
    never = torch.zeros(states.shape[:2], dtype=torch.bool)
    return Transitions(states, never.long(), states, never, never)


class Oracle:
    """The exact bounded bonus in float64, in the coordinates of all visits, ridge 1; every state is read once more."""

    def __init__(self, read: Callable[[Tensor], Tensor], layers: Sequence[tuple[str, int]], table: Tensor):
        self._read, self._layers, self._table = read, layers, table

    def _chunks(self, visits: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
        for rows, counts in zip(self._table.split(4096), visits.double().split(4096), strict=True):
            yield self._read(rows).double(), counts.unsqueeze(1)

    def standardization(self, visits: Tensor) -> tuple[Tensor, Tensor]:
        """The mean of every coordinate, and what it is divided by, (d,) each."""
        mean = sum((counts * g).sum(0) for g, counts in self._chunks(visits)) / visits.sum()
        variance = sum((counts * (g - mean).square()).sum(0) for g, counts in self._chunks(visits)) / visits.sum()
        names = [name for name, size in self._layers for _ in range(size)]
        floor = torch.empty_like(variance)
        for layer in set(names):
            own = torch.tensor([name == layer for name in names])
            floor[own] = EPSILON * variance[own].mean()
        return mean, (variance + floor).sqrt()

    def bonuses(self, asked: Tensor, visits: Tensor) -> Tensor:
        """``sqrt(q / (1 + q))``, ``q = x' Sigma^-1 x``, of the states ``asked``, (n,)."""
        mean, deviation = self.standardization(visits)
        sigma = torch.eye(len(mean), dtype=torch.float64)
        for g, counts in self._chunks(visits):
            x = (g - mean) / deviation * counts.sqrt()
            sigma.addmm_(x.T, x)
        x = (self._read(asked).double() - mean) / deviation
        q = (x * torch.linalg.solve(sigma, x.T).T).sum(1)
        return (q / (1 + q)).sqrt()


def least_eigenvalue(bonus: ACB, deviation: Tensor) -> float:
    """The least eigenvalue of ``Sigma = I + sum x x'`` as the exact solver keeps it; NaN where there is no matrix."""
    solver = bonus.state_dict()["solver"]
    if "moments" not in solver:
        return math.nan
    scatter = solver["moments"]["scatter"].tril()
    scatter = (scatter + scatter.tril(-1).T) / deviation / deviation.unsqueeze(1)
    scatter.diagonal().add_(1)
    return torch.linalg.eigvalsh(scatter)[0].item()


def copied(bonus: ACB, settings: dict[str, Any], example: Tensor) -> ACB:
    """Another bonus, of another seed, that goes on from the state of this one as a file would have it."""
    file = io.BytesIO()
    torch.save(bonus.state_dict(), file)
    file.seek(0)
    other = ACB(policy(), example, seed=9, **settings)
    other.load_state_dict(torch.load(file, weights_only=True))
    return other


def soak(
    settings: dict[str, Any], distinct: int, *, skewed: bool, states: int, rollout: int, seed: int
) -> dict[str, Any]:
    """What came of one soak."""
    begun = time.process_time()
    generator = torch.Generator().manual_seed(seed)
    table = torch.randn(distinct, INPUTS, generator=generator)
    bonus = ACB(policy(), table[:1], **settings)
    visits = torch.zeros(distinct, dtype=torch.int64)
    some = torch.randperm(distinct, generator=generator)[:ASKED]
    query, steps = transitions_of(table[some, None]), states // rollout
    finite = identical = True
    half, half_visits, other = torch.zeros(0), visits, None
    for step in range(1, steps + 1):
        u = torch.rand(rollout, generator=generator)
        drawn = (distinct * (u**6 if skewed else u)).long().clamp_max(distinct - 1)
        visits += torch.bincount(drawn, minlength=distinct)
        transitions = transitions_of(table[drawn].unflatten(0, (-1, ENVS)))
        told = bonus.update(transitions)
        paid = bonus.compute(query).flatten()
        finite &= math.isfinite(told["loss"]) and bool(paid.isfinite().all())
        if step == steps // 2:
            half, half_visits = paid, visits.clone()
        if other is not None:
            identical &= other.update(transitions) == told and torch.equal(other.compute(query).flatten(), paid)
        if step == steps - 2:
            other = copied(bonus, settings, table[:1])
    config = bonus.config
    made = features.make(
        config.features,
        policy(),
        table[:1],
        seed=0,
        feature_loss=config.feature_loss,
        weighting=config.weighting,
        sketch_size=config.sketch_size,
    )
    oracle = Oracle(lambda rows: made(rows).dense(), made.layers, table)
    ratio = paid / oracle.bonuses(table[some], visits)
    often = half_visits[some] > half_visits.float().mean()
    law = paid / half * ((visits[some] + 1) / (half_visits[some] + 1)).sqrt()
    return {
        "distinct": distinct,
        "visits": "skewed" if skewed else "uniform",
        "seed": seed,
        "states": steps * rollout,
        "dimensions": sum(shape.numel() for shape in made.shapes),
        "finite": finite,
        "least eigenvalue": least_eigenvalue(bonus, oracle.standardization(visits)[1]),
        "ratio, least": ratio.min().item(),
        "ratio, median": ratio.median().item(),
        "ratio, largest": ratio.max().item(),
        "law": law[often].median().item() if bool(often.any()) else math.nan,
        "identical": identical,
        "CPU minutes": (time.process_time() - begun) / 60,
    }


def faults(row: dict[str, Any], members: int = DEFAULT.ensemble_size) -> list[str]:
    """What of a soak is not as it should be; nothing, if all is well."""
    found = [name for name in ("finite", "identical") if not row[name]]
    if row["solver"] == "default":
        # The rms of M exact draws has the relative sd 1 / sqrt(2 M), bounded less: 6 sd, 200 states, 1 in 2 million.
        most = 6 / math.sqrt(2 * members)
        found += [f"ratio, {end}" for end in ("least", "largest") if not abs(row[f"ratio, {end}"] - 1) < most]
        if not row["least eigenvalue"] >= LEAST_EIGENVALUE:
            found.append("least eigenvalue")
    elif not 1 / LARGEST_FACTOR < row["ratio, median"] < LARGEST_FACTOR:
        found.append("ratio, median")
    if not LAW[0] < row["law"] < LAW[1]:
        found.append("law")
    return found


def shown(value: Any) -> str:
    """A cell of the table."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:.3g}" if isinstance(value, float) else str(value)


def main() -> int:
    """Soak, print, write ``soak.csv`` and ``soak.md``; 1 if something was not as it should be."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="40,960 states each, of at most 5,000 different ones")
    parser.add_argument("--solvers", nargs="+", choices=VARIANTS, default=list(VARIANTS))
    parser.add_argument("--distinct", nargs="+", type=int, default=None, help="numbers of different states")
    parser.add_argument("--seed", type=int, default=0, help="of the states and the visits")
    parser.add_argument("--out", type=Path, default=RESULTS, help="folder of the two files")
    chosen = parser.parse_args()
    torch.set_num_threads(1)
    conditions, rows = machine(), []
    sizes = {"states": 40_960, "rollout": 4_096} if chosen.quick else {"states": 2**21, "rollout": 2**14}
    for solver in chosen.solvers:
        settings = (QUICK if chosen.quick else VARIANTS)[solver]
        for distinct in chosen.distinct or (3, 50, 5_000 if chosen.quick else 100_000):
            for skewed in (False, True):
                row = {"solver": solver} | soak(settings, distinct, skewed=skewed, seed=chosen.seed, **sizes)
                row["faults"] = "; ".join(faults(row)) or "none"
                rows.append({name: shown(value) for name, value in row.items()})
                print(" ".join(f"{name}={value}" for name, value in rows[-1].items()), flush=True)
    chosen.out.mkdir(parents=True, exist_ok=True)
    with (chosen.out / "soak.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    command = shlex.join(["python", "benchmarks/soak.py", *sys.argv[1:]])
    told = " ".join(__doc__.split("\n\n")[2].split())
    lines = ["# The soak of ACB", "", f"`{command}` on {conditions}.", "", told, ""]
    lines += [f"| {' | '.join(cells)} |" for cells in (list(rows[0]), ["---"] * len(rows[0]), *map(dict.values, rows))]
    page = "\n".join(lines) + "\n"
    (chosen.out / "soak.md").write_text(page)
    print(page)
    return int(any(row["faults"] != "none" for row in rows))


if __name__ == "__main__":
    sys.exit(main())
