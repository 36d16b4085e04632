"""Bonuses by name: each is what its constructor makes, and a wrong name says which one was near."""

from dataclasses import replace

import pytest
import torch
from torch import nn

from optimist.bonuses import (
    ACB,
    DEFAULT,
    E3B,
    ICM,
    PAPER,
    RELEASED,
    RND,
    DiscreteActions,
    Elliptical,
    EpisodicCount,
    HashCount,
    InverseDynamics,
    Product,
    RNDConfig,
    Transitions,
    make,
)


def task():
    network = nn.Sequential(nn.Linear(3, 40), nn.ReLU(), nn.Linear(40, 40), nn.ReLU(), nn.Linear(40, 2))
    generator = torch.Generator().manual_seed(0)
    for parameter in network.parameters():
        nn.init.normal_(parameter, std=0.3, generator=generator)
    return {"observation_shape": (3,), "actions": DiscreteActions(2), "policy_network": network, "seed": 0}


def rollout():
    x = torch.randn(4, 2, 3, generator=torch.Generator().manual_seed(0))
    ended = torch.zeros(4, 2, dtype=torch.bool)
    return Transitions(x, ended.long(), x + 1, ended, ended)


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("acb", ACB),
        ("rnd", RND),
        ("icm", ICM),
        ("e3b", E3B),
        ("elliptical", Elliptical),
        ("count", HashCount),
        ("episodic-count", EpisodicCount),
        ("acb*e3b", Product),
        ("acb * episodic-count", Product),
    ],
)
def test_one_call_serves_every_name(name, kind):
    bonus = make(name, **task())
    assert type(bonus) is kind
    assert bonus.compute(rollout()).shape == (4, 2)


@pytest.mark.parametrize("name", ["acb", "rnd", "icm", "e3b", "elliptical", "count", "episodic-count"])
def test_the_seed_is_used(name):
    # 40 x 40 weights in a sketch of 16 x 16: the seed of the elliptical bonus is that of its projections.
    settings = {"code": "simhash", "bits": 4} if "count" in name else {"side": 16} if name == "elliptical" else {}
    first, again, other = (make(name, **(task() | {"seed": seed}), **settings) for seed in (0, 0, 1))
    for bonus in (first, again, other):
        bonus.update(rollout())
    assert torch.equal(first.compute(rollout()), again.compute(rollout()))
    assert not torch.equal(first.compute(rollout()), other.compute(rollout()))


@pytest.mark.parametrize(("preset", "config"), [("paper", PAPER), ("released", RELEASED), ("default", DEFAULT)])
def test_presets_by_name(preset, config):
    assert make("acb", **task(), preset=preset).config == config
    assert make("acb", **task(), config=config).config == config
    assert make("acb", **task(), preset=preset, ensemble_size=9).config == replace(config, ensemble_size=9)


def test_the_elliptical_bonus_reads_the_features_of_acb():
    # One feature space, one Sigma: the mean square of many exact regressors is the elliptical bonus.
    exact = make("elliptical", **task(), ridge=2.0, whiten=False)
    ensemble = make("acb", **task(), ridge=2.0, statistics="none", ensemble_size=4000, form="square")
    for bonus in (exact, ensemble):
        bonus.update(rollout())
    # The mean of 4,000 squared Gaussians: relative sd sqrt(2/4000); 5 sd over 8 states is a false alarm in 200,000.
    ratios = ensemble.compute(rollout()) / exact.compute(rollout())
    assert float((ratios - 1).abs().max()) < 5 * (2 / 4000) ** 0.5


def test_settings_replace_the_configuration():
    assert make("acb", **task(), ridge=3.0).config == replace(DEFAULT, ridge=3.0)
    assert make("rnd", **task(), features=7, epochs=1).config == RNDConfig(features=7, epochs=1)
    made = make("e3b", **task(), ridge=0.5, features=7)
    assert made.config.ridge == 0.5
    assert made.state_dict()["inverses"].shape == (0, 7, 7)
    made = make("elliptical", **task(), features="penultimate", ridge=3.0)
    assert made.state_dict()["scatter"].shape == (40, 40)
    assert made.config.ridge == 3.0


