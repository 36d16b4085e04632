"""How Figure 6 is judged: whether ACB visits as many states as every bonus in most games."""

from collections.abc import Sequence

from optimist.reporting.tables import Row
from optimist.studies.game_study import generator
from optimist.studies.game_verdicts import judge_most, judge_overall
from optimist.studies.games import known, scores_by_learner
from optimist.studies.training_tasks import RANDOM
from optimist.studies.training_verdicts import judge_at_least
from optimist.studies.verdicts import Verdict


def judge(rows: Sequence[Row]) -> list[Verdict]:
    """On every game against each bonus, then in most games, then over all games."""
    rivals = [n for n in dict.fromkeys(row["learner"] for row in rows) if n not in ("acb", RANDOM)]
    games: dict[str, list[Verdict]] = {}
    for game in dict.fromkeys(row["task"] for row in rows):
        acb = known(rows, game, "acb", "unique_states")
        games[game] = [
            judge_at_least(
                f"{game}, bonuses alone: ACB visits at least as many states as {rival.upper()}",
                acb,
                known(rows, game, rival, "unique_states"),
            )
            for rival in rivals
        ]
    scores = scores_by_learner(rows, "unique_states")
    overall = [
        judge_overall(
            f"all games, bonuses alone: ACB visits as many states as {rival.upper()} or more",
            scores.get("acb", []),
            scores.get(rival, []),
            rng=generator(),
        )
        for rival in rivals
    ]
    most = judge_most("ACB visits as many or more states than the baselines in most games", games)
    return [verdict for verdicts in games.values() for verdict in verdicts] + [most, *overall]
