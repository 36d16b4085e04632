"""The presets say what their sources say, RELEASED does what the released code does, and settings find their place."""

import dataclasses
import inspect
import re

import pytest
import torch
from torch import nn

from optimist.bonuses.acb.bonus import ACB
from optimist.bonuses.acb.config import (
    DEFAULT,
    PAPER,
    PRESETS,
    RELEASED,
    SOLVERS,
    ACBConfig,
    Auto,
    Exact,
    Proximal,
    RMSprop,
    with_settings,
)
from optimist.bonuses.acb.minibatches import minibatch_rows
from optimist.bonuses.protocol import Transitions
from oracles import ReleasedACB


class SmallPolicy(nn.Module):
    """Convolution, trunk, actor with the gain of 0.01, and a critic which must not count."""

    def __init__(self):
        super().__init__()
        self.convolution = nn.Conv2d(2, 3, 3, stride=2)
        self.trunk = nn.Linear(27, 8)
        self.critic = nn.Linear(8, 1)
        self.actor = nn.Linear(8, 4)
        generator = torch.Generator().manual_seed(0)
        for parameter in self.parameters():
            nn.init.normal_(parameter, std=0.3, generator=generator)

    def forward(self, observations):
        hidden = torch.relu(self.trunk(torch.relu(self.convolution(observations)).flatten(1)))
        self.critic(hidden)
        return self.actor(hidden)


def rollout(seed, steps=8, environments=32):
    generator = torch.Generator().manual_seed(seed)
    shape = (steps, environments, 2, 7, 7)
    observations, successors = (torch.randn(shape, generator=generator, dtype=torch.float64) for _ in range(2))
    never = torch.zeros(steps, environments, dtype=torch.bool)
    return Transitions(observations, torch.zeros(steps, environments, dtype=torch.int64), successors, never, never)


@pytest.mark.parametrize("scale", [1.0, 1e-3])
def test_released_does_what_the_released_code_does(scale):
    """Over three rollouts of 16 updates each, with gradients of common size and with those of the eps trap."""
    policy = SmallPolicy().double()
    policy.actor.weight.data *= scale
    bonus = ACB(policy, torch.zeros(1, 2, 7, 7).double(), config=RELEASED, seed=3, ensemble_size=16, minibatch_size=24)
    first = bonus.state_dict()
    weights = torch.cat([block.flatten(1) for block in first["solver"]["iterate"].values()], 1)
    slow = ReleasedACB(policy, weights)
    generator = torch.Generator()
    for seed in range(3):
        transitions = rollout(seed)
        generator.set_state(bonus.state_dict()["generator"])
        schedule = minibatch_rows(256, bonus.config, generator=generator)
        targets = torch.randn(256, 16, generator=generator).double()
        for rows in schedule:
            slow.step(transitions.observations.flatten(0, 1)[rows], targets[rows])
        bonus.update(transitions)
        expected = torch.stack([slow.bonus(states) for states in transitions.next_observations])
        torch.testing.assert_close(bonus.compute(transitions), expected, rtol=1e-6, atol=0)
    assert len(schedule) == 16
    assert not torch.allclose(weights, slow.averaged[1].weight, rtol=1e-2)  # the ensemble has moved at all


def test_released_targets_stay_with_their_state_for_all_epochs():
    assert RELEASED.targets == "per-rollout"
    generator = torch.Generator().manual_seed(0)
    schedule = minibatch_rows(16_384, RELEASED, generator=generator)
    assert len(schedule) == RELEASED.solver.epochs * RELEASED.minibatches == 16
    assert {len(rows) for rows in schedule} == {128}
    for start in range(0, 16, 4):  # the minibatches of one epoch share no state
        assert len(torch.cat(schedule[start : start + 4]).unique()) == 512


def test_released_moves_weights_of_the_auxiliary_network_and_never_biases():
    policy = SmallPolicy().double()
    bonus = ACB(policy, torch.zeros(1, 2, 7, 7).double(), config=RELEASED, ensemble_size=4, auxiliary_rate=0.5)
    before = bonus.state_dict()["auxiliary"]["average"]
    with torch.no_grad():
        for parameter in policy.parameters():
            parameter += 1
    bonus.update(rollout(0))
    after = bonus.state_dict()["auxiliary"]["average"]
    for name in before:
        moved = 0.0 if name.endswith("bias") else 0.5
        torch.testing.assert_close(after[name], before[name] + moved)


