"""How Figure 5 is judged: the score of ACB beside that of a policy that does not learn, and of the other bonuses."""

from collections.abc import Sequence

from optimist.reporting.tables import Row
from optimist.studies.game_study import generator
from optimist.studies.game_verdicts import judge_as_good, judge_overall
from optimist.studies.games import known, scores_by_learner
from optimist.studies.training_tasks import RANDOM
from optimist.studies.training_verdicts import judge_more
from optimist.studies.verdicts import Verdict


def judge(rows: Sequence[Row]) -> list[Verdict]:
    """On every game whether it plays better than at random, and at least as well as each bonus; then over all games."""
    learners = list(dict.fromkeys(row["learner"] for row in rows))
    rivals = [learner for learner in learners if learner not in ("acb", RANDOM)]
    result: list[Verdict] = []
    for game in dict.fromkeys(row["task"] for row in rows):
        acb = known(rows, game, "acb", "return")
        if RANDOM in learners:
            claim = f"{game}: an agent trained on ACB's bonuses alone scores more than an untrained one"
            result.append(judge_more(claim, acb, known(rows, game, RANDOM, "return")))
        for rival in rivals:
            claim = f"{game}, bonuses alone: ACB scores at least as much as {rival.upper()}"
            result.append(judge_as_good(claim, acb, known(rows, game, rival, "return")))
    scores = scores_by_learner(rows, "return")
    for rival in rivals:
        claim = f"all games, bonuses alone: ACB's score is competitive with {rival.upper()}'s"
        result.append(judge_overall(claim, scores.get("acb", []), scores.get(rival, []), rng=generator()))
    return result
