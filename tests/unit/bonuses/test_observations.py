"""Observations are read as named float parts: images, vectors, discrete states, chosen keys of a Dict."""

import pytest
import torch

from optimist.bonuses.observations import (
    Discrete,
    Image,
    Vector,
    count,
    flatten_time,
    join,
    map_observations,
    named,
    parts_of,
    read,
    rows_of,
    take,
    unflatten_time,
    unnamed,
)

TREES = [
    torch.arange(12).view(3, 2, 2),
    {"a": torch.arange(6).view(3, 2), "b": torch.arange(12).view(3, 2, 2)},
    {"whole": torch.arange(6).view(3, 2)},  # a Dict may have any key, this one too
]
"""Observations of 3 steps of 2 environments: a tensor, and Dicts."""


def same(a, b):
    """Whether both are tensors, or Dicts of tensors in one order, that are equal."""
    if isinstance(a, dict) != isinstance(b, dict):
        return False
    if isinstance(a, dict):
        return list(a) == list(b) and all(torch.equal(a[key], b[key]) for key in a)
    return torch.equal(a, b)


@pytest.mark.parametrize("tree", TREES)
def test_taking_apart_and_putting_together_are_inverse(tree):
    assert same(unnamed(named(tree), like=tree), tree)
    assert same(unflatten_time(flatten_time(tree), (3, 2)), tree)
    assert same(join([take(tree, slice(0, 1)), take(tree, slice(1, 3))]), tree)
    assert same(take(tree, torch.tensor([2, 0])), map_observations(lambda part: part[[2, 0]], tree))
    assert same(map_observations(lambda part: -part, map_observations(lambda part: -part, tree)), tree)
    assert count(tree) == 3
    assert count(flatten_time(tree)) == 6


@pytest.mark.parametrize("tree", [{}, {"a": torch.zeros(3), "b": torch.zeros(2)}, torch.zeros(()), torch.zeros(0, 2)])
def test_only_rows_of_one_number_can_be_counted(tree):
    with pytest.raises(ValueError, match="n >= 1 rows along a first batch axis"):
        count(tree)


def only(shape, channels="newest"):
    (part,) = parts_of(shape, channels=channels).values()
    return part


@pytest.mark.parametrize(
    ("shape", "channels", "read_channels"),
    [
        ((4, 84, 84), "newest", 1),
        ((3, 64, 64), "newest", 3),
        ((12, 64, 64), "newest", 3),
        ((1, 36, 36), "newest", 1),
        ((4, 84, 84), "all", 4),
        ((4, 84, 84), 2, 2),
    ],
)
def test_an_image_is_read_by_its_last_channels(shape, channels, read_channels):
    part = only(shape, channels)
    assert isinstance(part, Image)
    x = torch.randint(0, 255, (5, *shape), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
    assert torch.equal(part.read(x), x[:, -read_channels:].float())
    assert part.shape == (read_channels, *shape[1:])


@pytest.mark.parametrize("shape", [(4,), (), (7, 7, 3), (2, 3), (1, 35, 84)])
def test_everything_else_is_a_flat_vector(shape):
    part = only(shape)
    assert isinstance(part, Vector)
    x = torch.arange(2 * torch.Size(shape).numel()).view(2, *shape)
    assert torch.equal(part.read(x), x.reshape(2, -1).float())


def test_channels_last_images_are_refused():
    with pytest.raises(ValueError, match="channels first"):
        parts_of((84, 84, 4), channels="newest")


def test_discrete_states_are_one_hot():
    assert Discrete(3).read(torch.tensor([2, 0])).tolist() == [[0, 0, 1], [1, 0, 0]]


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (torch.tensor([[3]]), r"must lie in 0 .. 2, got 3 .. 3"),
        (torch.tensor([[-1]]), r"must lie in 0 .. 2"),
        (torch.tensor([[1.0]]), "must be integers below 3"),
        (torch.tensor([[[1]]]), r"must have shape \(T, N\), got \(T, N, 1\)"),
    ],
)
def test_discrete_states_out_of_range_are_refused(values, message):
    with pytest.raises(ValueError, match=message):
        rows_of(parts_of(Discrete(3), channels="all"), values)


def test_only_the_chosen_keys_of_a_dict_are_read():
    parts = parts_of({"room": Discrete(4), "speed": (2,)}, channels="all")
    observations = {"room": torch.ones(1, 3, dtype=torch.uint8), "speed": torch.ones(1, 3, 2), "text": torch.ones(1, 3)}
    rows = rows_of(parts, observations)
    assert rows.keys() == {"room", "speed"}
    assert {name: tuple(x.shape) for name, x in read(parts, rows, slice(0, 2)).items()} == {
        "room": (2, 4),
        "speed": (2, 2),
    }


def test_a_missing_key_says_which_keys_are_needed():
    parts = parts_of({"room": (4,)}, channels="all")
    with pytest.raises(
        ValueError, match=r"a mapping with the keys \['room'\], got a mapping with the keys \['image'\]"
    ):
        rows_of(parts, {"image": torch.zeros(1, 1, 4)})
    with pytest.raises(ValueError, match="got a tensor"):
        rows_of(parts, torch.zeros(1, 1, 4))
