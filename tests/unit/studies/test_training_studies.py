"""Studies of training runs: every one at smoke scale, their rows on made-up metrics, verdicts whose answer is known."""

import dataclasses
import json
import math
from importlib import import_module

import numpy as np
import pytest

from optimist.studies.atari import atari, figure3, montezuma
from optimist.studies.registry import STUDIES as STUDIES_AT
from optimist.studies.registry import find_study
from optimist.studies.study import FURTHER_SEEDS, Session, carry_out
from optimist.studies.training import (
    combination_lock,
    deepsea,
    frozen_lake,
    memory,
    minigrid,
    minigrid_hard,
    streaming,
)
from optimist.studies.training import rows as rows_of
from optimist.studies.training import verdicts as judging
from optimist.studies.training.rows import Played
from optimist.studies.training.runs import Failed, Job
from optimist.studies.training.tasks import REPORTED_SEEDS, Task, TrainingSettings
from optimist.training.config import TrainConfig

STUDIES = {
    "classic": {"runs", "summary", "curves"},
    "mixing": {"runs", "summary", "curves"},
    "streaming": {"runs", "summary", "curves"},
    "deepsea": {"runs", "summary", "solved", "unique_states_curves", "success_curves"},
    "frozen-lake": {"runs", "summary", "curves"},
    "combination-lock": {"runs", "summary", "curves"},
    "minigrid": {"runs", "summary", "success_curves", "unique_states_curves"},
    "minigrid-hard": {"runs", "summary", "curves"},
    "memory": {"runs", "summary", "curves"},
    "atari": {"runs", "summary", "unique_states_curves", "return_curves"},
    "montezuma": {"runs", "summary", "return_curves", "rooms_curves", "cells_curves"},
    "ablation": {"runs", "ablation", "unique_states_curves"},
}


@pytest.mark.parametrize("name", STUDIES)
def test_a_study_at_smoke_scale_gives_all_rows_figures_and_no_rash_verdict(name, tmp_path):
    study = find_study(name)
    settings = study.scales["smoke"]
    outcome = carry_out(study, settings, Session(tmp_path, workers=1))
    assert set(outcome.tables) == STUDIES[name]
    expected = {(job.task, job.learner, job.config.seed) for job in settings.jobs()}
    assert {(row["task"], row["learner"], row["seed"]) for row in outcome.tables["runs"]} == expected
    budgets = {task.name: task.total_steps for task in settings.tasks}
    assert all(row["steps"] >= budgets[row["task"]] for row in outcome.tables["runs"])
    assert all(row["unique_states"] > 1 for row in outcome.tables["runs"])
    assert {verdict.judgement for verdict in outcome.verdicts} == {"not enough data"}  # two seeds decide nothing
    for figure, draw in outcome.figures.items():
        draw(tmp_path / f"{figure}.png")
        assert (tmp_path / f"{figure}.png").read_bytes()[:4] == b"\x89PNG"


@pytest.mark.parametrize("name", STUDIES)
def test_every_scale_is_a_set_of_valid_runs_with_a_record(name):
    scales = find_study(name).scales
    assert set(scales) == {"smoke", "laptop", "paper"}
    for settings in scales.values():
        jobs = settings.jobs()
        assert len({job.name for job in jobs}) == len(jobs)
        assert set(settings.seeds) <= {*REPORTED_SEEDS, *FURTHER_SEEDS}
        json.dumps(dataclasses.asdict(settings))
    published = getattr(import_module(f"optimist.studies.{STUDIES_AT[name]}"), "PUBLISHED", {})
    assert {task for task, _ in published} <= {task.name for task in scales["laptop"].tasks}


def test_contested_learners_are_played_on_further_seeds_until_seeds_are_asked_for():
    task = Task("t", "DeepSea-5", 99, ("acb", "rnd", "none"), contested=("acb", "none"))
    settings = TrainingSettings((task,), seeds=(100, 101))
    jobs = [(job.learner, job.config.seed) for job in settings.jobs()]
    assert jobs[:6] == [(learner, seed) for seed in (100, 101) for learner in ("acb", "rnd", "none")]
    assert jobs[6:] == [(learner, seed) for seed in range(105, 110) for learner in ("acb", "none")]
    assert [job.config.seed for job in settings.with_seeds([7]).jobs()] == [7, 7, 7]
    with pytest.raises(ValueError, match="fields for count, which is none of"):
        Task("t", "DeepSea-5", 99, ("acb",), contested=("count",))


