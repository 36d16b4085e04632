"""A user's own networks: taken by name, as a factory and as a module, differentiated by ACB, resumed, refused."""

import re
import shlex
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

import own_networks
from optimist.cli.commands import parse
from optimist.own import is_own
from optimist.training.config import Signal, TrainConfig
from optimist.training.playback import play_back
from optimist.training.ppo import Trainer
from optimist.training.runs import run as runs
from optimist.training.runs.metrics_log import read_metrics

PAGE = Path(__file__).parents[3] / "docs" / "networks.md"
TINY = TrainConfig(
    env="CartPole-v1",
    network="own_networks:residual",
    bonus="acb",
    bonus_options=("ensemble_size=16", "sketch_size=8"),
    n_envs=4,
    steps=16,
    total_steps=4 * 64,
    checkpoint_every=64,
    epochs=2,
    minibatches=2,
    learning_rate=1e-2,
    extrinsic=Signal(1.0, 0.99, True),
    warm_up_steps=8,
    device="cpu",
    threads=1,
)
MINIGRID = replace(TINY, env="MiniGrid-Empty-5x5-v0", network="own_networks:attention")


def weights(trainer):
    return {name: value.clone() for name, value in trainer.agent.state_dict().items()}


@pytest.mark.parametrize("config", [TINY, MINIGRID], ids=["features", "a pair"])
@pytest.mark.parametrize("features", ["sketch", "gradient", "last-layer", "penultimate"])
def test_an_own_network_acts_learns_and_is_differentiated_by_acb(config, features):
    options = ("ensemble_size=16", f"features={features}", *(("sketch_size=8",) if features == "sketch" else ()))
    trainer = Trainer(replace(config, bonus_options=options))
    trainer.start()
    before = weights(trainer)
    rows = [trainer.iterate() for _ in range(2)]
    after = weights(trainer)
    # The user's own layers learn, and the critic beside them. Keys and queries of near-equal words move little.
    for name in before:
        if name.startswith(("policy.trunk", "critic", "values.w")) and "keys" not in name and "queries" not in name:
            assert not torch.equal(before[name], after[name]), name
    assert all(row["bonus_mean"] > 0 and np.isfinite(row["policy_loss"]) for row in rows)
    assert rows[1]["bonus_deviation"] > 0
    parts = {name.split(".")[1] for name, _ in trainer.agent.policy.named_parameters()}
    assert parts >= ({"first", "second", "norm"} if config is TINY else {"kind", "queries", "logits"})


def test_a_name_a_factory_and_a_module_are_one_network():
    named, made = Trainer(TINY), Trainer(replace(TINY, network="auto"), network=own_networks.residual)
    assert weights(named).keys() == weights(made).keys()
    assert all(torch.equal(one, weights(made)[name]) for name, one in weights(named).items())
    module = own_networks.Residual(4)
    given = Trainer(replace(TINY, network="auto"), network=module)
    inner = given.agent.policy.trunk
    assert all(torch.equal(mine, theirs) for mine, theirs in zip(module.parameters(), inner.parameters(), strict=True))
    given.start()
    before = [weight.clone() for weight in module.parameters()]
    given.iterate()
    assert all(torch.equal(mine, was) for mine, was in zip(module.parameters(), before, strict=True))  # a copy learned
    assert not torch.equal(module.first.weight, inner.first.weight)


def test_the_weights_depend_on_the_seed_of_the_run_alone():
    state = torch.get_rng_state()
    first = weights(Trainer(TINY))
    assert torch.equal(torch.get_rng_state(), state)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(1234)
        second = weights(Trainer(TINY))
    assert all(torch.equal(first[name], second[name]) for name in first)
    other = weights(Trainer(replace(TINY, seed=1)))
    assert not torch.equal(first["policy.trunk.first.weight"], other["policy.trunk.first.weight"])


def test_a_layer_without_a_size_takes_that_of_the_observations():
    trainer = Trainer(replace(TINY, network="own_networks:lazy"))
    assert trainer.agent.policy.trunk[0].weight.shape == (12, 4)


def test_a_run_with_an_own_network_is_resumed_and_played_back(tmp_path):
    runs.train(TINY, tmp_path / "whole")
    runs.train(replace(TINY, total_steps=128), tmp_path / "run")
    runs.resume(tmp_path / "run", total_steps=4 * 64)
    whole, resumed = (read_metrics(tmp_path / name / "metrics.csv") for name in ("whole", "run"))
    for name in ("policy_loss", "bonus_mean", "return_mean"):
        np.testing.assert_array_equal(whole[name], resumed[name])
    assert len(play_back(tmp_path / "run", steps=5).games[0]) == 5


@pytest.mark.parametrize(
    ("network", "told"),
    [
        ("flat", r"must give features, floats of shape \(n, width\).*got torch.float32 of shape \(16,\)"),
        ("too_many", r"or a pair: outputs \(n, 2\) and features .*got a tuple of .*, .*, .*"),
        ("wrong_outputs", r"outputs \(n, 2\) and features \(n, width\); got a tuple of .*\(4, 12\), .*\(4, 4\)"),
        ("integers", "floats of shape .*got torch.int64"),
        ("no_module", r"must be a torch.nn.Module, or a function that returns one, got <function"),
        ("batch_norm", "use no batch normalization and no dropout"),
        ("dropout", "use no batch normalization and no dropout"),
        ("no_arguments", "cannot be called with the settings .*too many positional arguments"),
        ("absent", "has no function 'absent'"),
    ],
)
def test_a_network_that_cannot_be_used_is_told_why(network, told):
    with pytest.raises(ValueError, match=told) as caught:
        Trainer(replace(TINY, network=f"own_networks:{network}"))
    assert not is_own(caught.value)


def test_an_error_inside_an_own_network_is_its_own():
    with pytest.raises(RuntimeError, match="shapes cannot be multiplied") as caught:
        Trainer(replace(TINY, network="own_networks:other_size"))
    assert is_own(caught.value)
    with pytest.raises(ValueError, match=r"must be a torch\.nn\.Module"):
        Trainer(TINY, network=lambda shape, outputs: None)


def test_the_page_runs_and_its_commands_parse(tmp_path, monkeypatch):
    text = PAGE.read_text(encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    snippets, threads = re.findall(r"^```python\n(.*?)^```$", text, re.M | re.S), torch.get_num_threads()
    namespace = {"__name__": "docs"}
    with torch.random.fork_rng(devices=[]):
        for code in snippets:
            if file := re.match(r"# (\w+\.py)\n", code):
                (tmp_path / file[1]).write_text(code, encoding="utf-8")
            else:
                exec(compile(code, str(PAGE), "exec"), namespace)
    torch.set_num_threads(threads)
    commands = re.findall(r"^optimist (train .*)$", text, re.M)
    assert len(snippets) >= 2
    assert commands
    for command in commands:
        assert isinstance(parse(shlex.split(command)).command.settings, TrainConfig)
