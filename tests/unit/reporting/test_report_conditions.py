"""How runs are grouped: seeds together, tasks in panels, and names that tell learners apart."""

from dataclasses import replace

from optimist.reporting.report.conditions import conditions
from optimist.reporting.report.details import single_differences
from optimist.reporting.report.folders import read_folders
from optimist.reporting.style import LOOKS
from report_folders import SEA, write_run


def grouped(place, *changes):
    return conditions(read_folders([write_run(place / str(k), **each) for k, each in enumerate(changes)]).runs)


def names(groups):
    return [(group.task, group.learner, [run.config.seed for run in group.runs]) for group in groups]


def test_seeds_and_machines_make_no_difference(tmp_path):
    groups = grouped(tmp_path, {"seed": 2}, {"seed": 1, "threads": 4, "device": "cpu"}, {"seed": 3, "width": 9})
    assert names(groups) == [("DeepSea-6", "acb", [1, 2]), ("DeepSea-6", "acb width=9", [3])]


def test_a_task_is_an_environment_its_options_and_whether_reward_counts(tmp_path):
    groups = grouped(
        tmp_path,
        {"extrinsic.weight": 0.0},
        {},
        {"env_options": ("mapping_seed=0",)},  # the seed of the run itself
        {"env_options": ("mapping_seed=1",), "seed": 1},
        {"env_options": ("mapping_seed=7",), "seed": 1},
    )
    assert names(groups) == [
        ("DeepSea-6, reward-free", "acb", [0]),
        ("DeepSea-6", "acb", [0]),
        ("DeepSea-6, mapping_seed=the run's", "acb", [0, 1]),
        ("DeepSea-6, mapping_seed=7", "acb", [1]),
    ]


def test_variants_are_named_by_what_is_not_as_by_default_and_no_two_alike(tmp_path):
    groups = grouped(
        tmp_path,
        {},
        {"bonus": "rnd"},
        {"bonus": "count", "untrained": True},
        {"bonus_options": ("ridge=9", "sizes=[1, 2]")},
        {"bonus_options": ("ridge=9",), "clip": 0.3},
    )
    learners = [group.learner for group in groups]
    assert learners == ["acb", "rnd", "random", "acb ridge=9 sizes=[1, 2]", "acb clip=0.3 ridge=9"]
    looks = [group.look for group in groups]
    assert looks[:3] == [LOOKS["acb"], LOOKS["rnd"], LOOKS["random"]]
    assert len(set(looks)) == 5


def test_an_ablation_is_what_one_setting_alone_sets_apart(tmp_path):
    groups = grouped(
        tmp_path,
        {},
        {"bonus": "rnd"},  # not an ablation: the curves show it
        {"bonus_options": ("ridge=9",)},
        {"bonus_options": ("ridge=90",)},
        {"bonus_options": ("ridge=90",), "clip": 0.3},
        {"untrained": True},  # not one either: it is the random policy
        {"width": 9, "clip": 0.4},
    )
    found = [(setting, [group.learner for group in variants]) for setting, variants in single_differences(groups)]
    assert found == [
        ("clip", ["acb ridge=90", "acb clip=0.3 ridge=90"]),
        ("bonus_options.ridge", ["acb", "acb ridge=9", "acb ridge=90"]),
    ]


def test_another_seed_is_no_ablation(tmp_path):
    assert list(single_differences(grouped(tmp_path, {}, {"seed": 4}))) == []
    assert replace(SEA, seed=4) != SEA