def test_a_learner_is_the_preset_with_the_changes_of_all_and_its_own():
    task = Task("t", "DeepSea-5", 99, ("acb", "random"), {"clip": 0.3, "steps": 7}, {"acb": {"clip": 0.4}})
    acb, random = task.config("acb", 5), task.config("random", 6)
    assert (acb.env, acb.bonus, acb.seed, acb.total_steps) == ("DeepSea-5", "acb", 5, 99)
    assert (acb.clip, random.clip, acb.steps) == (0.4, 0.3, 7)
    assert (random.untrained, acb.untrained) == (True, False)
    with pytest.raises(ValueError, match="fields for rnd"):
        Task("t", "DeepSea-5", 99, ("acb",), own={"rnd": {}})


def made_up(learner, seed, steps, success, *, total=100, episodes=1000.0, task="t"):
    columns = {"step": steps, "success_rate": success, "unique_states": [10.0 * s for s in steps]}
    columns |= {"episodes": [episodes] * len(steps), "return_mean": success, "seconds/update": [0.6] * len(steps)}
    config = TrainConfig(env="DeepSea-5", seed=seed, total_steps=total)
    return Played(Job(task, learner, config), {name: np.array(values) for name, values in columns.items()})


def test_the_row_of_a_run():
    run = made_up("acb", 7, [20.0, 40.0, 60.0], [math.nan, 0.5, 0.95])
    row = rows_of.run_row(run, measure="success_rate", aim=0.9)
    assert (row["task"], row["learner"], row["seed"], row["steps"], row["seconds"]) == ("t", "acb", 7, 60, 2)
    assert (row["success_rate"], row["solved_at"], row["unique_states"]) == (0.95, 60.0, 600)
    assert row["area"] == pytest.approx((20 * 0.5 + 60 * 0.95) / 80)  # solved at 60 of 100: it keeps its last value
    too_few = made_up("acb", 7, [20.0, 40.0], [0.95, 0.95], episodes=99.0)
    row = rows_of.run_row(too_few, measure="success_rate", aim=0.9)
    assert math.isnan(row["solved_at"])
    assert math.isnan(row["area"])


def test_the_summary_stands_beside_what_was_published():
    runs = [made_up("acb", seed, [50.0, 100.0], [0.0, rate]) for seed, rate in enumerate((0.2, 0.4, 0.9))]
    rows = [rows_of.run_row(run, measure="success_rate", aim=0.9) for run in runs]
    ours, theirs = rows_of.summary(rows, "success_rate", {("t", "acb"): 0.7, ("t", "re3"): 0.8, ("u", "acb"): 0.1})
    assert (ours["seeds"], ours["mean"], ours["lowest"], ours["highest"]) == (3, pytest.approx(0.5), 0.2, 0.9)
    assert ours["se"] == pytest.approx(np.std([0.2, 0.4, 0.9], ddof=1) / math.sqrt(3))
    assert (ours["published"], theirs["learner"], theirs["seeds"], theirs["published"]) == (0.7, "re3", 0, 0.8)
    (solved,) = rows_of.summary(rows, "solved_at", {})
    assert (solved["seeds"], solved["known"], solved["mean"]) == (3, 1, 100)


def test_curves_are_thin_and_an_early_end_keeps_its_last_value():
    long = made_up("acb", 0, [float(s) for s in range(1, 201)], [0.0] * 200)
    short = made_up("acb", 1, [1.0, 2.0], [math.nan, 1.0])
    rows = rows_of.curves([long, short], "success_rate")
    assert len(rows) == rows_of.POINTS
    assert [row["step"] for row in (rows[0], rows[-1])] == [1, 200]
    assert (rows[0]["seeds"], rows[0]["mean"]) == (1, 0)
    assert (rows[-1]["seeds"], rows[-1]["mean"], rows[-1]["lowest"], rows[-1]["highest"]) == (2, 0.5, 0, 1)


def test_a_curve_of_success_starts_when_a_hundred_episodes_have_ended():
    """The first episodes to end are the successes: of few, all. The number of states is known at once."""
    early = made_up("acb", 0, [1.0, 2.0], [1.0, 0.2])
    early.metrics["episodes"][0] = 3
    first, second = (row["mean"] for row in rows_of.curves([early], "success_rate"))
    assert math.isnan(first)
    assert second == 0.2
    assert [row["mean"] for row in rows_of.curves([early], "unique_states")] == [10.0, 20.0]


