"""W ranks are one, for every bonus, solver and normalizer. Here ranks are threads; `test_torchrun` has processes."""

import math

import pytest

from optimist.training.config import TrainConfig
from optimist.training.ppo import Trainer
from ranks_cases import CASES, ROLLOUTS, SMALL, config_of, played
from thread_ranks import on_ranks

CLOSE = 1e-5
ROUGH = {"rmsprop-paper": 1e-4}
"""The paper's preset takes the variance of a coordinate as the difference of two means in single precision, of the few
states of a step: between 4 and 8 states its rounding differs by more."""
SUMMED_EXACTLY = (
    "unique_states",
    "unique_stacks",
    "unique_places",
    "episodes",
    "episodes_cut",
    "bonus/codes",
    "bonus/trained",
)


def require_close(one, many, within=CLOSE):
    assert len(one) == len(many)
    for expected, found in zip(one, many, strict=True):
        assert expected.keys() == found.keys()
        for name, value in expected.items():
            if math.isnan(value):
                assert math.isnan(found[name]), name
            elif name in SUMMED_EXACTLY:
                assert found[name] == value, name
            else:
                assert found[name] == pytest.approx(value, rel=within, abs=within), name


def known(told):
    """What every rank knows: the first counts unique states for all."""
    return [{k: v for k, v in row.items() if not (k.startswith("unique_") or math.isnan(v))} for row in told]


@pytest.mark.parametrize("case", CASES)
def test_two_ranks_log_what_one_does(case):
    one = on_ranks(1, lambda ranks: played(case, ranks))[0]
    many = on_ranks(2, lambda ranks: played(case, ranks))
    require_close(one, many[0], ROUGH.get(case, CLOSE))
    assert known(many[1]) == known(many[0])


@pytest.mark.campaign
@pytest.mark.parametrize("count", [4, 8])
@pytest.mark.parametrize("case", CASES)
def test_more_ranks_log_what_one_does(case, count):
    one = on_ranks(1, lambda ranks: played(case, ranks))[0]
    require_close(one, on_ranks(count, lambda ranks: played(case, ranks))[0], ROUGH.get(case, CLOSE))


def continued(case, ranks, state):
    """The state after two more rollouts from ``state``, or from the start, and what they told."""
    trainer = Trainer(config_of(case), ranks=ranks)
    if state is None:
        trainer.start()
    else:
        trainer.load_state_dict(state)
    told = [trainer.iterate() for _ in range(ROLLOUTS // 2)]
    timed = ("seconds/", "steps_per_second")
    return trainer.state_dict(), [{k: v for k, v in row.items() if not k.startswith(timed)} for row in told]


@pytest.mark.parametrize(("before", "after"), [(2, 1), (1, 4), (2, 4)])
@pytest.mark.parametrize("case", ["exact", "e3b", "episodic-count", "recurrent", "normalized", "lock", "stacked"])
def test_a_state_of_some_ranks_goes_on_with_any_other_number(case, before, after):
    expected = on_ranks(1, lambda ranks: played(case, ranks))[0]
    state, first = on_ranks(before, lambda ranks: continued(case, ranks, None))[0]
    _, second = on_ranks(after, lambda ranks: continued(case, ranks, state))[0]
    require_close(expected, first + second)


def test_environments_that_cannot_be_divided_are_refused():
    config = TrainConfig(**(SMALL | {"n_envs": 6, "bonus": "none"}))
    with pytest.raises(ValueError, match="6 environments cannot be divided evenly among 4 processes"):
        on_ranks(4, lambda ranks: Trainer(config, ranks=ranks))


def test_a_bonus_that_knows_no_ranks_is_refused():
    config = TrainConfig(**(SMALL | {"bonus": "own_bonuses:lifelong"}))
    with pytest.raises(ValueError, match=r"cannot be learned by several processes.*shares_ranks = True"):
        on_ranks(2, lambda ranks: Trainer(config, ranks=ranks))


def test_environments_that_do_not_know_their_part_are_refused():
    config = TrainConfig(**(SMALL | {"env": "ranks_cases:unaware", "bonus": "none"}))
    with pytest.raises(ValueError, match=r"Unaware has no method\s+set_part"):
        on_ranks(2, lambda ranks: Trainer(config, ranks=ranks))


def test_an_error_of_one_rank_is_not_waited_for():
    def fails(ranks):
        if ranks.rank == 1:
            raise RuntimeError("lost")
        return ranks.any(True)

    with pytest.raises(RuntimeError, match="lost"):
        on_ranks(2, fails)
