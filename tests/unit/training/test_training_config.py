"""The configuration of a run: what it refuses, where its defaults come from, and that it survives the disk."""

import dataclasses
import json

import pytest

from optimist.config import key_values, leaves, replaced
from optimist.training.config import Signal, TrainConfig
from optimist.training.presets import ATARI, DEEP_SEA, GRID, VECTOR, defaults_for
from optimist.training.runs.run import read_config, write_config


def test_the_defaults_are_rnds():
    # FACTS.md, section 2
    c = TrainConfig()
    assert (c.n_envs, c.steps, c.epochs, c.minibatches) == (128, 128, 4, 4)
    assert (c.learning_rate, c.clip, c.gae_lambda, c.entropy_weight) == (1e-4, 0.1, 0.95, 0.001)
    assert c.extrinsic == Signal(weight=2.0, discount=0.999, episodic=True)
    assert c.intrinsic == Signal(weight=1.0, discount=0.99, episodic=False)
    assert (c.value_weight, c.max_gradient_norm, c.normalize_advantages, c.value_scale_rate) == (0.5, 0.0, False, 0.0)
    assert c.warm_up_steps == 50 * 128
    assert c.rollout_steps == 128 * 128


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"seed": -1}, "seed must be a non-negative integer"),
        ({"n_envs": 0}, "n_envs must be .* 1, got 0"),
        ({"total_steps": 0}, "total_steps must be"),
        ({"checkpoint_every": 0}, "checkpoint_every must be"),
        ({"learning_rate": 0.0}, "learning_rate must be > 0"),
        ({"learning_rate": float("nan")}, "learning_rate must be > 0"),
        ({"clip": 0.0}, "clip must be > 0"),
        ({"extrinsic": Signal(-1.0, 0.9, True)}, r"extrinsic\.weight must be .* >= 0, got -1\.0"),
        ({"intrinsic": Signal(1.0, 1.5, True)}, r"intrinsic\.discount must be a number in \[0, 1\], got 1\.5"),
        ({"gae_lambda": 1.5}, r"gae_lambda must be a number in \[0, 1\], got 1.5"),
        ({"value_scale_rate": -0.1}, r"value_scale_rate must be a number in \[0, 1\]"),
        ({"stop_at_success": 2.0}, "it is a share"),
        ({"intrinsic": Signal(1.0, 1.0, False)}, r"intrinsic\.discount must be below 1"),
        ({"mixing": "even"}, "mixing must be one of"),
        ({"n_envs": 1, "steps": 2, "minibatches": 3}, "a rollout of 2 steps has no 3 minibatches"),
        ({"bonus": "none", "extrinsic": Signal(0.0, 0.99, True)}, "nothing to learn from: choose a bonus"),
        ({"bonus": "none", "bonus_options": ("ridge=1",)}, "bonus none takes no bonus_options, got ridge=1: choose a"),
        ({"network": "resnet"}, "network must be one of"),
        ({"activation": "gelu"}, "activation must be one of"),
        ({"env_options": ("level",)}, "env_options must be written key=value, got 'level'"),
        ({"bonus_options": ("a=1", "a=2")}, "bonus_options gives a twice"),
    ],
)
def test_what_makes_no_run_is_refused(changes, message):
    with pytest.raises(ValueError, match=message):
        TrainConfig(**changes)


def test_options_are_read_as_json_where_they_are_json():
    texts = ("level=3", "ridge=1e-2", "flag=true", "preset=paper", "sizes=[1,2]", "text=a=b", "empty=")
    assert key_values("options", texts) == {
        "level": 3, "ridge": 0.01, "flag": True, "preset": "paper", "sizes": [1, 2], "text": "a=b", "empty": "",
    }  # fmt: skip


@pytest.mark.parametrize("written", ["acb*e3b", "acb * e3b", " acb* e3b "])
def test_blanks_in_a_product_mean_nothing(written):
    assert TrainConfig(bonus=written) == TrainConfig(bonus="acb*e3b")
    assert not TrainConfig(bonus=" none ").explores


def test_a_bonus_of_no_weight_is_no_bonus():
    assert TrainConfig().explores
    assert not TrainConfig(intrinsic=Signal(0.0, 0.99, False)).explores
    assert not TrainConfig(bonus="none").explores


