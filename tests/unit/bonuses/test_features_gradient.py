"""The exact gradient features: every product against gradients taken one state at a time, over many networks."""

import math
from functools import partial
from types import MethodType

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.nn import functional as F

from optimist.bonuses.features import ArgmaxLoss, GradientFeatures
from optimist.bonuses.features import batch as feature_batch
from optimist.bonuses.features import make as make_features
from optimist.bonuses.features.per_state import layers
from oracles import state_gradients, vmapped_argmax_gradients

make = partial(make_features, feature_loss="argmax")  # whose gradients the oracles know

MEMBERS = 3


def assert_close(ours, truth):
    assert ours.shape == truth.shape
    assert float((ours - truth).abs().max()) <= 1e-10 * max(float(truth.abs().max()), 1e-3)


def assert_features_are(features, batch, truth):
    """All that a FeatureBatch says, against gradients written out by the oracle."""
    n = len(batch)
    assert list(features.names) == list(truth)
    assert list(features.shapes) == list(batch.shapes) == [rows.shape[1:] for rows in truth.values()]
    generator = torch.Generator().manual_seed(1)
    for k, rows in enumerate(truth.values()):
        weights = torch.randn(MEMBERS, *rows.shape[1:], generator=generator, dtype=rows.dtype)
        coefficients = torch.randn(n, MEMBERS, generator=generator, dtype=rows.dtype)
        flat = rows.flatten(1)
        assert_close(batch.readout(k, weights), flat @ weights.flatten(1).T)
        assert_close(batch.pullback(k, coefficients).flatten(1), coefficients.T @ flat)
        mean, mean_square = batch.moments(k)
        assert_close(mean, rows.mean(0))
        assert_close(mean_square, rows.square().mean(0))
    assert_close(batch.dense(), torch.cat([rows.flatten(1) for rows in truth.values()], dim=1))


@st.composite
def convolution_networks(draw):
    """A network of one or two convolutions and one or two linear layers, of every kind, with its input shape."""
    flag, seed = st.booleans(), draw(st.integers(0, 10_000))
    activation = (lambda: nn.LeakyReLU(inplace=draw(flag))) if draw(flag) else (lambda: nn.ReLU(inplace=draw(flag)))
    side, channels = draw(st.integers(7, 9)), draw(st.sampled_from([2, 4]))
    shape, layers = (channels, side, side), []
    for _ in range(draw(st.integers(1, 2))):
        padding = draw(st.one_of(st.tuples(st.integers(0, 2), st.integers(0, 2)), st.sampled_from(["same", "valid"])))
        out = draw(st.sampled_from([2, 4]))
        layers += [
            nn.Conv2d(
                channels,
                out,
                kernel_size=(draw(st.integers(1, 3)), draw(st.integers(1, 3))),
                stride=1 if padding == "same" else (draw(st.integers(1, 2)), draw(st.integers(1, 2))),
                padding=padding,
                dilation=draw(st.integers(1, 2)) if side > 6 else 1,
                groups=draw(st.sampled_from([1, 2])),
                bias=draw(flag),
                padding_mode=draw(st.sampled_from(["zeros", "circular"])),
            ),
            activation(),
        ]
        channels, side = out, 3
    layers.append(nn.Flatten())
    width = nn.Sequential(*layers)(torch.zeros(1, *shape)).shape[1]
    if draw(flag):
        layers += [nn.Linear(width, 5, bias=draw(flag)), activation()]
        width = 5
    layers.append(nn.Linear(width, draw(st.integers(2, 4)), bias=draw(flag)))
    network, generator = nn.Sequential(*layers).double(), torch.Generator().manual_seed(seed)
    for parameter in network.parameters():
        parameter.data = torch.randn(parameter.shape, generator=generator, dtype=torch.float64) / 3
    return network, shape, generator


@settings(max_examples=60, deadline=None, derandomize=True)
@given(convolution_networks())
def test_convolutions_and_linear_layers_of_every_kind(case):
    network, shape, generator = case
    x = torch.randn(5, *shape, generator=generator, dtype=torch.float64)
    features = make("gradient", network, torch.zeros(1, *shape, dtype=torch.float64), seed=0)
    assert not features.plan.others  # nothing here may fall back on torch.func
    assert_features_are(features, features(x), vmapped_argmax_gradients(network, x))


