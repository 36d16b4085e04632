"""The metrics of a run: the CSV and TensorBoard files through kills and resumption, episodes, and the timer."""

import csv
import math
import os
import re
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from optimist.training.runs.episodes import Episodes
from optimist.training.runs.metrics_log import MetricsLog, read_metrics, read_whole_metrics
from optimist.training.runs.timer import Timer


def rows_of(folder: Path) -> list[dict[str, str]]:
    with (folder / "metrics.csv").open(newline="") as file:
        return list(csv.DictReader(file))


def scalars_of(folder: Path) -> dict[str, list[tuple[int, float]]]:
    events = EventAccumulator(str(folder / "tensorboard"))
    events.Reload()
    return {tag: [(e.step, e.value) for e in events.Scalars(tag)] for tag in events.Tags()["scalars"]}


def test_rows_come_back_with_every_digit(tmp_path: Path) -> None:
    with MetricsLog(tmp_path / "run") as log:
        log.write(128, {"return_mean": 0.1 + 0.2, "bonus/loss": np.float32(0.1), "kl": math.nan})
        log.write(256, {"bonus/loss": 3, "return_mean": None})
        assert len(rows_of(tmp_path / "run")) == 2  # flushed: a kill loses no row
    text = (tmp_path / "run" / "metrics.csv").read_text()
    assert text == (
        f"step,return_mean,bonus/loss,kl\n128,0.30000000000000004,{float(np.float32(0.1))},nan\n256,,3.0,\n"
    )


def test_tensorboard_has_the_same_numbers_under_their_tags(tmp_path: Path) -> None:
    with MetricsLog(tmp_path) as log:
        log.write(128, {"return_mean": 0.5, "bonus/loss": 2.0, "kl": math.nan})
        log.write(256, {"return_mean": None, "bonus/loss": 3.0, "kl": 1.0})
    assert scalars_of(tmp_path) == {
        "train/return_mean": [(128, 0.5)],
        "bonus/loss": [(128, 2.0), (256, 3.0)],
        "train/kl": [(256, 1.0)],
    }


def test_columns_are_fixed_by_the_first_row(tmp_path: Path) -> None:
    with MetricsLog(tmp_path) as log:
        log.write(1, {"a": 1.0})
        with pytest.raises(ValueError, match=r"unknown columns \['b'\]: the first row fixed \['a'\]"):
            log.write(2, {"a": 1.0, "b": 2.0})
        log.write(3, {})
    assert rows_of(tmp_path) == [{"step": "1", "a": "1.0"}, {"step": "3", "a": ""}]


@pytest.mark.parametrize("name", ["step", "a,b", 'a"b', "a\nb"])
def test_names_that_would_break_the_table_are_refused(tmp_path: Path, name: str) -> None:
    with MetricsLog(tmp_path) as log, pytest.raises(ValueError, match="columns must not be called 'step' nor contain"):
        log.write(1, {name: 1.0})


def test_a_folder_with_metrics_is_not_written_over(tmp_path: Path) -> None:
    with MetricsLog(tmp_path) as log:
        log.write(1, {"a": 1.0})
    with pytest.raises(FileExistsError, match="resume its run, or choose another folder"):
        MetricsLog(tmp_path)


def test_nothing_is_opened_before_the_first_row(tmp_path: Path) -> None:
    with MetricsLog(tmp_path / "run") as log:
        assert log.state_dict()["bytes"] == 0
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("checkpoint", [0, 1, 3])
@pytest.mark.parametrize("half_a_row", [b"", b"5,0."])
def test_a_resumed_log_is_that_of_an_uninterrupted_run(tmp_path: Path, checkpoint: int, half_a_row: bytes) -> None:
    def write(log: MetricsLog, steps: range) -> None:
        for step in steps:
            log.write(step, {"a": step / 7, "seconds/all": float(step)})

    with MetricsLog(tmp_path / "whole") as log:
        write(log, range(1, 6))
    killed, state = tmp_path / "killed", {}
    with MetricsLog(killed) as log:
        write(log, range(1, checkpoint + 1))
        state = log.state_dict()
        write(log, range(checkpoint + 1, 5))
    with (killed / "metrics.csv").open("ab") as file:
        file.write(half_a_row)
    with MetricsLog.resume(killed, state) as log:
        assert log.state_dict() == state
        write(log, range(checkpoint + 1, 6))
        after = log.state_dict()
    assert (killed / "metrics.csv").read_bytes() == (tmp_path / "whole" / "metrics.csv").read_bytes()
    assert after["bytes"] == (killed / "metrics.csv").stat().st_size
    assert after["step"] == 5
    assert scalars_of(killed) == scalars_of(tmp_path / "whole")


