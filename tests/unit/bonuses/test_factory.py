"""Bonuses by name: each is what its constructor makes, and a wrong name says which one was near."""

import sys
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
    Auto,
    DiscreteActions,
    Elliptical,
    EpisodicCount,
    HashCount,
    InverseDynamics,
    NoveltyGain,
    NoveltyGainConfig,
    Product,
    Proximal,
    RNDConfig,
    Task,
    Transitions,
    make,
    names,
    parse,
)
from optimist.config import key_values
from optimist.own import is_own


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
    settings = (
        {"code": "simhash", "bits": 4} if "count" in name else {"sketch_size": 16} if name == "elliptical" else {}
    )
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
    exact = make("elliptical", **task(), ridge=2.0, statistics="none", form="square")
    ensemble = make("acb", **task(), ridge=2.0, statistics="none", ensemble_size=4000, form="square")
    for bonus in (exact, ensemble):
        bonus.update(rollout())
    # The mean of 4,000 squared Gaussians: relative sd sqrt(2/4000); 5 sd over 8 states is a false alarm in 200,000.
    ratios = ensemble.compute(rollout()) / exact.compute(rollout())
    assert float((ratios - 1).abs().max()) < 5 * (2 / 4000) ** 0.5


def test_settings_replace_the_configuration():
    assert make("acb", **task(), ridge=3.0).config == replace(DEFAULT, solver=Auto(ridge=3.0))
    made = make("acb", **task(), solver="proximal", averaging="polynomial")
    assert made.config == replace(DEFAULT, solver=Proximal(averaging="polynomial"))
    options = key_values("bonus_options", ["preset=paper", "solver=rmsprop", "solver.learning_rate=0.001"])
    assert make("acb", **task(), **options).config.solver == replace(PAPER.solver, learning_rate=0.001)
    assert make("rnd", **task(), n_features=7, epochs=1).config == RNDConfig(n_features=7, epochs=1)
    made = make("e3b", **task(), ridge=0.5, n_features=7)
    assert made.config.ridge == 0.5
    assert made.state_dict()["inverses"].shape == (0, 7, 7)
    made = make("elliptical", **task(), features="penultimate", ridge=3.0)
    assert made.state_dict()["moments"]["scatter"].shape == (40, 40)
    assert made.config.ridge == 3.0


def test_what_is_made_is_what_the_constructor_makes():
    x = rollout()
    assert torch.equal(make("rnd", **task()).compute(x), RND((3,), seed=0).compute(x))
    embedding = InverseDynamics((3,), DiscreteActions(2), seed=0)
    assert torch.equal(make("e3b", **task()).compute(x), E3B(embedding).compute(x))


def test_a_product_by_name_is_the_product_of_both():
    settings = {"acb.ensemble_size": 9, "acb.ridge": 3.0, "e3b.ridge": 0.5, "e3b.n_features": 7}
    product = make("acb*e3b", **task(), **settings)
    first, second = make("acb", **task(), ensemble_size=9, ridge=3.0), make("e3b", **task(), ridge=0.5, n_features=7)
    assert torch.equal(product.compute(rollout()), first.compute(rollout()) * second.compute(rollout()))
    product.update(rollout())
    for bonus in (first, second):
        bonus.update(rollout())
    assert torch.equal(product.compute(rollout()), first.compute(rollout()) * second.compute(rollout()))
    counts = make("acb*episodic-count", **task(), **{"episodic-count.form": "first-visit"}).compute(rollout())
    torch.testing.assert_close(counts, make("acb", **task()).compute(rollout()))