class Attention(nn.Module):
    """Tokens first turned by a linear layer at every position, then attention, with an embedding and a norm."""

    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(6, 4)
        self.mix = nn.Linear(4, 4)
        self.attention = nn.MultiheadAttention(4, 2, batch_first=True)
        self.norm = nn.LayerNorm(4)
        self.head = nn.Linear(4, 3)

    def forward(self, tokens):
        h = torch.relu(self.mix(self.embed(tokens)))
        h, _ = self.attention(h, h, h, need_weights=False)
        return self.head(self.norm(h).mean(1))


class Carried(nn.Module):
    """A GRU cell whose hidden state is part of the observation, as a recurrent policy's is; two steps."""

    def __init__(self):
        super().__init__()
        self.cell, self.head = nn.GRUCell(2, 4), nn.Linear(4, 3)

    def forward(self, x):
        return self.head(self.cell(x[:, :2], self.cell(x[:, 2:4], x[:, 2:])))


class Learned(nn.Module):
    """A GRU cell from an initial state that is a parameter of the module's own: ``vmap`` cannot run it."""

    def __init__(self):
        super().__init__()
        self.cell, self.head = nn.GRUCell(6, 4), nn.Linear(4, 3)
        self.start = nn.Parameter(torch.zeros(4))

    def forward(self, x):
        return self.head(self.cell(x, self.start.expand(len(x), 4)))


class Sequence(nn.Module):
    """``nn.GRU``, which ``vmap`` cannot run."""

    def __init__(self):
        super().__init__()
        self.gru = nn.GRU(2, 4, batch_first=True)
        self.head = nn.Linear(4, 3)

    def forward(self, x):
        return self.head(self.gru(x.unflatten(1, (-1, 2)))[0][:, -1])


class Twice(nn.Module):
    """One linear layer used twice, one whose weight is also used by name, and one in an ordinary place."""

    def __init__(self):
        super().__init__()
        self.twice = nn.Linear(6, 6)
        self.borrowed = nn.Linear(6, 6)
        self.head = nn.Linear(6, 3)

    def forward(self, x):
        h = torch.tanh(self.twice(torch.tanh(self.twice(x))))
        h = torch.tanh(self.borrowed(h))
        return self.head(h @ self.borrowed.weight)


class Tied(nn.Module):
    """Two layers that share one weight."""

    def __init__(self):
        super().__init__()
        self.first, self.second, self.head = nn.Linear(6, 6), nn.Linear(6, 6), nn.Linear(6, 3)
        self.second.weight = self.first.weight

    def forward(self, x):
        return self.head(torch.tanh(self.second(torch.tanh(self.first(x)))))


class PositionsFirst(nn.Module):
    """A linear layer that sees the batch as its second axis: three positions, as many as there are probes."""

    def __init__(self):
        super().__init__()
        self.mix, self.head = nn.Linear(2, 4), nn.Linear(4, 3)

    def forward(self, x):
        return self.head(torch.tanh(self.mix(x.unflatten(1, (3, 2)).transpose(0, 1))).sum(0))


NETWORKS = {
    "attention": (Attention, {"mix", "head"}),
    "gru cell": (Carried, {"head"}),
    "gru cell, one by one": (Learned, {"head"}),
    "gru, one by one": (Sequence, {"head"}),
    "weight sharing": (Twice, {"head"}),
    "tied weights": (Tied, {"head"}),
    "positions first": (PositionsFirst, {"head"}),
    "one layer": (lambda: nn.Linear(6, 3), {""}),
    "parametrized": (
        lambda: nn.Sequential(nn.utils.parametrizations.weight_norm(nn.Linear(6, 4)), nn.Tanh(), nn.Linear(4, 3)),
        {"2"},
    ),
    "convolution in time": (
        lambda: nn.Sequential(nn.Unflatten(1, (2, 3)), nn.Conv1d(2, 3, 2), nn.Flatten(), nn.Linear(6, 3)),
        {"3"},
    ),
    "batch norm in evaluation": (
        lambda: nn.Sequential(nn.Linear(6, 4), nn.BatchNorm1d(4), nn.ReLU(), nn.Linear(4, 3)).eval(),
        {"0", "3"},
    ),
}