def test_a_resumed_log_still_knows_its_columns(tmp_path: Path) -> None:
    with MetricsLog(tmp_path) as log:
        log.write(1, {"a": 1.0, "b": 2.0})
        state = log.state_dict()
    with MetricsLog.resume(tmp_path, state) as log:
        log.write(2, {"b": 3.0})
        with pytest.raises(ValueError, match="unknown columns"):
            log.write(3, {"c": 1.0})
    assert rows_of(tmp_path)[1] == {"step": "2", "a": "", "b": "3.0"}


def test_a_table_shorter_than_the_checkpoint_knew_is_repaired_with_a_warning(tmp_path: Path) -> None:
    with MetricsLog(tmp_path) as log:
        log.write(1, {"a": 1.0})
        log.write(2, {"a": 2.0})
        state = log.state_dict()
    os.truncate(tmp_path / "metrics.csv", state["bytes"] - 2)
    with pytest.warns(UserWarning, match="rows are missing"):
        log = MetricsLog.resume(tmp_path, state)
    with log:
        log.write(3, {"a": 3.0})
    assert [row["step"] for row in rows_of(tmp_path)] == ["1", "3"]
    (tmp_path / "metrics.csv").unlink()
    with pytest.warns(UserWarning, match="is gone"):
        log = MetricsLog.resume(tmp_path, state)
    with log:
        log.write(3, {"a": 3.0})
    assert rows_of(tmp_path) == [{"step": "3", "a": "3.0"}]


class SlowEpisodes:
    """The same, one environment after the other, in lists."""

    def __init__(self, count: int, window: int, success_return: float):
        self.flight: list[list[float]] = [[] for _ in range(count)]
        self.events: list[tuple[bool, list[float]]] = []  # in order: whether an episode ended (or was cut), and which
        self.window, self.success_return = max(window, count), success_return

    def add(self, rewards: np.ndarray, ended: np.ndarray, valid: np.ndarray | None) -> None:
        for k, episode in enumerate(self.flight):
            if valid is None or valid[k]:
                episode.append(float(rewards[k]))
                if ended[k]:
                    self.events.append((True, list(episode)))
                    episode.clear()

    def cut(self) -> None:
        self.events += [(False, list(episode)) for episode in self.flight if episode]
        self.flight = [[] for _ in self.flight]

    def summary(self) -> dict[str, float]:
        ended = [episode for is_end, episode in self.events if is_end]
        window = ended[-self.window :]
        ends = [k for k, (is_end, _) in enumerate(self.events) if is_end]
        first = ends[-self.window] if len(ends) >= self.window else 0  # the oldest of a full window
        cut = [episode for is_end, episode in self.events[first:] if not is_end]
        longest = max(map(len, window), default=math.inf)
        unfinished = [episode for episode in (*cut, *self.flight) if len(episode) >= longest]
        counted = [*window, *unfinished]
        returns, n = [sum(episode) for episode in counted], len(counted)
        successes = sum(sum(episode) > self.success_return for episode in window)
        return {
            "episodes": len(ended),
            "episodes_cut": sum(not is_end for is_end, _ in self.events),
            "episodes_unfinished": len(unfinished),
            "return_mean": sum(returns) / n if n else math.nan,
            "return_max": max(returns) if n else math.nan,
            "length_mean": sum(map(len, counted)) / n if n else math.nan,
            "success_rate": successes / n if n else math.nan,
        }


