"""Games without reward under every bonus: the raw score that comes with exploration."""

from functools import partial

from optimist.studies.figure5.verdict import judge
from optimist.studies.game_study import RETURN, run_games

run = partial(run_games, measure=RETURN, reference="acb", judge=judge)
