"""What a play leaves on disk: the page holds its data and no markup of others, the video its frames."""

import base64
import io
import json
import re

import imageio_ffmpeg
import numpy as np
import pytest
from PIL import Image

from optimist.bonuses.observations import Discrete
from optimist.reporting.play.drop import drop_at_ends
from optimist.reporting.play.film_strip import draw_film_strip
from optimist.reporting.play.frames import pictures
from optimist.reporting.play.player import PER_SHEET, action_text, as_json, filled, sprite_sheets, write_player
from optimist.reporting.play.playing import write_play
from optimist.reporting.play.video import GAME_HEIGHT, video_frames, write_video
from optimist.training.playback import Playback
from optimist.training.visits.visit_map import VisitMap
from played_games import game_of, saw_game

WICKED = "</script><script>window.ran = true</script><img src=x onerror='window.ran = true'>"


def data_of(path):
    return json.loads(re.search(r'<script id="data" type="application/json">(.*?)</script>', path.read_text())[1])


def test_the_page_holds_the_game_and_texts_of_others_as_data(tmp_path):
    game = saw_game(episodes=5)
    shown = pictures(Discrete(25), game)
    path = tmp_path / "player.html"
    write_player(game, shown, drop_at_ends([game]), title=WICKED, subtitle="a & b", path=path)
    page, data = path.read_text(), data_of(path)
    assert "window.ran" not in page.replace(as_json({"": WICKED})[6:-2], "")
    assert "</script><script>window" not in page
    assert data["title"] == WICKED
    assert data["judgement"] == "holds"
    assert data["ends"] == [24, 49, 74, 99, 124]
    assert data["shows"] == "bonus"
    assert data["curve"] == pytest.approx(game.bonuses, rel=1e-5)
    assert set(data["peaks"]) <= set(data["ends"])
    frames = [Image.open(io.BytesIO(base64.b64decode(sheet.partition(",")[2]))) for sheet in data["sheets"]]
    assert len(frames) == 2
    t = 113  # read back from its place on the sheet
    x, y = t % PER_SHEET % data["columns"] * data["width"], t % PER_SHEET // data["columns"] * data["height"]
    cut = np.asarray(frames[t // PER_SHEET].convert("RGB"))[y : y + data["height"], x : x + data["width"]]
    assert np.array_equal(cut, shown[t])


def test_sheets_hold_every_picture_once():
    images = np.random.default_rng(0).integers(256, size=(PER_SHEET + 11, 2, 3, 3), dtype=np.uint8)
    first, second = sprite_sheets(images)
    assert (first.shape, second.shape) == ((20, 30, 3), (4, 30, 3))
    assert np.array_equal(first[2:4, 3:6], images[11])
    assert np.array_equal(second[2:4, :3], images[PER_SHEET + 10])


def test_marks_are_replaced_once_and_a_missing_one_is_told():
    assert filled("a{1}b{2}c", {"{1}": "{2}", "{2}": "x"}) == "a{2}bxc"
    with pytest.raises(ValueError, match=r"no mark \{2\}"):
        filled("a{1}", {"{1}": "x", "{2}": "y"})


def test_actions_are_written_as_people_do():
    assert action_text(np.int64(12)) == "12"
    assert action_text(np.array([0.123, -1.0])) == "0.12, -1"


def test_a_video_has_a_frame_a_step_with_a_curve_that_runs(tmp_path):
    game = saw_game(episodes=2)
    shown = pictures(Discrete(25), game)
    write_video(game, shown, tmp_path / "play.mp4")
    count, _ = imageio_ffmpeg.count_frames_and_secs(str(tmp_path / "play.mp4"))
    assert count == len(game)
    made = [frame.copy() for frame in video_frames(game, shown)]
    bright = [int((frame[GAME_HEIGHT:].astype(int) @ [1, 1, -2] > 200).sum()) for frame in made]  # yellow
    assert bright == sorted(bright)
    assert bright[-1] > bright[5] + 100


@pytest.mark.parametrize(
    "game", [saw_game(), game_of(np.zeros(30)), game_of([1.0])], ids=["with peaks", "flat", "one step"]
)
def test_a_strip_is_drawn_of_any_game(game, tmp_path):
    shown = np.zeros((len(game), 8, 8, 3), np.uint8)
    draw_film_strip(game, shown, "a $ title_", tmp_path / "film_strip.png")
    with Image.open(tmp_path / "film_strip.png") as strip:
        assert strip.width == 1080


def test_a_play_is_four_files_with_a_row_a_step_of_every_game(tmp_path):
    games = (saw_game(episodes=2), saw_game(episodes=2))
    drop = write_play(Playback("DeepSea-5", "acb", 96, Discrete(25), games, VisitMap(1)), tmp_path, title="run")
    assert {path.name for path in tmp_path.iterdir()} == {"film_strip.png", "play.mp4", "player.html", "bonus.csv"}
    header, *rows = (tmp_path / "bonus.csv").read_text().splitlines()
    assert header == "game,step,bonus,reward,action,terminated,truncated"
    assert len(rows) == 100
    assert rows[24] == "0,24,2,0,0,1,0"
    assert drop.ends == 2
    assert data_of(tmp_path / "player.html")["subtitle"] == "DeepSea-5, bonus acb, trained for 96 steps"
