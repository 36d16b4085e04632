"""``precision="bf16"``: the trunk multiplies in bfloat16, all else in float32, and runs still repeat and resume."""

from dataclasses import replace

import pytest
import torch

from optimist.studies.atari import atari
from optimist.training.agent import chosen_precision, make_agent, multiplies_bf16
from optimist.training.config import TrainConfig
from optimist.training.ppo import Trainer
from optimist.training.presets import defaults_for
from optimist.training.trunks import read_numbers

CPU = torch.device("cpu")
needs_bf16 = pytest.mark.skipif(not multiplies_bf16(CPU), reason="this CPU has no bfloat16")


def agent_and_frames(precision, n=6):
    generator = torch.Generator().manual_seed(0)
    agent = make_agent((4, 84, 84), 3, network="atari", activation="relu", width=64, generator=generator)
    agent.precision = precision
    return agent, torch.randint(256, (n, 4, 84, 84), dtype=torch.uint8, generator=generator)


@needs_bf16
def test_answers_are_float32_and_near_those_of_float32():
    (exact, frames), (fast, _) = agent_and_frames("float32"), agent_and_frames("bf16")
    for mine, oracle in zip(fast(frames), exact(frames), strict=True):
        assert mine.dtype == torch.float32
        # bfloat16 has 8 bits, and 5 layers add their roundings up: 2^-8 sqrt(5) of the size of the numbers, times 4.
        assert (mine - oracle).abs().max() < 4 * 2**-8 * 5**0.5 * oracle.abs().max()
    assert not torch.equal(fast(frames)[0], exact(frames)[0])  # it is really another precision
    assert torch.equal(fast.policy(frames), exact.policy(frames))  # what a bonus reads is not


@needs_bf16
def test_gradients_are_float32_and_point_the_same_way():
    flat = []
    for precision in ("float32", "bf16"):
        agent, frames = agent_and_frames(precision)
        outputs, values = agent(frames)
        (outputs.square().sum() + values.square().sum()).backward()
        gradients = [parameter.grad for parameter in agent.parameters()]
        assert {gradient.dtype for gradient in gradients} == {torch.float32}
        flat.append(torch.cat([gradient.flatten() for gradient in gradients]))
    assert torch.cosine_similarity(*flat, dim=0) > 0.99


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_bytes_are_read_as_the_nearest_numbers(dtype):
    every = torch.arange(256, dtype=torch.uint8)
    with torch.autocast("cpu", dtype=torch.bfloat16, enabled=dtype == torch.bfloat16):
        read = read_numbers(every)
    assert torch.equal(read, (every.float() * (1 / 255)).to(dtype))
    assert torch.equal(every, torch.arange(256, dtype=torch.uint8))


def config_of(precision):
    changes = {"n_envs": 4, "steps": 16, "minibatches": 2, "warm_up_steps": 8, "threads": 1, "precision": precision}
    return replace(defaults_for("MiniGrid-DoorKey-5x5-v0"), **changes)


@needs_bf16
def test_a_run_goes_on_bit_for_bit_from_its_state():
    whole = Trainer(config_of("bf16"))
    whole.start()
    whole.iterate()
    state = whole.state_dict()
    after = whole.iterate()
    resumed = Trainer(config_of("bf16"))
    resumed.load_state_dict(state)
    again = resumed.iterate()
    kept = [name for name in after if not name.startswith("seconds/") and name != "steps_per_second"]
    assert str([after[name] for name in kept]) == str([again[name] for name in kept])  # NaN is NaN
    for mine, oracle in zip(resumed.agent.parameters(), whole.agent.parameters(), strict=True):
        assert torch.equal(mine, oracle)
    for trainer in (whole, resumed):
        trainer.environments.close()


def without_bfloat16(monkeypatch):
    monkeypatch.setattr(torch.cpu, "_is_avx512_bf16_supported", lambda: False)
    monkeypatch.setattr(torch.cpu, "_is_amx_tile_supported", lambda: False)


def test_devices_without_bfloat16_are_refused(monkeypatch):
    without_bfloat16(monkeypatch)
    with pytest.raises(ValueError, match="the device cpu has none of them: use precision float32, or auto"):
        Trainer(config_of("bf16"))
    with pytest.raises(ValueError, match="the device mps has none of them"):
        chosen_precision("bf16", torch.device("mps"))


def test_auto_is_bf16_where_it_is_fast_and_float32_elsewhere(monkeypatch):
    monkeypatch.setattr(torch.cpu, "_is_avx512_bf16_supported", lambda: True)
    assert [chosen_precision(choice, CPU) for choice in ("auto", "bf16", "float32")] == ["bf16", "bf16", "float32"]
    without_bfloat16(monkeypatch)
    assert [chosen_precision(choice, CPU) for choice in ("auto", "float32")] == ["float32", "float32"]
    trainer = Trainer(config_of("auto"))
    trainer.environments.close()
    assert trainer.agent.precision == "float32"
    assert trainer.config.precision == "auto"  # the same settings on every machine: a study's archive compares them


def test_games_at_laptop_scale_are_playable_without_bfloat16(monkeypatch):
    without_bfloat16(monkeypatch)
    for job in atari.SCALES["laptop"].jobs():
        assert chosen_precision(job.config.precision, CPU) == "float32"


def test_other_precisions_are_refused():
    with pytest.raises(ValueError, match="precision"):
        TrainConfig(precision="float16")  # pyrefly: ignore