def test_the_numbers_of_the_paper():
    """Section 5 and appendix A.2 of the paper: M, lambda, step size, alpha, and the maximum of squares."""
    assert isinstance(PAPER.solver, RMSprop)
    assert (PAPER.ensemble_size, PAPER.auxiliary_rate) == (128, 1e-6)
    assert (PAPER.solver.pull, PAPER.solver.learning_rate) == (1e3, 1e-4)
    assert (PAPER.features, PAPER.aggregate) == ("gradient", "max")


def test_default_is_the_configurations_own_default():
    assert ACBConfig() == DEFAULT
    assert len({DEFAULT, PAPER, RELEASED}) == len(PRESETS) == 3


@pytest.mark.parametrize("name", PRESETS)
def test_every_preset_learns_on_a_small_network(name):
    bonus = ACB(SmallPolicy(), torch.zeros(1, 2, 7, 7), config=PRESETS[name], ensemble_size=8)
    transitions = rollout(0)
    transitions = dataclasses.replace(
        transitions,
        observations=transitions.observations.float(),
        next_observations=transitions.next_observations.float(),
    )
    before = bonus.compute(transitions)
    metrics = bonus.update(transitions)
    assert metrics["trained"] > 0
    assert (bonus.compute(transitions) != before).any()
    assert (before > 0).all()


# --- settings by name


@pytest.mark.parametrize(
    ("settings", "solver"),
    [
        ({}, Auto()),
        ({"ridge": 7.0}, Auto(ridge=7.0)),
        ({"solver": "exact"}, Exact()),
        ({"solver": "exact", "ridge": 0.01}, Exact(ridge=0.01)),
        ({"solver": "exact", "solver.ridge": 0.01}, Exact(ridge=0.01)),
        ({"solver": "proximal", "averaging": "polynomial", "epochs": 2}, Proximal(averaging="polynomial", epochs=2)),
        ({"learning_rate": 1e-3, "solver": "rmsprop"}, RMSprop(learning_rate=1e-3)),
        ({"solver": Proximal(ridge=5.0)}, Proximal(ridge=5.0)),
        ({"solver": Proximal(ridge=5.0), "prior": "uniform"}, Proximal(ridge=5.0, prior="uniform")),
    ],
)
def test_settings_are_routed_to_the_solver(settings, solver):
    assert with_settings(DEFAULT, settings) == dataclasses.replace(DEFAULT, solver=solver)


def test_settings_of_both_levels_go_together_and_leave_the_rest_of_a_preset():
    changed = with_settings(PAPER, {"solver": "rmsprop", "pull": 0.0, "ensemble_size": 4})
    expected = dataclasses.replace(PAPER.solver, pull=0.0)
    assert changed == dataclasses.replace(PAPER, ensemble_size=4, solver=expected)
    # Another solver starts from its own defaults.
    assert with_settings(PAPER, {"solver": "exact"}).solver == Exact()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"solver": "newton"}, "there is no solver 'newton': choose one of auto, exact, proximal, rmsprop, streaming"),
        ({"solver": "recursive"}, "there is no solver 'recursive': it is called 'exact' since 0.2"),
        ({"solver": "exakt"}, "did you mean 'exact'?"),
        (
            {"solver": 3},
            r"solver must be one of Auto\(\), Exact\(\), Streaming\(\), Proximal\(\) and RMSprop\(\), got 3",
        ),
        (
            {"solver": "exact", "learning_rate": 0.1},
            "learning_rate is a setting of solver='rmsprop', not of solver='exact', which has ridge: choose that",
        ),
        ({"pull": 1.0}, "pull is a setting of solver='rmsprop', not of solver='auto'"),
        ({"solver.epochs": 2}, "epochs is a setting of solver='proximal' or 'rmsprop', not of solver='auto'"),
        ({"solver": "exact", "prior": "uniform"}, "prior is a setting of solver='proximal' or 'rmsprop'"),
        ({"ridge": 1.0, "solver.ridge": 1.0}, "ridge and solver.ridge are one setting: give it once"),
        ({"rigde": 1.0}, "ACBConfig has no setting 'rigde': did you mean 'ridge'?"),
        ({"ensemble_sise": 3}, "ACBConfig has no setting 'ensemble_sise': did you mean 'ensemble_size'?"),
        ({"step_size": 3}, "ACBConfig has no setting 'step_size': it is called 'learning_rate' since 0.2"),
        ({"learnig_rate": 3}, "did you mean 'learning_rate'?"),
        ({"zzz": 3}, "ACBConfig has no setting 'zzz': choose one of .*ensemble_size.*pull.*ridge"),
        (
            {"solver.ensemble_size": 3},
            "ACBConfig has no setting 'solver.ensemble_size': .*choose one of affine, averaging",
        ),
        ({"solver.rigde": 3}, "did you mean 'ridge'?"),
    ],
)
def test_a_setting_that_has_no_place_is_explained(settings, message):
    with pytest.raises(ValueError, match=message):
        with_settings(DEFAULT, settings)


