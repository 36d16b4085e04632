"""Features without a lottery: the Fisher loss and a floor per layer, against the label of a near-uniform policy."""

import pytest
import torch
from scipy.stats import spearmanr
from torch import nn

from optimist.bonuses import ACB, Transitions, features
from optimist.bonuses.acb.config import DEFAULT
from optimist.bonuses.acb.standardize import Floor, RunningScale
from optimist.bonuses.features import Dense, FisherLoss

ROBUST = {"feature_loss": "fisher", "floor": "layer"}
PAPERS = {"feature_loss": "argmax", "floor": "all"}
"""The label of the paper, and one floor for all, as DEFAULT had them in 0.1."""


def transitions_of(states):
    never = torch.zeros(states.shape[:2], dtype=torch.bool)
    return Transitions(states, never.long(), states, never, never)


def near_uniform(seed, inputs=8, width=32, actions=4, gain=0.01):
    """A policy as PPO draws it: orthogonal layers, and a last one of a hundredth of their gain."""
    network = nn.Sequential(
        nn.Linear(inputs, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(), nn.Linear(width, actions)
    )
    generator = torch.Generator().manual_seed(seed)
    for layer, size in ((network[0], 2**0.5), (network[2], 2**0.5), (network[4], gain)):
        nn.init.orthogonal_(layer.weight, size, generator=generator)
        nn.init.zeros_(layer.bias)
    return network


def tied(seed):
    """A near-uniform policy whose two likeliest actions differ by 1.7e-4 in their logits at every state."""
    network = near_uniform(seed)
    with torch.no_grad():
        network[4].weight[1] = network[4].weight[0]
        network[4].bias += torch.tensor([1e-2, 1e-2 - 1.7e-4, 0.0, 0.0])
    return network


def noisy(size):
    """Logits with a fixed noise of about ``size`` that depends on the state alone."""
    directions = torch.randn(8, 4, generator=torch.Generator().manual_seed(9))
    return lambda network, observations: network(observations) + size * torch.sin(1e3 * observations @ directions)


def largest_change(seed, **settings):
    """The largest factor by which noise of 1e-4 on the logits moves a bonus, after four rollouts."""
    generator = torch.Generator().manual_seed(seed)
    states = 0.5 + 0.3 * torch.rand(5, 32, 8, 8, generator=generator)
    bonuses = []
    for size in (0.0, 1e-4):
        bonus = ACB(tied(seed), states[0, 0], sketch_size=8, ensemble_size=64, logits=noisy(size), **settings)
        for rollout in states[:4]:
            bonus.update(transitions_of(rollout))
        bonuses.append(bonus.compute(transitions_of(states[4])))
    ratio = bonuses[0] / bonuses[1]
    return torch.maximum(ratio, 1 / ratio).max().item()


def test_noise_on_the_logits_moves_no_bonus_where_there_is_no_label():
    changes = [largest_change(seed, form="width", **ROBUST) for seed in range(4)]
    assert max(changes) < 1.5
    assert min(largest_change(seed, form="width", **PAPERS) for seed in range(4)) > 2


def trunk_share(network, states, last, **settings):
    """The share of the standardized variance that is not in the last layer."""
    floor = settings.pop("floor")
    made = features.make("sketch", network, states[:1], seed=0, sketch_size=8, **settings)
    g = torch.cat([made(part).dense() for part in states.split(256)])
    scale = RunningScale(made.shapes, Floor(1e-3, relative=True, layers=made.layers if floor == "layer" else None))
    scale.observe(Dense(g))
    energy = scale.standardize(Dense(g)).dense().square().mean(0)
    parts = energy.split([size for _, size in made.layers])
    inside = sum(part.sum().item() for part, (name, _) in zip(parts, made.layers, strict=True) if name != last)
    return inside / energy.sum().item()


def test_the_trunk_has_a_like_share_of_the_energy_whatever_the_seed():
    states = 0.5 + 0.3 * torch.rand(512, 8, generator=torch.Generator().manual_seed(0))
    robust = [trunk_share(near_uniform(seed), states, "4", **ROBUST) for seed in range(12)]
    assert max(robust) - min(robust) < 0.05
    assert min(robust) > 0.5
    argmax = [trunk_share(near_uniform(seed), states, "4", feature_loss="argmax", floor="all") for seed in range(12)]
    assert max(argmax) - min(argmax) > 0.3  # which labels there are is chance, and decides


@pytest.mark.campaign
def test_the_trunk_of_the_atari_network_has_a_like_share_over_forty_seeds():
    policies = pytest.importorskip("optimist.studies.fidelity.policies")
    agents = pytest.importorskip("optimist.training.agent")
    states, _ = policies.random_play("Breakout-v5", steps=32, parallel=8, seed=0)
    states = states.flatten(0, 1)
    shares = []
    for seed in range(40):
        generator = torch.Generator().manual_seed(seed)
        agent = agents.make_agent(
            tuple(states.shape[1:]), 4, network="auto", activation="leaky-relu", width=448, generator=generator
        )
        made = features.make("last-layer", agent.policy, states[:1], seed=0)
        shares.append(trunk_share(agent.policy, states, made.layer, **ROBUST))
    assert max(shares) - min(shares) < 0.15


def rank_by_visits(**settings):
    """The rank correlation of bonus and visits, 1 to 1,000 of 40 states, under a policy of probabilities of 0.99."""
    network = near_uniform(0, gain=1.0)
    generator = torch.Generator().manual_seed(1)
    table = torch.randn(40, 8, generator=generator)
    with torch.no_grad():
        best, second = network(table).topk(2).values.T
        network[4].weight *= 6.0 / (best - second).median()
        assert network(table).softmax(1).amax(1).median() > 0.99
    visits = torch.logspace(0, 3, 40).long()
    bonus = ACB(network, table[:1], sketch_size=32, ensemble_size=256, **settings)
    order = torch.repeat_interleave(torch.arange(40), visits)
    order = order[torch.randperm(len(order), generator=generator)]
    for part in table[order].split(1024):
        bonus.update(transitions_of(part.unsqueeze(1)))
    return spearmanr(bonus.compute(transitions_of(table[:, None])).flatten(), visits).statistic


def test_confident_policies_still_rank_states_by_visits():
    """The Fisher gradient of a state falls as sqrt(1 - p), that of the argmax as 1 - p: further below the floor."""
    assert rank_by_visits(**ROBUST) < -0.9
    assert (DEFAULT.feature_loss, DEFAULT.floor) == tuple(ROBUST.values())
    assert rank_by_visits(**PAPERS) > -0.8


def test_the_layers_of_every_feature_map_cover_its_dimensions():
    network = near_uniform(0)
    for name in features.NAMES:
        made = features.make(name, network, torch.zeros(1, 8), seed=0, loss=FisherLoss())
        assert sum(size for _, size in made.layers) == sum(shape.numel() for shape in made.shapes)
    names = [name for name, _ in features.make("gradient", network, torch.zeros(1, 8), seed=0).layers]
    assert names == ["0", "0", "2", "2", "4", "4"]


def test_a_floor_per_layer_is_a_share_of_the_layers_own_variance():
    x = torch.randn(2000, 6, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    x = x * torch.tensor([1e-4, 1e-4, 0.0, 1.0, 1.0, 1.0])
    layers = (("trunk", 2), ("silent", 1), ("last", 2), ("last", 1))
    scale = RunningScale([torch.Size([6])], Floor(0.1, relative=True, layers=layers))
    scale.observe(Dense(x))
    variance = x.var(0, correction=0)
    averages = torch.stack([variance[:2].mean()] * 2 + [variance.mean()] + [variance[3:].mean()] * 3)
    expected = (x - x.mean(0)) / (variance + 0.1 * averages).sqrt()
    torch.testing.assert_close(scale.standardize(Dense(x)).dense(), expected, rtol=1e-6, atol=1e-9)
    blocks = RunningScale([torch.Size([2]), torch.Size([4])], Floor(0.1, relative=True, layers=layers))
    whole = blocks._floor.inverse_scale([x.mean(0)[:2], x.mean(0)[2:]], [variance[:2], variance[2:]])
    torch.testing.assert_close(torch.cat(whole), (variance + 0.1 * averages).rsqrt(), rtol=1e-6, atol=0)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"floor": "layer", "epsilon_form": "absolute"}, "floor='layer' is a share of each layer's mean variance"),
        ({"feature_loss": "fisher", "weighting": "sqrt-probability"}, "weighting='sqrt-probability' belongs to"),
        ({"feature_loss": "fischer"}, "feature_loss must be"),
    ],
)
def test_settings_that_contradict_each_other_are_refused(settings, message):
    with pytest.raises(ValueError, match=message):
        ACB(near_uniform(0), **settings)