def test_a_gain_by_name_is_that_of_the_bonus_inside_and_blanks_do_not_matter():
    inner = NoveltyGain(make("acb", **task(), ensemble_size=9), config=NoveltyGainConfig(alpha=0.25))
    made = make(" novelty-gain( acb ) ", **task(), alpha=0.25, ensemble_size=9)
    assert torch.equal(made.compute(rollout()), inner.compute(rollout()))
    gain, form = "novelty-gain(acb)", {"episodic-count.form": "first-visit"}
    assert parse(f"{gain} * episodic-count") == parse("novelty-gain ( acb )*episodic-count") == (gain, "episodic-count")
    product = make(f"{gain} * episodic-count", **task(), **form, **{f"{gain}.alpha": 0.25, f"{gain}.ensemble_size": 9})
    assert (product.first.config.alpha, product.first.bonus.config.ensemble_size) == (0.25, 9)
    assert product.second.config.form == "first-visit"
    both = make("novelty-gain(acb*rnd)", **task(), **{"acb.ridge": 3.0, "alpha": 1.0})
    assert isinstance(both.bonus, Product)


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
        ("", {}, "a bonus is one name or a product of two different ones"),
        ("acb*", {}, r"a bonus is one name or a product of two different ones, such as 'acb\*e3b', got 'acb\*'"),
        ("acb*acb", {}, r"a product of two different ones, such as 'acb\*e3b', got 'acb\*acb'"),
        ("acb * acb", {}, "a product of two different ones"),
        ("acb*e3b*rnd", {}, "a product of two different ones"),
        ("acb*e3b", {"ridge": 1.0}, r"'ridge' belongs to neither factor of acb\*e3b: write acb.ridge or e3b.ridge"),
        ("acb*e3b", {"rnd.features": 1}, r"'rnd.features' belongs to neither .* write acb.features or e3b.features"),
        ("acb*e3b", {"acb.rigde": 1.0}, "ACBConfig has no setting 'rigde': did you mean 'ridge'?"),
        ("acb*e3b", {"actions": None}, "the bonus 'e3b' needs actions"),
        ("novelty-gain(acb", {}, "a bonus is one name or a product"),
        ("novelty-gain)acb(", {}, "no bonus 'novelty-gain.acb.'"),
        ("novelty-gain()", {}, "a bonus is one name or a product"),
        ("novelty-gain(abc)", {}, "no bonus 'abc': did you mean 'acb'?"),
        ("novelty-gian(acb)", {}, "no bonus wraps another by the name 'novelty-gian': did you mean 'novelty-gain'?"),
        ("novelty-gain(count)", {}, "scores each state by itself"),
        ("novelty-gain(acb)", {"aplha": 1}, "ACBConfig has no setting 'aplha'"),
        ("novelty-gain(acb)", {"alpha": -1}, "alpha must"),
    ],
)
def test_a_wrong_call_says_what_to_do(name, changes, message):
    with pytest.raises(ValueError, match=message):
        make(name, **(task() | changes))


@pytest.fixture
def on_path(tmp_path, monkeypatch):
    """A function that writes a module into a folder of its own on the path; it is forgotten after the test."""
    written = []

    def write(name, text):
        path = tmp_path.joinpath(*name.split(".")).with_suffix(".py")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        written.append(name)
        monkeypatch.syspath_prepend(tmp_path)

    yield write
    for name in written:
        sys.modules.pop(name, None)
        sys.modules.pop(name.partition(".")[0], None)


def install(folder, monkeypatch, package, entries):
    """A distribution as pip leaves it behind: a folder of metadata beside its modules."""
    info = folder / f"{package}-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[optimist.bonuses]\n" + "\n".join(entries) + "\n")
    monkeypatch.syspath_prepend(folder)


FLAT = """
import torch
from optimist.bonuses import Bonus

class Flat(Bonus):
    def __init__(self, task, height):
        self.task, self.height = task, height
    def compute(self, transitions):
        return torch.full((transitions.steps, transitions.n_envs), self.height)
    def update(self, transitions):
        return {}
    def state_dict(self):
        return {}
    def load_state_dict(self, state):
        pass

def flat(task, height=1.0, *, upside=False):
    return Flat(task, -height if upside else height)

def nothing(task):
    Flat(task, 1.0)

def a_number(task):
    return 3

def mistaken(task):
    return Flat(task)

def demanding(task, height):
    task.require("actions")

flatness = 3
"""


