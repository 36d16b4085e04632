"""Observations are read as named float parts: images, vectors, discrete states, chosen keys of a Dict."""

import pytest
import torch

from optimist.bonuses.observations import Discrete, Image, Vector, parts_of, read, rows_of


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
