"""Games without reward under ACB, with gradient and with penultimate features: how many states are visited."""

from functools import partial

from optimist.studies.figure3.verdict import judge
from optimist.studies.game_study import STATES, run_games

run = partial(run_games, measure=STATES, reference="acb", judge=judge)