def test_a_bonus_of_your_own_is_made_by_its_factory(on_path):
    on_path("my_lab.bonuses", FLAT)
    given = task()
    bonus = make("my_lab.bonuses:flat", **given, height=2.0)
    assert bonus.compute(rollout()).tolist() == [[2.0] * 2] * 4
    assert bonus.task == Task(name="my_lab.bonuses:flat", loss=None, **given)
    assert make("my_lab.bonuses:flat", height=2.0, upside=True).height == -2.0


def test_a_product_with_a_bonus_of_your_own_gives_each_its_settings(on_path):
    on_path("my_lab.bonuses", FLAT)
    name = "rnd * my_lab.bonuses:flat"
    product = make(name, **task(), **{"rnd.n_features": 7, "my_lab.bonuses:flat.height": 3.0})
    assert product.first.config == RNDConfig(n_features=7)
    assert product.second.task.name == "my_lab.bonuses:flat"
    torch.testing.assert_close(product.compute(rollout()), 3 * product.first.compute(rollout()))


def test_a_setting_belongs_to_the_longest_name_before_its_dot(on_path):
    on_path("rnd.extra", FLAT)  # a package that is called like a bonus
    product = make("rnd*rnd.extra:flat", **task(), **{"rnd.extra:flat.height": 3.0, "rnd.n_features": 7})
    assert product.second.height == 3.0
    assert product.first.config.n_features == 7


@pytest.mark.parametrize(
    ("name", "settings", "message"),
    [
        ("no_such_lab:flat", {}, "there is no module 'no_such_lab', which 'no_such_lab:flat' names: is it in the"),
        ("my_lab.no_such:flat", {}, "there is no module 'my_lab.no_such'"),
        ("my_lab.bonuses:flt", {}, "the module 'my_lab.bonuses' has no function 'flt': did you mean 'flat'?"),
        ("my_lab.bonuses:flatness", {}, "has no function 'flatness': did you mean 'flat'?"),
        ("my_lab.bonuses:", {}, "must be named as package.module:function, got 'my_lab.bonuses:'"),
        (":flat", {}, "must be named as package.module:function"),
        ("my_lab/bonuses.py:flat", {}, "must be named as package.module:function"),
        ("my_lab.bonuses:nothing", {}, "'my_lab.bonuses:nothing' must give a bonus, got None: does it return"),
        ("my_lab.bonuses:a_number", {}, "must give a bonus, got int without compute, update, .* subclass of optimist"),
        ("my_lab.bonuses:flat", {"hight": 1.0}, "unexpected keyword argument 'hight': did you mean 'height'?"),
        ("my_lab.bonuses:nothing", {"hight": 1.0}, "unexpected keyword argument 'hight': it takes none"),
        ("my_lab.bonuses:demanding", {}, "missing a required argument: 'height'.* it takes height"),
        ("my_lab.bonuses:demanding", {"height": 1}, "the bonus 'my_lab.bonuses:demanding' needs actions"),
        ("my_lab.bonuses:flat*rnd", {"height": 1}, "write my_lab.bonuses:flat.height or rnd.height"),
    ],
)
def test_a_wrong_factory_says_what_to_do(on_path, name, settings, message):
    on_path("my_lab.bonuses", FLAT)
    with pytest.raises(ValueError, match=message):
        make(name, observation_shape=(3,), **settings)


def test_an_error_inside_a_factory_is_the_users_own(on_path):
    on_path("my_lab.bonuses", FLAT)
    with pytest.raises(TypeError, match="missing 1 required positional argument: 'height'") as caught:
        make("my_lab.bonuses:mistaken")
    assert is_own(caught.value)
    assert caught.traceback[-1].name == "mistaken"
    assert caught.value.__notes__ == [
        "This error comes from code of your own: your bonus factory 'my_lab.bonuses:mistaken'"
    ]
    with pytest.raises(ValueError, match="no bonus") as caught:
        make("rdn")
    assert not is_own(caught.value)