def test_a_run_that_ended_before_a_hundred_episodes_had_is_in_the_curve_at_its_end():
    few = made_up("acb", 0, [1.0, 2.0], [1.0, 0.25], episodes=40.0)
    longer = made_up("acb", 1, [1.0, 2.0, 3.0], [0.5, 0.75, 0.75])
    none = made_up("acb", 2, [1.0, 2.0, 3.0], [math.nan] * 3, episodes=0.0)
    assert [row["seeds"] for row in rows_of.curves([few], "success_rate")] == [0, 1]
    rows = rows_of.curves([few, longer, none], "success_rate")
    assert [(row["seeds"], row["mean"]) for row in rows] == [(1, 0.5), (2, 0.5), (2, 0.5)]
    assert math.isnan(rows_of.solved_at(few.metrics, 0.2))  # it is shown, and does not count as solved


def test_failed_runs_are_in_the_verdicts_and_a_study_without_any_run_is_an_error():
    failed = Failed(Job("t", "acb", TrainConfig()), "ValueError: no")
    (verdict,) = rows_of.judge_failures(rows_of.failures([failed]), finished=0)
    assert verdict.measured == "1 of 1 failed; t-acb-seed-0: ValueError: no"
    several = [Failed(Job("t", "acb", TrainConfig(seed=seed)), "gone") for seed in range(137)]
    (verdict,) = rows_of.judge_failures(rows_of.failures(several), finished=83)
    named = "; ".join(f"t-acb-seed-{seed}: gone" for seed in range(3))
    assert verdict.measured == f"137 of 220 failed; {named}; the others are in failures.csv"
    with pytest.raises(ChildProcessError, match="t-acb-seed-0: ValueError: no"):
        rows_of.played([failed])


FIVE = (10.0, 11.0, 12.0, 13.0, 14.0)


@pytest.mark.parametrize(
    ("ours", "theirs", "more", "at_least"),
    [
        (FIVE, (1, 2, 3, 4, 5), "holds", "holds"),
        ((1, 2, 3, 4, 5), FIVE, "does not hold", "does not hold"),
        (FIVE, (9, 10, 11, 12, 15), "not enough data", "not enough data"),
        ((465,) * 5, (465,) * 5, "does not hold", "holds"),
        ((465,) * 2, (100,) * 2, "not enough data", "not enough data"),
        ((5.0,), (1.0,), "not enough data", "not enough data"),
        ((), (1.0,), "not enough data", "not enough data"),
    ],
)
def test_two_means_are_told_apart_only_if_the_seeds_do(ours, theirs, more, at_least):
    assert judging.judge_more("", ours, theirs).judgement == more
    assert judging.judge_at_least("", ours, theirs).judgement == at_least


def test_welchs_interval_is_scipys():
    from scipy import stats

    theirs = (1.0, 5.0, 2.0)
    expected = stats.ttest_ind(FIVE, theirs, equal_var=False).confidence_interval(0.95)
    assert judging.difference(FIVE, theirs) == pytest.approx((expected.low, expected.high))
    expected = stats.ttest_1samp(FIVE, 0).confidence_interval(0.95)
    assert judging.interval(FIVE) == pytest.approx((expected.low, expected.high))
    assert "12 ± 0.71 against 2.67 ± 1.2, 5 and 3 seeds" in judging.against(FIVE, theirs)


@pytest.mark.parametrize(
    ("solved", "judgement"),
    [(5, "holds"), (4, "not enough data"), (1, "not enough data"), (0, "does not hold")],
)
def test_a_majority_of_five_seeds(solved, judgement):
    assert judging.judge_majority("", [i < solved for i in range(5)]).judgement == judgement


@pytest.mark.parametrize(("published", "judgement"), [(5, "holds"), (20, "does not hold"), (12.5, "not enough data")])
def test_a_mean_beside_a_published_number(published, judgement):
    assert judging.judge_above("", FIVE, published).judgement == judgement


def condition(task, learner, **columns):
    """Rows of one condition, a value a seed in every column."""
    names, values = list(columns), zip(*columns.values(), strict=True)
    return [{"task": task, "learner": learner} | dict(zip(names, seed, strict=True)) for seed in values]


def judgements(verdicts):
    return {verdict.claim: verdict.judgement for verdict in verdicts}


