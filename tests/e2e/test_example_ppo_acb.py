"""The one-file example: it is one file, has its five lines, runs as a command, and keeps its word on DeepSea."""

import re
import subprocess
import sys
import types
from pathlib import Path

import pytest
import torch

import own_bonuses
from wanderers import Wanderer, answers

SCRIPT = Path(__file__).parents[2] / "examples" / "ppo_acb.py"
TEXT = SCRIPT.read_text(encoding="utf-8")


@pytest.fixture
def loaded(monkeypatch):
    """A function that makes a module of the example's text; all on one thread."""

    def load(text):
        module = types.ModuleType("ppo_acb")
        monkeypatch.setitem(sys.modules, "ppo_acb", module)  # dataclasses look themselves up
        exec(compile(text, str(SCRIPT), "exec"), vars(module))
        return module

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield load
    torch.set_num_threads(threads)


def test_five_marked_lines_in_fewer_than_250():
    assert re.findall(r"# ACB (\d)/5", TEXT) == ["1", "2", "3", "4", "5"]
    assert TEXT.count("\n") < 250
    for line in TEXT.splitlines():  # nothing of the bonus stands anywhere else
        assert "# ACB" in line or "import" in line or not re.search(r"bonuses\.|intrinsic\.|IntrinsicReward", line)


def test_the_command_runs_on_cartpole():
    command = [sys.executable, str(SCRIPT), "--env", "CartPole-v1", "--steps", "2048", "--weight", "0.1"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=600)
    assert done.returncode == 0, done.stderr
    assert "2,048 steps: return" in done.stdout


def weights(agent):
    return torch.cat([weight.detach().flatten() for weight in agent.parameters()])


def test_at_weight_zero_it_is_plain_ppo_and_the_bonus_alone_moves_the_policy(loaded):
    def trained(text, **options):
        example = loaded(text)
        args = example.Args(env="DeepSea-4", steps=1024, rollout=128, n_envs=2, extrinsic_weight=0.0, **options)
        return weights(example.train(args, lambda line: None)[0])

    shortened = TEXT.replace(" + intrinsic.reward(rollout)  # ACB 4/5", "  # plain")
    plain = "\n".join(line for line in shortened.splitlines() if "# ACB" not in line)
    assert plain.count("\n") == TEXT.count("\n") - 5  # four lines and the newline at the end
    alone = trained(plain)
    assert torch.equal(trained(TEXT, weight=0.0), alone)
    assert not torch.equal(trained(TEXT, weight=1.0), alone)
    assert torch.equal(trained(TEXT, weight=1.0), trained(TEXT, weight=1.0))


@pytest.mark.parametrize("kind", ["episodic", "counting"])
def test_a_bonus_of_your_own_is_scored_right_in_its_loop(loaded, kind, monkeypatch):
    own = {"episodic": own_bonuses.Revisits, "counting": own_bonuses.Census}[kind]
    log, computed, scored = [], [], own.compute
    monkeypatch.setattr(own, "compute", lambda self, rollout: computed.append(scored(self, rollout)) or computed[-1])
    line = next(line for line in TEXT.splitlines() if "# ACB 1/5" in line)
    example = loaded(TEXT.replace(line, f"    bonus = bonuses.make('own_bonuses:{kind}')"))
    numbers = iter(range(2))
    monkeypatch.setattr(example, "DeepSea", lambda size: Wanderer(next(numbers), log))
    example.train(example.Args(steps=200, rollout=20, n_envs=2), lambda line: None)
    for n, expected in answers(log, kind).items():
        torch.testing.assert_close(torch.cat(computed)[:, n], torch.tensor(expected))
        assert len(expected) == 100


@pytest.mark.parametrize(("weight", "solves"), [(0.5, True), (0.0, False)])
def test_deep_sea_is_solved_with_the_bonus_and_not_without(loaded, weight, solves):
    example = loaded(TEXT)
    # Uniform play, 60,000 / 14 = 4,285 episodes with 2^-14 each, finds the treasure at least once in 23 % of runs.
    _, late = example.train(example.Args(weight=weight), lambda line: None)
    assert late > 0.9 if solves else late < 0.05