@given(
    seed=st.integers(0, 10**6),
    count=st.integers(1, 5),
    window=st.integers(1, 8),
    steps=st.integers(0, 40),
    ends=st.sampled_from([0.05, 0.3]),
)
@settings(max_examples=100, deadline=None)
def test_episodes_are_those_of_the_slow_count(seed: int, count: int, window: int, steps: int, ends: float) -> None:
    rng = np.random.default_rng(seed)
    fast, slow = Episodes(count, window=window, success_return=0.5), SlowEpisodes(count, window, 0.5)
    for t in range(steps):
        rewards, ended = rng.normal(size=count).astype(np.float32), rng.random(count) < ends
        valid = None if rng.random() < 0.5 else rng.random(count) < 0.7
        if rng.random() < 0.1:
            fast.cut()
            slow.cut()
        if t == steps // 2:  # and on from a saved state
            saved, fast = fast.state_dict(), Episodes(count, window=window, success_return=0.5)
            fast.load_state_dict(saved)
        for each in (fast, slow):
            each.add(rewards, ended, valid)
        expected = slow.summary()
        got = fast.summary()
        assert got.keys() == expected.keys()
        np.testing.assert_allclose(list(got.values()), list(expected.values()), rtol=1e-12, atol=1e-12)
    assert fast.success_rate == pytest.approx(slow.summary()["success_rate"], nan_ok=True)


@pytest.mark.parametrize("now", [300, 301, 640])
def test_whoever_arrives_first_is_one_of_all_who_started_with_it(now: int) -> None:
    """512 environments, of which three arrive after 300 steps, and three more at the last moment; then all end."""
    episodes = Episodes(512, success_return=0.0)
    for t in range(1, now + 1):
        arrived = (np.arange(512) < 3) & (t == 300) | (np.arange(512) > 508) & (t == now > 300)
        episodes.add(np.where(arrived, 90.0, -0.1), arrived, None)
    assert episodes.summary()["episodes_unfinished"] == 512 - (3 if now == 300 else 6)
    assert episodes.success_rate == (3 if now == 300 else 6) / 512
    failed = np.ones(512, bool)
    episodes.add(np.full(512, -0.1), failed, None)
    assert episodes.summary()["episodes_unfinished"] == 0
    assert episodes.success_rate == 0.0  # the last of every environment


@pytest.mark.parametrize("restarts", [True, False])
def test_a_few_quick_successes_are_not_the_success_rate_of_those_that_are_still_under_way(restarts: bool) -> None:
    """512 environments, of which one arrives after 300 steps and 511 never do: cut after 390, or running on."""
    episodes = Episodes(512, success_return=0.0)
    for t in range(1, 701):
        arrived = (np.arange(512) == 7) & (t == 300)
        episodes.add(np.where(arrived, 90.0, -0.1), arrived, None)
        if restarts and t == 390:
            episodes.cut()
    told = episodes.summary()
    assert told["episodes"] == 1
    assert told["episodes_cut"] == (512 if restarts else 0)
    # Cut after 390 steps: 511, and environment 7's second episode after 90, which says nothing. All run for 310 since.
    # Without restarts: 511 run for 700 steps, and environment 7's second episode for 400.
    assert told["episodes_unfinished"] == (511 + 512 if restarts else 512)
    assert told["success_rate"] == 1 / (1 + told["episodes_unfinished"])
    assert told["return_mean"] < 0 < told["return_max"]


def test_one_that_is_no_longer_than_those_that_ended_says_nothing_yet() -> None:
    """A solved task whose episodes all last ten steps: restarts, and whatever is running, leave its success at 1."""
    episodes = Episodes(4, success_return=0.0)
    for t in range(1, 96):
        episodes.add(np.full(4, 0.1), np.full(4, t % 10 == 0), None)
        if t == 55:
            episodes.cut()
    assert episodes.summary()["episodes_cut"] == 4
    assert episodes.summary()["episodes_unfinished"] == 0
    assert episodes.success_rate == 1.0