def test_deepsea_says_of_each_sea_whether_acb_solves_it_and_names_the_largest_that_a_majority_solved():
    never = math.nan
    paid = [
        *condition("reward, N = 10", "acb", solved_at=(1.0, 2.0, 3.0)),
        *condition("reward, N = 20", "acb", solved_at=(1.0, 2.0, never)),
        *condition("reward, N = 30", "acb", solved_at=(1.0, never, never)),
        *condition("reward, N = 10", "none", solved_at=(never, never, never)),
    ]
    measured = [verdict.measured for verdict in deepsea.judge({"runs": paid})]
    largest = "largest N solved by a majority: acb 20, none -"
    assert measured == ["3 of 3 seeds", "2 of 3 seeds", f"1 of 3 seeds; {largest}"]
    free = [
        *condition("reward-free, N = 30", "acb", unique_states=(460, 465, 465)),
        *condition("reward-free, N = 30", "rnd", unique_states=(300, 310, 320)),
        *condition("reward-free, N = 30", "count", unique_states=(465, 465, 465)),
    ]
    assert [verdict.judgement for verdict in deepsea.judge({"runs": free})] == ["holds", "not enough data"]


def test_the_streaming_solver_is_held_against_the_exact_one_and_counts():
    sea = "reward-free, N = 80"
    rows = [
        *condition(sea, "acb", unique_states=(460, 465, 465), area=(200, 200, 200)),
        *condition(sea, "acb-streaming", unique_states=(300, 310, 320), area=(300, 301, 302)),
        *condition(sea, "count", unique_states=(300, 310, 312), area=(1, 1, 1)),
    ]
    claim = f"DeepSea, {sea}: ACB with the {{}} solver visits at least as many states as {{}}"
    assert judgements(streaming.judge({"runs": rows})) == {
        claim.format("streaming", "with the exact one"): "does not hold",
        claim.format("streaming", "counts"): "not enough data",
        claim.format("exact", "counts"): "holds",
        claim.format("streaming", "with the exact one") + ", on average over the steps": "holds",
    }


def test_frozen_lake_is_judged_by_the_steps_to_success():
    never = (math.nan,) * 5
    rows = [
        *condition("FrozenLake-8x8", "acb", solved_at=(1e5, 1.1e5, 1.2e5, 1e5, 9e4)),
        *condition("FrozenLake-8x8", "none", solved_at=never),
    ]
    assert set(judgements(frozen_lake.judge({"runs": rows})).values()) == {"holds"}
    one_missing = (1e5, 1.1e5, 1.2e5, 1e5, math.nan)
    late = (4e5, 4.1e5, 4.2e5, 4e5, 3.9e5)
    assert frozen_lake.judge_sooner("", one_missing, 194_000).judgement == "not enough data"
    assert frozen_lake.judge_sooner("", late, 194_000).judgement == "does not hold"
    assert frozen_lake.judge_sooner("", never, 194_000).judgement == "does not hold"


def test_the_other_verdicts():
    lock = [
        *condition("lock, horizon 11", "acb", success_rate=(0.99, 1.0, 1.0, 0.98, 1.0)),
        *condition("lock, horizon 11", "rnd", success_rate=(0.5, 0.0, 1.0, 0.5, 0.2)),
        *condition("lock, horizon 11", "none", success_rate=(0.0,) * 5),
        *condition("lock, horizon 11", "acb-defaults", success_rate=(1.0, 0.97, 1.0, 0.0, 1.0)),
    ]
    assert list(judgements(combination_lock.judge({"runs": lock})).values()) == ["holds"] * 4 + ["not enough data"]
    grid = [
        *condition("DoorKey-8x8", "acb", success_rate=(0.9, 0.92, 0.91, 0.9, 0.89), solved_at=(math.nan,) * 5),
        *condition("MultiRoom-N4-S5", "acb", success_rate=(0.0,) * 5, solved_at=(math.nan,) * 5),
        *condition("MultiRoom-N4-S5", "none", success_rate=(0.0,) * 5, solved_at=(math.nan,) * 5),
    ]
    assert list(judgements(minigrid.judge({"runs": grid})).values()) == [
        "does not hold", "holds", "holds", "does not hold", "holds",
    ]  # fmt: skip
    games = [
        *condition("Breakout", "acb", steps=(1000,) * 3, unique_states=(900, 910, 920)),
        *condition("Breakout", "rnd", steps=(1000,) * 3, unique_states=(500, 510, 520)),
    ]
    (verdict,) = atari.judge({"runs": games})
    assert verdict.judgement == "holds"
    assert "4,000 frames, 2e-06 of RND's 2e+09" in verdict.measured


