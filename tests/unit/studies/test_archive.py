"""The archive of a study's runs: nothing in it is played again, tables made of it are the same, damage is told."""

import json
import shutil
import zipfile
from dataclasses import replace

import pytest

import optimist
from optimist.studies.study import ARCHIVE, Session
from optimist.studies.training.archive import add_to_archive, archived
from optimist.studies.training.rows import curves, run_row, trained
from optimist.studies.training.runs import Job
from optimist.training.config import Balance, TrainConfig

TINY = TrainConfig(env="DeepSea-4", bonus="count", total_steps=512, n_envs=4, steps=32, warm_up_steps=0, width=8)


def jobs(*seeds, **changes):
    return [Job("sea", "count", replace(TINY, seed=seed, **changes)) for seed in seeds]


def tables(runs):
    return [run_row(run, measure="unique_states", aim=0.9) for run in runs], curves(runs, "success_rate")


def rewrite(path, change):
    """The archive with every entry as ``change`` makes it of the one that is there."""
    with zipfile.ZipFile(path) as archive:
        entries = {name: json.loads(archive.read(name)) for name in archive.namelist()}
    with zipfile.ZipFile(path, "w") as archive:
        for name, entry in entries.items():
            change(entry)
            archive.writestr(name, json.dumps(entry))


@pytest.fixture
def played(tmp_path):
    """A study of one run that was played elsewhere, of which only the archive is left; and its tables."""
    runs, failed = trained(jobs(0), Session(tmp_path / "there", workers=1))
    assert not failed
    (tmp_path / "here").mkdir()
    shutil.copy(tmp_path / "there" / ARCHIVE, tmp_path / "here")
    return tmp_path / "here", tables(runs)


def test_what_is_in_the_archive_is_not_played_again_and_gives_the_same_tables(played):
    folder, expected = played
    runs, failed = trained(jobs(0), Session(folder, workers=1))
    assert repr(tables(runs)) == repr(expected)  # NaN is NaN
    assert not failed
    assert not (folder / "runs").exists()


def test_seeds_are_added_to_an_archive_and_those_that_are_not_asked_for_stay(played):
    folder, _ = played
    runs, _ = trained(jobs(1), Session(folder, workers=1))
    assert [run.job.config.seed for run in runs] == [1]
    assert [path.name for path in (folder / "runs").iterdir()] == ["sea-count-seed-1"]
    runs, failed = trained(jobs(0, 1, 2), Session(folder, workers=0))
    assert [run.job.config.seed for run in runs] == [0, 1]
    assert [row["seed"] for row in failed["failures"]] == [2]


def test_the_same_runs_make_the_same_archive(played, tmp_path):
    folder, _ = played
    add_to_archive(list(archived(jobs(0), folder / ARCHIVE).values()), tmp_path / "again.zip")
    assert (tmp_path / "again.zip").read_bytes() == (folder / ARCHIVE).read_bytes()


def test_a_run_of_other_settings_or_of_another_version_is_refused(played):
    folder, _ = played
    with pytest.raises(ValueError, match=r"sea-count-seed-0 .* was played with clip=0\.1 \(now 0\.3\)"):
        trained(jobs(0, clip=0.3), Session(folder, workers=1))
    assert archived(jobs(0, threads=2), folder / ARCHIVE)  # where a run is computed is no other setting
    rewrite(folder / ARCHIVE, lambda entry: entry.update(optimist="0.0.1"))
    with pytest.raises(ValueError, match=rf"version 0\.0\.1, and this is {optimist.__version__}"):
        trained(jobs(0), Session(folder, workers=1))
    assert not (folder / "runs").exists()


def test_a_setting_that_the_run_does_not_read_is_no_other_setting(played):
    folder, _ = played
    other = {"balance": Balance(costs_alone=0.5)}  # the mixing is RND's, which has no balance
    assert archived(jobs(0, **other), folder / ARCHIVE)
    rewrite(folder / ARCHIVE, lambda entry: entry["config"].update(mixing="balanced"))
    assert archived(jobs(0, mixing="balanced"), folder / ARCHIVE)
    with pytest.raises(ValueError, match=r"was played with balance\.costs_alone=0\.1 \(now 0\.5\)"):
        archived(jobs(0, mixing="balanced", **other), folder / ARCHIVE)


def test_a_setting_that_came_after_the_run_had_its_default_then(played):
    folder, _ = played
    rewrite(folder / ARCHIVE, lambda entry: (entry["config"].pop("clip"), entry["config"]["extrinsic"].pop("weight")))
    assert archived(jobs(0), folder / ARCHIVE)
    with pytest.raises(ValueError, match=r"was played with clip=0\.1 \(now 0\.3\)"):
        archived(jobs(0, clip=0.3), folder / ARCHIVE)
    rewrite(folder / ARCHIVE, lambda entry: entry["config"].update(magic=3))  # a setting that there is no more
    with pytest.raises(ValueError, match=r"was played with magic=3 \(now None\)"):
        archived(jobs(0), folder / ARCHIVE)


@pytest.mark.parametrize(
    "damage",
    [
        lambda path: path.write_bytes(b"no zip"),
        lambda path: path.write_bytes(b""),
        lambda path: path.write_bytes(path.read_bytes()[:-30]),
        lambda path: path.write_bytes(path.read_bytes()[:60] + b"\0" * 20 + path.read_bytes()[80:]),
        lambda path: rewrite(path, lambda entry: entry.pop("metrics")),
        lambda path: rewrite(path, lambda entry: entry["metrics"]["step"].pop()),
        lambda path: rewrite(path, lambda entry: entry["metrics"].update(step="many")),
        lambda path: rewrite(path, lambda entry: entry.update(config=[1])),
    ],
)
def test_a_damaged_archive_is_told_and_left_alone(damage, played):
    folder, _ = played
    damage(folder / ARCHIVE)
    content = (folder / ARCHIVE).read_bytes()
    with pytest.raises(ValueError, match=r"damaged.*remove played\.zip"):
        trained(jobs(0), Session(folder, workers=1))
    assert (folder / ARCHIVE).read_bytes() == content
