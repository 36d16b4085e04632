"""Environments without a state of their own come back to where they were, and those that do not are noticed."""

import itertools
from dataclasses import replace

import numpy as np
import pytest

from optimist.bonuses.actions import DiscreteActions
from optimist.training.config import TrainConfig
from optimist.training.environments import make
from optimist.training.environments.deep_sea import DeepSea
from optimist.training.runs import recording
from optimist.training.runs import run as runs
from optimist.training.runs.recording import NotRepeated, Recorded
from optimist.training.runs.serialization import StateFile, read

N = 3
CASES = {
    "saved": ("DeepSea-5", {}),
    "EnvPool": ("CartPole-v1", {}),
    "grid": ("MiniGrid-Empty-5x5-v0", {}),
    "continuous": ("gymnasium:Pendulum-v1", {}),
    "fixed level": ("MiniGrid-Empty-Random-5x5-v0", {"level": 3}),
    "random starts": ("gymnasium:MountainCar-v0", {}),
}


def chosen(environments, rng):
    if isinstance(environments.actions, DiscreteActions):
        return rng.integers(environments.actions.n, size=N)
    return rng.normal(size=(N, environments.actions.width)).astype(np.float32)


def answers(environments, actions):
    """Everything that the environments answer, as bytes."""
    parts = ("observations", "next_observations", "rewards", "terminated", "truncated")
    steps = [environments.step(action) for action in actions]
    return [[getattr(step, part).tobytes() for part in parts] for step in steps]


@pytest.mark.parametrize("case", CASES)
def test_environments_come_back_to_where_they_were(case, tmp_path):
    name, options = CASES[case]
    rng, first = np.random.default_rng(0), Recorded(make(name, n_envs=N, options=options))
    first.reset(1)  # a warm-up, which is forgotten
    answers(first, [chosen(first, rng) for _ in range(7)])
    first.reset(2)
    answers(first, [chosen(first, rng) for _ in range(210)])  # MountainCar's and Pendulum's episodes end after 200
    with (tmp_path / "state").open("wb") as file:
        StateFile(first.state_dict(), {}).write(file)
    state, after = read(tmp_path / "state")[1], [chosen(first, rng) for _ in range(60)]
    expected = answers(first, after)
    second = Recorded(make(name, n_envs=N, options=options))
    observations = second.load_state_dict(state)
    assert observations.tobytes() == state.get("observations", observations).tobytes()
    assert answers(second, after) == expected
    assert ("actions" in state) == (case != "saved")
    if "actions" in state:  # one byte per choice
        assert state["actions"].dtype == (np.float32 if case == "continuous" else np.uint8)
    for each in (first, second):
        each.close()


def test_a_record_is_full_by_its_length_or_by_its_bytes_and_never_where_none_is_needed(monkeypatch):
    pole = Recorded(make("CartPole-v1", n_envs=N))
    pole.reset(0)
    assert not pole.is_full_after(9, limit=10)
    assert pole.is_full_after(10, limit=10)
    answers(pole, [np.zeros(N, np.int64)] * 4)
    assert pole.is_full_after(6, limit=10)
    assert not pole.is_full_after(6, limit=11)
    monkeypatch.setattr(recording, "LIMIT_BYTES", 10 * N)  # a byte per choice
    assert pole.is_full_after(6, limit=11)
    pole.reset(0)
    assert not pole.is_full_after(6, limit=11)
    pole.close()
    sea = Recorded(DeepSea(4, n_envs=N))
    sea.reset(0)
    assert not sea.is_full_after(10**9, limit=1)


class Moody(DeepSea):
    """Its state is not saved, and how it pays depends on how many of it there were in this process."""

    births = itertools.count()

    def __init__(self, *arguments, **named):
        super().__init__(*arguments, **named)
        self.mood = next(self.births)

    def step(self, actions):
        answer = super().step(actions)
        return replace(answer, rewards=answer.rewards + np.float32(self.mood))

    def state_dict(self):
        return None


def moody(n_envs):
    return Moody(4, n_envs=n_envs)


def test_what_is_not_repeatable_is_noticed():
    first, second = Recorded(moody(N)), Recorded(moody(N))
    first.reset(0)
    answers(first, [np.ones(N, np.int64)] * 5)
    with pytest.raises(NotRepeated, match="did not answer the same 5 actions as they did before"):
        second.load_state_dict(first.state_dict())


def test_a_run_on_what_is_not_repeatable_goes_on_with_a_warning_and_counts_what_it_cuts(tmp_path):
    config = TrainConfig(
        env=f"{__name__}:moody", bonus="count", n_envs=N, steps=7, total_steps=42, epochs=1, minibatches=2, width=8,
        device="cpu", threads=1,
    )  # fmt: skip
    runs.train(config, tmp_path)
    said = []
    with pytest.warns(UserWarning, match="They are restarted: from here on this is another run"):
        runs.resume(tmp_path, total_steps=84, say=said.append)
    assert said == ["14 steps of every environment are played again, to bring them back to where they were"]
    cut = [row.split(",")[2] for row in (tmp_path / "metrics.csv").read_text().splitlines()]
    assert cut == ["episodes_cut", "0.0", "0.0", "3.0", "3.0"]  # the fourth episodes, two steps old