def test_what_is_made_is_what_the_constructor_makes():
    x = rollout()
    assert torch.equal(make("rnd", **task()).compute(x), RND((3,), seed=0).compute(x))
    embedding = InverseDynamics((3,), DiscreteActions(2), seed=0)
    assert torch.equal(make("e3b", **task()).compute(x), E3B(embedding).compute(x))


def test_a_product_by_name_is_the_product_of_both():
    settings = {"acb.ensemble_size": 9, "acb.ridge": 3.0, "e3b.ridge": 0.5, "e3b.features": 7}
    product = make("acb*e3b", **task(), **settings)
    first, second = make("acb", **task(), ensemble_size=9, ridge=3.0), make("e3b", **task(), ridge=0.5, features=7)
    assert torch.equal(product.compute(rollout()), first.compute(rollout()) * second.compute(rollout()))
    product.update(rollout())
    for bonus in (first, second):
        bonus.update(rollout())
    assert torch.equal(product.compute(rollout()), first.compute(rollout()) * second.compute(rollout()))
    counts = make("acb*episodic-count", **task(), **{"episodic-count.form": "first-visit"}).compute(rollout())
    torch.testing.assert_close(counts, make("acb", **task()).compute(rollout()))


def test_the_features_of_the_elliptical_bonus_do_not_move_with_the_policy():
    arguments = task()
    bonus = make("elliptical", **arguments)
    before = bonus.compute(rollout())
    with torch.no_grad():
        for parameter in arguments["policy_network"].parameters():
            parameter.mul_(2)
    assert torch.equal(bonus.compute(rollout()), before)


@pytest.mark.parametrize(
    ("name", "changes", "message"),
    [
        ("rdn", {}, "no bonus 'rdn': did you mean 'rnd'?"),
        ("counts", {}, "did you mean 'count'?"),
        ("xyz", {}, "choose one of acb, count, e3b, elliptical, episodic-count, icm, rnd"),
        ("icm", {"actions": None}, r"the bonus 'icm' needs actions: pass make\('icm', actions=..., seed=...\)"),
        ("elliptical", {"policy_network": None}, "needs policy_network"),
        ("rnd", {"learnig_rate": 1.0}, "RNDConfig has no setting 'learnig_rate': did you mean 'learning_rate'?"),
        ("e3b", {"ridges": 1.0}, "did you mean 'ridge'?|choose one of"),
        ("rnd", {"seed": -1}, "seed must be a non-negative integer"),
        ("acb", {"policy_network": None}, "the bonus 'acb' needs policy_network"),
        ("acb", {"ensemble_sice": 4}, "ACBConfig has no setting 'ensemble_sice': did you mean 'ensemble_size'?"),
        ("acb", {"preset": "papers"}, "there is no preset 'papers': did you mean 'paper'?"),
        ("acb", {"preset": "paper", "config": PAPER}, "give one of them"),
        ("acb*e3c", {}, "no bonus 'e3c': did you mean 'e3b'?"),
        ("acb*", {}, "no bonus ''"),
        ("acb*acb", {}, r"a product has two different factors, such as 'acb\*e3b', got 'acb\*acb'"),
        ("acb*e3b*rnd", {}, "a product has two different factors"),
        ("acb*e3b", {"ridge": 1.0}, r"'ridge' belongs to neither factor of acb\*e3b: write acb.ridge or e3b.ridge"),
        ("acb*e3b", {"rnd.features": 1}, r"'rnd.features' belongs to neither .* write acb.features or e3b.features"),
        ("acb*e3b", {"acb.rigde": 1.0}, "ACBConfig has no setting 'rigde': did you mean 'ridge'?"),
        ("acb*e3b", {"actions": None}, "the bonus 'e3b' needs actions"),
    ],
)
def test_a_wrong_call_says_what_to_do(name, changes, message):
    with pytest.raises(ValueError, match=message):
        make(name, **(task() | changes))