@pytest.mark.parametrize("kind", NETWORKS)
def test_any_other_module_goes_through_torch_func(kind):
    build, native = NETWORKS[kind]
    network, generator = build().double(), torch.Generator().manual_seed(3)
    for parameter in network.parameters():
        parameter.data = torch.randn(parameter.shape, generator=generator, dtype=torch.float64)
    x = torch.randn(5, 6, generator=generator, dtype=torch.float64)
    if kind == "attention":
        x = torch.randint(6, (5, 3), generator=generator)
    features = GradientFeatures(network, ArgmaxLoss(), torch.zeros_like(x[:1]))
    assert set(features.plan.layers) == native
    assert features.plan.vectorized == ("one by one" not in kind)
    assert_features_are(features, features(x), state_gradients(network, ArgmaxLoss(), x))


class ActorCritic(nn.Module):
    """Trunk, actor and critic, with dropout, on a dictionary of bytes and numbers."""

    def __init__(self):
        super().__init__()
        self.trunk = nn.Sequential(nn.Linear(7, 5), nn.ReLU(inplace=True), nn.Dropout(0.5))
        self.actor, self.critic = nn.Linear(5, 3), nn.Linear(5, 1)

    def forward(self, observations):
        x = torch.cat([observations["pixels"].flatten(1) / 255, observations["speed"]], dim=1)
        h = self.trunk(x)
        return self.actor(h), self.critic(h)


def actor_critic_case():
    torch.manual_seed(0)
    generator = torch.Generator().manual_seed(2)
    network = ActorCritic()
    observations = {
        "pixels": torch.randint(256, (4, 2, 3), generator=generator, dtype=torch.uint8),
        "speed": torch.randn(4, 1, generator=generator),
    }
    return network, observations, ArgmaxLoss(logits=lambda network, observations: network(observations)[0])


def test_the_critic_has_no_block_and_dictionaries_are_read():
    network, observations, loss = actor_critic_case()
    zeros = {key: torch.zeros_like(value[:1]) for key, value in observations.items()}
    network.trunk[0].weight.requires_grad_(False)  # what the user freezes still has a gradient
    features = GradientFeatures(network, loss, zeros)
    assert features.names == ("trunk.0.weight", "trunk.0.bias", "actor.weight", "actor.bias")
    truth = state_gradients(network, loss, observations)
    ours = features(observations).dense()
    torch.testing.assert_close(ours, torch.cat([rows.flatten(1) for rows in truth.values()], dim=1))


@pytest.mark.parametrize("name", ["gradient", "sketch", "last-layer", "penultimate"])
def test_the_network_is_left_without_a_trace(name):
    network, observations, loss = actor_critic_case()
    network.actor.eval()
    kept = torch.zeros(3)
    network.actor.bias.grad = kept
    before = {key: value.clone() for key, value in network.state_dict().items()}
    modes = [module.training for module in network.modules()]
    random_state = torch.get_rng_state()
    with torch.no_grad():
        features = make(name, network, observations, seed=0, loss=loss)
        first = features(observations).dense()
    with torch.inference_mode():
        second = features({key: value + 0 for key, value in observations.items()}).dense()
    assert torch.equal(first, second)
    assert not first.requires_grad
    assert torch.equal(torch.get_rng_state(), random_state)
    assert [module.training for module in network.modules()] == modes
    assert all(not module._forward_hooks and "forward" not in vars(module) for module in network.modules())
    assert network.actor.bias.grad is kept
    assert not kept.any()
    assert all(parameter.grad is None for parameter in network.trunk.parameters())
    assert all(parameter.requires_grad for parameter in network.parameters())
    assert all(torch.equal(value, before[key]) for key, value in network.state_dict().items())


def test_modes_parameters_and_forwards_are_restored_when_the_network_fails():
    network, observations, loss = actor_critic_case()
    features = GradientFeatures(network, loss, observations)
    network.actor.bias.requires_grad_(False)
    with pytest.raises(RuntimeError):
        features({**observations, "speed": torch.zeros(4, 9)})
    assert network.training
    assert all("forward" not in vars(module) for module in network.modules())
    assert [name for name, parameter in network.named_parameters() if not parameter.requires_grad] == ["actor.bias"]


