"""Obviously correct but slow versions of what ships, written from the formulas; the fast code is set against them."""

import copy
from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional

# Bonuses: normalization, RND, elliptical, E3B, counts --------------------------------------------------------------


def discounted_sums(rewards: Tensor, discount: float) -> Tensor:
    """``R_t = sum_k discount^k r_{t-k}`` of every environment on its own, written out. Shapes: (T, N) -> (T, N)."""
    sums = torch.zeros_like(rewards)
    for n in range(rewards.shape[1]):
        for t in range(rewards.shape[0]):
            sums[t, n] = sum(discount**k * rewards[t - k, n] for k in range(t + 1))
    return sums


def rnd_networks(state: dict, x: Tensor) -> tuple[Tensor, Tensor]:
    """Target and predictor of RND on whitened frames, layer by layer from the saved weights. Shapes: (n, 1, 84, 84)."""

    def trunk(weights: dict, prefix: str) -> Tensor:
        h = x
        for layer, stride in ((0, 4), (2, 2), (4, 1)):
            w, b = weights[f"{prefix}trunks.0.{layer}.weight"], weights[f"{prefix}trunks.0.{layer}.bias"]
            h = functional.leaky_relu(functional.conv2d(h, w, b, stride=stride))
        return functional.linear(h.flatten(1), weights[f"{prefix}output.weight"], weights[f"{prefix}output.bias"])

    target, predictor = state["target"], state["predictor"]
    h = trunk(predictor, "0.")
    for layer in (2, 4):
        h = functional.linear(functional.relu(h), predictor[f"{layer}.weight"], predictor[f"{layer}.bias"])
    return trunk(target, ""), h


def elliptical_bonuses(past: Tensor, features: Tensor, ridge: float) -> Tensor:
    """``g' (ridge I + sum g g')^-1 g`` with an explicit inverse. Shapes: past (n, d), features (k, d) -> (k,)."""
    sigma = ridge * torch.eye(past.shape[1], dtype=torch.float64)
    for g in past.double():
        sigma = sigma + torch.outer(g, g)
    inverse = torch.linalg.inv(sigma)
    return torch.stack([g @ inverse @ g for g in features.double()])


def episodic_elliptical_bonuses(phi: Tensor, ended: Tensor, ridge: float) -> Tensor:
    """E3B from scratch: at every step the inverse over its episode so far. Shapes: phi (T, N, d) -> (T, N)."""
    bonuses = torch.zeros(ended.shape, dtype=torch.float64)
    for n in range(phi.shape[1]):
        start = 0
        for t in range(phi.shape[0]):
            bonuses[t, n] = elliptical_bonuses(phi[start:t, n], phi[t : t + 1, n], ridge)[0]
            if ended[t, n]:
                start = t + 1
    return bonuses


def visits_online(keys: Tensor, earlier: dict[int, int]) -> Tensor:
    """Visits of each key up to and including its step, all environments of a step counted together. Shapes: (T, N)."""
    seen, visits = dict(earlier), torch.zeros(keys.shape, dtype=torch.int64)
    for t, row in enumerate(keys.tolist()):
        for key in row:
            seen[key] = seen.get(key, 0) + 1
        visits[t] = torch.tensor([seen[key] for key in row])
    return visits


# Bonuses: features of a policy network -----------------------------------------------------------------------------


def state_gradients(network: nn.Module, loss: Callable, observations: Tensor | dict[str, Tensor]) -> dict[str, Tensor]:
    """Every parameter's gradient at every state, one backward pass a state on a copy. Shapes: (n, *shape) each.

    Parameters that get no gradient are left out.
    """
    network = copy.deepcopy(network).eval().requires_grad_(True)
    n = len(observations) if isinstance(observations, Tensor) else len(next(iter(observations.values())))
    rows: dict[str, list[Tensor]] = {}
    for k in range(n):
        one = (
            observations[k : k + 1]
            if isinstance(observations, Tensor)
            else {a: b[k : k + 1] for a, b in observations.items()}
        )
        network.zero_grad()
        loss(network, one).sum().backward()
        for name, parameter in network.named_parameters():
            if parameter.grad is not None:
                rows.setdefault(name, []).append(parameter.grad.clone())
    return {name: torch.stack(gradients) for name, gradients in rows.items()}


def vmapped_argmax_gradients(network: nn.Module, observations: Tensor) -> dict[str, Tensor]:
    """``d CE(f(x), argmax f(x)) / d theta`` of every state, by ``vmap(grad)`` of the formula. (n, *shape) each."""

    def one(parameters: dict[str, Tensor], x: Tensor) -> Tensor:
        logits = torch.func.functional_call(network, parameters, (x[None],))[0]
        return logits.logsumexp(0) - logits.max()

    parameters = {name: parameter.detach() for name, parameter in network.named_parameters()}
    return torch.func.vmap(torch.func.grad(one), in_dims=(None, 0))(parameters, observations)


