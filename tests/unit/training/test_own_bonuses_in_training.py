"""A user's own bonuses in the trainer and in playing back, against slow oracles of what the environments saw.

The oracles read the record that the environments keep, not transitions: so a step that is shown twice, late, in another
order or in another episode is noticed, and so is memory that outlives an episode or a restart.
"""

import signal
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from optimist.bonuses import Discrete, DiscreteActions
from optimist.bonuses.scaling import ReturnScale
from optimist.training.config import TrainConfig
from optimist.training.environments import Step
from optimist.training.playback import play_back
from optimist.training.runs import run as runs
from optimist.training.runs.stopping import Interrupted

CELLS = 4
RECORD = []
"""What all rings saw: None for a start of all environments, (cells, ended, valid) for a step."""


class Ring:
    """Cells in a ring: action 1 goes on, 0 stays. Environment k ends an episode after 5 + k steps.

    With ``lag`` the step after an end only resets, as in Gymnasium's NEXT_STEP; without ``saves`` a run restarts it.
    """

    observation_shape, observation_dtype = Discrete(CELLS), np.dtype(np.int64)
    actions, success_return = DiscreteActions(2), None

    def __init__(self, n_envs, *, saves, lag):
        self.n_envs, self.saves, self.lag = n_envs, saves, lag
        self.lengths = 5 + np.arange(n_envs)

    def reset(self, seed):
        RECORD.append(None)
        self.cell, self.clock = np.zeros((2, self.n_envs), np.int64)
        self.resetting = np.zeros(self.n_envs, bool)
        return self.cell.copy()

    def step(self, actions):
        valid = ~self.resetting
        self.cell = np.where(valid, (self.cell + actions) % CELLS, 0)
        self.clock = np.where(valid, self.clock + 1, 0)
        ended, after = self.clock == self.lengths, self.cell.copy()
        RECORD.append((after, ended, valid))
        if self.lag:
            self.resetting = ended
        else:
            self.cell[ended] = self.clock[ended] = 0
        never = np.zeros(self.n_envs, bool)
        rewards = np.zeros(self.n_envs, np.float32)
        return Step(self.cell.copy(), after, rewards, ended, never, valid=valid if self.lag else None)

    def state_dict(self):
        return {"cell": self.cell, "clock": self.clock, "resetting": self.resetting} if self.saves else None

    def load_state_dict(self, state):
        self.cell, self.clock, self.resetting = (state[name].copy() for name in ("cell", "clock", "resetting"))
        return self.cell.copy()

    def close(self):
        """Nothing to release."""


def ring(n_envs, saves=True, lag=False):
    return Ring(n_envs, saves=saves, lag=lag)


def episodic_oracle(record, seen_before):
    """1 / (1 + earlier visits within the episode): every start of the environments is a start of all episodes."""
    bonuses, running = [], {}
    for event in record:
        if event is None:
            running = {}
            continue
        cells, ended, valid = event
        row = []
        for n, cell in enumerate(cells.tolist()):
            mine = running.setdefault(n, Counter())
            row.append(1 / (1 + mine[cell]) if valid[n] else 0.0)
            mine[cell] += bool(valid[n])
            if ended[n]:
                running[n] = Counter()
        bonuses.append(row)
    return np.array(bonuses)


def counting_oracle(record, seen_before):
    """1 / visits ever, this one included, environment by environment."""
    bonuses, seen = [], Counter()
    for event in [*seen_before, *record]:
        if event is not None:
            cells, _, valid = event
            row = []
            for cell, real in zip(cells.tolist(), valid, strict=True):
                seen[cell] += bool(real)
                row.append(1 / seen[cell] if real else 0.0)
            bonuses.append(row)
    return np.array(bonuses[len([event for event in seen_before if event is not None]) :])


def product_oracle(record, seen_before):
    return episodic_oracle(record, seen_before) * counting_oracle(record, seen_before)


