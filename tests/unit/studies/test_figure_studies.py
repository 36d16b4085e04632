"""Figures 3 to 7 at smoke scale, what their runs share, and a study of which a run fails."""

import dataclasses
import json

import pytest

from optimist.bonuses.acb.config import DEFAULT, with_settings
from optimist.studies.atari import figure6
from optimist.studies.atari.comparison import STATES, game_study
from optimist.studies.atari.figure4 import learner_of, size_of
from optimist.studies.atari.games import EIGHT_GAMES, HUMAN
from optimist.studies.registry import find_study
from optimist.studies.study import Session, carry_out
from optimist.studies.training import ablation
from optimist.studies.training.ablation import CHOICES, LOTTERY
from optimist.studies.training.tasks import REPORTED_SEEDS, SMALL_ROLLOUTS, Task, TrainingSettings, with_variants
from optimist.training.config import key_values

STUDIES = {"figure3": "unique_states", "figure4": "return", "figure5": "return", "figure6": "unique_states"}
STUDIES |= {"figure7": "return"}


def settings_of(name):
    return find_study(name).scales


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    """The folder whose runs Figures 3 to 6 have in common; with reward they are others."""
    folders = {"shared": tmp_path_factory.mktemp("shared"), "joint": tmp_path_factory.mktemp("joint")}
    return lambda name: folders["joint" if name == "figure7" else "shared"]


@pytest.mark.parametrize("name", STUDIES)
def test_a_figure_at_smoke_scale_gives_all_rows_figures_and_no_rash_verdict(name, shared, tmp_path):
    settings = settings_of(name)["smoke"]
    outcome = carry_out(find_study(name), settings, Session(shared(name), workers=1))
    measure = STUDIES[name]
    assert set(outcome.tables) == {"runs", "summary", f"{measure}_curves", "aggregate", "profile"}
    expected = {(job.task, job.learner, job.config.seed) for job in settings.jobs()}
    assert {(row["task"], row["learner"], row["seed"]) for row in outcome.tables["runs"]} == expected
    assert {row["measure"] for row in outcome.tables["summary"]} == {measure}
    assert {verdict.judgement for verdict in outcome.verdicts} == {"not enough data"}  # two seeds decide nothing
    assert all("32 steps per run" in verdict.budget and verdict.seeds == 2 for verdict in outcome.verdicts)
    assert "failures" not in outcome.tables
    assert set(outcome.figures) == {measure, "aggregate"}
    for figure, draw in outcome.figures.items():
        draw(tmp_path / f"{figure}.png")
        assert (tmp_path / f"{figure}.png").read_bytes()[:4] == b"\x89PNG"


@pytest.mark.parametrize("name", [*STUDIES, "ablation"])
def test_every_scale_of_a_figure_is_a_set_of_valid_runs_with_a_record(name):
    scales = settings_of(name)
    assert set(scales) == {"smoke", "laptop", "paper"}
    for settings in scales.values():
        jobs = settings.jobs()
        assert len({job.name for job in jobs}) == len(jobs)
        assert set(settings.seeds) <= set(REPORTED_SEEDS)
        json.dumps(dataclasses.asdict(settings))
    for job in scales["paper"].jobs() if name.startswith("figure") else []:
        assert (job.config.n_envs, job.config.steps, job.config.total_steps) == (128, 128, 500_000_000)


def test_the_paper_is_eight_games_and_five_seeds_with_a_score_to_normalize_with():
    for name in STUDIES:
        paper = settings_of(name)["paper"]
        assert {task.name for task in paper.tasks} == HUMAN.keys()
        assert {task.name for task in settings_of(name)["laptop"].tasks} <= HUMAN.keys()
        assert len(EIGHT_GAMES) == 8 == len(set(EIGHT_GAMES))
        assert len(paper.seeds) == 5


def test_runs_are_shared_between_figures_where_they_are_the_same():
    laptop = {name: {job.name: job.config for job in settings_of(name)["laptop"].jobs()} for name in STUDIES}
    atari = {job.name: job.config for job in settings_of("atari")["laptop"].jobs()}
    assert laptop["figure5"] == laptop["figure6"]
    assert laptop["figure5"].items() <= atari.items()
    for name in ("figure3", "figure4"):
        same = laptop[name].keys() & atari.keys()
        assert len(same) == 3
        assert all(laptop[name][run] == atari[run] for run in same)


