"""The released ACB, written from the facts known of it (FACTS.md section 1), to be measured against."""

import copy

import torch
from torch import Tensor, nn
from torch.nn import functional as F


class ReleasedACB:
    """Every state's gradient by a backward pass of its own, all of them in one (n, d) matrix, then a linear ensemble.

    ``alone`` False: the losses of a batch are differentiated one by one through the graph of the whole batch, as the
    released code does (a Jacobian). True: the kinder reading, a forward and a backward pass of each state by itself.
    """

    def __init__(self, network: nn.Module, parameters: list[nn.Parameter], ensemble_size: int, *, alone: bool):
        self.network = network
        self.parameters = parameters
        self.alone = alone
        d = sum(parameter.numel() for parameter in parameters)
        self.ensemble = nn.Sequential(nn.BatchNorm1d(d), nn.Linear(d, ensemble_size, bias=False))
        self.average = copy.deepcopy(self.ensemble)
        self.optimizer = torch.optim.RMSprop(self.ensemble.parameters(), lr=1e-4)
        self.updates = 0

    def compute(self, observations: Tensor) -> Tensor:
        """``max_m <w_m, batchnorm(g_n)>^2``. Shapes: (n, ...) -> (n,)."""
        gradients = self._gradients(observations)
        with torch.no_grad():
            return self.average(gradients).square().max(1).values

    def update(self, observations: Tensor) -> None:
        """One step of RMSprop on noise, and of the average of iterates. Shapes: (n, ...)."""
        gradients = self._gradients(observations)
        members = self.ensemble[1].weight.shape[0]
        loss = F.mse_loss(self.ensemble(gradients), torch.randn(len(gradients), members))
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        self.updates += 1
        keep = (self.updates - 1) / self.updates
        new, old = self.ensemble[1].weight.data, self.average[1].weight.data
        self.average[1].weight.data = old * keep + new * (1 - keep)

    def _gradients(self, observations: Tensor) -> Tensor:
        if self.alone:
            return torch.stack([self._gradient(self._losses(one[None])[0], keep=False) for one in observations])
        losses = self._losses(observations)
        return torch.stack([self._gradient(loss, keep=True) for loss in losses])

    def _losses(self, observations: Tensor) -> Tensor:
        logits = self.network(observations)
        labels = logits.argmax(1)
        probabilities = logits.softmax(1).gather(1, labels[:, None]).squeeze(1).detach()
        return F.cross_entropy(logits, labels, reduction="none") * probabilities.sqrt()

    def _gradient(self, loss: Tensor, *, keep: bool) -> Tensor:
        return torch.cat([g.flatten() for g in torch.autograd.grad(loss, self.parameters, retain_graph=keep)])
