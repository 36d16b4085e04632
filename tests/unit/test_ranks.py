"""The small object that a run's processes exchange through, and which rows are whose: against slow oracles."""

import copy

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from optimist.bonuses.acb.moments import NoiseMoments
from optimist.bonuses.scaling import pooled
from optimist.ranks import ALONE, LostRank, Ranks, SharedRows, _place, joined, restarts, sum_gradients
from thread_ranks import on_ranks

FEW = settings(max_examples=30, deadline=None)
COUNTS = st.sampled_from([1, 2, 3, 4])


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


def test_alone_everything_is_the_identity():
    rows = torch.arange(12.0).reshape(3, 4)
    for same in (ALONE.mine(rows), ALONE.mine(rows, 1), ALONE.placed(rows), ALONE.sum(rows), ALONE.gather(rows, 1)):
        assert same is rows
    assert [ALONE.any(True), ALONE.any(False)] == [True, False]
    assert [ALONE.objects("a"), ALONE.gather_uneven(rows)] == [["a"], [rows]]
    assert [ALONE.is_first, ALONE.alone, ALONE.threads(7)] == [True, True, 7]
    assert not ALONE.exchanged
    assert copy.deepcopy(ALONE) is ALONE


@FEW
@given(COUNTS, st.integers(1, 3), st.integers(0, 2))
def test_a_whole_is_what_its_parts_are_together(count, each, dim):
    whole = torch.randn([count * each if axis == dim else 2 for axis in range(3)], generator=seeded())
    parts = on_ranks(count, lambda ranks: ranks.mine(whole, dim))
    assert torch.equal(torch.cat(parts, dim), whole)
    for back in on_ranks(count, lambda ranks: ranks.gather(ranks.mine(whole, dim), dim)):
        assert torch.equal(back, whole)
    if dim == 0:
        placed = on_ranks(count, lambda ranks: ranks.placed(ranks.mine(whole)))
        assert torch.equal(sum(placed, start=torch.zeros_like(whole)), whole)
    numbers = np.arange(count * each)
    assert np.concatenate(on_ranks(count, lambda ranks: ranks.mine(numbers))).tolist() == numbers.tolist()


@FEW
@given(st.lists(st.integers(0, 4), min_size=2, max_size=4))
def test_ranks_may_give_different_numbers_of_rows(lengths):
    def told(ranks):
        return ranks.gather_uneven(torch.full((lengths[ranks.rank], 2), ranks.rank))

    for parts in on_ranks(len(lengths), told):
        assert [part.tolist() for part in parts] == [[[rank, rank]] * n for rank, n in enumerate(lengths)]


@FEW
@given(COUNTS, st.integers(1, 4), st.integers(1, 2), st.randoms(use_true_random=False))
def test_rows_are_numbered_as_one_rank_would(count, steps, each, chance):
    n_envs = count * each
    valid = torch.tensor([[chance.random() < 0.7 for _ in range(n_envs)] for _ in range(steps)])
    valid[0] = True  # every rank has something
    values = torch.randn(steps, n_envs, 2, generator=seeded())
    everyone = values[valid]
    index = torch.randperm(len(everyone), generator=seeded())[: chance.randint(1, len(everyone))]

    def told(ranks):
        rows = SharedRows(ranks.mine(valid, 1), ranks)
        own = ranks.mine(values, 1)[ranks.mine(valid, 1)]
        chosen = own[rows.own(index)]
        assert rows.total == len(everyone)
        assert torch.equal(rows.kept(index, everyone[index]), chosen)
        assert torch.equal(rows.together(index, chosen), everyone[index])
        return rows.share(index)

    assert sum(on_ranks(count, told)) == pytest.approx(1)


def test_a_rank_without_a_valid_step_is_an_error_on_all():
    valid = torch.tensor([[True, False]])
    with pytest.raises(ValueError, match="process 1 of 2 had no valid step"):
        on_ranks(2, lambda ranks: SharedRows(ranks.mine(valid, 1), ranks))


