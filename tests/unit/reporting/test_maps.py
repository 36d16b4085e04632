"""The maps of a run: a picture that shows what was counted."""

import numpy as np
import pytest
from matplotlib.image import imread

from optimist.reporting.figures.maps import draw_maps


def test_the_picture_changes_with_the_visits_and_crops_to_what_was_reached(tmp_path):
    visits = np.zeros((12, 30, 30), np.int64)
    visits[:, 3:8, 2:9] = 5
    visits[:, 10, 10] = 1
    bonuses = np.where(visits > 0, 1 / np.maximum(visits, 1), np.nan)
    draw_maps(visits, bonuses, 100, tmp_path / "a.png", title="<b>a</b>")
    wide = np.pad(visits, ((0, 0), (0, 20), (0, 20)))
    draw_maps(wide, np.where(wide > 0, 1 / np.maximum(wide, 1), np.nan), 100, tmp_path / "b.png", title="<b>a</b>")
    a, b = imread(tmp_path / "a.png"), imread(tmp_path / "b.png")
    assert np.array_equal(a, b)  # the empty margin is not drawn
    visits[-1, 10, 10] = 500
    draw_maps(visits, bonuses, 100, tmp_path / "c.png", title="<b>a</b>")
    assert not np.array_equal(a, imread(tmp_path / "c.png"))


def test_a_single_part_and_no_bonus_at_all(tmp_path):
    visits = np.ones((1, 2, 3), np.int64)
    draw_maps(visits, np.zeros((1, 2, 3)), 10, tmp_path / "one.png", title="no bonus")
    assert imread(tmp_path / "one.png").size
    with pytest.raises(ValueError, match="no visit to draw"):
        draw_maps(visits * 0, np.zeros((1, 2, 3)), 10, tmp_path / "none.png", title="")
