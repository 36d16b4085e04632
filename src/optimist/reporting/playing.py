"""Everything that `optimist play` writes of a replay: a strip, a video, a page, a table."""

from pathlib import Path

from optimist.reporting.drop import Drop, drop_at_ends
from optimist.reporting.film_strip import draw_film_strip
from optimist.reporting.frames import pictures
from optimist.reporting.heat_maps import draw_heat_maps
from optimist.reporting.player import action_text, write_player
from optimist.reporting.tables import Row, write_csv
from optimist.reporting.video import write_video
from optimist.training.replay import Replay


def write_play(replay: Replay, folder: Path, *, title: str) -> Drop:
    """The drop of the bonus at the ends of episodes, after ``film_strip.png``, ``play.mp4``, ``player.html`` of the
    first game and ``bonus.csv`` of all are written to ``folder``; of a grid also ``map.png``, of its training."""
    game, drop = replay.games[0], drop_at_ends(replay.games)
    drawn = pictures(replay.observation_shape, game)
    subtitle = f"{replay.env}, bonus {replay.bonus}, trained for {replay.trained_steps:,} steps"
    write_csv(folder / "bonus.csv", bonus_rows(replay))
    draw_film_strip(game, drawn, subtitle, folder / "film_strip.png")
    write_video(game, drawn, folder / "play.mp4")
    write_player(game, drawn, drop, title=title, subtitle=subtitle, path=folder / "player.html")
    if replay.map:
        where, paid = replay.map.visits, replay.map.mean_bonuses
        draw_heat_maps(where, paid, replay.map.period, folder / "map.png", title=f"{replay.env}, bonus {replay.bonus}")
    return drop


def bonus_rows(replay: Replay) -> list[Row]:
    """A row a step of every game."""
    return [
        {
            "game": k,
            "step": t,
            "bonus": float(game.bonuses[t]),
            "reward": float(game.rewards[t]),
            "action": action_text(game.actions[t]),
            "terminated": int(game.terminated[t]),
            "truncated": int(game.truncated[t]),
        }
        for k, game in enumerate(replay.games)
        for t in range(len(game))
    ]
