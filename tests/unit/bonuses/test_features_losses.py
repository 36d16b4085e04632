"""The pseudo-losses: their values and gradients from the formulas, and what they refuse."""

import itertools

import pytest
import torch
from torch import nn

from optimist.bonuses.features import ArgmaxLoss, FisherLoss, GaussianLoss, MultiDiscreteLoss, make
from optimist.bonuses.features.losses import chosen_loss, forward
from oracles import state_gradients

X = torch.randn(4, 3, generator=torch.Generator().manual_seed(0))


def linear(actions):
    network, generator = nn.Linear(3, actions), torch.Generator().manual_seed(1)
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=generator))
    return network


class GaussianPolicy(nn.Module):
    """Mean and log standard deviation, the latter free or a function of the state."""

    def __init__(self, free):
        super().__init__()
        self.mean, self.free = linear(2), free
        self.log_std = nn.Parameter(torch.tensor([-0.5, 0.7])) if free else linear(2)

    def forward(self, x):
        return self.mean(x), self.log_std if self.free else self.log_std(x)


def test_the_loss_is_the_negative_log_probability_of_the_likeliest_action():
    network = linear(5)
    p = network(X).softmax(1).max(1).values
    torch.testing.assert_close(ArgmaxLoss()(network, X), -p.log())


def test_the_gradient_at_the_logits_is_softmax_minus_onehot():
    network = linear(5)
    p = network(X).softmax(1)
    error = p - nn.functional.one_hot(p.argmax(1), 5)
    features = make("gradient", network, X, seed=0, feature_loss="argmax")
    assert features.names == ("weight", "bias")
    torch.testing.assert_close(features(X).dense()[:, -5:], error.detach())
    weighted = make("gradient", network, X, seed=0, feature_loss="argmax", weighting="sqrt-probability")(X).dense()[
        :, -5:
    ]
    # The probability is held constant: the gradient is scaled, not differentiated.
    torch.testing.assert_close(weighted, (error * p.max(1, keepdim=True).values.sqrt()).detach())


def test_multi_discrete_is_the_sum_of_its_heads():
    network = linear(5)
    heads = [ArgmaxLoss(logits=lambda network, x, s=s: network(x)[:, s]) for s in (slice(0, 2), slice(2, 5))]
    loss = MultiDiscreteLoss(sizes=(2, 3))
    torch.testing.assert_close(loss(network, X), heads[0](network, X) + heads[1](network, X))
    torch.testing.assert_close(MultiDiscreteLoss(sizes=(5,))(network, X), ArgmaxLoss()(network, X))
    with pytest.raises(ValueError, match=r"sum\(sizes\) = 7 columns.*got 5"):
        MultiDiscreteLoss(sizes=(3, 4))(network, X)
    with pytest.raises(ValueError, match="all >= 1"):
        MultiDiscreteLoss(sizes=())


@pytest.mark.parametrize("free", [True, False])
def test_the_gaussian_gradient_is_the_mean_pulled_along_the_signs(free):
    # g = -sum_j (u_j / sigma_j) d mu_j, and nothing in sigma, since u_j^2 = 1.
    policy, signs = GaussianPolicy(free), torch.tensor([1.0, -1.0])
    truth = state_gradients(policy, GaussianLoss(signs=signs), X)
    expected = -signs / policy(X)[1].exp().detach().expand(4, 2)
    torch.testing.assert_close(truth["mean.bias"], expected)
    features = make("gradient", policy, X[:1], seed=0, loss=GaussianLoss(signs=signs))
    ours = dict(
        zip(features.names, features(X).dense().split([s.numel() for s in features.shapes], dim=1), strict=True)
    )
    torch.testing.assert_close(ours["mean.bias"], expected)
    torch.testing.assert_close(ours["mean.weight"], (expected[:, :, None] * X[:, None]).flatten(1))
    for name, gradient in ours.items():
        if "log_std" in name:
            torch.testing.assert_close(gradient, torch.zeros_like(gradient), atol=1e-5, rtol=0)


def test_over_random_signs_the_gaussian_features_give_the_fisher_information():
    # All four sign vectors, each once: the average over them is exact.
    policy = GaussianPolicy(free=True)
    signs = torch.tensor([[1.0, 1.0], [1.0, -1.0], [-1.0, 1.0], [-1.0, -1.0]])
    rows = torch.stack([state_gradients(policy, GaussianLoss(signs=u), X)["mean.weight"].flatten(1) for u in signs])
    average = torch.einsum("und,une->nde", rows, rows) / len(signs)
    precision = torch.diag((-2 * policy.log_std).exp())
    fisher = torch.stack([torch.kron(precision, torch.outer(x, x)) for x in X]).detach()
    torch.testing.assert_close(average, fisher)


def test_at_the_mode_the_gaussian_would_have_no_gradient():
    def at_the_mode(network, x):
        mean, log_std = network(x)
        return (0.5 * ((mean.detach() - mean) / log_std.exp()).square() + log_std).sum(1)

    assert not state_gradients(GaussianPolicy(free=True), at_the_mode, X)["mean.weight"].any()


