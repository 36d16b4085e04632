"""How Figure 7 is judged: whether ACB scores as much as RND in most games, and more in some."""

from collections.abc import Sequence

from optimist.reporting.tables import Row
from optimist.studies.game_study import generator
from optimist.studies.game_verdicts import judge_as_good, judge_most, judge_overall, judge_some
from optimist.studies.games import known, scores_by_learner
from optimist.studies.verdicts import Verdict


def judge(rows: Sequence[Row]) -> list[Verdict]:
    """On every game, then in most, in some, and over all games."""
    pairs = {
        game: (known(rows, game, "acb", "return"), known(rows, game, "rnd", "return"))
        for game in dict.fromkeys(row["task"] for row in rows)
    }
    games = {
        game: [judge_as_good(f"{game}, bonus and reward: ACB scores at least as much as RND", ours, theirs)]
        for game, (ours, theirs) in pairs.items()
    }
    scores = scores_by_learner(rows, "return")
    acb, rnd = scores.get("acb", []), scores.get("rnd", [])
    return [
        *(verdict for verdicts in games.values() for verdict in verdicts),
        judge_most("with bonus and reward, ACB performs at least as well as RND on most games", games),
        judge_some("with bonus and reward, ACB scores more than RND on some game", pairs),
        judge_overall("all games, bonus and reward: ACB is competitive with RND", acb, rnd, rng=generator()),
    ]