ORACLES = {
    "own_bonuses:episodic": episodic_oracle,
    "own_bonuses:counting": counting_oracle,
    "own_bonuses:episodic * own_bonuses:counting": product_oracle,
}
RINGS = {"saved": (), "restarted": ("saves=false",), "lagging": ("saves=false", "lag=true")}
TINY = TrainConfig(
    env=f"{__name__}:ring",
    n_envs=3,
    steps=7,
    total_steps=6 * 21,
    checkpoint_every=2 * 21,
    restart_every=2 * 7,
    epochs=1,
    minibatches=2,
    width=8,
    device="cpu",
    threads=1,
)


@pytest.fixture
def scored(monkeypatch):
    """The bonuses of every rollout as the trainer takes them in, from now on."""
    RECORD.clear()
    taken, update = [], ReturnScale.update

    def spied(self, rewards):
        taken.append(rewards.double().numpy())
        return update(self, rewards)

    monkeypatch.setattr(ReturnScale, "update", spied)
    return taken


@pytest.mark.parametrize("kind", RINGS)
@pytest.mark.parametrize("bonus", ORACLES)
def test_the_trainer_scores_every_step_once_in_its_episode(bonus, kind, scored, tmp_path):
    """Rollouts of 7 steps cut episodes of 5 to 7 in two; the restarted ones begin anew at every second rollout."""
    runs.train(replace(TINY, bonus=bonus, env_options=RINGS[kind]), tmp_path / "run")
    assert RECORD.count(None) == (1 if kind == "saved" else 4)
    np.testing.assert_allclose(np.concatenate(scored), ORACLES[bonus](RECORD, []), rtol=1e-6)
    assert len(np.unique(np.concatenate(scored))) > 3


@pytest.mark.parametrize("kind", RINGS)
@pytest.mark.parametrize("bonus", ORACLES)
def test_a_run_that_is_stopped_off_its_schedule_and_resumed_is_scored_the_same_way(bonus, kind, scored, tmp_path):
    def stop(moment):
        if moment.step == 3 * 21:
            signal.raise_signal(signal.SIGINT)

    with pytest.raises(Interrupted, match="stopped at step 63"):
        runs.train(replace(TINY, bonus=bonus, env_options=RINGS[kind]), tmp_path / "run", callbacks=[stop])
    stopped_at = len(RECORD)
    runs.resume(tmp_path / "run")
    if kind != "saved":  # the third rollout, which began with a restart, is played again
        again = RECORD[stopped_at : stopped_at + 1 + 7]
        assert again[0] is None
        assert all((one[0] == other[0]).all() for one, other in zip(again[1:], RECORD[stopped_at - 7 :], strict=False))
        del RECORD[stopped_at : stopped_at + 1 + 7]
    np.testing.assert_allclose(np.concatenate(scored), ORACLES[bonus](RECORD, []), rtol=1e-6)
    assert sum(event is not None for event in RECORD) == 6 * 7


@pytest.mark.parametrize("n_envs", [1, 3, 5])
@pytest.mark.parametrize("kind", RINGS)
@pytest.mark.parametrize("bonus", ORACLES)
def test_playing_back_forgets_the_episodes_of_training_and_goes_on_counting(bonus, kind, n_envs, scored, tmp_path):
    runs.train(replace(TINY, bonus=bonus, env_options=RINGS[kind]), tmp_path / "run")
    trained = RECORD.copy()
    RECORD.clear()
    games = play_back(tmp_path / "run", steps=30, seed=1, n_envs=n_envs).games
    expected = ORACLES[bonus](RECORD, trained)
    valid = np.stack([event[2] for event in RECORD if event is not None])
    for n, game in enumerate(games):
        np.testing.assert_allclose(game.bonuses, expected[valid[:, n], n], rtol=1e-6)
    again = play_back(tmp_path / "run", steps=30, seed=1, n_envs=n_envs).games
    assert all(np.array_equal(one.bonuses, other.bonuses) for one, other in zip(games, again, strict=True))


def test_an_error_in_a_users_bonus_keeps_its_kind_and_its_traceback(tmp_path, monkeypatch):
    import own_bonuses

    def broken(self, transitions):
        return {}["no such key"]

    monkeypatch.setattr(own_bonuses.Census, "update", broken)
    with pytest.raises(KeyError, match="no such key") as caught:
        runs.train(replace(TINY, bonus="own_bonuses:counting"), tmp_path / "run")
    assert caught.traceback[-1].name == "broken"
    assert caught.value.__cause__ is None
