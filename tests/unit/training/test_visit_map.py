"""Visits and bonuses over the map of a grid: counted where they were, in the part of the run they were in."""

import numpy as np
import pytest

from optimist.training.config import TrainConfig
from optimist.training.environments import make
from optimist.training.ppo import Trainer
from optimist.training.presets import defaults_for
from optimist.training.visits.visit_map import PARTS, VisitMap


def test_visits_and_mean_bonuses_against_a_slow_count():
    rng = np.random.default_rng(0)
    fast, visits, bonuses = VisitMap(100), {}, {}
    assert not fast
    for step in range(0, 500, 50):
        places, values = rng.integers(-1, 4 + step // 100, (20, 2)), rng.random(20)
        fast.add(step, places, values)
        for (row, column), value in zip(places, values, strict=True):
            if row >= 0 and column >= 0:
                key = (step // 100, row, column)
                visits[key], bonuses[key] = visits.get(key, 0) + 1, bonuses.get(key, 0) + value
    assert fast
    assert fast.visits.shape == (5, 8, 8)
    assert fast.visits.sum() == sum(visits.values())
    for key, count in visits.items():
        assert fast.visits[key] == count
        assert fast.mean_bonuses[key] == pytest.approx(bonuses[key] / count)
    assert np.isnan(fast.mean_bonuses[fast.visits == 0]).all()
    other = VisitMap(1)
    other.load_state_dict(fast.state_dict())
    assert other.period == 100
    assert np.array_equal(other.visits, fast.visits)
    with pytest.raises(ValueError, match="two maps"):
        other.load_state_dict({"period": 1, "visits": np.zeros((1, 2, 2), np.int64), "bonuses": np.zeros((1, 2, 3))})
    assert np.array_equal(other.visits, fast.visits)


@pytest.mark.parametrize(
    ("env", "options"),
    [
        ("DeepSea-5", {}),
        ("FrozenLake-8x8", {}),
        ("MiniGrid-DoorKey-5x5-v0", {}),
        ("MiniGrid-DoorKey-5x5-v0", {"level": 3}),
    ],
)
def test_places_of_every_kind_of_grid(env, options):
    """A place moves by at most one cell a step in rows and columns, and lies inside the walls."""
    envs = make(env, n_envs=3, options=options)
    try:
        envs.reset(0)
        rng, before, ended = np.random.default_rng(0), None, np.zeros(3, bool)
        for _ in range(40):
            step = envs.step(rng.integers(0, envs.actions.n, 3))
            assert step.places.shape == (3, 2)
            if before is not None:
                go_on = ~ended & (step.places >= 0).all(1)
                assert (np.abs(step.places - before)[go_on] <= 1).all()
            if env.startswith("Deep"):
                assert np.array_equal(step.places[:, 0] < 0, step.terminated)
                inside = ~step.terminated
                assert np.array_equal(step.places[inside] @ [5, 1], step.next_observations[inside])
            elif env.startswith("Frozen"):
                assert np.array_equal(step.places @ [8, 1], step.next_observations)
            else:
                assert ((step.places >= 1) & (step.places <= 3)).all()
            before, ended = step.places.copy(), step.terminated | step.truncated
    finally:
        envs.close()


def test_a_run_fills_its_map_and_a_checkpoint_holds_it():
    config = defaults_for("DeepSea-4")
    small = {"n_envs": 4, "steps": 8, "minibatches": 2, "epochs": 1, "warm_up_steps": 0, "threads": 1}
    config = TrainConfig(**vars(config) | small | {"total_steps": 12 * 32, "bonus": "count"})
    trainer = Trainer(config)
    trainer.start()
    for _ in range(12):
        trainer.iterate()
    assert trainer.visits.map.visits.shape == (PARTS, 4, 4)
    assert (trainer.visits.map.visits.sum((1, 2)) == 24).all()  # of 32 steps, every fourth goes off the map
    assert trainer.visits.map.visits[:, 0].sum() == 0  # successors are never in the first row
    assert (trainer.visits.map.mean_bonuses[0][trainer.visits.map.visits[0] > 0] > 0).all()
    other = Trainer(config)
    other.load_state_dict(trainer.state_dict())
    assert np.array_equal(other.visits.map.visits, trainer.visits.map.visits)


@pytest.mark.parametrize("options", [{}, {"level": 0}])
def test_a_place_is_row_and_column(options):
    """In MiniGrid-Empty the agent starts at the top left and looks to the right: forward goes along the row."""
    envs = make("MiniGrid-Empty-6x6-v0", n_envs=1, options=options)
    try:
        envs.reset(0)
        forward, turn_right = np.array([2]), np.array([1])
        assert [envs.step(forward).places.tolist() for _ in range(2)] == [[[1, 2]], [[1, 3]]]
        envs.step(turn_right)
        assert envs.step(forward).places.tolist() == [[2, 3]]
    finally:
        envs.close()