def test_any_loss_of_the_users_will_do():
    network = linear(2)

    def loss(network, x):
        return network(x).square().sum(1)

    features = make("gradient", network, X, seed=0, loss=loss)
    truth = state_gradients(network, loss, X)
    torch.testing.assert_close(features(X).dense(), torch.cat([rows.flatten(1) for rows in truth.values()], dim=1))


@pytest.mark.parametrize(
    ("act", "message"),
    [
        (lambda: ArgmaxLoss(weighting="p"), '"none" or "sqrt-probability", got \'p\''),
        (lambda: GaussianLoss(signs=torch.tensor([0.5])), "signs must be"),
        (
            lambda: make("gradient", linear(2), X, seed=0, loss=lambda n, x: n(x).sum()),
            r"one number per state, shape \(4,\)",
        ),
        (lambda: make("gradient", linear(2), X, seed=0, logits=lambda n, x: (n(x), 0)), "got tuple: pass a batch axis"),
        (lambda: make("gradient", linear(2), X[0], seed=0), r"must return a tensor \(3, actions\).*got shape \(2,\)"),
        (lambda: make("gradient", linear(2), torch.tensor(1.0), seed=0), "first batch axis"),
        (lambda: make("gradient", linear(2), X[:0], seed=0), r"n >= 1 rows.*got lengths \{'whole': 0\}"),
        (lambda: make("gradient", linear(2), X, seed=0, logits=lambda n, x: x), "no parameter of the network moves"),
        (lambda: make("gradient", linear(2), X * torch.nan, seed=0), "not finite: pass an observation really seen"),
        (
            lambda: make("gradient", linear(2), X, seed=0, loss=ArgmaxLoss(), weighting="sqrt-probability"),
            "belong to the",
        ),
        (
            lambda: make("gradients", linear(2), X, seed=0),
            "no features 'gradients': did you mean 'gradient'?",
        ),
        (
            lambda: make("pixels", linear(2), X, seed=0),
            "no features 'pixels': choose one of gradient, last-layer, observations, penultimate, sketch",
        ),
    ],
)
def test_what_is_refused_says_what_was_expected(act, message):
    with pytest.raises(ValueError, match=message):
        act()


# --- the Fisher loss


def coefficients(logits, **settings):
    """``c`` of the Fisher loss: its gradient in the logits, (n, A)."""
    leaf = logits.clone().requires_grad_()
    losses = FisherLoss(**settings)(nn.Identity(), leaf)
    return torch.autograd.grad(losses.sum(), leaf)[0]


@pytest.mark.parametrize("actions", [2, 3, 5])
def test_over_all_signs_the_fisher_loss_has_the_fisher_information(actions):
    logits = 2 * torch.randn(7, actions, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    signs = [torch.tensor(u, dtype=torch.float64) for u in itertools.product((-1.0, 1.0), repeat=actions)]
    outer = torch.stack([torch.einsum("na,nb->nab", c, c) for c in (coefficients(logits, signs=u) for u in signs)])
    p = logits.softmax(1)
    torch.testing.assert_close(outer.mean(0), torch.diag_embed(p) - torch.einsum("na,nb->nab", p, p))


def test_of_several_heads_the_fisher_information_is_that_of_each():
    sizes, logits = (2, 3), torch.randn(4, 5, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    signs = [torch.tensor(u, dtype=torch.float64) for u in itertools.product((-1.0, 1.0), repeat=5)]
    drawn = [coefficients(logits, signs=u, sizes=sizes) for u in signs]
    outer = torch.stack([torch.einsum("na,nb->nab", c, c) for c in drawn]).mean(0)
    heads = [head.softmax(1) for head in logits.split(sizes, 1)]
    blocks = [torch.diag_embed(p) - torch.einsum("na,nb->nab", p, p) for p in heads]
    expected = torch.stack([torch.block_diag(*(block[n] for block in blocks)) for n in range(4)])
    torch.testing.assert_close(outer, expected)


@pytest.mark.parametrize("actions", [2, 3, 4, 18])
def test_the_fisher_loss_is_never_silent_and_jumps_nowhere(actions):
    """With alternating signs c is not 0 at the uniform policy, and follows the policy smoothly past equal logits."""
    uniform = coefficients(torch.zeros(1, actions, dtype=torch.float64))
    assert uniform.norm() > 0.5  # |c|^2 = 1 - (sum u / A)^2
    confident = coefficients(10 * torch.eye(actions, dtype=torch.float64))
    assert confident.norm(dim=1).min() > 1e-3
    nudge = 1e-6 * torch.eye(actions, dtype=torch.float64)
    assert (coefficients(nudge) - uniform).abs().max() < 1e-5


def test_fisher_of_a_given_loss():
    assert chosen_loss(None, "fisher", "none", forward) == FisherLoss()
    assert chosen_loss(MultiDiscreteLoss((2, 3)), "fisher", "none", forward) == FisherLoss(sizes=(2, 3))
    gaussian = GaussianLoss()
    assert chosen_loss(gaussian, "fisher", "none", forward) is gaussian
    own = lambda network, observations: network(observations)[:, 0]  # noqa: E731 (a user's own)
    assert chosen_loss(own, "fisher", "none", forward) is own
    with pytest.raises(ValueError, match=r"signs must be one for each of the 3 logits, got 2"):
        FisherLoss(signs=torch.ones(2))(nn.Identity(), torch.zeros(1, 3))