@pytest.mark.parametrize(
    ("text", "kind"),
    [("import no_such_thing", ModuleNotFoundError), ("1 / 0", ZeroDivisionError), ("x = ", SyntaxError)],
)
def test_an_error_inside_a_module_is_the_users_own(on_path, text, kind):
    on_path("my_broken_lab", text)
    with pytest.raises(kind) as caught:
        make("my_broken_lab:flat")
    assert is_own(caught.value)


def test_an_installed_package_offers_bonuses_by_name(on_path, tmp_path, monkeypatch):
    on_path("my_lab.bonuses", FLAT)
    install(tmp_path, monkeypatch, "my-lab", ["flat = my_lab.bonuses:flat", "gone = my_lab.bonuses:gone"])
    assert make("flat", height=2.0).compute(rollout()).tolist() == [[2.0] * 2] * 4
    assert {"flat", "gone", "acb"} <= set(names())
    product = make("flat*episodic-count", **task(), **{"flat.height": 2.0, "episodic-count.bits": 4})
    assert product.first.height == 2.0
    assert product.second.config.bits == 4
    with pytest.raises(ValueError, match=r"there is no bonus 'flaat': did you mean 'flat'?"):
        make("flaat")
    with pytest.raises(ValueError, match=r"the module 'my_lab.bonuses' has no function 'gone'"):
        make("gone")
    with pytest.raises(ValueError, match=r"the bonus 'flat', my_lab.bonuses:flat of my-lab, cannot be called with"):
        make("flat", hight=2.0)


def test_a_name_that_two_packages_offer_is_refused(on_path, tmp_path, monkeypatch):
    on_path("my_lab.bonuses", FLAT)
    install(tmp_path, monkeypatch, "my-lab", ["flat = my_lab.bonuses:flat", "acb = my_lab.bonuses:flat"])
    install(tmp_path, monkeypatch, "other-lab", ["flat = other_lab:flat"])
    with pytest.raises(ValueError, match=r"two packages offer .* my_lab.bonuses:flat of my-lab and other_lab:flat of"):
        make("flat")
    assert type(make("acb", **task())) is ACB  # our own names are ours


@pytest.mark.parametrize("factory", ["episodic", "counting", "lifelong"])
def test_the_bonuses_of_tests_are_made_by_name(factory):
    bonus = make(f"own_bonuses:{factory}", scale=2.0)
    before = bonus.compute(rollout())
    assert before.tolist() == [[2.0, 2.0]] * 4  # every state is new
    bonus.update(rollout())
    assert bool((bonus.compute(rollout()) < before).all())
    other = make(f"own_bonuses:{factory}", scale=2.0)
    other.load_state_dict(bonus.state_dict())
    assert torch.equal(other.compute(rollout()), bonus.compute(rollout()))


@pytest.mark.parametrize(
    ("name", "settings", "text"),
    [
        ("rnd", {}, "RND()"),
        ("rnd", {"n_features": 7, "epochs": 1}, "RND(n_features=7, epochs=1)"),
        ("icm", {"inverse_weight": 0.5}, "ICM(inverse_weight=0.5)"),
        ("e3b", {"ridge": 0.5, "n_features": 7}, "E3B(InverseDynamics(n_features=7), ridge=0.5)"),
        ("count", {"code": "simhash"}, "HashCount(code='simhash')"),
        ("episodic-count", {"form": "first-visit"}, "EpisodicCount(form='first-visit')"),
        ("rnd*count", {"rnd.n_features": 7}, "RND(n_features=7) * HashCount()"),
        ("own_bonuses:episodic", {}, "Revisits()"),
    ],
)
def test_a_bonus_is_shown_by_what_is_not_default_about_it(name, settings, text):
    assert repr(make(name, **task(), **settings)) == text
