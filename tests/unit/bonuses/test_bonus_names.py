"""The names that other code relies on work as written, and a default stands in one place."""

import dataclasses
import importlib
import inspect
import pkgutil

import pytest
import torch
from torch import nn

from optimist import bonuses
from optimist.bonuses.acb.config import SOLVERS


def test_the_contract_as_it_is_written():
    policy_network = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
    observations, next_observations = torch.randn(2, 6, 3, 4, generator=torch.Generator().manual_seed(0))
    actions, terminated = torch.zeros(6, 3, dtype=torch.int64), torch.zeros(6, 3, dtype=torch.bool)
    truncated = terminated.clone()
    transitions = bonuses.Transitions(observations, actions, next_observations, terminated, truncated)
    for features in ("sketch", "gradient", "last-layer", "penultimate"):
        b = bonuses.ACB(policy_network, features=features, ensemble_size=128)
        assert b.compute(transitions).shape == (6, 3)
        assert b.update(transitions)
        b.load_state_dict(b.state_dict())
        made = bonuses.make("acb", policy_network=policy_network, features=features, ensemble_size=128, seed=0)
        assert type(made) is bonuses.ACB
        assert made.config == b.config
    assert {"paper": bonuses.PAPER, "released": bonuses.RELEASED, "default": bonuses.DEFAULT} == bonuses.PRESETS


@pytest.mark.parametrize("name", ["ACB", "RND", "ICM", "Elliptical", "E3B", "HashCount", "EpisodicCount", "Product"])
def test_every_bonus_has_the_five_methods_and_sees_no_environment(name):
    kind = getattr(bonuses, name)
    for method, parameters in {
        "compute": ["self", "transitions"],
        "update": ["self", "transitions"],
        "warm_up": ["self", "transitions"],
        "state_dict": ["self"],
        "load_state_dict": ["self", "state"],
    }.items():
        assert list(inspect.signature(getattr(kind, method)).parameters) == parameters
    # A constructor that cannot be given an environment cannot step it.
    assert not [parameter for parameter in inspect.signature(kind).parameters if "env" in parameter]


def test_everything_exported_exists_and_is_sorted_once():
    assert len(set(bonuses.__all__)) == len(bonuses.__all__)
    assert all(hasattr(bonuses, name) for name in bonuses.__all__)


def own_objects():
    """Every function and class of `optimist.bonuses`, where it is defined."""
    for found in pkgutil.walk_packages(bonuses.__path__, "optimist.bonuses."):
        for value in vars(importlib.import_module(found.name)).values():
            if (inspect.isfunction(value) or inspect.isclass(value)) and value.__module__ == found.name:
                yield value


def configurations():
    named = [value for value in own_objects() if dataclasses.is_dataclass(value) and value.__name__.endswith("Config")]
    return [*named, *SOLVERS.values()]


def test_no_function_has_a_default_that_disagrees_with_every_configuration():
    defaults = {}
    for kind in configurations():
        for field in dataclasses.fields(kind):
            defaults.setdefault(field.name, []).append(field.default)
    assert {"ridge", "features", "weighting", "ensemble_size", "learning_rate"} <= defaults.keys()
    others = [value for value in own_objects() if value not in configurations()]
    for value in others:
        for parameter in inspect.signature(value).parameters.values():
            if parameter.name in defaults and parameter.default is not parameter.empty:
                assert parameter.default in defaults[parameter.name], f"{value.__module__}.{value.__name__}"


def test_every_configuration_is_frozen_and_has_a_default_for_every_field():
    for kind in configurations():
        assert kind.__dataclass_params__.frozen
        assert all(field.default is not dataclasses.MISSING for field in dataclasses.fields(kind))
        assert kind() == kind()
