"""Networks that learn from rollouts: what RND, ICM and the inverse-dynamics embedding share of training and saving."""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from optimist.bonuses.checkpointing import load_optimizer_state, module_state, optimizer_state, require_same_layout
from optimist.bonuses.learned.whitened import WhitenedObservations
from optimist.ranks import ALONE, Ranks, SharedRows, sum_gradients


class NetworkTrainer:
    """Named networks, Adam on those of their parameters that take gradients, the observations they read, and chance.

    ``fit`` is the only method that trains; the networks, the observations and the generator are the owner's to use.
    """

    def __init__(
        self,
        networks: Mapping[str, nn.Module],
        observations: WhitenedObservations,
        *,
        learning_rate: float,
        generator: torch.Generator,
        ranks: Ranks = ALONE,
    ):
        self._ranks = ranks
        self._networks = dict(networks)
        self._observations = observations
        self._generator = generator
        self._trained = [p for network in networks.values() for p in network.parameters() if p.requires_grad]
        self._optimizer = torch.optim.Adam(self._trained, lr=learning_rate)

    @torch.enable_grad()
    def fit(
        self,
        batches: Iterable[Tensor],
        losses: Callable[[Tensor], Mapping[str, Tensor]],
        *,
        weights: Mapping[str, float],
        rows: SharedRows | None = None,
    ) -> tuple[dict[str, float], int]:
        """The mean of each loss over the states trained on, and their number, after a step of Adam for every batch.

        A step descends ``sum_k weights[k] mean_n losses(n)[k]_n``, n the ``rows`` of a batch: each rank computes the
        losses of its own, and gradients are summed over all.
        Shapes: batches of indices (n,) among the rows of all ranks, ``losses`` (k,) of own rows -> {name: (k,)}.
        """
        sums, trained = dict.fromkeys(weights, 0.0), 0
        for index in batches:
            share, own = (1.0, index) if rows is None else (rows.share(index), rows.own(index))
            # Where no row of a batch is this rank's, its losses and gradients are 0.
            means = {name: share * loss.mean() for name, loss in losses(own).items()} if share else {}
            given = torch.tensor([means[name].item() if means else 0.0 for name in weights], dtype=torch.float64)
            of_all = dict(zip(weights, self._ranks.sum(given).tolist(), strict=True))
            if not all(map(math.isfinite, of_all.values())):
                raise ValueError("the loss of a network is not finite: lower its learning_rate; nothing was changed")
            self._optimizer.zero_grad()
            if means:
                torch.stack([weights[name] * mean for name, mean in means.items()]).sum().backward()
            sum_gradients(self._trained, self._ranks)
            self._optimizer.step()
            trained += len(index)
            for name, mean in of_all.items():
                sums[name] += mean * len(index)
        self._optimizer.zero_grad()
        return {name: total / max(trained, 1) for name, total in sums.items()}, trained

    def state_dict(self) -> dict[str, Any]:
        """The networks by name, Adam's moments, the whitening statistics and the random state."""
        return {name: module_state(network) for name, network in self._networks.items()} | {
            "optimizer": optimizer_state(self._optimizer),
            "observations": self._observations.state_dict(),
            "generator": self._generator.get_state(),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue exactly where ``state`` was taken."""
        state = require_same_layout(state, self.state_dict())
        for name, network in self._networks.items():
            network.load_state_dict(state[name])
        load_optimizer_state(self._optimizer, state["optimizer"])
        self._observations.load_state_dict(state["observations"])
        self._generator.set_state(state["generator"])


def minibatches(total: int, *, epochs: int, count: int, generator: torch.Generator) -> Iterator[Tensor]:
    """Indices of ``count`` near equal minibatches per epoch, from a fresh permutation of all rows each epoch."""
    for _ in range(epochs):
        order = torch.randperm(total, generator=generator)
        yield from (part for part in order.tensor_split(count) if len(part))
