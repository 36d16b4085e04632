"""Figures drawn from rows: what they show is within what was measured, names do not overlap, captions count seeds."""

import math
from itertools import pairwise

import numpy as np
import pytest
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.text import Text

from optimist.reporting.figures.bandits import draw_comparison, draw_policies
from optimist.reporting.figures.comparisons import draw_choices
from optimist.reporting.figures.labels import MOST_TICKS, Label, label_ends, legend_above, spread
from optimist.reporting.figures.learning_curves import draw_learning_curves, draw_task, wilson
from optimist.reporting.figures.maps import letters_of, window_of
from optimist.reporting.play.moments import moments
from optimist.reporting.style import looks_of, told_by


def curve(task, learner, means, every=1000, seeds=5):
    return [
        {"task": task, "learner": learner, "step": (k + 1) * every, "seeds": seeds, "mean": mean, "se": 0.1}
        for k, mean in enumerate(means)
    ]


def test_heights_are_spread_by_the_least_that_keeps_them_apart():
    assert spread(np.array([0.9, 0.1, 0.5]), 0.1) == pytest.approx([0.9, 0.1, 0.5])
    moved = spread(np.array([0.5, 0.5, 0.52]), 0.1)
    assert np.diff(np.sort(moved)) == pytest.approx([0.1, 0.1])
    assert moved.mean() == pytest.approx(np.mean([0.5, 0.5, 0.52]))
    assert moved.argmax() == 2


def test_names_at_the_ends_of_lines_do_not_overlap():
    figure = Figure(layout="constrained")
    axes = figure.subplots()
    axes.plot([0, 1], [0, 1])
    label_ends(axes, [Label(1, 0.5 + 0.001 * k, f"name {k}") for k in range(6)])
    figure.draw_without_rendering()
    # Of the letters alone: the box of an annotation has its line in it.
    boxes = sorted((Text.get_window_extent(text) for text in axes.texts), key=lambda box: box.y0)
    assert all(low.y1 <= high.y0 + 1 for low, high in pairwise(boxes))


@pytest.mark.parametrize("letters", [3, 12, 30, 60])
def test_no_name_of_a_legend_is_outside_the_sheet(letters):
    figure = Figure(figsize=(7.2, 3), layout="constrained")
    figure.subplots()
    legend = legend_above(figure, [Line2D([], [], label=str(k) * letters) for k in range(6)])
    figure.draw_without_rendering()
    boxes = [text.get_window_extent() for text in legend.get_texts()]
    assert len(boxes) == 6
    assert all(box.x0 >= 0 and box.x1 <= figure.bbox.width for box in boxes)
    assert len({round(box.x0) for box in boxes}) == {3: 5, 12: 4, 30: 2, 60: 1}[letters]


def test_the_caption_counts_the_seeds_and_tells_of_stops_scales_and_published_numbers(tmp_path):
    early = [0.0, 0.5, 1.0]
    rows = curve("a", "acb", early) + curve("a", "none", [0.0] * 40)
    published = [
        {"task": "a", "learner": "re3", "published": 0.9},
        {"task": "a", "learner": "acb", "published": math.nan},
    ]
    draw_learning_curves(rows, "success", published, tmp_path / "a.png", is_share=True)
    _, caption = told_by(tmp_path / "a.png")
    for part in ("mean over 5 seeds", "A dot ends a line", "logarithmic axis", "published by others"):
        assert part in caption
    draw_learning_curves(curve("a", "acb", np.arange(40.0), seeds=3), "states", [], tmp_path / "b.png")
    _, caption = told_by(tmp_path / "b.png")
    assert "mean over 3 seeds" in caption
    assert "logarithmic" not in caption
    assert "published" not in caption


@pytest.mark.parametrize("last", [15, 22, 32, 90, 250])
def test_the_steps_of_a_narrow_panel_do_not_overlap_and_every_end_is_in_view(last):
    every = 10_000
    once = [{"task": "a", "learner": "acb", "step": 3 * every, "seeds": 5, "mean": 1.0, "se": 0.0}]
    late = curve("a", "none", [0.0] * (last - 2) + [0.5, 1.0], every)
    looks = looks_of(["acb", "none"])
    figure = Figure(figsize=(7.2, 2.5), layout="constrained", dpi=150)
    for axes, is_log in zip(figure.subplots(1, 2), (True, False), strict=True):
        draw_task(axes, once + late, looks, is_log=is_log)
        figure.draw_without_rendering()
        low, high = axes.get_xlim()
        assert low < once[0]["step"] < high
        texts = [text for text, x in zip(axes.get_xticklabels(), axes.get_xticks(), strict=True) if low <= x <= high]
        assert 2 <= len(texts) <= MOST_TICKS + 1
        boxes = [text.get_window_extent() for text in texts]
        assert all(left.x1 + 2 < right.x0 for left, right in pairwise(boxes))
        dot = axes.lines[-1]  # on top of the others
        assert (dot.get_marker(), dot.get_xdata()[0], dot.get_color()) == ("o", 3 * every, looks["acb"].light)


