"""The processes (ranks) that play one run together, and which rows of its data are whose. Alone, all is the identity.

N environments are divided evenly: rank r of W plays the N / W from ``r N / W`` on. Whatever is drawn is drawn for all N
on every rank, from the same generators, and each keeps its own rows: so W ranks do what one would do.
"""

import datetime
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor, nn

__all__ = ["ALONE", "LostRank", "Ranks", "SharedRows", "joined", "restarts", "sum_gradients"]

Array = TypeVar("Array")  # Tensor or np.ndarray
PATIENCE = datetime.timedelta(minutes=30)
"""How long a rank waits for the others before it gives up."""


class LostRank(RuntimeError):
    """Another process of this run has ended, or cannot be reached."""


@dataclass(eq=False)
class Ranks:
    """This process among ``count`` that play one run: `sum`, `any` and `gather` over all of them, `mine` of a whole.

    Every method that exchanges something must be called by all ranks, in the same order. ``exchanged`` counts the bytes
    that this rank has given to each kind of exchange.
    """

    rank: int = 0
    count: int = 1
    on_this_machine: int = 1
    """How many of them share this machine, its cores and its memory."""
    exchanged: dict[str, int] = field(default_factory=dict)

    def __deepcopy__(self, memo: dict[int, Any]) -> "Ranks":
        return self  # a copy of what belongs to the run still belongs to the run

    @property
    def alone(self) -> bool:
        """Whether there are no others."""
        return self.count == 1

    @property
    def is_first(self) -> bool:
        """Whether this is the rank that writes."""
        return self.rank == 0

    def part(self, total: int) -> slice:
        """The places of this rank's rows among ``total``."""
        if total % self.count:
            raise ValueError(
                f"{total} environments cannot be divided evenly among {self.count} processes: choose n_envs as a "
                f"multiple of {self.count}, or other processes"
            )
        size = total // self.count
        return slice(self.rank * size, (self.rank + 1) * size)

    def mine(self, whole: Array, dim: int = 0) -> Array:
        """This rank's rows of a tensor or array of all, along ``dim``."""
        if self.alone:
            return whole
        return whole[(slice(None),) * dim + (self.part(whole.shape[dim]),)]  # pyrefly: ignore

    def placed(self, rows: Tensor) -> Tensor:
        """This rank's rows at their places among those of all, and 0 elsewhere. Shapes: (n, ...) -> (N, ...)."""
        if self.alone:
            return rows
        whole = rows.new_zeros(self.count * len(rows), *rows.shape[1:])
        whole[self.part(len(whole))] = rows
        return whole

    def sum(self, values: Tensor) -> Tensor:
        """The sum of what every rank gives; all ranks get the same numbers."""
        if self.alone:
            return values
        total = values.detach().clone(memory_format=torch.contiguous_format)
        with self._heard("sum", total):
            dist.all_reduce(total)
        return total

    def any(self, flag: bool) -> bool:
        """Whether a rank says so."""
        return flag if self.alone else bool(self.sum(torch.tensor(int(flag))))

    def gather(self, rows: Tensor, dim: int = 0) -> Tensor:
        """The rows of all ranks along ``dim``, as many of each. Shapes: (n, ...) -> (N, ...)."""
        if self.alone:
            return rows
        given = (rows.view(torch.uint8) if rows.dtype == torch.bool else rows).detach().contiguous()
        parts = [torch.empty_like(given) for _ in range(self.count)]
        with self._heard("gather", given):
            dist.all_gather(parts, given)
        whole = torch.cat(parts, dim)
        return whole.view(torch.bool) if rows.dtype == torch.bool else whole

    def gather_uneven(self, rows: Tensor) -> list[Tensor]:
        """The rows of every rank, of which each may have another number, by rank. Shapes: (n, ...) -> (n_r, ...)."""
        if self.alone:
            return [rows]
        lengths = self.gather(torch.tensor([len(rows)])).tolist()
        if not any(lengths):
            return [rows] * self.count
        padded = rows.new_zeros(max(lengths), *rows.shape[1:])
        padded[: len(rows)] = rows
        return [part[:n] for part, n in zip(self.gather(padded.unsqueeze(0)), lengths, strict=True)]

    def objects(self, one: Any) -> list[Any]:
        """What every rank gives, by rank: small things that are no tensors."""
        if self.alone:
            return [one]
        found: list[Any] = [None] * self.count
        with self._heard("objects", torch.empty(0)):
            dist.all_gather_object(found, one)
        return found

    def threads(self, wanted: int) -> int:
        """The threads of this process: ``wanted``, but of a machine that it shares no more than its share of cores."""
        return wanted if self.alone else max(1, min(wanted, (os.cpu_count() or 1) // self.on_this_machine))

    @contextmanager
    def _heard(self, kind: str, given: Tensor) -> Iterator[None]:
        self.exchanged[kind] = self.exchanged.get(kind, 0) + given.nbytes
        try:
            yield
        except RuntimeError as problem:
            told = str(problem).strip().partition("\n")[0]
            raise LostRank(
                f"another of the {self.count} processes of this run has ended or cannot be reached ({told}): see what "
                "it says; the run can be resumed from its last checkpoint, with any number of processes"
            ) from problem


ALONE = Ranks()


@contextmanager
def joined(environment: Mapping[str, str] = os.environ) -> Iterator[Ranks]:
    """The ranks that ``torchrun`` or ``srun`` started this process with; `ALONE` without them.

    Read are RANK, WORLD_SIZE, LOCAL_RANK and LOCAL_WORLD_SIZE, which torchrun sets; or those of Slurm's tasks, if
    MASTER_ADDR and MASTER_PORT say where they meet. Tensors on the CPU go by gloo, those on GPUs by nccl.
    """
    place = _place(environment)
    if place is None or place["WORLD_SIZE"] == 1:
        yield ALONE
        return
    backend = "gloo"
    if torch.cuda.is_available():
        torch.cuda.set_device(place["LOCAL_RANK"] % torch.cuda.device_count())
        backend = "cpu:gloo,cuda:nccl"
    dist.init_process_group(backend, rank=place["RANK"], world_size=place["WORLD_SIZE"], timeout=PATIENCE)
    try:
        yield Ranks(place["RANK"], place["WORLD_SIZE"], place["LOCAL_WORLD_SIZE"])
    finally:
        dist.destroy_process_group()


TORCHRUN = {name: name for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE")}
SLURM = {
    "RANK": "SLURM_PROCID",
    "WORLD_SIZE": "SLURM_NTASKS",
    "LOCAL_RANK": "SLURM_LOCALID",
    "LOCAL_WORLD_SIZE": "SLURM_NTASKS_PER_NODE",
}


def _place(environment: Mapping[str, str]) -> dict[str, int] | None:
    """Which process this is, if it is one of several; None if nobody says so."""
    if not all(name in environment for name in ("MASTER_ADDR", "MASTER_PORT")):
        return None
    for names in (TORCHRUN, SLURM):
        if names["RANK"] in environment and names["WORLD_SIZE"] in environment:
            whole = environment[names["WORLD_SIZE"]]
            return {
                "RANK": int(environment[names["RANK"]]),
                "WORLD_SIZE": int(whole),
                "LOCAL_RANK": int(environment.get(names["LOCAL_RANK"], "0")),
                "LOCAL_WORLD_SIZE": int(environment.get(names["LOCAL_WORLD_SIZE"], whole)),
            }
    return None


def is_launched(environment: Mapping[str, str] = os.environ) -> bool:
    """Whether torchrun or srun started this process as a rank, be it the only one."""
    return _place(environment) is not None


def restarts(environment: Mapping[str, str] = os.environ) -> int:
    """How often torchrun, or Slurm after a preemption, has started this command again."""
    return max(int(environment.get(name, "0")) for name in ("TORCHELASTIC_RESTART_COUNT", "SLURM_RESTART_COUNT"))


class SharedRows:
    """The valid steps of a rollout of all ranks as rows, numbered as one rank would: by time, then by environment.

    ``total`` is their number over all ranks. Alone, ``own`` of an index is the index itself.
    Shapes: valid (T, n), of this rank's environments.
    """

    def __init__(self, valid: Tensor, ranks: Ranks):
        self._ranks = ranks
        if ranks.alone:
            self.total = int(valid.sum())
            return
        valid = ranks.gather(valid.cpu(), 1)
        owners = torch.arange(ranks.count).repeat_interleave(valid.shape[1] // ranks.count)
        self._owners = owners.expand(valid.shape)[valid]  # (total,)
        counts = torch.bincount(self._owners, minlength=ranks.count)
        if not bool(counts.all()):
            raise ValueError(
                f"process {int(counts.argmin())} of {ranks.count} had no valid step in a rollout (its environments "
                "only reset): choose more steps, or fewer processes"
            )
        is_mine = self._owners == ranks.rank
        self._places = torch.where(is_mine, is_mine.cumsum(0) - 1, -1)
        self.total = len(is_mine)

    def own(self, index: Tensor) -> Tensor:
        """Where those of the rows ``index`` that are this rank's stand among its own, in the order of ``index``."""
        if self._ranks.alone:
            return index
        places = self._places[index]
        return places[places >= 0]

    def kept(self, index: Tensor, whole: Tensor) -> Tensor:
        """Of a tensor with one entry for each of the rows ``index``, those of this rank's rows."""
        return whole if self._ranks.alone else whole[self._places[index] >= 0]

    def share(self, index: Tensor) -> float:
        """Which share of the rows ``index`` is this rank's."""
        return 1.0 if self._ranks.alone else len(self.own(index)) / len(index)

    def together(self, index: Tensor, rows: Tensor) -> Tensor:
        """The rows ``index`` in their order, on every rank, from each rank's own. Shapes: (k, ...) -> (n, ...)."""
        if self._ranks.alone:
            return rows
        owners = self._owners[index]
        longest = int(torch.bincount(owners).max())
        padded = rows.new_zeros(1, longest, *rows.shape[1:])
        padded[0, : len(rows)] = rows
        parts, whole = self._ranks.gather(padded), rows.new_empty(len(index), *rows.shape[1:])
        for rank, part in enumerate(parts):
            theirs = (owners == rank).to(rows.device)
            whole[theirs] = part[: int(theirs.sum())]
        return whole


def sum_gradients(parameters: Iterable[nn.Parameter], ranks: Ranks) -> None:
    """Replace every gradient by its sum over the ranks, in one exchange; a parameter without one counts as 0."""
    if ranks.alone:
        return
    trained = [parameter for parameter in parameters if parameter.requires_grad]
    given = [torch.zeros_like(p) if p.grad is None else p.grad for p in trained]
    summed = ranks.sum(torch.cat([gradient.flatten() for gradient in given]))
    parts = summed.split([gradient.numel() for gradient in given])
    for parameter, part in zip(trained, parts, strict=True):
        parameter.grad = part.view_as(parameter)
