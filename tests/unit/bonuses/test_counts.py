"""Hash counts against a dictionary that counts online; codes that are exact, and codes that are similar."""

import dataclasses
import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import oracles
from optimist.bonuses import Discrete, HashCount, HashCountConfig, Transitions
from optimist.bonuses.counting.codes import ExactHash, SimHash
from optimist.bonuses.counting.hash_count import CountTable, visits_so_far


def rollout(observations):
    tensor = next(iter(observations.values())) if isinstance(observations, dict) else observations
    ended = torch.zeros(tensor.shape[:2], dtype=torch.bool)
    return Transitions(observations, ended.long(), observations, ended, ended)


@settings(max_examples=60, deadline=None)
@given(
    rollouts=st.lists(st.integers(1, 5), min_size=1, max_size=4),
    environments=st.integers(1, 4),
    states=st.integers(1, 6),
    seed=st.integers(0, 2**32 - 1),
)
def test_the_bonus_is_what_counting_online_would_give(rollouts, environments, states, seed):
    generator = torch.Generator().manual_seed(seed)
    bonus = HashCount(Discrete(states), seed=0)
    seen: dict[int, int] = {}
    for steps in rollouts:
        x = torch.randint(0, states, (steps, environments), generator=generator)
        expected = oracles.visits_online(x, seen).float().rsqrt()
        assert torch.equal(bonus.compute(rollout(x)), expected)
        metrics = bonus.update(rollout(x))
        for key in x.flatten().tolist():
            seen[key] = seen.get(key, 0) + 1
        assert metrics["codes"] == len(seen)
    table = bonus.state_dict()["table"]
    assert dict(zip(table["keys"].tolist(), table["counts"].tolist(), strict=True)) == seen


@settings(max_examples=60, deadline=None)
@given(batches=st.lists(st.lists(st.integers(-(2**63), 2**63 - 1) | st.integers(-2, 2), max_size=8), max_size=5))
def test_the_table_is_a_dictionary_of_64_bit_keys(batches):
    table, seen = CountTable(), {}
    for batch in batches:
        table.add(torch.tensor(batch, dtype=torch.int64))
        for key in batch:
            seen[key] = seen.get(key, 0) + 1
    asked = [*seen, 0, 1, 2**63 - 1, -(2**63)]
    assert table.counts(torch.tensor(asked)).tolist() == [seen.get(key, 0) for key in asked]
    assert len(table) == len(seen)


def test_a_step_that_is_not_valid_is_not_a_visit():
    x = torch.tensor([[7, 7, 3], [3, 7, 3], [7, 7, 7]])
    valid = torch.tensor([[True, False, True], [False, True, True], [False, True, True]])
    transitions = dataclasses.replace(rollout(x), valid=valid)
    bonus = HashCount(Discrete(8), seed=0)
    assert (
        bonus.compute(transitions).tolist()
        == torch.tensor([[1, math.inf, 1], [math.inf, 2, 2], [math.inf, 4, 4]]).rsqrt().tolist()
    )
    assert bonus.update(transitions) == {"codes": 2.0, "new": 2 / 6}
    assert bonus.state_dict()["table"]["counts"].tolist() == [2, 4]


def test_environments_that_meet_in_one_step_share_its_count():
    assert visits_so_far(torch.tensor([[7, 7, 3], [3, 7, 5]])).tolist() == [[2, 2, 1], [2, 3, 1]]


def test_a_damaged_table_is_refused_and_nothing_is_changed():
    bonus = HashCount(Discrete(9), seed=0)
    bonus.update(rollout(torch.tensor([[1, 2, 2]])))
    state = bonus.state_dict()
    state["table"]["keys"] = torch.tensor([5, 4])
    with pytest.raises(ValueError, match="damaged"):
        bonus.load_state_dict(state)
    assert bonus.state_dict()["table"]["keys"].tolist() == [1, 2]


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int64, torch.float32])
def test_exact_codes_tell_all_different_observations_apart_and_no_equal_ones(dtype):
    # All 6561 grids of eight cells with three values: a collision among them has probability below 2^25 / 2^49.
    grids = torch.cartesian_prod(*[torch.arange(3)] * 8).to(dtype).view(1, -1, 2, 4)
    code = ExactHash((2, 4), channels="all", generator=torch.Generator().manual_seed(0))
    keys = code.keys(grids)
    assert len(keys.unique()) == 3**8
    assert torch.equal(code.keys(grids.flip(1)), keys.flip(0))


def test_negative_zero_is_zero():
    code = ExactHash((2,), channels="all", generator=torch.Generator().manual_seed(0))
    assert len(code.keys(torch.tensor([[[0.0, 1.0], [-0.0, 1.0]]])).unique()) == 1


