"""Everything that `optimist play` writes of games played: a strip, a video, a page, a table."""

from pathlib import Path

from optimist.reporting.figures.maps import draw_maps
from optimist.reporting.play.drop import Drop, drop_at_ends
from optimist.reporting.play.film_strip import draw_film_strip
from optimist.reporting.play.frames import pictures
from optimist.reporting.play.player import action_text, write_player
from optimist.reporting.play.video import write_video
from optimist.reporting.tables import Row, write_csv
from optimist.training.playback import Playback


def write_play(playback: Playback, folder: Path, *, title: str) -> Drop | None:
    """The drop of the bonus at the ends of episodes, after ``film_strip.png``, ``play.mp4``, ``player.html`` of the
    first game and ``bonus.csv`` of all are written to ``folder``; of a grid also ``map.png``, of its training.

    A run without a bonus has no drop, and ``value.csv`` in its place.
    """
    game = playback.games[0]
    drop = drop_at_ends(playback.games) if game.shows == "bonus" else None
    drawn = pictures(playback.observation_shape, game, playback.layout)
    subtitle = f"{playback.env}, bonus {playback.bonus}, trained for {playback.trained_steps:,} steps"
    write_csv(folder / f"{game.shows}.csv", step_rows(playback))
    draw_film_strip(game, drawn, subtitle, folder / "film_strip.png", bonus=playback.bonus)
    write_video(game, drawn, folder / "play.mp4")
    write_player(game, drawn, drop, title=title, subtitle=subtitle, bonus=playback.bonus, path=folder / "player.html")
    if playback.map:
        where, paid = playback.map.visits, playback.map.mean_bonuses
        named = f"{playback.env}, bonus {playback.bonus}"
        draw_maps(
            where,
            paid,
            playback.map.period,
            folder / "map.png",
            title=named,
            layout=playback.layout,
            steps=playback.trained_steps,
        )
    return drop


def step_rows(playback: Playback) -> list[Row]:
    """A row for each step of every game."""
    return [
        {
            "game": k,
            "step": t,
            game.shows: float(game.curve[t]),
            "reward": float(game.rewards[t]),
            "action": action_text(game.actions[t]),
            "terminated": int(game.terminated[t]),
            "truncated": int(game.truncated[t]),
        }
        for k, game in enumerate(playback.games)
        for t in range(len(game))
    ]
