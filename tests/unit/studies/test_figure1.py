"""Figure 1: the study at smoke scale, and its verdict on made-up drops whose answer is known."""

import dataclasses
import json
import re

import pytest

from optimist.studies.atari.atari import SCALES as ATARI
from optimist.studies.atari.figure1 import SCALES, STUDY
from optimist.studies.claims import PAPER
from optimist.studies.study import Session, carry_out


def test_at_smoke_scale_every_agent_is_watched_and_one_seed_decides_nothing(tmp_path):
    settings, told = SCALES["smoke"], []
    outcome = carry_out(STUDY, settings, Session(tmp_path, 1, lambda *news: told.append(news)))
    assert [(row["task"], row["seed"]) for row in outcome.tables["drops"]] == [("Breakout", 100), ("Qbert", 100)]
    assert all(row["ends"] == 2 for row in outcome.tables["drops"])  # 45 steps are two episodes of 20 and a bit
    assert all(row["starts"] == 3 and 0 <= row["above_start"] <= 1 for row in outcome.tables["drops"])
    assert all(row["before"] > 0 and row["after"] > 0 for row in outcome.tables["drops"])
    assert len(outcome.tables["bonus"]) == 2 * settings.steps
    assert {verdict.judgement for verdict in outcome.verdicts} == {"not enough data"}
    assert "failures" not in outcome.tables
    assert told[-1] == (2, 2, "2 agents watched")
    assert set(outcome.figures) == {"film_strip_breakout", "film_strip_qbert"}
    for name, draw in outcome.figures.items():
        draw(tmp_path / f"{name}.png")
        assert (tmp_path / f"{name}.png").read_bytes()[:4] == b"\x89PNG"


def rows(*shares, task="Breakout"):
    return [{"task": task, "trained_steps": 1000, "ends": 5, "fell": 4, "share": share} for share in shares]


@pytest.mark.parametrize(
    ("shares", "judgement", "seeds"),
    [
        ((0.3, 0.35, 0.4), "holds", 3),
        ((-0.3, -0.35, -0.4), "does not hold", 3),
        ((0.3, -0.35, 0.4), "not enough data", 3),
        ((0.3, 0.35), "not enough data", 2),
        ((0.3, 0.35, 0.4, float("nan")), "holds", 3),  # no episode of the last agent ended
        ((float("nan"),), "not enough data", 0),
    ],
)
def test_it_holds_where_the_drop_over_agents_lies_above_0(shares, judgement, seeds):
    verdict, periphery, start = STUDY.judge({"drops": rows(*shares)})
    assert (verdict.judgement, verdict.seeds) == (judgement, seeds)
    assert f"it fell at {4 * seeds} of {5 * seeds} ends" in verdict.measured
    assert verdict.budget.startswith("4,000 frames")
    assert {periphery.judgement, start.judgement} == {"not enough data"}  # a table of before has no such columns


def test_games_are_judged_apart():
    drops = rows(0.3, 0.3, 0.4) + rows(-0.3, -0.3, -0.4, task="Qbert")
    assert [v.judgement for v in STUDY.judge({"drops": drops}) if "drops" in v.claim] == ["holds", "does not hold"]


@pytest.mark.parametrize(
    ("shares", "judgement"),
    [
        ((0.6, 0.62, 0.64), "holds"),
        ((0.4, 0.38, 0.36), "does not hold"),
        ((0.4, 0.5, 0.6), "not enough data"),
        ((0.6, 0.62, float("nan")), "not enough data"),
    ],
)
@pytest.mark.parametrize(
    ("column", "words"), [("new_above_familiar", "on the periphery"), ("above_start", "at the start")]
)
def test_periphery_and_start_are_judged_against_one_half(column, words, shares, judgement):
    drops = [
        row | {"new": 3, "starts": 4, column: share} for row, share in zip(rows(0.1, 0.1, 0.1), shares, strict=True)
    ]
    (verdict,) = (verdict for verdict in STUDY.judge({"drops": drops}) if words in verdict.claim)
    assert verdict.judgement == judgement
    claims = [claim for claim in PAPER if claim.study == "figure1" and re.search(claim.verdicts, verdict.claim)]
    assert len(claims) == 1  # of the paper, and of one place


def test_every_scale_has_a_record_and_its_agents_are_those_of_the_atari_study_but_for_the_budget():
    for settings in SCALES.values():
        json.dumps(dataclasses.asdict(settings))
    ours, theirs = SCALES["laptop"].training, ATARI["laptop"]
    assert ours.seeds[: len(theirs.seeds)] == theirs.seeds
    mine, other = ours.tasks[0].config("acb", 100), theirs.tasks[0].config("acb", 100)
    assert mine.total_steps < other.total_steps
    assert mine == dataclasses.replace(other, total_steps=mine.total_steps)