def sketched_product_variance(g: Tensor, f: Tensor, a: int, b: int) -> float:
    """The variance of ``<P' g Q, P' f Q>`` over Gaussian P (o, a) and Q (i, b) with ``E P P' = I`` and ``E Q Q' = I``.

    Write A = P P', B = Q Q': the product is ``tr(g' A f B)``. For fixed M, ``var tr(M B) = (|M|^2 + tr M^2) / b``, and
    ``E A K A = K + (K' + tr K) / a``. Put M = g' A f, condition on A, and take both parts of the variance.
    Shapes: g, f (o, i).
    """
    kk, ll, nn_ = f @ f.T, g @ g.T, f @ g.T
    square, trace_square, trace = nn_.square().sum(), (nn_ @ nn_).trace(), nn_.trace()
    within = (kk @ ll).trace() * (1 + 1 / a) + kk.trace() * ll.trace() / a + trace_square + (square + trace**2) / a
    return float(within / b + (square + trace_square) / a)


# Bonuses: the noise ensemble and ACB ----------------------------------------------------------------------------------


class ReleasedACB:
    """The released code by the facts known of it (FACTS.md section 1): materialized, one backward pass a state.

    Randomness (first weights, minibatches, targets) is handed in. Parameters that move no logit are left out.
    """

    def __init__(self, network, first_weights):
        self.network = network
        members, d = first_weights.shape
        self.ensemble = nn.Sequential(nn.BatchNorm1d(d), nn.Linear(d, members, bias=False)).to(first_weights.dtype)
        self.ensemble[1].weight.data = first_weights.clone()
        self.averaged = copy.deepcopy(self.ensemble)
        self.optimizer = torch.optim.RMSprop(self.ensemble.parameters(), lr=1e-4)
        self.updates = 0

    def gradients(self, observations):
        rows = []
        for observation in observations:
            logits = self.network(observation[None])
            label = logits.argmax(1)
            weight = logits.softmax(1)[0, label].detach().sqrt()
            loss = nn.functional.cross_entropy(logits, label) * weight
            gradients = torch.autograd.grad(loss, list(self.network.parameters()), allow_unused=True)
            rows.append(torch.cat([g.flatten() for g in gradients if g is not None]))
        return torch.stack(rows)

    def step(self, observations, targets):
        loss = nn.functional.mse_loss(self.ensemble(self.gradients(observations)), targets)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        self.updates += 1
        keep = (self.updates - 1) / self.updates
        self.averaged[1].weight.data = self.averaged[1].weight.data * keep + self.ensemble[1].weight.data * (1 - keep)

    def bonus(self, observations):
        """Of the states of one step of all environments, which batch normalization reads together."""
        with torch.no_grad():
            gradients = self.gradients_without_tape(observations)
            return self.averaged(gradients).square().max(1).values

    def gradients_without_tape(self, observations):
        with torch.enable_grad():
            return self.gradients(observations).detach()


def ridge_refit(features, targets, first_weights, ridge):
    """``argmin_w sum_n (w g_n - y_n)^2 + ridge |w - w_0|^2`` of every member, from the whole recorded history.

    As least squares on stacked rows, so that it shares no normal equations with what it checks.
    """
    d = features.shape[1]
    rows = torch.cat([features, ridge**0.5 * torch.eye(d, dtype=features.dtype)])
    values = torch.cat([targets, ridge**0.5 * first_weights.T])
    return torch.linalg.lstsq(rows, values, driver="gelsd").solution.T


def averaged_proximal(minibatches, first_weights, ridge):
    """The mean of the iterates ``argmin_v |G v - y|^2 + ridge |v - w|^2``, each solved in d dimensions."""
    w, iterates = first_weights, []
    for features, targets in minibatches:
        w = ridge_refit(features, targets, w, ridge)
        iterates.append(w)
    return torch.stack(iterates).mean(0)


def averaged_rmsprop(minibatches, first_weights, *, learning_rate, pull, loss_form, averaging, rate):
    """torch.optim.RMSprop with autograd on the written-out loss, and the average of its iterates."""
    w = first_weights.clone().requires_grad_()
    optimizer = torch.optim.RMSprop([w], lr=learning_rate)
    average = first_weights.clone()
    for k, (features, targets) in enumerate(minibatches, start=1):
        errors, moved = (features @ w.T - targets).square(), (w - first_weights).square()
        mean = loss_form == "mean"
        loss = errors.mean() + pull * moved.mean() if mean else errors.mean(0).sum() + pull * moved.sum()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        share = 1 / k if averaging == "uniform" else rate
        average = average + share * (w.detach() - average)
    return average


def standardize(features, mean, variance, epsilon):
    """Batch normalization written out."""
    return (features - mean) / (variance + epsilon).sqrt()
