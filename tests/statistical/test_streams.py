"""The random numbers of the compiled loops are what they say."""

import math

import numpy as np
from scipy import stats

from optimist.bandits.compiled.streams import make_streams, normals, uniforms

N = 2_000_000


def test_normals_are_normal_in_the_middle_and_in_the_tail():
    draws = normals(make_streams(np.random.SeedSequence(0), range(4)), N // 4).ravel()
    # Kolmogorov and Smirnov: sqrt(N) D > 2.6 is a false alarm in 400,000.
    assert stats.kstest(draws, "norm").statistic < 2.6 / math.sqrt(N)
    # Moments 1, 2 and 4 of N(0, 1) have the sd 1, sqrt(2), sqrt(96) over sqrt(N); 5 sd: one in 1.7 million each.
    for power, mean, sd in ((1, 0, 1), (2, 1, math.sqrt(2)), (4, 3, math.sqrt(96))):
        assert abs((draws**power).mean() - mean) < 5 * sd / math.sqrt(N)
    # The tail has its own sampler. A count of expectation e has the standard deviation sqrt(e): 5 of them.
    for edge in (3.6541528853610088, 4.2):
        for side in (draws > edge, draws < -edge):
            expected = N * stats.norm.sf(edge)
            assert abs(side.sum() - expected) < 5 * math.sqrt(expected)


def test_uniforms_fill_the_unit_interval_evenly():
    draws = uniforms(make_streams(np.random.SeedSequence(1), range(2)), N // 4).ravel()
    assert draws.min() >= 0
    assert draws.max() < 1
    # chi-square with 255 degrees of freedom: 391 is exceeded once in 10 million.
    counts = np.bincount((draws * 256).astype(int), minlength=256)
    assert ((counts - draws.size / 256) ** 2 / (draws.size / 256)).sum() < stats.chi2.isf(1e-7, 255)


def test_streams_are_not_correlated():
    draws = normals(make_streams(np.random.SeedSequence(2), range(8)), 100_000)
    correlations = np.corrcoef(draws)[np.triu_indices(8, 1)]
    # A correlation of independent normals has the sd 1/sqrt(n); 28 of them, 6 sd: one in 18 million.
    assert np.abs(correlations).max() < 6 / math.sqrt(100_000)
