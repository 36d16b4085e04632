"""States that occur several times are read once, and nothing that is computed or learned depends on it."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from optimist import bonuses
from optimist.bonuses import distinct
from optimist.bonuses.acb.moments import NoiseMoments
from optimist.bonuses.distinct import distinct_rows


@settings(deadline=None)
@given(
    st.lists(st.integers(0, 5), min_size=2, max_size=3 * distinct.FEWEST), st.sampled_from([torch.float32, torch.uint8])
)
def test_each_row_is_found_again_in_the_distinct_ones(states, dtype):
    rows = torch.tensor([[s, 7, 5 - s] for s in states], dtype=dtype)
    found, unique = distinct_rows(rows), sorted(set(states))
    assert (found is None) == (len(states) < distinct.FEWEST or len(unique) > distinct.WORTHWHILE * len(states))
    if found is not None:
        once = found.of(rows)
        assert sorted(once[:, 0].tolist()) == unique
        torch.testing.assert_close(once[found.which], rows)
        assert found.counts.tolist() == [states.count(int(row[0])) for row in once]


def test_rows_of_a_dict_are_equal_only_if_all_parts_are():
    rows = {"a": torch.tensor([0, 0, 1, 1] * 8), "b": torch.tensor([[0.0], [1.0]] * 16)}
    found = distinct_rows(rows)
    assert found is not None
    assert len(found.first) == 4
    for name, part in rows.items():
        assert torch.equal(found.of(rows)[name][found.which], part)


def repeated(n, kinds, width, seed):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(kinds, width, generator=generator)[torch.randint(kinds, (n,), generator=generator)]


def test_moments_of_repeated_features_are_those_of_all_rows():
    g, y = repeated(200, 7, 5, seed=0) + 3, torch.randn(200, 4, generator=torch.Generator().manual_seed(1))
    moments = NoiseMoments(5, 4, device=torch.device("cpu"))
    for part in (slice(0, 120), slice(120, 200)):
        assert distinct_rows(g[part]) is not None
        moments.add(g[part], y[part])
    assert moments.count == 200
    torch.testing.assert_close(moments.gram(None).tril(), (g.double().T @ g.double()).tril())
    torch.testing.assert_close(moments.products(None), g.double().T @ y.double())


@pytest.mark.parametrize(
    ("features", "statistics"),
    [("sketch", "running"), ("sketch", "none"), ("sketch", "rollout"), ("gradient", "running"), ("gradient", "none")],
)
def test_the_bonus_is_that_of_a_reader_of_every_row(features, statistics, monkeypatch):
    network = nn.Sequential(nn.Linear(3, 6), nn.Tanh(), nn.Linear(6, 2))
    for parameter in network.parameters():
        nn.init.normal_(parameter, generator=torch.Generator().manual_seed(3))
    settings = {"features": features, "statistics": statistics, "ensemble_size": 8, "solver": "exact"}
    fast, slow = (bonuses.ACB(network, torch.zeros(1, 3), seed=1, **settings) for _ in range(2))
    seen = []
    for seed in range(4):
        x = repeated(44, 6, 3, seed=seed).reshape(11, 4, 3)
        never = torch.zeros(10, 4, dtype=torch.bool)
        transitions = bonuses.Transitions(x[:-1], torch.zeros(10, 4, dtype=torch.int64), x[1:], never, never)
        for bonus, worthwhile in ((fast, 0.75), (slow, 0.0)):
            monkeypatch.setattr(distinct, "WORTHWHILE", worthwhile)
            seen.append(bonus.compute(transitions))
            seen.append(torch.tensor(bonus.update(transitions)["loss"]))
        for mine, oracle in zip(seen[-4:-2], seen[-2:], strict=True):
            torch.testing.assert_close(mine, oracle, rtol=1e-4, atol=1e-5)