@FEW
@given(st.lists(st.integers(0, 5), min_size=2, max_size=4).filter(any))
def test_moments_of_all_are_those_of_the_parts_pooled(lengths):
    samples = 1e4 + torch.randn(sum(lengths), 3, dtype=torch.float64, generator=seeded())
    variance, mean = torch.var_mean(samples, 0, correction=0)

    def told(ranks):
        own, nothing = samples.split(lengths)[ranks.rank], torch.full((3,), torch.nan, dtype=torch.float64)
        if not len(own):  # what it gives then does not count
            return pooled(ranks, 0, [nothing], [nothing])
        spread, middle = torch.var_mean(own, 0, correction=0)
        return pooled(ranks, len(own), [middle], [spread])

    for count, (middle,), (spread,) in on_ranks(len(lengths), told):
        assert count == sum(lengths)
        torch.testing.assert_close(middle, mean, rtol=1e-12, atol=0)
        torch.testing.assert_close(spread, variance, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("targets", [0, 2])
def test_second_moments_of_all_are_those_of_the_parts_merged(targets):
    g = torch.randn(40, 300, dtype=torch.float64, generator=seeded()) + 3
    y = torch.randn(40, targets, dtype=torch.float64, generator=seeded(1))

    def told(ranks):
        moments = NoiseMoments(300, targets, device=torch.device("cpu"))
        moments.add(g[:10], y[:10])
        added = NoiseMoments(300, targets, device=torch.device("cpu"))
        part = slice(10, 17) if ranks.rank == 0 else slice(17, 40)
        if ranks.rank < 2:  # the third rank has nothing to add
            added.add(g[part], y[part])
        moments.merge(added, ranks)
        return moments

    expected = NoiseMoments(300, targets, device=torch.device("cpu"))
    expected.add(g, y)
    for moments in on_ranks(3, told):
        assert moments.count == 40
        torch.testing.assert_close(moments.gram(None).tril(), expected.gram(None).tril(), rtol=1e-10, atol=1e-9)
        torch.testing.assert_close(moments.products(None), expected.products(None), rtol=1e-10, atol=1e-9)


def test_gradients_are_summed_also_where_a_rank_has_none():
    def told(ranks):
        layer = nn.Linear(2, 1)
        if ranks.rank:
            layer.weight.grad = torch.full((1, 2), float(ranks.rank))
        sum_gradients(layer.parameters(), ranks)
        return layer

    for layer in on_ranks(3, told):
        assert layer.weight.grad.tolist() == [[3.0, 3.0]]
        assert layer.bias.grad.tolist() == [0.0]


def test_who_a_process_is_stands_in_its_environment():
    meeting = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "1"}
    torchrun = {"RANK": "3", "WORLD_SIZE": "4", "LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "2"}
    assert _place(meeting | torchrun) == {"RANK": 3, "WORLD_SIZE": 4, "LOCAL_RANK": 1, "LOCAL_WORLD_SIZE": 2}
    slurm = {"SLURM_PROCID": "3", "SLURM_NTASKS": "4", "SLURM_LOCALID": "1"}
    assert _place(meeting | slurm) == {"RANK": 3, "WORLD_SIZE": 4, "LOCAL_RANK": 1, "LOCAL_WORLD_SIZE": 4}
    assert _place(slurm) is None  # a batch script is no task: nobody says where to meet
    assert _place({}) is None
    with joined({}) as ranks:
        assert ranks is ALONE
    with joined(meeting | torchrun | {"RANK": "0", "WORLD_SIZE": "1"}) as ranks:
        assert ranks is ALONE
    assert restarts({}) == 0
    assert restarts({"TORCHELASTIC_RESTART_COUNT": "2", "SLURM_RESTART_COUNT": "1"}) == 2


def test_a_lost_rank_is_told_in_words(monkeypatch):
    def all_reduce(_):
        raise RuntimeError("Connection closed by peer [127.0.0.1]:1234")

    monkeypatch.setattr("torch.distributed.all_reduce", all_reduce)
    with pytest.raises(LostRank, match=r"another of the 2 processes of this run has ended.*can be resumed"):
        Ranks(0, 2).sum(torch.ones(1))


def test_processes_of_one_machine_share_its_cores(monkeypatch):
    monkeypatch.setattr("os.cpu_count", lambda: 8)
    assert Ranks(0, 4, 4).threads(8) == 2
    assert Ranks(0, 4, 4).threads(1) == 1
    assert Ranks(0, 16, 16).threads(8) == 1
    assert Ranks(0, 2, 1).threads(8) == 8
