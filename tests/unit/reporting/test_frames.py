"""Pictures of observations: every kind has one, and different states look different."""

import numpy as np
import pytest

from optimist.bonuses.observations import Discrete
from optimist.reporting.play.frames import AGENT, BALL, DUSK, GOAL, LIT, NIGHT, TILE, WALL, pictures
from optimist.training import environments
from optimist.training.trunks import plain_shape
from optimist.training.visits.visits import newest_frames
from played_games import game_of


def drawn(shape, observations, ends=()):
    return pictures(shape, game_of(np.zeros(len(observations)), ends=ends, observations=observations))


@pytest.mark.parametrize(
    "env",
    ["Breakout-v5", "MiniGrid-DoorKey-8x8-v0", "DeepSea-5", "FrozenLake-8x8", "CombinationLock", "CartPole-v1"],
)
def test_every_kind_of_environment_has_pictures_that_differ_with_the_state(env):
    pool = environments.make(env, n_envs=1)
    pool.reset(0)
    rng = np.random.default_rng(0)
    seen = [pool.step(rng.integers(pool.actions.n, size=1)).next_observations[0] for _ in range(30)]
    pool.close()
    shape = plain_shape(pool.observation_shape)
    observations = newest_frames(shape, np.stack(seen))
    images = drawn(shape, observations)
    assert images.dtype == np.uint8
    assert images.shape[0] == 30
    assert images.shape[3] == 3
    assert min(images.shape[1:3]) >= 84
    looks = {image.tobytes() for image in images}
    assert len(looks) >= min(4, len({state.tobytes() for state in observations}))


def test_grey_frames_are_shown_as_they_are_and_floats_are_spread():
    frames = np.random.default_rng(0).integers(256, size=(2, 1, 40, 40), dtype=np.uint8)
    assert np.array_equal(drawn((4, 40, 40), frames), np.repeat(frames[:, 0, ..., None], 3, axis=3))
    colors = np.random.default_rng(0).integers(256, size=(2, 3, 40, 40), dtype=np.uint8)
    assert np.array_equal(drawn((3, 40, 40), colors), np.moveaxis(colors, 1, -1))
    spread = drawn((1, 40, 40), np.linspace(-1, 3, 1600, dtype=np.float32).reshape(1, 1, 40, 40))
    assert (spread.min(), spread.max()) == (0, 255)
    assert drawn((3, 600, 500), np.zeros((1, 3, 600, 500), np.uint8)).shape == (1, 200, 167, 3)


def test_minigrid_is_drawn_column_by_column_with_the_agent_below():
    codes = np.zeros((1, 3, 7, 7), np.uint8)
    codes[0, :, 2, 0] = (GOAL, 1, 0)  # column 2, row 0
    codes[0, :, 5, 3] = (WALL, 5, 0)
    (image,) = drawn((3, 7, 7), codes)
    tiles = image.reshape(7, TILE, 7, TILE, 3).transpose(0, 2, 1, 3, 4)
    assert (tiles[0, 2] == tiles[0, 2, 0, 0]).all()
    assert tiles[0, 2, 0, 0].argmax() == 1  # green
    assert (tiles[3, 5] == tiles[3, 5, 0, 0]).all()
    assert (tiles[6, 3] == LIT).all(-1).any()  # the agent
    assert (tiles[6, 2] == NIGHT).all()  # unseen
    whole = codes.copy()
    whole[0, :, 1, 1] = (AGENT, 0, 0)
    (image,) = drawn((3, 7, 7), whole)
    tiles = image.reshape(7, TILE, 7, TILE, 3).transpose(0, 2, 1, 3, 4)
    assert (tiles[1, 1] == LIT).all(-1).any()
    assert not (tiles[6, 3] == LIT).all(-1).any()


def test_objects_of_other_kinds_or_colors_look_different():
    codes = np.zeros((3, 3, 7, 7), np.uint8)
    codes[:, :, 0, 0] = [(BALL, 0, 0), (BALL, 2, 0), (WALL, 0, 0)]
    looks = {image[:TILE, :TILE].tobytes() for image in drawn((3, 7, 7), codes)}
    assert len(looks) == 3


def test_a_state_is_lit_and_the_path_of_its_own_episode_is_dim():
    images = drawn(Discrete(17), np.array([0, 5, 16, 1]), ends=[2])  # DeepSea-4: 16 is beside the grid
    size = images.shape[1] // 4
    cells = images[:, size // 2 :: size, size // 2 :: size]
    assert (cells[1, 1, 1] == LIT).all()
    assert (cells[1, 0, 0] == DUSK).all()
    assert not (cells[2] == LIT).all(-1).any()
    assert (cells[3, 0, 1] == LIT).all()
    assert (cells[3, 0, 0] == NIGHT).all()  # of the episode before
    assert drawn(Discrete(64), np.array([63])).shape[1] == 8 * 25


def test_numbers_are_bars_up_and_down_each_on_its_own_scale():
    (first, second) = drawn((2,), np.array([[1.0, -100.0], [0.5, 0.0]], np.float32))
    half = first.shape[0] // 2
    lit = (first == LIT).all(-1)
    left, right = lit[:, first.shape[1] // 4], lit[:, 3 * first.shape[1] // 4]
    assert left[:half].sum() > 0.9 * half
    assert left[half:].sum() == 0
    assert right[half:].sum() > 0.9 * half - 2
    assert 0 < (second == LIT).all(-1)[:, first.shape[1] // 4].sum() < 0.6 * half


@pytest.mark.parametrize("shape", [(300,), (4, 10, 10), (30, 30)])
def test_large_vectors_and_small_grids_have_pictures_too(shape):
    images = drawn(shape, np.random.default_rng(0).random((3, *shape), dtype=np.float32))
    assert images.shape[0] == 3
    assert len({image.tobytes() for image in images}) == 3