@pytest.mark.parametrize("kind", [ACBConfig, *SOLVERS.values()])
def test_every_field_is_documented_for_the_command_line_and_only_once(kind):
    """Tyro shows the string below a field as its help; a name in two levels could not be routed."""
    source = inspect.getsource(kind)
    for field in dataclasses.fields(kind):
        assert re.search(rf'\n    {field.name}: [^\n]*\n    """', source), field.name
    own, solvers = {f.name for f in dataclasses.fields(ACBConfig)}, SOLVERS.values()
    assert own.isdisjoint(f.name for solver in solvers for f in dataclasses.fields(solver))


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: Auto(ridge=0.0), "ridge must be > 0 .*singular"),
        (lambda: Exact(ridge=-1.0), "ridge must be > 0 .*singular"),
        (lambda: Proximal(ridge=0.0), "ridge must be > 0 .*the step is its inverse"),
        (lambda: Proximal(prior="normal"), "prior must be one of 'gaussian', 'uniform', got 'normal'"),
        (lambda: Proximal(averaging="mean"), "averaging must be one of 'uniform', 'polynomial', 'exponential'"),
        (lambda: Proximal(averaging_rate=0.0), r"averaging_rate must lie in \(0, 1\], got 0.0"),
        (lambda: Proximal(epochs=0), "epochs must be a whole number >= 1"),
        (lambda: RMSprop(ridge=0.0), "ridge must be > 0"),
        (lambda: RMSprop(learning_rate=0.0), "learning_rate must be > 0 .*never move"),
        (lambda: RMSprop(optimizer_epsilon=0.0), "optimizer_epsilon must be > 0 .*divided by 0"),
        (lambda: RMSprop(smoothing=1.5), r"smoothing must be a number in \[0, 1\]"),
        (lambda: RMSprop(pull=-1.0), "pull must be a finite number >= 0"),
        (lambda: RMSprop(loss_form="max"), "loss_form must be one of 'sum', 'mean'"),
        (lambda: RMSprop(averaging_rate=2.0), r"averaging_rate must lie in \(0, 1\], got 2.0"),
        (lambda: ACBConfig(solver="exact"), r"solver must be one of Auto\(\), .* got 'exact'"),
        (lambda: ACBConfig(ensemble_size=0), "ensemble_size must be a whole number >= 1, got 0"),
        (lambda: ACBConfig(ensemble_size="abc"), "ensemble_size must be a whole number >= 1, got 'abc'"),
        (lambda: ACBConfig(minibatch_size=0), "minibatch_size must be a whole number >= 1"),
        (lambda: ACBConfig(minibatches=-1), "minibatches must be a whole number >= 0"),
        (lambda: ACBConfig(sketch_size=-1), "sketch_size must be a whole number >= 0"),
        (lambda: ACBConfig(fraction=0.0), r"fraction must lie in \(0, 1\]"),
        (lambda: ACBConfig(fraction="half"), r"fraction must lie in \(0, 1\], got 'half'"),
        (lambda: ACBConfig(epsilon=float("nan")), "epsilon must be > 0 and finite"),
        (lambda: ACBConfig(auxiliary_rate=1.5), r"auxiliary_rate must be a number in \[0, 1\]"),
        (lambda: ACBConfig(features="pixels"), "features must be one of 'gradient', 'sketch', .* got 'pixels'"),
        (lambda: ACBConfig(aggregate="mean"), "aggregate must be one of 'max', 'rms'"),
        (lambda: ACBConfig(solver=RMSprop(affine=True), statistics="none"), "batch normalization"),
        (lambda: ACBConfig(statistics="batch", minibatch_size=1), "one state has no variance"),
        (lambda: ACBConfig(statistics="rollout", features="gradient"), "use features='sketch'"),
    ],
)
def test_a_configuration_that_cannot_work_says_why(build, message):
    with pytest.raises(ValueError, match=message):
        build()