def test_hard_levels_are_judged_by_what_is_solved_and_by_whether_the_lifelong_part_adds():
    product, gain, rival, count = minigrid_hard.LEARNERS[0:3] + minigrid_hard.LEARNERS[4:5]
    never, solved = (math.nan,) * 5, (1e5, 1.1e5, 1.2e5, 1e5, 9e4)
    low, high = (0.1, 0.11, 0.12, 0.1, 0.09), (0.8, 0.81, 0.82, 0.8, 0.79)
    rows = []
    for level in ("DoorKey-16x16", "MultiRoom-N6"):
        rows += condition(level, product, solved_at=solved, area=high)
        rows += condition(level, gain, solved_at=never, area=low)
        rows += condition(level, rival, solved_at=never, area=high)
        rows += condition(level, count, solved_at=never, area=(math.nan,) * 5)  # no hundred episodes ended
    rows += condition("LockedRoom", "none", solved_at=never, area=low)
    said = judgements(minigrid_hard.judge({"runs": rows}))
    assert said["DoorKey-16x16: solved with acb*episodic-count"] == "holds"
    assert said["MultiRoom-N6: solved with acb-noveld"] == "does not hold"
    assert said["LockedRoom: not solved without a bonus"] == "holds"
    for words in ("ACB x episodic count learns more", "ACB in NovelD's form learns more"):
        assert said[f"DoorKey-16x16: {words} than episodic count alone"] == "holds"
        assert said[f"all levels: {words} than episodic count alone"] == "holds"
    assert said["all levels: in NovelD's form ACB learns more than RND"] == "does not hold"
    assert not [claim for claim in said if claim.startswith("LockedRoom: ACB")]  # not played by both


def test_a_memory_is_judged_by_who_solves_the_task_and_by_how_often_it_succeeds():
    never, rows = (math.nan,) * 5, []
    for name in memory.TASKS:
        task = memory.memory(name, 100)
        assert task.config(memory.GRU, 0).recurrent
        assert not task.config(memory.PLAIN, 0).recurrent
        solved = {"solved_at": (1e5, 2e5, 1e5, 1e5, 3e5), "success_rate": (0.95, 0.9, 1, 0.92, 0.9)}
        rows += condition(name, memory.GRU, **solved)
        rows += condition(name, memory.PLAIN, solved_at=never, success_rate=(0.5, 0.55, 0.45, 0.5, 0.52))
    assert list(judgements(memory.judge({"runs": rows})).values()) == ["holds"] * 6
    swapped = {memory.GRU: memory.PLAIN, memory.PLAIN: memory.GRU}
    other = [row | {"learner": swapped[row["learner"]]} for row in rows]
    assert list(judgements(memory.judge({"runs": other})).values()) == ["does not hold"] * 6


def test_the_learners_in_novelds_form_are_gains_at_the_first_visit():
    task = minigrid_hard.level("DoorKey-16x16", 100)
    config = task.config("rnd-noveld", 0)
    assert config.bonus == "novelty-gain(rnd)*episodic-count"
    assert "episodic-count.form=first-visit" in config.bonus_options
    assert task.config("none", 0).bonus_options == ()


def test_montezuma_is_judged_by_score_rooms_and_coarse_frames():
    rows = [
        *condition("MontezumaRevenge", "acb", unique_places=(1, 1, 2), unique_cells=(90, 95, 99), steps=(8, 8, 8)),
        *condition("MontezumaRevenge", "rnd", unique_places=(7, 8, 9), unique_cells=(40, 45, 49), steps=(8, 8, 8)),
    ]
    score, rooms, cells = montezuma.judge({"runs": [row | {"return": 0.0} for row in rows]})
    assert (score.measured, score.judgement) == ("all runs have 0", "not enough data")
    assert (rooms.claim, rooms.judgement) == (
        "MontezumaRevenge, bonus and reward: RND enters more rooms than ACB",
        "holds",
    )
    assert (cells.judgement, cells.seeds) == ("does not hold", 3)
    assert "8 steps per run" in rooms.budget


def test_states_are_judged_by_coarse_cells_too_where_runs_have_them():
    seen = {"unique_states": (50, 51, 52), "steps": (8, 8, 8)}
    before = [*condition("Breakout", "acb", **seen), *condition("Breakout", "acb-penultimate", **seen)]
    assert len(figure3.judge(before)) == 2
    after = [
        *condition("Breakout", "acb", **seen, unique_cells=(30, 31, 32)),
        *condition("Breakout", "acb-penultimate", **seen, unique_cells=(10, 11, 12)),
    ]
    assert judgements(figure3.judge(after))[
        "Breakout, bonuses alone: ACB visits more coarse cells with gradient than with penultimate features"
    ] == "holds"  # fmt: skip
