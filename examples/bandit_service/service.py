"""A bandit behind HTTP: decisions, late rewards by the number of the decision, metrics. See README.md.

    pip install 'optimist[service]'
    python examples/bandit_service/service.py --folder state --n-features 20 --port 8000

All requests are answered by one thread, in turn: a decision takes less time than the parsing of its request. Files are
written by another thread. To serve more than one core can, run one service per shard of users.
"""

import argparse
import asyncio
import logging
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Annotated

import numpy as np
import uvicorn
from durable import Closed, DurablePolicy, Unknown
from fastapi import FastAPI, HTTPException
from fastapi.responses import PlainTextResponse
from pydantic import BaseModel, Field, FiniteFloat

from optimist import bandits

log = logging.getLogger("bandit_service")
BUCKETS = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.05, 0.25)  # seconds


class Question(BaseModel):
    """Which of these actions? One row of features each."""

    actions: Annotated[list[list[FiniteFloat]], Field(min_length=1)]
    mask: list[bool] | None = None


class Decision(BaseModel):
    """The action to play, and the number to send its reward with. The probability is for logs."""

    decision: int
    action: int
    probability: float


class Reward(BaseModel):
    """What the action of a decision earned; minutes or days later."""

    decision: int
    reward: FiniteFloat


class Learned(BaseModel):
    """How many rewards were learned so far; this one is on record."""

    updates: int


class Latencies:
    """A histogram as Prometheus counts it."""

    def __init__(self) -> None:
        self.counts = [0] * (len(BUCKETS) + 1)
        self.total = 0.0

    def add(self, seconds: float) -> None:
        """Counts one request."""
        self.counts[sum(seconds > bound for bound in BUCKETS)] += 1
        self.total += seconds

    def lines(self, name: str) -> list[str]:
        """The lines of the metrics page."""
        bounds = [*map(str, BUCKETS), "+Inf"]
        below = np.cumsum(self.counts)
        buckets = [f'{name}_bucket{{le="{bound}"}} {count}' for bound, count in zip(bounds, below, strict=True)]
        return [f"# TYPE {name} histogram", *buckets, f"{name}_sum {self.total:.6f}", f"{name}_count {below[-1]}"]


class Service:
    """The durable policy, and when to save it."""

    def __init__(self, durable: DurablePolicy, save_every: int):
        self.durable = durable
        self.save_every = save_every
        self.latencies = Latencies()
        self.failures = 0
        self.last_save = time.time()
        self._saving: asyncio.Task[None] | None = None

    def save_if_due(self) -> None:
        """Starts a save in another thread after ``save_every`` updates, one at a time."""
        is_idle = self._saving is None or self._saving.done()
        if is_idle and self.durable.updates_since_save >= self.save_every:
            self._saving = asyncio.create_task(self._save())

    async def _save(self) -> None:
        try:
            await asyncio.to_thread(self.durable.write, *self.durable.begin_save())
            self.last_save = time.time()
        except OSError:  # a full disk: the journals go on, and the next save is tried after as many updates
            self.failures += 1
            log.exception("the policy could not be saved; the journals since the last save are kept")

    async def close(self) -> None:
        """Waits for a running save, and saves."""
        if self._saving is not None:
            await self._saving
        self.durable.close()

    def metrics(self) -> str:
        """The page that Prometheus reads."""
        counts = self.durable.counts
        values = {
            "bandit_decisions_total": counts.decisions,
            "bandit_updates_total": counts.updates,
            "bandit_dropped_total": counts.dropped,
            "bandit_reward_sum": counts.reward,
            "bandit_pending": len(self.durable.pending),
            "bandit_updates_since_save": self.durable.updates_since_save,
            "bandit_save_failures_total": self.failures,
            "bandit_seconds_since_save": round(time.time() - self.last_save, 3),
            "bandit_generation": self.durable.generation,
        }
        lines = [f"{name} {value}" for name, value in values.items()]
        return "\n".join([*lines, *self.latencies.lines("bandit_decide_seconds"), ""])


def make_app(service: Service) -> FastAPI:
    """The routes."""

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        yield
        await service.close()

    app = FastAPI(title="Optimist bandit", lifespan=lifespan)

    @app.post("/decide")
    async def decide(question: Question) -> Decision:
        start = time.perf_counter()
        try:
            number, action, probability = service.durable.decide(question.actions, question.mask)
        except ValueError as refusal:  # a wrong number of features, ragged rows, no action left by the mask
            raise HTTPException(422, str(refusal)) from None
        except OSError as problem:
            raise HTTPException(503, f"the journal cannot be written: {problem}") from None
        service.latencies.add(time.perf_counter() - start)
        return Decision(decision=number, action=action, probability=probability)

    @app.post("/reward")
    async def reward(given: Reward) -> Learned:
        try:
            service.durable.reward(given.decision, given.reward)
        except Unknown:
            raise HTTPException(404, f"no decision {given.decision} was made here") from None
        except Closed:
            raise HTTPException(409, f"decision {given.decision} has its reward, or was dropped") from None
        except OSError as problem:
            raise HTTPException(503, f"the journal cannot be written: {problem}") from None
        service.save_if_due()
        return Learned(updates=service.durable.counts.updates)

    @app.get("/metrics", response_class=PlainTextResponse)
    async def metrics() -> str:
        return service.metrics()

    @app.get("/health")
    async def health() -> dict[str, str]:
        return {"status": "ok"}

    return app


def warm_up(policy: bandits.Policy) -> None:
    """Compiles what decisions and updates need before the first request comes; a copy does the work."""
    twin, rows = policy.copy(), np.eye(2, policy.n_features)
    twin.predict(rows, return_probability=True)
    twin.partial_fit(rows[0], 0.0)


def main() -> None:
    """Reads the command line, opens the folder, serves until it is stopped."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--folder", type=Path, required=True, help="where the state is kept")
    parser.add_argument("--n-features", type=int, required=True)
    parser.add_argument("--beta", type=float, default=0.3, help="about the noise of your rewards, or less")
    parser.add_argument("--history", default="incremental", choices=("incremental", "rerandomized"))
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--save-every", type=int, default=1000, metavar="N", help="updates between two saves")
    parser.add_argument("--max-pending", type=int, default=100_000, help="decisions that may wait for a reward")
    parser.add_argument("--fsync", action="store_true", help="wait for the disk before every answer")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=8000)
    options = parser.parse_args()
    try:
        policy = bandits.ACB(options.n_features, beta=options.beta, history=options.history, seed=options.seed)
        durable = DurablePolicy(options.folder, policy, options.max_pending, options.fsync)
    except (ValueError, OSError) as refusal:
        parser.exit(2, f"{refusal}\n")
    warm_up(durable.policy)
    uvicorn.run(
        make_app(Service(durable, options.save_every)), host=options.host, port=options.port, log_level="warning"
    )


if __name__ == "__main__":
    main()