def test_a_line_begins_where_all_its_seeds_have_a_value(tmp_path):
    quick, all_seeds = curve("a", "acb", [0.9, 0.9], seeds=2), curve("a", "acb", [0.0] * 2 + [0.3, 0.4])[2:]
    axes = Figure().subplots()
    draw_task(axes, quick + all_seeds, looks_of(["acb"]), is_log=False)
    (line,) = axes.lines
    assert list(line.get_xdata()) == [3000, 4000]
    assert list(line.get_ydata()) == [0.3, 0.4]
    told = "A line begins where all its seeds have a value."
    for rows, is_told in ((quick + all_seeds, True), (all_seeds, False)):
        draw_learning_curves(rows, "success", [], tmp_path / "a.png", is_share=True)
        assert (told in told_by(tmp_path / "a.png")[1]) == is_told


def test_a_dot_without_a_line_is_explained(tmp_path):
    rows = curve("a", "acb", [math.nan, math.nan, 1.0]) + curve("a", "none", [0.0] * 4 + [0.1] * 4)
    draw_learning_curves(rows, "success", [], tmp_path / "a.png", is_share=True)
    assert "A dot without a line: the runs ended at their first value." in told_by(tmp_path / "a.png")[1]


def test_an_interval_of_choices_never_leaves_what_was_measured(tmp_path, monkeypatch):
    drawn = []
    plot = "matplotlib.axes.Axes.plot"
    monkeypatch.setattr(plot, lambda self, x, *rest, **style: drawn.append(np.ravel(x)))
    rows = [{"learner": name, "states": value} for name in ("acb", "x") for value in (430.0, 465.0, 465.0)]
    draw_choices(rows, "states", "unique states", tmp_path / "a.png", reference="acb", most=465)
    values = np.concatenate(drawn)
    assert (values.min(), values.max()) == (430, 465)


def test_shares_have_intervals_within_zero_and_one():
    low, high = wilson(np.array([0.0, 0.4, 1.0]), np.array([5, 5, 5]))
    assert (low >= -1e-12).all()
    assert (high <= 1 + 1e-12).all()
    assert (high - low > 0.1).all()


def test_many_policies_are_drawn_by_family_and_a_users_own_among_the_others(tmp_path):
    names = ["acb", "acb-rms", "linucb", "lints", "greedy", "mine"]
    rows = [{"policy": n, "round": t, "mean": 2.0 * t, "se": 0.1} for n in names for t in (1, 10, 100)]
    draw_comparison(rows, "a problem", tmp_path / "many.svg")
    text = (tmp_path / "many.svg").read_text()
    for panel in ("ACB", "LinUCB", "greedy", "others", *names):
        assert f"<!-- {panel} -->" in text
    draw_comparison([row for row in rows if row["policy"] in names[:3]], "a problem", tmp_path / "few.svg")
    assert "<!-- others -->" not in (tmp_path / "few.svg").read_text()


def test_published_numbers_are_drawn_where_they_are_known(tmp_path):
    row = {"problem": "fixed", "d": 5, "horizon": 100, "policy": "lints", "trials": 9, "mean": 3.0, "se": 0.1}
    draw_policies([row | {"published": ""}], tmp_path / "without.png")
    draw_policies([row | {"published": 2.0}], tmp_path / "with.png")
    assert "published" not in told_by(tmp_path / "without.png")[1]
    assert "published" in told_by(tmp_path / "with.png")[1]


def test_a_map_shows_its_walls_and_not_the_void_around_its_rooms():
    layout = (".......", ".#####.", ".#S.G#.", ".#####.", ".......")
    letters = letters_of(np.zeros((1, 3, 4)), layout)
    assert (letters[0] == " ").all()
    assert "".join(letters[2]) == " #S.G# "
    assert window_of(np.ones((1, 5, 7)), letters) == (slice(1, 4), slice(1, 6))


def test_no_picture_is_shown_twice():
    episode = np.array([1.0, 3.0, 2.0, 5.0, 0.0])
    frames = np.tile(np.arange(5, dtype=np.uint8), 20)[:, None, None, None] * np.ones((1, 2, 2, 3), np.uint8)
    found = moments(np.tile(episode, 20), frames, most=8)
    shown = [int(frames[moment.step, 0, 0, 0]) for moment in found]
    assert sorted(shown) == [0, 1, 2, 3, 4]
    assert [moment.step for moment in found] == sorted(moment.step for moment in found)
    kinds = {int(frames[moment.step, 0, 0, 0]): moment.kind for moment in found}
    assert kinds[3] == "peak"
    assert kinds[4] == "drop"
