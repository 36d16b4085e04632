"""Episodic counts against a dictionary an environment that is emptied at every end of an episode."""

import dataclasses

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from optimist.bonuses import Discrete, EpisodicCount, EpisodicCountConfig, Transitions


def rollout(states, ended=None, valid=None):
    never = torch.zeros(states.shape[:2], dtype=torch.bool)
    return Transitions(states, never.long(), states, never if ended is None else ended, never, valid)


def counted_online(states, ended, valid, tables):
    """Visits within an episode at every valid step, 0 at others; ``tables`` holds a dictionary an environment."""
    visits = torch.zeros(states.shape, dtype=torch.int64)
    for t in range(len(states)):
        for n, table in enumerate(tables):
            if not valid[t, n]:
                continue
            key = int(states[t, n])
            visits[t, n] = table[key] = table.get(key, 0) + 1
            if ended[t, n]:
                table.clear()
    return visits


@settings(max_examples=100, deadline=None)
@given(
    rollouts=st.lists(st.integers(1, 8), min_size=1, max_size=4),
    environments=st.integers(1, 4),
    states=st.integers(1, 5),
    valid_share=st.sampled_from([0.0, 0.7, 1.0]),
    seed=st.integers(0, 2**32 - 1),
)
def test_the_visits_are_those_that_counting_online_gives(rollouts, environments, states, valid_share, seed):
    generator = torch.Generator().manual_seed(seed)
    root = EpisodicCount(Discrete(states), seed=0)
    first = EpisodicCount(Discrete(states), seed=0, config=EpisodicCountConfig(form="first-visit"))
    tables = [{} for _ in range(environments)]
    for steps in rollouts:
        x = torch.randint(0, states, (steps, environments), generator=generator)
        ended = torch.rand(steps, environments, generator=generator) < 0.2
        valid = torch.rand(steps, environments, generator=generator) < valid_share
        transitions = rollout(x, ended, valid)
        visits = counted_online(x, ended, valid, tables)
        assert torch.equal(root.compute(transitions), torch.where(valid, visits.float().rsqrt(), 0))
        assert torch.equal(first.compute(transitions), (visits == 1).float())
        metrics = root.update(transitions)
        first.update(transitions)
        if valid.any():
            # What is carried is the running episodes' and nothing else.
            assert metrics["codes"] == sum(map(len, tables))
            assert metrics["new"] == pytest.approx(int((visits == 1).sum()) / int(valid.sum()))
    carried = root.state_dict()["carried"]
    entries = zip(*(carried[name].tolist() for name in ("environments", "keys", "counts")), strict=True)
    assert sorted(entries) == [(n, key, table[key]) for n, table in enumerate(tables) for key in sorted(table)]


def test_an_episode_ends_by_termination_and_by_truncation():
    x = torch.zeros(5, 1, dtype=torch.int64)
    terminated, truncated = torch.zeros(2, 5, 1, dtype=torch.bool)
    terminated[1] = truncated[2] = True
    transitions = dataclasses.replace(rollout(x, terminated), truncated=truncated)
    bonuses = EpisodicCount(Discrete(2), seed=0).compute(transitions).flatten()
    assert bonuses.tolist() == pytest.approx([1, 2**-0.5, 1, 1, 2**-0.5])


def test_keys_of_64_bits_are_counted_exactly():
    x = torch.randint(0, 256, (6, 2, 3, 7, 7), generator=torch.Generator().manual_seed(0)).to(torch.uint8)
    x[3:] = x[:3]
    bonus = EpisodicCount((3, 7, 7), seed=0, config=EpisodicCountConfig(code="exact"))
    assert bonus.compute(rollout(x))[:3].tolist() == [[1.0, 1.0]] * 3
    assert bonus.compute(rollout(x))[3:].unique().tolist() == pytest.approx([2**-0.5])
    bonus.update(rollout(x))
    assert bonus.compute(rollout(x))[0].tolist() == pytest.approx([3**-0.5] * 2)


def test_another_number_of_environments_is_refused():
    bonus = EpisodicCount(Discrete(3), seed=0)
    bonus.update(rollout(torch.zeros(2, 3, dtype=torch.int64)))
    for call in (bonus.compute, bonus.update):
        with pytest.raises(ValueError, match="3 environments as before, got 4"):
            call(rollout(torch.zeros(2, 4, dtype=torch.int64)))


def test_a_damaged_table_is_refused():
    bonus = EpisodicCount(Discrete(3), seed=0)
    bonus.update(rollout(torch.zeros(2, 3, dtype=torch.int64)))
    state = bonus.state_dict()
    state["carried"]["keys"] = state["carried"]["keys"][:-1]
    with pytest.raises(ValueError, match="of one length"):
        bonus.load_state_dict(state)


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        ({"form": "root"}, "form must be one of 'inverse-root', 'first-visit'"),
        ({"bits": 0}, "bits must be 1 .. 64"),
        ({"code": "md5"}, "code must be"),
        ({"clip": 0.0}, "clip must be > 0"),
    ],
)
def test_bad_settings_are_refused(bad, message):
    with pytest.raises(ValueError, match=message):
        EpisodicCountConfig(**bad)
