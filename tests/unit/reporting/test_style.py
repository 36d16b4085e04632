"""The palette: one look for each name, told apart by everyone, on light and on dark ground; and the sheet."""

from itertools import combinations

import numpy as np
import pytest

from optimist.reporting import style
from optimist.reporting.style import LOOKS, PUBLISHED, RESERVE, look_of, looks_of, on_dark, sheet, told_by

BONUSES = ("acb", "rnd", "icm", "count", "episodic-count", "elliptical", "e3b", "acb*episodic-count", "acb*e3b", "none")
# Vienot, Brettel, Mollon 1999: linear RGB to the cones, and what protanopes and deuteranopes see instead.
CONES = np.array([[17.8824, 43.5161, 4.11935], [3.45565, 27.1554, 3.86714], [0.0299566, 0.184309, 1.46709]])
EYES = {
    "all": np.eye(3),
    "protan": np.array([[0, 2.02344, -2.52581], [0, 1, 0], [0, 0, 1]]),
    "deutan": np.array([[1, 0, 0], [0.494207, 0, 1.24827], [0, 0, 1]]),
}


def linear(color):
    part = np.array([int(color[k : k + 2], 16) for k in (1, 3, 5)]) / 255
    return np.where(part <= 0.04045, part / 12.92, ((part + 0.055) / 1.055) ** 2.4)


def lab(color, eyes):
    seen = np.clip(np.linalg.inv(CONES) @ EYES[eyes] @ CONES @ linear(color), 0, 1)
    to_xyz = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]])
    x, y, z = to_xyz @ seen / np.array([0.9505, 1.0, 1.089])
    f = [np.cbrt(v) if v > 0.008856 else 7.787 * v + 16 / 116 for v in (x, y, z)]
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])


def contrast(color, ground):
    low, high = sorted(linear(each) @ [0.2126, 0.7152, 0.0722] for each in (color, ground))
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("eyes", EYES)
@pytest.mark.parametrize("ground", ["light", "dark"])
def test_bonuses_that_meet_in_a_figure_are_told_apart_by_color_alone(eyes, ground):
    # A difference of 2.3 in Lab is just seen side by side; 9 is seen across a figure.
    names = (*BONUSES, None)
    colors = [lab(getattr(look_of(name) if name else PUBLISHED, ground), eyes) for name in names]
    for (a, one), (b, other) in combinations(zip(names, colors, strict=True), 2):
        assert np.linalg.norm(one - other) > 9, (a, b)


@pytest.mark.parametrize("look", [*LOOKS.values(), *RESERVE, PUBLISHED])
def test_every_color_is_read_on_its_ground(look):
    assert contrast(look.light, style.PAPER) >= 3  # WCAG 2.1, graphics
    assert contrast(look.dark, style.DARK_GROUND[style.PAPER]) >= 3


def test_no_two_names_look_alike_and_none_looks_published():
    looks = [*LOOKS.values(), *RESERVE]
    assert len(set(looks)) == len(looks)
    assert PUBLISHED.light not in {look.light for look in looks}
    assert PUBLISHED.dark not in {look.dark for look in looks}
    assert len({(look.light, look.dark) for look in looks}) == len({look.light for look in looks})  # as on_dark needs
    assert on_dark()[LOOKS["acb"].light] == LOOKS["acb"].dark


def test_an_unknown_name_has_a_look_of_its_own_whatever_stands_beside_it():
    mine = [f"my.module:bonus{k}" for k in range(len(RESERVE))]
    assert look_of("my.module:bonus0") == look_of("my.module:bonus0")
    together = looks_of(["acb", *mine])
    assert len(set(together.values())) == len(together)
    assert list(together) == ["acb", *mine]
    assert looks_of(["acb", *reversed(mine)]) == together
    assert together["acb"] == LOOKS["acb"]
    assert looks_of(["my.module:bonus0"])["my.module:bonus0"] == look_of("my.module:bonus0")
    assert len(looks_of([*mine, "one too many"])) == len(mine) + 1
    few = looks_of(mine[:7])
    assert len({look.light for look in few.values()}) == len(few)  # a dash only where colors have run out


@pytest.mark.parametrize("suffix", ["png", "pdf", "svg"])
def test_the_same_drawing_is_the_same_file_and_says_what_is_seen(suffix, tmp_path):
    for name in ("a", "b"):
        with sheet(tmp_path / f"{name}.{suffix}", 2.0, caption="A line, 5 seeds & <more>.") as figure:
            figure.subplots().plot([1, 2], [1, 2])
    one, other = ((tmp_path / f"{name}.{suffix}").read_bytes() for name in ("a", "b"))
    assert one == other
    if suffix != "pdf":
        assert told_by(tmp_path / f"a.{suffix}") == ("chart", "A line, 5 seeds & <more>.")


def test_other_endings_and_what_is_no_file_are_refused(tmp_path):
    with pytest.raises(ValueError, match=r"written as \.png, \.pdf, \.svg, got a\.gif"), sheet(tmp_path / "a.gif", 1.0):
        pass
    (tmp_path / "b.png").mkdir()
    with pytest.raises(IsADirectoryError, match="is a folder"), sheet(tmp_path / "b.png", 1.0):
        pass
