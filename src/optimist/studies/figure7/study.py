"""Games with bonus and reward, ACB and RND: the raw score."""

from functools import partial

from optimist.studies.figure7.verdict import judge
from optimist.studies.game_study import RETURN, run_games

run = partial(run_games, measure=RETURN, reference="acb", judge=judge)