def test_figure7_is_joint_and_the_others_are_without_reward():
    weights = {
        name: {(job.config.extrinsic.weight, job.config.intrinsic.weight) for job in settings_of(name)["paper"].jobs()}
        for name in STUDIES
    }
    assert weights.pop("figure7") == {(2.0, 1.0)}
    assert all(pair == {(0.0, 1.0)} for pair in weights.values())


def test_a_learner_of_a_size_has_that_many_regressors():
    for job in settings_of("figure4")["paper"].jobs():
        size = key_values("bonus_options", job.config.bonus_options).get("ensemble_size", DEFAULT.ensemble_size)
        assert size_of(job.learner) == size
        assert learner_of(size) == job.learner


def test_a_variant_keeps_the_fields_of_the_learner_that_it_is_one_of():
    own = {"acb": {"clip": 0.3, "bonus_options": ("ridge=2", "form=square")}}
    task = Task("t", "DeepSea-5", 99, ("acb", "rnd"), {"steps": 7}, own)
    varied = with_variants(task, "acb", {"acb": {}, "wide": {"bonus_options": ("ridge=9",), "epochs": 2}})
    assert varied.learners == ("acb", "wide")
    assert varied.config("acb", 1) == task.config("acb", 1)
    wide = varied.config("wide", 1)
    assert (wide.bonus, wide.clip, wide.steps, wide.epochs) == ("acb", 0.3, 7, 2)
    assert wide.bonus_options == ("form=square", "ridge=9")


@pytest.mark.parametrize("name", CHOICES)
def test_every_choice_of_the_ablation_is_a_valid_one_and_differs_from_the_default(name):
    fields = dict(CHOICES[name].fields)
    options = key_values("bonus_options", fields.pop("bonus_options", ()))
    if "preset" not in options and options:
        assert with_settings(DEFAULT, options) != DEFAULT
    sea, *others = settings_of("ablation")["laptop"].tasks
    assert sea.config(name, 0) != sea.config("acb", 0)
    for task in others:  # the features are judged on every task
        assert task.learners == ("acb", *LOTTERY)
        assert task.config("acb", 3).extrinsic.weight == 0


def test_every_task_of_the_ablation_has_a_figure_and_a_sea_has_a_wall(tmp_path):
    tasks = ("DeepSea-4", "MultiRoom, one level", "reward-free, N = 4")
    rows = [{"task": task, "learner": name, "unique_states": 5.0} for task in tasks for name in ("acb", "floor=all")]
    drawn = ablation.figures({"runs": rows})
    assert list(drawn) == ["ablation", "ablation_multiroom_one_level", "ablation_reward_free_n_4"]
    assert [draw.keywords["most"] for draw in drawn.values()] == [10, None, 10]
    drawn["ablation"](tmp_path / "ablation.png")
    assert (tmp_path / "ablation.png").read_bytes()[:4] == b"\x89PNG"


def test_a_run_that_fails_is_told_and_the_others_are_judged(tmp_path):
    def game(name, env):
        return Task(name, env, 16, ("acb", "count"), SMALL_ROLLOUTS | {"steps": 4, "extrinsic.weight": 0.0})

    settings = TrainingSettings((game("sea", "DeepSea-4"), game("nowhere", "DeapSee-4")), REPORTED_SEEDS[:2])
    study = game_study({"smoke": settings}, STATES, figure6.judge)
    outcome = carry_out(study, settings, Session(tmp_path, workers=1))
    assert len(outcome.tables["runs"]) == 4
    assert [row["run"] for row in outcome.tables["failures"]] == [
        f"nowhere-{learner}-seed-{seed}" for seed in REPORTED_SEEDS[:2] for learner in ("acb", "count")
    ]
    assert all("no environment is called 'DeapSee-4'" in row["error"] for row in outcome.tables["failures"])
    last = outcome.verdicts[-1]
    assert last.judgement == "does not hold"
    assert last.measured.startswith("4 of 8 failed; nowhere-acb-seed-100: ")
    assert {row["games"] for row in outcome.tables["aggregate"]} == {1}
