"""Transitions refuse what no bonus could read, by name, before anything is changed."""

from dataclasses import replace

import pytest
import torch

from optimist.bonuses import Transitions
from optimist.bonuses.transitions import join_transitions

T, N = 3, 2


def fields(**changes):
    made = {
        "observations": torch.zeros(T, N, 4),
        "actions": torch.zeros(T, N, dtype=torch.int64),
        "next_observations": torch.ones(T, N, 4),
        "terminated": torch.zeros(T, N, dtype=torch.bool),
        "truncated": torch.zeros(T, N, dtype=torch.bool),
    }
    return made | changes


def test_a_rollout_knows_its_size_and_its_ends():
    terminated, truncated = torch.zeros(2, T, N, dtype=torch.bool)
    terminated[0, 1] = truncated[2, 0] = True
    transitions = Transitions(**fields(terminated=terminated, truncated=truncated))
    assert (transitions.steps, transitions.n_envs) == (T, N)
    assert transitions.ended.nonzero().tolist() == [[0, 1], [2, 0]]


def test_no_episode_ends_with_a_step_that_is_not_valid():
    always, valid = torch.ones(T, N, dtype=torch.bool), torch.tensor([[True, False]] * T)
    assert torch.equal(Transitions(**fields(terminated=always, truncated=always, valid=valid)).ended, valid)


def test_the_valid_steps_alone_are_in_time_order():
    x = torch.arange(T * N).view(T, N, 1)
    valid = torch.tensor([[True, False], [False, False], [True, True]])
    given = fields(observations={"x": x}, next_observations={"x": x + 1}, actions=x[..., 0], valid=valid)
    transitions = Transitions(**given)
    alone = transitions.only_valid
    assert alone.observations["x"].tolist() == [[[0]], [[4]], [[5]]]
    assert alone.next_observations["x"].tolist() == [[[1]], [[5]], [[6]]]
    assert alone.actions.tolist() == [[0], [4], [5]]
    assert transitions.rows.tolist() == [0, 4, 5]
    assert alone is transitions.only_valid  # the very tensors again: features held for them are found
    everywhere, nowhere = torch.ones(2, T, N, dtype=torch.bool) & torch.tensor([True, False]).view(2, 1, 1)
    assert Transitions(**fields(valid=nowhere)).only_valid is None
    for valid in (None, everywhere):
        transitions = Transitions(**fields(valid=valid))
        assert transitions.only_valid is transitions
        assert transitions.rows.tolist() == list(range(T * N))


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), -float("inf"), 1e300])
@pytest.mark.parametrize("field", ["observations", "next_observations", "actions"])
def test_a_value_that_is_not_finite_names_its_field(field, bad):
    values = torch.zeros(T, N, 4, dtype=torch.float64)
    values[1, 1, 2] = bad
    other = {"observations": "next_observations", "next_observations": "observations"}.get(field)
    changes = {field: values} | ({other: torch.zeros_like(values)} if other else {})
    with pytest.raises(ValueError, match=rf"^{field} must be finite"):
        Transitions(**fields(**changes))


def test_a_value_that_is_not_finite_in_a_dict_names_its_key():
    good = {"image": torch.zeros(T, N, 1, 5, 5, dtype=torch.uint8), "speed": torch.zeros(T, N)}
    bad = good | {"speed": torch.full((T, N), torch.nan)}
    with pytest.raises(ValueError, match=r"next_observations\['speed'\] must be finite"):
        Transitions(**fields(observations=good, next_observations=bad))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"actions": torch.zeros(T)}, r"actions must be a tensor \(T, N\)"),
        ({"actions": torch.zeros(0, N)}, "at least one step"),
        ({"terminated": torch.zeros(T, N)}, "terminated must be a bool tensor"),
        ({"truncated": torch.zeros(N, T, dtype=torch.bool)}, r"truncated must be .* \(3, 2\), got .* \(2, 3\)"),
        ({"valid": torch.ones(T, N)}, "valid must be a bool tensor"),
        ({"valid": torch.ones(T, dtype=torch.bool)}, r"valid must be .* \(3, 2\), got .* \(3,\)"),
        ({"observations": torch.zeros(N, T, 4)}, r"observations must be a tensor \(3, 2, ...\)"),
        ({"next_observations": torch.zeros(T, N, 5)}, "next_observations must have the layout of observations"),
        ({"next_observations": torch.zeros(T, N, 4, dtype=torch.uint8)}, "layout of observations"),
        ({"next_observations": {"x": torch.zeros(T, N, 4)}}, "layout of observations"),
        ({"next_observations": {"whole": torch.zeros(T, N, 4)}}, "layout of observations"),
        ({"observations": {}}, "empty mapping"),
        ({"observations": {"x": {"y": torch.zeros(T, N)}}}, "nested mappings must be flattened"),
        ({"observations": torch.zeros(T, N, 4, dtype=torch.complex64)}, "must be real"),
    ],
)
def test_wrong_shapes_say_what_was_expected(changes, message):
    with pytest.raises(ValueError, match=message):
        Transitions(**fields(**changes))


def test_discrete_multi_discrete_and_continuous_actions_are_accepted():
    for actions in (
        torch.zeros(T, N, dtype=torch.int32),
        torch.zeros(T, N, 3, dtype=torch.int64),
        torch.zeros(T, N, 7),
    ):
        assert Transitions(**fields(actions=actions)).n_envs == N


def test_every_tensor_is_mapped_and_pieces_join_to_the_whole():
    x = torch.arange(T * N).view(T, N, 1)
    valid = torch.tensor([[True, True], [True, True], [False, True]])
    whole = Transitions(**fields(observations={"x": x}, next_observations={"x": x + 1}, valid=valid))
    first, last = (whole.mapped(lambda part, at=at: part[at]) for at in (slice(0, 2), slice(2, 3)))
    assert first.observations["x"].tolist() == x[:2].tolist()
    assert last.valid.tolist() == [[False, True]]
    first = replace(first, valid=None)  # all of it is valid: joined with a piece that is not, so it says
    joined = join_transitions([first, last])
    assert join_transitions([last]) is last
    for name in ("actions", "terminated", "truncated", "valid"):
        assert torch.equal(getattr(joined, name), getattr(whole, name))
    for name in ("observations", "next_observations"):
        assert torch.equal(getattr(joined, name)["x"], getattr(whole, name)["x"])
    assert join_transitions([first, first]).valid is None
