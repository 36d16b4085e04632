"""The streaming solver: exact where its rows suffice, close to exact where they do not, whatever the coordinates do."""

import math

import pytest
import torch

from optimist.bonuses.acb.config import Exact, Proximal, Streaming
from optimist.bonuses.acb.ensemble import draw_prior, predictions, squared_deviation
from optimist.bonuses.acb.sizing import EXACT_DIMENSIONS, STREAMING_DIMENSIONS, solver_for
from optimist.bonuses.acb.solvers.exact import ExactSolver
from optimist.bonuses.acb.solvers.streaming import StreamingSolver
from optimist.bonuses.acb.standardize import Floor, RunningScale, Unscaled
from optimist.bonuses.features.batch import Dense


def drawn(seed, *shape):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def first_weights(d, members, ridge):
    generator = torch.Generator().manual_seed(7)
    return [block.double() for block in draw_prior([torch.Size([d])], members, "gaussian", ridge, generator=generator)]


def learned(solver, history, scale, members=64):
    """The solver after minibatches of noise; the noise depends on their number alone."""
    for k, part in enumerate(history):
        solver.fit([(Dense(part), drawn(100 + k, len(part), members))], scale)
    return solver


def widths(solver, scale, queries):
    weights = [block[0] for block in solver.ensembles]
    return squared_deviation(predictions(weights, scale.standardize(Dense(queries))), "rms").sqrt()


def running(d):
    return RunningScale([torch.Size([d])], Floor(1e-3, relative=True))


def test_with_rows_for_all_directions_it_is_the_exact_solver():
    history = [drawn(k, 9, 12) @ drawn(50, 12, 12) for k in range(6)]
    exact = learned(ExactSolver(first_weights(12, 64, 0.5), Exact(ridge=0.5)), history, Unscaled())
    solver = learned(StreamingSolver(first_weights(12, 64, 0.5), Streaming(ridge=0.5, rank=12)), history, Unscaled())
    torch.testing.assert_close(solver.ensembles[0], exact.ensembles[0], rtol=1e-6, atol=1e-8)


def test_states_beyond_its_rows_are_averaged_over_their_visits():
    """One-hot states, forty of them beside a rank of four: each still has the variance 1 / (ridge + visits)."""
    visits, members = 50, 64
    history = [torch.eye(40, dtype=torch.float64)] * visits
    solver = learned(StreamingSolver(first_weights(40, members, 1.0), Streaming(rank=4)), history, Unscaled(), members)
    variance = (widths(solver, Unscaled(), history[0]) ** 2).mean().item()
    # The mean of 40 M squares of normals has the relative sd sqrt(2 / 40 M) = 2.8 %; steps that are sized by an
    # estimate of a variance, of relative sd sqrt(2 / M) = 18 %, cost some more. A step of full length would leave 1.
    assert abs(variance * (1 + visits) - 1) < 0.25


def moving(collinear, d=48, rollouts=40, n=64):
    """Rollouts whose mean and spread move, of features in three smooth directions, or in all."""
    inner = torch.linspace(1, 0.02, 3 if collinear else d).double()
    mixing = drawn(60, len(inner), d)
    places = [drawn(k, n, len(inner)) * inner * (1 + k / rollouts) + 2 * k / rollouts for k in range(rollouts)]
    return [torch.sin(x @ mixing) if collinear else x @ mixing for x in places]


@pytest.mark.parametrize(("collinear", "rank"), [(True, 36), (False, 48)])
def test_it_follows_the_exact_bonus_while_the_statistics_move(collinear, rank):
    """Collinear features in 48 dimensions, a rank of 36. Averaged proximal steps are 21 times too wide at what was left
    long ago, twice elsewhere."""
    history, members = moving(collinear), 128
    scales = [running(48), running(48)]
    exact = learned(ExactSolver(first_weights(48, members, 1.0), Exact()), history, scales[0], members)
    stream = StreamingSolver(first_weights(48, members, 1.0), Streaming(rank=rank))
    solver = learned(stream, history, scales[1], members)
    queries = torch.cat([history[0], history[-1], 3 * drawn(77, 40, 48)])
    ratio = widths(solver, scales[1], queries) / widths(exact, scales[0], queries)
    left, late, never = ratio.split([64, 64, 40])
    # Both have the same noise. What differs is how they are carried over into other coordinates, and what is forgotten.
    assert 0.9 < left.median() < 1.15
    assert 0.9 < late.median() < 1.15
    assert 0.9 < never.median() < 1.7


def long_stream(minibatches=2000, n=16, d=24, members=32):
    """Minibatches of features in directions of 1 to 1e-3, their mean fifty deviations off, and noise, in float32.

    Both mean and spread double on the way.
    """
    strengths, mixing, mean = torch.logspace(0, -3, d).double(), drawn(60, d, d), 50 * drawn(61, d)
    sizes = torch.linspace(1, 2, minibatches).tolist()
    rows = [(drawn(1000 + k, n, d) * strengths @ mixing + mean) * size for k, size in enumerate(sizes)]
    return [(g.float(), drawn(9000 + k, n, members).float()) for k, g in enumerate(rows)]


@pytest.mark.parametrize(
    ("rank", "oracle"),
    [(24, ExactSolver), (16, StreamingSolver)],  # with fewer rows than directions: the same steps
)
def test_after_two_thousand_minibatches_single_precision_is_near_an_oracle_in_double(rank, oracle):
    history, scales, first = long_stream(), [running(24), running(24)], first_weights(24, 32, 1.0)
    single = StreamingSolver([block.float() for block in first], Streaming(rank=rank))
    double = oracle(first, Exact() if oracle is ExactSolver else Streaming(rank=rank))
    for g, y in history:
        single.fit([(Dense(g), y)], scales[0])
    double.fit([(Dense(g.double()), y.double()) for g, y in history], scales[1])
    queries = torch.cat([history[0][0], history[-1][0], 3 * history[-1][0]])
    apart = widths(single, scales[0], queries).double() / widths(double, scales[1], queries.double()) - 1
    assert apart.abs().max() < 0.01


@pytest.mark.parametrize("scale", [Unscaled, lambda: running(12)])
def test_minibatches_of_equal_states_are_learned_as_their_sum(scale):
    once, members = drawn(3, 4, 12), 16
    noise = drawn(4, 40, members)
    some = torch.arange(40) % 4
    solvers = [StreamingSolver(first_weights(12, members, 1.0), Streaming(rank=12)) for _ in range(2)]
    nudged = once[some] + 1e-12 * drawn(5, 40, 12)  # all different, to within a rounding
    for solver, rows in zip(solvers, (once[some], nudged), strict=True):
        solver.fit([(Dense(rows), noise)], scale())
    torch.testing.assert_close(solvers[0].ensembles[0], solvers[1].ensembles[0], rtol=1e-5, atol=1e-6)


def test_auto_takes_a_matrix_then_rows_then_averages():
    kinds = [type(solver_for(d, 2.0)) for d in (EXACT_DIMENSIONS, EXACT_DIMENSIONS + 1, STREAMING_DIMENSIONS + 1)]
    assert kinds == [Exact, Streaming, Proximal]
    assert math.isclose(solver_for(5000, 2.0).ridge, 2.0)


def test_a_rank_of_nothing_is_refused():
    with pytest.raises(ValueError, match="rank must be a whole number >= 1"):
        Streaming(rank=0)
