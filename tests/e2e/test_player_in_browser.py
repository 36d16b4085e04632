"""The player in a real browser: it opens from disk, draws, scrubs, jumps and plays, wide and narrow, light and dark."""

from dataclasses import replace

import numpy as np
import pytest
from PIL import Image

from browser import browser
from optimist.bonuses.observations import Discrete
from optimist.reporting.play.drop import drop_at_ends
from optimist.reporting.play.frames import pictures
from optimist.reporting.play.player import write_player
from played_games import saw_game

TITLE = "run </script><script>window.ran = 1</script><img src=x onerror='window.ran = 1'>"
DRAWN = "return document.querySelectorAll('#curve .scatterlayer .js-line').length === 2"
STEP = "return Number(document.getElementById('slider').value)"
MARK = "return document.getElementById('curve').data[3].x[0]"
LABEL = "return document.getElementById('play').textContent"
FRAME = "return document.getElementById('game').toDataURL()"


@pytest.fixture(scope="module")
def player(tmp_path_factory):
    """Six episodes of 25 steps whose bonus rises to its peak at their ends."""
    game = saw_game(episodes=6)
    path = tmp_path_factory.mktemp("player") / "player.html"
    write_player(game, pictures(Discrete(25), game), drop_at_ends([game]), title=TITLE, subtitle="<b>", path=path)
    return path


def test_it_opens_from_disk_without_network_error_or_foreign_script(player):
    with browser(player) as page:
        page.wait_for(DRAWN)
        assert page.run("return document.querySelector('h1').textContent") == TITLE
        assert page.run("return document.title") == TITLE
        assert page.run("return window.ran === undefined && document.images.length === 0")
        assert page.run("return document.getElementById('judgement').textContent") == "holds"
        assert page.run("return document.querySelectorAll('#curve .shapelayer path').length") == 6  # ends
        assert page.requests() == []
        assert page.console_errors() == []


def test_of_values_nothing_is_claimed_about_a_bonus(tmp_path):
    game = replace(saw_game(episodes=2), shows="value")
    path = tmp_path / "player.html"
    write_player(game, pictures(Discrete(25), game), None, title="run", subtitle="bonus none", path=path, bonus="none")
    with browser(path) as page:
        page.wait_for(DRAWN)
        assert "bonus" not in page.run("return document.body.innerText.replace('bonus none', '')")
        assert page.run("return document.querySelector('.numbers dt').textContent") == "value"


def test_scrubbing_moves_the_frame_the_numbers_and_the_mark(player):
    with browser(player) as page:
        page.wait_for(DRAWN)
        first = page.run(FRAME)
        slide = "const s = document.getElementById('slider'); s.value = 112; s.dispatchEvent(new Event('input'))"
        page.run(slide)  # on the second sheet
        assert page.run(MARK) == 112
        assert page.run("return document.getElementById('episode').textContent") == "5"
        assert page.run("return document.getElementById('return').textContent") == "1"
        page.wait_for(f"return (() => {{ {FRAME} }})() !== arguments[0]".replace("arguments[0]", repr(first)))
        page.press("ARROW_RIGHT")
        page.press("ARROW_RIGHT", "#slider")  # a focused slider moves one step too, not two
        assert page.run(STEP) == page.run(MARK) == 114
        page.press("HOME")
        assert page.run(FRAME) == first
        assert page.console_errors() == []


def test_it_jumps_to_peaks_and_ends_by_button_key_and_click(player):
    with browser(player) as page:
        page.wait_for(DRAWN)
        assert page.run("return document.getElementById('previous-end').disabled")
        page.click("#next-end")
        assert page.run(STEP) == 24
        assert page.run("return document.getElementById('note').textContent") == "the episode ended"
        page.press("]")
        assert page.run(MARK) == 49
        page.click("#previous-end")
        assert page.run(STEP) == 24
        page.click("#next-peak")
        assert page.run(STEP) == 49  # a peak of this curve is the end of an episode
        page.press(",")
        assert page.run(STEP) == 24
        page.click("#curve .nsewdrag")  # its middle
        page.wait_for(f"return Math.abs((() => {{ {MARK} }})() - 74.5) < 3")
        assert page.console_errors() == []


def test_it_plays_pauses_and_stops_at_the_end(player):
    with browser(player) as page:
        page.wait_for(DRAWN)
        page.run("document.getElementById('speed').value = '0.25'")  # forty seconds: nobody is late to pause it
        page.press("SPACE")
        page.wait_for(f"return (() => {{ {STEP} }})() > 0")
        assert page.run(LABEL) == "Pause"
        page.click("#play")
        assert page.run(LABEL) == "Play"
        assert page.run(STEP) < 149
        page.run("document.getElementById('speed').value = '8'")
        page.click("#play")
        page.wait_for(f"return (() => {{ {STEP} }})() === 149 && (() => {{ {LABEL} }})() === 'Play'")
        assert page.run(MARK) == 149
        page.run("document.getElementById('speed').value = '0.25'")
        page.click("#play")  # at the end it starts anew
        assert page.run(STEP) < 149
        assert page.console_errors() == []


@pytest.mark.parametrize("width", [1200, 390])
@pytest.mark.parametrize("dark", [False, True])
def test_it_fits_the_window_in_light_and_dark(width, dark, player, tmp_path):
    with browser(player, width=width, height=844, dark=dark) as page:
        page.wait_for(DRAWN)
        page.click("#next-end")
        assert page.overflow() == 0
        curve = page.run("return document.querySelector('#curve .main-svg').getBoundingClientRect().width")
        assert 0.8 * min(width, 1080) < curve < width
        path = page.screenshot(tmp_path / "player.png", full=True)
        assert page.console_errors() == []
    with Image.open(path) as shot:
        corner = np.asarray(shot.convert("L"))[:5, :5].mean()
    assert corner < 60 if dark else corner > 200