def test_a_layer_with_a_forward_and_a_hook_of_its_own_is_read_as_it_is_and_keeps_both():
    """Neither changes what the weights' gradient is made of: the input, and the gradient at the layer's own output."""
    network, generator = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2)), torch.Generator().manual_seed(0)
    x = torch.randn(6, 3, generator=generator)
    own = network[0].forward = MethodType(lambda layer, x: F.linear(x, layer.weight, layer.bias), network[0])
    network[0].register_forward_hook(lambda layer, inputs, outputs: 3 * outputs)
    features = make("gradient", network, torch.zeros(1, 3), seed=0)
    assert features.plan.layers == ("0", "2")
    truth = state_gradients(network, ArgmaxLoss(), x)
    expected = torch.cat([rows.flatten(1) for rows in truth.values()], dim=1)
    torch.testing.assert_close(features(x).dense(), expected)
    assert network[0].forward is own


def test_the_features_follow_the_network():
    network = nn.Linear(2, 2)
    features = make("gradient", network, torch.zeros(1, 2), seed=0)
    x = torch.ones(1, 2)
    before = features(x).dense()
    with torch.no_grad():
        network.bias += torch.tensor([5.0, 0.0])
    after = features(x).dense()
    assert not torch.allclose(before, after)
    truth = vmapped_argmax_gradients(network, x)
    torch.testing.assert_close(after, torch.cat([rows.flatten(1) for rows in truth.values()], dim=1))


def test_the_papers_network_has_the_papers_dimension():
    # FACTS.md section 1: d = 1,197,344 + 449 A, without the critic.
    actions = 18
    trunk = [nn.Conv2d(4, 32, 8, 4), nn.ReLU(), nn.Conv2d(32, 64, 4, 2), nn.ReLU(), nn.Conv2d(64, 64, 3), nn.ReLU()]
    trunk += [nn.Flatten(), nn.Linear(3136, 256), nn.ReLU(), nn.Linear(256, 448), nn.ReLU()]
    network = nn.Sequential(*trunk, nn.Linear(448, 448), nn.ReLU(), nn.Linear(448, actions))
    features = make("gradient", network, torch.zeros(1, 4, 84, 84), seed=0)
    assert sum(math.prod(shape) for shape in features.shapes) == 1_197_344 + 449 * actions
    assert len(features.plan.layers) == 7
    assert not features.plan.others


def test_an_actor_of_small_gain_is_still_checked_layer_by_layer():
    # Two layers of gain 0.01 put the trunk's gradient 1e4 below the head's: rounding must not send it to torch.func.
    torch.manual_seed(0)
    network = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 3))
    for layer in (network[2], network[4]):
        nn.init.orthogonal_(layer.weight, 0.01)
    assert make("gradient", network, torch.zeros(1, 6), seed=0).plan.layers == ("0", "2", "4")


class BatchCentered(nn.Module):
    def __init__(self, before):
        super().__init__()
        self.before, self.first, self.head = before, nn.Linear(4, 4), nn.Linear(4, 3)

    def forward(self, x):
        if self.before:
            return self.head(torch.tanh(self.first(x - x.mean(0))))
        h = torch.tanh(self.first(x))
        return self.head(h - h.mean(0))


@pytest.mark.parametrize("name", ["gradient", "sketch", "last-layer", "penultimate"])
@pytest.mark.parametrize("before", [True, False])
def test_a_network_that_mixes_states_is_refused(name, before):
    with pytest.raises(ValueError, match="mixes the states of a batch"):
        make(name, BatchCentered(before), torch.zeros(1, 4), seed=0)


@pytest.mark.parametrize("statistics", [True, False])
def test_batch_normalization_by_the_batch_is_refused_by_name(statistics):
    network = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4, track_running_stats=statistics), nn.Linear(4, 3))
    if not statistics:
        network.eval()
    with pytest.raises(ValueError, match=r"layer '1' \(BatchNorm1d\).*call network.eval\(\)"):
        make("gradient", network, torch.zeros(2, 4), seed=0)


