"""The features that an update learns from are those of the rows asked for, whether cached or computed on demand."""

import pytest
import torch
from torch import nn

from optimist import bonuses
from optimist.bonuses import features
from optimist.bonuses.acb import cache
from optimist.bonuses.features.losses import forward
from optimist.bonuses.features.sketch import SketchFeatures


def network():
    made = nn.Sequential(nn.Linear(3, 6), nn.Tanh(), nn.Linear(6, 2))
    generator = torch.Generator().manual_seed(0)
    for parameter in made.parameters():
        nn.init.normal_(parameter, generator=generator)
    return made


@pytest.mark.parametrize("name", features.NAMES)
def test_rows_in_any_order_get_their_own_features(name, monkeypatch):
    monkeypatch.setattr(cache, "CHUNK", 4)  # several pieces
    observations = torch.randn(20, 3, generator=torch.Generator().manual_seed(1))
    feature_map = features.make(name, network(), observations[:1], seed=0)
    rows = torch.tensor([0, 2, 3, 5, 8, 11, 13, 17, 18])
    lookup = cache.rollout_features(feature_map, forward, observations, rows)
    for chosen in (rows, rows.flip(0), torch.tensor([17, 2, 2, 11])):
        torch.testing.assert_close(lookup(chosen).dense(), feature_map(observations[chosen]).dense())


@pytest.mark.parametrize("name", features.NAMES)
@pytest.mark.parametrize(("row", "refused"), [(5, True), (6, False)])
def test_only_the_rows_that_are_learned_from_are_read(name, row, refused):
    observations = torch.zeros(20, 3)
    observations[row] = torch.nan
    feature_map = features.make(name, network(), torch.zeros(1, 3), seed=0)
    rows = torch.tensor([0, 5, 8])
    if refused:
        with pytest.raises(ValueError, match=r"the policy network's (features|outputs) must be finite"):
            cache.rollout_features(feature_map, forward, observations, rows)
    else:
        lookup = cache.rollout_features(feature_map, forward, observations, rows)
        assert bool(torch.isfinite(lookup(rows).dense()).all())


def rollout(x):
    never = torch.zeros(x.shape[0] - 1, x.shape[1], dtype=torch.bool)
    return bonuses.Transitions(x[:-1].clone(), torch.zeros_like(never, dtype=torch.int64), x[1:].clone(), never, never)


def test_an_update_after_compute_is_the_update_alone_and_reads_the_network_no_more(monkeypatch):
    x = torch.randn(9, 4, 3, generator=torch.Generator().manual_seed(2))
    alone, after = (bonuses.ACB(network(), torch.zeros(1, 3), seed=1, ensemble_size=4) for _ in range(2))
    reads = []
    for _ in range(2):
        transitions = rollout(x)
        alone.update(transitions)
        after.compute(transitions)
        with monkeypatch.context() as patch:
            patch.setattr(SketchFeatures, "__call__", lambda *_: reads.append(1))
            after.update(transitions)
        assert not reads
    torch.testing.assert_close(after.compute(rollout(x)), alone.compute(rollout(x)), rtol=0, atol=0)


def test_features_are_cached_for_the_very_tensors_and_only_until_they_change():
    x = torch.randn(9, 4, 3, generator=torch.Generator().manual_seed(2))
    changed, fresh = (bonuses.ACB(network(), torch.zeros(1, 3), seed=1, ensemble_size=4) for _ in range(2))
    transitions = rollout(x)
    changed.compute(transitions)
    transitions.next_observations.mul_(2)
    changed.update(transitions)
    fresh.update(transitions)
    torch.testing.assert_close(changed.compute(rollout(x)), fresh.compute(rollout(x)), rtol=0, atol=0)


def test_more_features_than_the_cache_may_hold_are_not_kept(monkeypatch):
    x = torch.randn(9, 4, 3, generator=torch.Generator().manual_seed(2))
    bonus = bonuses.ACB(network(), torch.zeros(1, 3), seed=1, ensemble_size=4)
    monkeypatch.setattr(cache, "CACHED_NUMBERS", 1)
    transitions = rollout(x)
    bonus.compute(transitions)
    reads, read = [], SketchFeatures.__call__
    monkeypatch.setattr(SketchFeatures, "__call__", lambda *given: reads.append(1) or read(*given))
    bonus.update(transitions)
    assert reads
