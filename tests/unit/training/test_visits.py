"""What a run counts beside exact states: coarse cells of images, and places of a map, Montezuma's rooms among them."""

import math

import numpy as np
import pytest
import torch

from optimist.bonuses import Transitions
from optimist.training.environments.envpool_pool import PYRAMID, EnvPool
from optimist.training.visits.visits import CELLS, GRAYS, Visits, coarse


def seen(observations):
    ended = torch.zeros(observations.shape[:2], dtype=torch.bool)
    return Transitions(observations, ended.long(), observations, ended, ended)


def coarse_by_loops(frames):
    """The mean of every cell of 7 x 7 pixels in 8 shades: obviously right and slow."""
    result = np.zeros((*frames.shape[:2], CELLS, CELLS), np.uint8)
    side = frames.shape[-1] // CELLS
    for n, c, i, j in np.ndindex(*result.shape):
        cell = frames[n, c, i * side : (i + 1) * side, j * side : (j + 1) * side]
        result[n, c, i, j] = int(cell.mean() * GRAYS / 256)
    return result


def test_a_coarse_frame_is_what_loops_give():
    frames = np.random.default_rng(0).integers(0, 256, (3, 1, 84, 84), dtype=np.uint8)
    frames[1] //= 2
    frames[2] = 255
    np.testing.assert_array_equal(coarse(frames), coarse_by_loops(frames))
    np.testing.assert_array_equal(coarse(frames.astype(np.float32) / 256), coarse_by_loops(frames))
    assert coarse(np.zeros((1100, 3, 40, 50), np.uint8)).shape == (1100, 3, CELLS, CELLS)


def test_frames_that_differ_in_a_pixel_are_two_states_and_one_cell():
    rollout = torch.zeros(3, 1, 4, 84, 84, dtype=torch.uint8)
    rollout[1, 0, -1, 5, 5] = 1  # of the newest frame
    rollout[2, 0, -1, :7, :7] = 200
    visits = Visits((4, 84, 84), limit_bytes=2**20, total_steps=100)
    visits.add(0, seen(rollout), None, torch.zeros(3, 1))
    counts = visits.counts()
    assert (counts["unique_states"], counts["unique_cells"]) == (3, 2)
    assert math.isnan(counts["unique_places"])
    other = Visits((4, 84, 84), limit_bytes=2**20, total_steps=100)
    other.load_state_dict(visits.state_dict())
    other.add(3, seen(rollout), None, torch.zeros(3, 1))
    assert other.counts()["unique_cells"] == 2


def test_places_are_counted_where_there_is_a_map_and_vectors_have_no_cells():
    visits = Visits((5,), limit_bytes=2**20, total_steps=100)
    places = np.array([[[0, 1], [2, 3]], [[0, 1], [-1, 0]]])
    visits.add(0, seen(torch.zeros(2, 2, 5)), places, torch.zeros(2, 2))
    counts = visits.counts()
    assert counts["unique_places"] == 2
    assert "unique_cells" not in counts


def test_the_rooms_of_montezumas_revenge_are_places_of_a_pyramid():
    assert len(PYRAMID) == len({tuple(place) for place in PYRAMID}) == 24
    assert [tuple(PYRAMID[room]) for room in (0, 1, 3, 15, 23)] == [(0, 3), (0, 4), (1, 2), (3, 0), (3, 8)]
    environments = EnvPool("MontezumaRevenge-v5", n_envs=2, options={"num_threads": 1})
    environments.reset(0)
    step = environments.step(np.zeros(2, np.int64))
    np.testing.assert_array_equal(step.places, [PYRAMID[1]] * 2)  # every game begins in room 1, the top's middle
    told = environments._places({"ram": np.full((2, 128), 200, np.uint8)})
    assert (told == -1).all()  # no room of that number: off the map
    environments.close()


def test_other_games_have_no_map():
    environments = EnvPool("Breakout-v5", n_envs=1, options={"num_threads": 1})
    environments.reset(0)
    assert environments.step(np.zeros(1, np.int64)).places is None
    environments.close()


def test_what_was_acted_on_is_familiar_images_seen_coarsely_and_other_states_exactly():
    rollout = torch.zeros(2, 1, 4, 84, 84, dtype=torch.uint8)
    visits = Visits((4, 84, 84), limit_bytes=2**20, total_steps=100)
    assert not visits.familiar(rollout).any()
    visits.add(0, seen(rollout), None, torch.zeros(2, 1))
    rollout[0, 0, :-1] = 200  # older frames do not count
    rollout[0, 0, -1, 5, 5] = 1
    rollout[1, 0, -1, :7, :7] = 200
    np.testing.assert_array_equal(visits.familiar(rollout), [[True], [False]])
    vectors = Visits((2,), limit_bytes=2**20, total_steps=100)
    vectors.add(0, seen(torch.tensor([[[1.0, 2.0], [3.0, 4.0]]])), None, torch.zeros(1, 2))
    np.testing.assert_array_equal(vectors.familiar(torch.tensor([[[3.0, 4.0], [3.0, 4.5]]])), [[True, False]])


def test_which_states_were_seen_is_not_known_once_they_are_estimated():
    visits = Visits((1,), limit_bytes=2**14, total_steps=100)
    assert visits.is_exact
    visits.add(0, seen(torch.arange(5000.0).reshape(5000, 1, 1)), None, torch.zeros(5000, 1))
    assert not visits.is_exact
    with pytest.raises(ValueError, match="only estimated"):
        visits.familiar(torch.zeros(1, 1, 1))