def test_without_a_success_return_there_is_no_success_rate() -> None:
    episodes = Episodes(2)
    episodes.add(np.ones(2, np.float32), np.array([True, False]), None)
    assert episodes.finished == 1
    assert episodes.summary()["return_mean"] == 1.0
    assert math.isnan(episodes.success_rate)


def test_inputs_and_saved_states_are_never_changed() -> None:
    episodes = Episodes(2, success_return=0.0)
    rewards, ended, valid = np.ones(2, np.float32), np.array([True, True]), np.array([True, False])
    episodes.add(rewards, ended, valid)
    saved = episodes.state_dict()
    other = Episodes(2, success_return=0.0)
    other.load_state_dict(saved)
    for each in (episodes, other):
        each.add(np.full(2, 7.0), np.array([False, True]), None)
    assert (rewards == 1).all()
    assert ended.all()
    assert valid.tolist() == [True, False]
    assert (saved["running"] == 0).all()
    assert saved["window"].tolist() == [[1.0], [1.0]]


def test_a_state_of_other_environments_is_refused() -> None:
    with pytest.raises(ValueError, match="state is of 3 environments, these are 2"):
        Episodes(2).load_state_dict(Episodes(3).state_dict())
    with pytest.raises(ValueError, match="n_envs must be a whole number >= 1, got 0"):
        Episodes(0)


def test_the_timer_adds_up_and_clears(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter([0.0, 1.0, 10.0, 12.0, 20.0, 24.0, 30.0, 38.0])
    monkeypatch.setattr("time.perf_counter", lambda: next(clock))
    timer = Timer()
    for name in ("environment", "update", "environment"):
        with timer.time(name):
            pass
    assert timer.read_and_clear() == {"environment": 5.0, "update": 2.0}
    with pytest.raises(KeyError), timer.time("update"):
        raise KeyError
    assert timer.read_and_clear() == {"environment": 0.0, "update": 8.0}


def test_what_was_written_is_read_with_nan_where_a_cell_is_empty(tmp_path: Path) -> None:
    with MetricsLog(tmp_path) as log:
        log.write(64, {"return": 0.1, "loss": None})
        log.write(128, {"loss": -1e-30, "return": math.nan})
    columns = read_metrics(tmp_path / "metrics.csv")
    assert list(columns) == ["step", "return", "loss"]
    np.testing.assert_array_equal(np.stack(list(columns.values())), [[64, 128], [0.1, math.nan], [math.nan, -1e-30]])


@pytest.mark.parametrize(
    ("tail", "told"),
    [
        ("192,0.5", "metrics.csv is damaged in line 4: it has 2 of 3 cells; it was read up to there"),
        ("192,0.5,x", "metrics.csv is damaged in line 4: could not convert string to float"),
        ("19.2,0.5,1", "metrics.csv is damaged in line 4: its step is '19.2'"),
    ],
)
def test_damage_is_an_error_or_told_beside_the_rows_before_it(tail: str, told: str, tmp_path: Path) -> None:
    path = tmp_path / "metrics.csv"
    path.write_text(f"step,return,loss\n64,0.5,1\n128,0.5,1\n{tail}")
    columns, damage = read_whole_metrics(path)
    assert columns["step"].tolist() == [64, 128]
    assert damage.startswith(told)
    with pytest.raises(ValueError, match=re.escape(told)):
        read_metrics(path)


@pytest.mark.parametrize(
    ("text", "told"), [("", "has no column 'step'"), ("a,b\n1,2\n", "no column 'step'"), ("step,a\n", "no row yet")]
)
def test_a_file_without_a_row_of_a_run_is_refused(text: str, told: str, tmp_path: Path) -> None:
    (tmp_path / "metrics.csv").write_text(text)
    with pytest.raises(ValueError, match=told):
        read_metrics(tmp_path / "metrics.csv")
