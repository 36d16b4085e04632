"""The pseudo-losses whose gradient is the feature: how much the policy would change if it were sure of its own choice.

Any callable ``loss(network, observations) -> (n,)`` whose n-th value depends on the n-th observation alone will do.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal, Protocol

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from optimist.bonuses.observations import Observations, count

Weighting = Literal["none", "sqrt-probability"]
FeatureLoss = Literal["argmax", "fisher"]


class Loss(Protocol):
    """A pseudo-loss of each state under a policy network."""

    def __call__(self, network: nn.Module, observations: Observations, /) -> Tensor:
        """One loss per state. Shapes: observations (n, ...) -> (n,)."""
        ...


def forward(network: nn.Module, observations: Observations) -> Any:
    """What the network itself returns, ``f(x)``."""
    return network(observations)


@dataclass(frozen=True)
class ArgmaxLoss:
    """The cross-entropy of a softmax policy at its own most likely action, ``-log p(y|x)`` with ``y = argmax f(x)``.

    Shapes: observations (n, ...) -> (n,); ``logits(network, observations)`` gives (n, A).
    Paper: section 4, equation 1, the gradient representation ``g(x; f, theta)``.
    Deviation: none with ``weighting="none"``; ``"sqrt-probability"`` multiplies by ``sqrt(p(y|x))``, held constant, as
    the authors' released code does and the text does not.
    """

    weighting: Weighting = "none"
    logits: Callable[[nn.Module, Observations], Tensor] = forward

    def __post_init__(self) -> None:
        require_weighting(self.weighting)

    def __call__(self, network: nn.Module, observations: Observations, /) -> Tensor:
        """``-log p(y|x)``, weighted. Shapes: (n, ...) -> (n,)."""
        return argmax_cross_entropy(require_logits(self.logits(network, observations), observations), self.weighting)


@dataclass(frozen=True)
class MultiDiscreteLoss:
    """The sum over the heads of a multi-discrete policy of each head's cross-entropy at its own most likely action.

    The heads are independent, so this is the log-loss of the joint action that is most likely.
    Shapes: ``sizes`` (A_1, .., A_k); ``logits(network, observations)`` gives (n, A_1 + .. + A_k) -> (n,).
    Deviation: the paper has one discrete action; with one head this is ``ArgmaxLoss``.
    """

    sizes: Sequence[int]
    weighting: Weighting = "none"
    logits: Callable[[nn.Module, Observations], Tensor] = forward

    def __post_init__(self) -> None:
        require_weighting(self.weighting)
        if not self.sizes or min(self.sizes) < 1:
            raise ValueError(f"sizes must be the number of choices of each head, all >= 1, got {self.sizes}")

    def __call__(self, network: nn.Module, observations: Observations, /) -> Tensor:
        """``sum_k -log p_k(y_k|x)``, each weighted. Shapes: (n, ...) -> (n,)."""
        logits = require_logits(self.logits(network, observations), observations)
        heads = logits.split(require_sizes(self.sizes, logits), dim=1)
        return torch.stack([argmax_cross_entropy(head, self.weighting) for head in heads]).sum(0)


@dataclass(frozen=True)
class FisherLoss:
    """``sum_a c_a f_a`` with ``c = sqrt(p) u - p <sqrt(p), u>``: p the softmax policy, held constant, u fixed signs.

    Over random signs the mean of ``c c'`` is ``diag(p) - p p'``, so that the mean of ``g g'`` is the Fisher information
    of the policy at the state, which is what ``g g'`` of a sampled label approximates as well. There is no label here:
    the gradient is smooth in the state, where that of `ArgmaxLoss` jumps when two near-equal logits change places.
    The signs alternate, +1 -1 +1 ..., unless given: with both signs among them c is 0 for no p (equal signs give 0 at
    the uniform policy). Of several heads, ``sizes``, the losses are summed, as in `MultiDiscreteLoss`.

    Shapes: ``logits(network, observations)`` gives (n, A); ``signs`` is (A,) of +-1 -> (n,).
    Deviation: ours, not the paper's; the mirror of `GaussianLoss` for discrete actions.
    """

    logits: Callable[[nn.Module, Observations], Tensor] = forward
    sizes: Sequence[int] | None = None
    signs: Tensor | None = None

    def __post_init__(self) -> None:
        require_signs(self.signs)

    def __call__(self, network: nn.Module, observations: Observations, /) -> Tensor:
        """``sum_a c_a f_a``, over all heads. Shapes: (n, ...) -> (n,)."""
        logits = require_logits(self.logits(network, observations), observations)
        sizes = [logits.shape[1]] if self.sizes is None else require_sizes(self.sizes, logits)
        own = alternating_signs(tuple(sizes), logits.dtype, logits.device) if self.signs is None else self.signs
        signs = own.to(logits)
        if len(signs) != logits.shape[1]:
            raise ValueError(f"signs must be one for each of the {logits.shape[1]} logits, got {len(signs)}")
        if len(sizes) == 1:
            return fisher_loss(logits, signs)
        heads = zip(logits.split(sizes, dim=1), signs.split(sizes), strict=True)
        return torch.stack([fisher_loss(head, u) for head, u in heads]).sum(0)


@dataclass(frozen=True)
class GaussianLoss:
    """The log-loss of a Gaussian policy at the action one standard deviation from its mode, ``a = mu + sigma u``.

    At the mode itself the log-likelihood has no gradient in the mean, so it says nothing of the state. Take instead a
    pseudo-action at a fixed offset, ``u`` a vector of signs, held constant: the gradient is ``-sum_j (u_j / sigma_j) d
    mu_j``, and none in ``sigma`` since ``u_j^2 = 1``. Over random signs the mean of ``g g'`` is the Fisher information
    of the policy in the parameters of its mean, as over sampled actions it is for a softmax policy.

    Shapes: ``moments(network, observations)`` gives mean and log standard deviation, (n, A) and (n, A) or (A,) -> (n,).
    Deviation: ours, not the paper's, which has discrete actions only. ``signs`` is (A,) of +-1, all +1 if None.
    """

    moments: Callable[[nn.Module, Observations], tuple[Tensor, Tensor]] = forward
    signs: Tensor | None = None

    def __post_init__(self) -> None:
        require_signs(self.signs)

    def __call__(self, network: nn.Module, observations: Observations, /) -> Tensor:
        """``-log N(a; mu, sigma)`` up to a constant. Shapes: (n, ...) -> (n,)."""
        mean, log_std = self.moments(network, observations)
        require_logits(mean, observations)
        std = log_std.exp()
        offset = std if self.signs is None else std * self.signs.to(std)
        action = (mean + offset).detach()
        return (0.5 * ((action - mean) / std).square() + log_std).sum(1)


def argmax_cross_entropy(logits: Tensor, weighting: Weighting) -> Tensor:
    """``-log softmax(f)_y`` with ``y = argmax f``, times ``sqrt(p_y)`` if asked, a constant. (n, A) -> (n,)."""
    losses = F.cross_entropy(logits, logits.argmax(1), reduction="none")
    # exp(-loss) = p_y
    return losses * (-0.5 * losses).exp().detach() if weighting == "sqrt-probability" else losses


@lru_cache
def alternating_signs(sizes: tuple[int, ...], dtype: torch.dtype, device: torch.device) -> Tensor:
    """+1 -1 +1 ... for every head of a policy, one head after the other. Shapes: -> (sum of sizes,)."""
    with torch.inference_mode(mode=False):  # it is kept, and may be differentiated through later
        signs = torch.ones(sum(sizes), dtype=dtype, device=device)
        start = 0
        for size in sizes:
            signs[start + 1 : start + size : 2] = -1
            start += size
        return signs


def fisher_loss(logits: Tensor, signs: Tensor) -> Tensor:
    """``<c, f>`` with ``c = sqrt(p) u - p <sqrt(p), u>``, a constant. Shapes: logits (n, A), signs u (A,) -> (n,)."""
    p = logits.detach().softmax(1)
    root = p.sqrt() * signs
    c = torch.addcmul(root, p, root.sum(1, keepdim=True), value=-1)
    return (c * logits).sum(1)


def chosen_loss(
    loss: Loss | None, feature_loss: FeatureLoss, weighting: Weighting, logits: Callable[[nn.Module, Any], Tensor]
) -> Loss:
    """The pseudo-loss of a policy: ``loss`` itself if given, in the form that ``feature_loss`` asks for.

    fisher makes a `FisherLoss` of the default loss and of a `MultiDiscreteLoss`; any other loss stays as it is.
    """
    if loss is not None and (weighting != "none" or logits is not forward):
        raise ValueError("weighting and logits belong to the default loss: give them to the loss that you pass instead")
    if feature_loss == "argmax":
        return ArgmaxLoss(weighting, logits) if loss is None else loss
    if feature_loss != "fisher":
        raise ValueError(f'feature_loss must be "argmax" or "fisher", got {feature_loss!r}')
    if weighting != "none":
        raise ValueError(f"weighting={weighting!r} belongs to feature_loss='argmax': the Fisher loss is weighted by p")
    match loss:
        case None:
            return FisherLoss(logits)
        case MultiDiscreteLoss():
            return FisherLoss(loss.logits, loss.sizes)
        case _:
            return loss


def require_sizes(sizes: Sequence[int], logits: Tensor) -> list[int]:
    """The sizes of the heads, or an error if the logits are not as many."""
    if logits.shape[1] != sum(sizes):
        raise ValueError(
            f"logits must have sum(sizes) = {sum(sizes)} columns for heads {tuple(sizes)}, "
            f"got {logits.shape[1]}: give one size for each head"
        )
    return list(sizes)


def require_signs(signs: Tensor | None) -> None:
    """Nothing, or an error if something else than +1 and -1 is among the signs."""
    if signs is not None and not bool((signs.abs() == 1).all()):
        raise ValueError(f"signs must be +1 or -1 for each action dimension, got {signs.tolist()}")


def require_logits(logits: Tensor, observations: Observations) -> Tensor:
    """``logits`` itself, or an error that says what a policy network must return."""
    n = count(observations)
    if not isinstance(logits, Tensor) or logits.ndim != 2 or logits.shape[0] != n:
        came = f"shape {tuple(logits.shape)}" if isinstance(logits, Tensor) else type(logits).__name__
        raise ValueError(
            f"the policy network must return a tensor ({n}, actions) for {n} observations, got {came}: "
            "pass a batch axis, and logits=lambda network, observations: ... that picks the logits out"
        )
    return logits


def require_weighting(weighting: str) -> None:
    """Nothing, or an error that names the known weightings."""
    if weighting not in ("none", "sqrt-probability"):
        raise ValueError(f'weighting must be "none" or "sqrt-probability", got {weighting!r}')