class Overwriting(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.head = nn.Linear(4, 4), nn.Linear(4, 3)

    def forward(self, x):
        h = self.first(x)
        logits = self.head(h)
        h.mul_(2)
        return logits


def test_an_input_overwritten_after_use_is_refused():
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        make("gradient", Overwriting(), torch.zeros(1, 4), seed=0)


class Detached(nn.Module):
    """A layer that the network itself runs without gradients, and one that it runs both ways."""

    def __init__(self):
        super().__init__()
        self.fixed, self.both, self.head = nn.Linear(4, 4), nn.Linear(4, 4), nn.Linear(4, 3)

    def forward(self, x):
        with torch.no_grad():
            h = self.both(torch.relu(self.fixed(x)))
        return self.head(torch.tanh(self.both(h)))


def test_what_the_network_detaches_has_no_gradient():
    network, generator = Detached().double(), torch.Generator().manual_seed(8)
    x = torch.randn(5, 4, generator=generator, dtype=torch.float64)
    features = make("gradient", network, x[:1], seed=0)
    assert features.plan.layers == ("both", "head")
    assert_features_are(features, features(x), state_gradients(network, ArgmaxLoss(), x))


class Conditional(nn.Module):
    """A layer used once for ordinary states, never for bright ones, twice for dark ones."""

    def __init__(self):
        super().__init__()
        self.first, self.head = nn.Linear(4, 4), nn.Linear(4, 3)

    def forward(self, x):
        for _ in range(0 if float(x.sum()) > 100 else 2 if float(x.sum()) < -100 else 1):
            x = F.relu(self.first(x))
        return self.head(x)


@pytest.mark.parametrize("value", [1e3, -1e3])
def test_a_layer_that_is_skipped_or_used_again_is_named(value):
    features = make("gradient", Conditional(), torch.zeros(1, 4), seed=0)
    with pytest.raises(ValueError, match=r"layers \['first'\] are not used exactly once"):
        features(torch.full((2, 4), value))


@pytest.mark.parametrize("numbers", [1, 7 * 6 * 2, 7 * 6 * 2 + 1])
def test_pieces_that_stay_in_cache_add_up_to_the_whole(monkeypatch, numbers):
    # Seven states, six outputs: one, two and two members a piece, of five; one to three states of the convolution.
    monkeypatch.setattr(feature_batch, "CACHED_NUMBERS", numbers)
    monkeypatch.setattr(layers, "UNFOLDED_NUMBERS", 4 * 4 * 8 * (1 if numbers == 1 else 3))
    generator = torch.Generator().manual_seed(9)
    network = nn.Sequential(nn.Conv2d(2, 3, 2), nn.Flatten(), nn.Linear(48, 6), nn.ReLU(), nn.Linear(6, 3)).double()
    x = torch.randn(7, 2, 5, 5, generator=generator, dtype=torch.float64)
    features = make("gradient", network, x[:1], seed=0)
    batch, truth = features(x), vmapped_argmax_gradients(network, x)
    for k, rows in enumerate(truth.values()):
        weights = torch.randn(5, *rows.shape[1:], generator=generator, dtype=torch.float64)
        assert_close(batch.readout(k, weights), rows.flatten(1) @ weights.flatten(1).T)


def test_half_precision_networks_are_not_taken_for_mixing():
    torch.manual_seed(0)
    network = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 4)).bfloat16()
    features = make("gradient", network, torch.zeros(1, 16, dtype=torch.bfloat16), seed=0)
    assert features.plan.layers == ("0", "2", "4")


class OwnAttention(nn.Module):
    """Attention written with linear layers: a bias of the keys shifts all scores alike, so its gradient is zero."""

    def __init__(self):
        super().__init__()
        self.query, self.key, self.value = (nn.Linear(32, 32) for _ in range(3))
        self.head = nn.Linear(32, 3)

    def forward(self, x):
        tokens = x.unflatten(1, (-1, 32))
        scores = self.query(tokens) @ self.key(tokens).mT
        return self.head((scores.softmax(2) @ self.value(tokens)).mean(1))


def test_a_gradient_that_is_only_rounding_is_not_taken_for_a_wrong_one():
    torch.manual_seed(0)
    x = torch.randn(1, 20 * 32, generator=torch.Generator().manual_seed(1))
    features = make("gradient", OwnAttention(), x, seed=0)
    assert features.plan.layers == ("query", "key", "value", "head")