def test_exact_codes_of_a_dict_use_every_chosen_key():
    shape = {"room": Discrete(4), "door": Discrete(4)}
    code = ExactHash(shape, channels="all", generator=torch.Generator().manual_seed(0))
    room, door = torch.cartesian_prod(torch.arange(4), torch.arange(4)).T
    assert len(code.keys({"room": room.view(4, 4), "door": door.view(4, 4)}).unique()) == 16


def test_a_bit_of_simhash_differs_with_probability_angle_over_pi():
    # Whitening is frozen by a first rollout of mean 0 and variance 1, so that angles are those of the input and a 1.
    generator = torch.Generator().manual_seed(0)
    first = torch.cat([torch.eye(2), -torch.eye(2)]).mul(math.sqrt(2)).view(1, 4, 2)
    bits = repetitions = 64
    different = 0
    pair = torch.tensor([[[1.0, 0.0], [0.5, 2.0]]])
    angle = math.acos((0.5 + 1) / math.sqrt(2 * (0.25 + 4 + 1)))  # of (1, 0, 1) and (0.5, 2, 1)
    for _ in range(repetitions):
        code = SimHash((2,), channels="all", bits=bits, clip=5.0, generator=generator)
        code.update(first)
        a, b = code.keys(pair).tolist()
        different += ((a ^ b) & (2**64 - 1)).bit_count()
    p, n = angle / math.pi, bits * repetitions
    # Binomial(n, p) of independent directions: 5 sd is a false alarm in 1.7 million seeds.
    assert abs(different / n - p) < 5 * math.sqrt(p * (1 - p) / n)


def test_simhash_tells_the_states_of_mountain_car_apart():
    """Planes through the mean would cut the plane of position and velocity into 2 x 32 sectors, however long."""
    position, velocity = torch.linspace(-1.2, 0.6, 60), torch.linspace(-0.07, 0.07, 60)
    states = torch.cartesian_prod(position, velocity).view(60, 60, 2)
    bonus = HashCount((2,), seed=0)
    assert bonus.update(rollout(states))["codes"] > 200  # 32 planes cut a plane into 529 cells at most
    along = torch.stack([torch.linspace(-0.3, 0.6, 50), torch.zeros(50)], dim=1).view(50, 1, 2)
    assert len(bonus._code.keys(along).unique()) > 8  # away from the mean in one direction


def test_simhash_freezes_its_whitening_with_the_first_rollout():
    bonus = HashCount((4,), seed=0)
    generator = torch.Generator().manual_seed(0)
    first, second = torch.randn(5, 6, 4, generator=generator), 100 + torch.randn(5, 6, 4, generator=generator)
    before = bonus.compute(rollout(first))
    bonus.update(rollout(first))
    statistics = bonus.state_dict()["code"]["observations"]["whole"]
    bonus.update(rollout(second))
    after = bonus.state_dict()["code"]["observations"]["whole"]
    assert torch.equal(after["mean"], statistics["mean"])
    assert after["count"] == 30
    assert bool((before > bonus.compute(rollout(first))).all())


def test_far_states_have_other_codes_and_near_states_the_same():
    bonus = HashCount((3, 40, 40), seed=0, config=HashCountConfig(bits=16))
    generator = torch.Generator().manual_seed(0)
    rooms = torch.randint(0, 256, (1, 8, 3, 40, 40), generator=generator).float()
    bonus.update(rollout(rooms))
    assert bonus.update(rollout(rooms + 1e-3))["codes"] == bonus.state_dict()["table"]["keys"].numel() <= 8
    near = bonus.compute(rollout(rooms + 1e-3))
    assert bool((near <= 1 / math.sqrt(3)).all())


def test_similar_codes_divide_a_space_of_two_numbers_into_many_cells():
    """MountainCar's whole space. Planes that all go through its mean divide it into 2 x 32 cells at most."""
    places, speeds = torch.meshgrid(torch.linspace(-1.2, 0.6, 60), torch.linspace(-0.07, 0.07, 60), indexing="ij")
    grid = torch.stack([places, speeds], dim=-1)  # (T, N, 2)
    bonus = HashCount((2,), seed=0, config=HashCountConfig(code="simhash", bits=32))
    bonus.update(rollout(grid))
    assert bonus.update(rollout(grid))["codes"] > 2 * 64


@pytest.mark.parametrize(
    ("bad", "message"), [({"bits": 65}, "bits must be 1 .. 64"), ({"code": "md5"}, "code must be")]
)
def test_bad_settings_are_refused(bad, message):
    with pytest.raises(ValueError, match=message):
        HashCountConfig(**bad)