@pytest.mark.parametrize(
    ("env", "family"),
    [
        ("Breakout-v5", ATARI),
        ("envpool:Breakout-v5", ATARI),
        ("MiniGrid-DoorKey-8x8-v0", GRID),
        ("gymnasium:MiniGrid-DoorKey-8x8-v0", GRID),
        ("BabyAI-GoToObj-v0", GRID),
        ("DeepSea-10", DEEP_SEA),
        ("CartPole-v1", VECTOR),
        ("CombinationLock", VECTOR),
        ("my.module:make", VECTOR),
    ],
)
def test_a_family_of_environments_has_its_own_numbers(env, family):
    assert defaults_for(env) == dataclasses.replace(family, env=env)


def test_a_configuration_survives_the_disk(tmp_path):
    config = TrainConfig(env="DeepSea-6", env_options=("mapping_seed=1",), bonus_options=("ridge=1.0",), seed=7)
    write_config(tmp_path, config)
    assert read_config(tmp_path) == config
    assert "optimist" in json.loads((tmp_path / "config.json").read_text())
    assert [path.name for path in tmp_path.iterdir()] == ["config.json"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "is not the configuration of a run"),
        ("[1, 2]", "it must be a JSON object"),
        ('{"name": "someone else\'s"}', "missing entries: activation, .*; unknown entries: name"),
        (None, "there is no run in"),
    ],
)
def test_a_foreign_configuration_is_refused(text, message, tmp_path):
    if text is not None:
        (tmp_path / "config.json").write_text(text)
    with pytest.raises(FileNotFoundError if text is None else ValueError, match=message):
        read_config(tmp_path)


def test_a_configuration_with_a_missing_or_a_bad_entry_is_refused(tmp_path):
    write_config(tmp_path, TrainConfig())
    path = tmp_path / "config.json"
    stored = json.loads(path.read_text())
    path.write_text(json.dumps({key: value for key, value in stored.items() if key != "clip"}))
    with pytest.raises(ValueError, match="missing entries: clip; unknown entries: none"):
        read_config(tmp_path)
    path.write_text(json.dumps(stored | {"color": "red"}))
    with pytest.raises(ValueError, match="missing entries: none; unknown entries: color"):
        read_config(tmp_path)
    path.write_text(json.dumps(stored | {"clip": -1}))
    with pytest.raises(ValueError, match=r"config\.json is not the configuration of a run: clip must be > 0"):
        read_config(tmp_path)
    path.write_text(json.dumps(stored | {"clip": "wide"}))
    with pytest.raises(ValueError, match="is not the configuration of a run"):
        read_config(tmp_path)
    path.write_text(json.dumps(stored | {"extrinsic": {"weight": 1.0}}))
    with pytest.raises(ValueError, match="missing entries: discount, episodic; unknown entries: none"):
        read_config(tmp_path)
    path.write_text(json.dumps(stored | {"intrinsic": 2.0}))
    with pytest.raises(ValueError, match=r"expected an object with the entries of Signal, got 2\.0"):
        read_config(tmp_path)


def test_a_configuration_of_an_older_version_is_told_from_a_damaged_one(tmp_path):
    flat = {
        "optimist": "0.1.0",
        "env": "DeepSea-6",
        "extrinsic_weight": 2.0,
        "environments": 32,
        "intrinsic_memory": 10,
    }
    (tmp_path / "config.json").write_text(json.dumps(flat))
    told = "written by an older version, Optimist 0.1.0, whose settings environments, .*: train the run anew"
    with pytest.raises(ValueError, match=told):
        read_config(tmp_path)


def test_nested_fields_are_replaced_by_their_dotted_names():
    config = replaced(TrainConfig(), {"extrinsic.weight": 0.0, "extrinsic.discount": 0.9, "steps": 7})
    assert config == TrainConfig(extrinsic=Signal(0.0, 0.9, True), steps=7)
    whole = replaced(TrainConfig(), {"intrinsic": Signal(3.0, 0.5, True), "intrinsic.weight": 4.0})
    assert whole.intrinsic == Signal(4.0, 0.5, True)
    assert leaves(config)["extrinsic.weight"] == 0.0
    assert "extrinsic" not in leaves(config)
    with pytest.raises(ValueError, match=r"no setting 'extrinsic\.wieght': did you mean 'extrinsic\.weight'"):
        replaced(TrainConfig(), {"extrinsic.wieght": 0.0})
