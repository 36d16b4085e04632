"""Products in bfloat16: how far from those in single precision, and that nothing that is kept is rounded."""

import pytest
import torch
from torch import nn

from optimist import bonuses
from optimist.bonuses.acb.config import PAPER, RELEASED, Proximal, RMSprop
from optimist.bonuses.acb.ensemble import Reader, predictions
from optimist.bonuses.acb.standardize import Standardized
from optimist.bonuses.features.batch import BlockFeatures, Dense, OuterProduct, Rows

HALF = torch.bfloat16
U = 2.0**-8  # bfloat16 has 8 significant bits: rounding to the nearest moves a number by at most this share of it
STREAM = {"feature_loss": "fisher", "floor": "layer", "solver": Proximal(averaging="narrowest")}
VARIANTS = {
    "sketch": STREAM,
    "sketch, exact": STREAM | {"solver": "exact"},
    "gradient": STREAM | {"features": "gradient", "minibatch_size": 64},
    "gradient, rmsprop": {"features": "gradient", "solver": RMSprop(prior="uniform", learning_rate=1e-3)},
    "gradient, batch statistics": {"features": "gradient", "solver": "rmsprop", "statistics": "batch"},
}


def drawn(seed, *shape):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def batches():
    """Features of every kind with a mean, and features of their absolute values, whose products bound the rounding."""
    rows, left, right = drawn(0, 9, 30) + 0.5, drawn(1, 9, 6) + 0.5, drawn(2, 9, 20) + 0.5
    return {
        "dense": (Dense(rows), Dense(rows.abs())),
        "rows": (BlockFeatures([Rows(rows)], 9), BlockFeatures([Rows(rows.abs())], 9)),
        "outer": (
            BlockFeatures([OuterProduct(left, right)], 9),
            BlockFeatures([OuterProduct(left.abs(), right.abs())], 9),
        ),
    }


@pytest.mark.parametrize("kind", batches())
def test_a_rounded_product_is_off_by_its_roundings_at_most(kind):
    features, absolute = batches()[kind]
    rounded = features.in_precision(HALF)
    weights, coefficients = drawn(3, 4, *features.shapes[0]), drawn(4, 9, 4)
    # Both factors are rounded once and so is what they give, summed in single precision: 3 u and terms of u^2.
    pairs = [
        (rounded.readout(0, weights), features.readout(0, weights), absolute.readout(0, weights.abs())),
        (rounded.readout(0, weights.to(HALF)), features.readout(0, weights), absolute.readout(0, weights.abs())),
        (
            rounded.pullback(0, coefficients),
            features.pullback(0, coefficients),
            absolute.pullback(0, coefficients.abs()),
        ),
    ]
    for made, exact, largest in pairs:
        assert made.dtype == torch.float32
        assert ((made - exact).abs() <= 3.1 * U * largest).all()
        assert not torch.equal(made, exact)
    assert all(torch.equal(a, b) for a, b in zip(rounded.moments(0), features.moments(0), strict=True))


@pytest.mark.parametrize("kind", ["rows", "outer"])
def test_regressors_rounded_once_are_read_as_those_rounded_at_every_read(kind):
    features = batches()[kind][0]
    shape = features.shapes[0]
    x = Standardized(features, [drawn(5, *shape)], [drawn(6, *shape).exp()])
    reader, weights = Reader(HALF), [drawn(7, 3, *shape)]
    for _ in range(2):
        expected = predictions(weights, x.in_precision(HALF))
        torch.testing.assert_close(reader.predictions(weights, x, lasts=True), expected)
        torch.testing.assert_close(reader.predictions(weights, x, lasts=False), expected)
        weights[0].mul_(-3)  # they have learned
        reader.forget()
    moved = Standardized(features, [drawn(8, *shape)], [drawn(9, *shape).exp()])  # other coordinates, not forgotten
    expected = predictions(weights, moved.in_precision(HALF))
    torch.testing.assert_close(reader.predictions(weights, moved, lasts=True), expected)


def network():
    made = nn.Sequential(nn.Linear(5, 24), nn.Tanh(), nn.Linear(24, 24), nn.Tanh(), nn.Linear(24, 3))
    generator = torch.Generator().manual_seed(0)
    for parameter in made.parameters():
        nn.init.normal_(parameter, std=0.4, generator=generator)
    return made


def rollout(x):
    never = torch.zeros(x.shape[:2], dtype=torch.bool)
    return bonuses.Transitions(x, torch.zeros_like(never, dtype=torch.int64), x, never, never)


def bonus(variant, precision):
    settings = VARIANTS[variant] | {"ensemble_size": 64}
    return bonuses.ACB(network(), torch.zeros(1, 5), seed=0, precision=precision, **settings)


def trained(variant, precision, states):
    """A bonus that has seen the first states most often, and the last third never."""
    made, generator = bonus(variant, precision), torch.Generator().manual_seed(1)
    often = torch.arange(1, 2 * len(states) // 3 + 1) ** -1.0
    for _ in range(6):
        rows = torch.multinomial(often, 128, replacement=True, generator=generator)
        made.update(rollout(states[rows].view(8, 16, 5)))
    return made


def ranks(values):
    return values.argsort().argsort().double()


@pytest.mark.parametrize("variant", VARIANTS)
def test_the_bonus_in_bfloat16_follows_that_in_float32(variant):
    states = drawn(2, 90, 5)
    single, half = (trained(variant, precision, states) for precision in ("float32", "bfloat16"))
    exact, rounded = (made.compute(rollout(states[None])).flatten() for made in (single, half))
    assert torch.corrcoef(torch.stack([ranks(exact), ranks(rounded)]))[0, 1] > 0.995
    assert (rounded / exact).median().item() == pytest.approx(1, abs=0.02)
    # What is learned is kept in single precision, and either bonus goes on from the other's state.
    kept = half.state_dict()
    single.load_state_dict(kept)
    assert not [name for name, value in tensors(kept) if value.dtype == HALF]
    # With the same regressors, all that differs is the rounding of both factors of w x, independent ones of at most
    # u = 2^-8, with a variance of u^2 / 3: the error of a prediction has the deviation sqrt(2/3) u sqrt(sum w^2 x^2),
    # whose mean square over 64 members is within sqrt(1 + 5 sqrt(2 / 64)) = 1.4 of that, 5 sd. So 1.2 u bounds it.
    if variant in ("sketch", "sketch, exact"):
        apart = (single.compute(rollout(states[None])) - half.compute(rollout(states[None]))).abs().flatten()
        regression = half._sizing.regression_for(states[None])
        x = regression.scale.standardize(regression.features(states)).dense()
        spread = (x.square() @ regression.solver.ensembles[0].flatten(0, 1).square().T).unflatten(1, (-1, 64))
        assert (apart <= 1.2 * U * spread.mean(2).amax(1).sqrt()).all()
        assert apart.max() > 0


@pytest.mark.parametrize("solver", ["exact", "streaming"])
def test_the_solvers_of_covariances_learn_unrounded_and_are_read_rounded(solver):
    """Rounded products would drown the weak directions of a covariance: only what `compute` multiplies is rounded."""
    states, made = drawn(2, 90, 5), []
    for precision in ("float32", "bfloat16"):
        settings = {"solver": solver, "ensemble_size": 64, "sketch_size": 8, "precision": precision}
        made.append(bonuses.ACB(network(), torch.zeros(1, 5), **settings))
        made[-1].update(rollout(states[:60].view(6, 10, 5)))
    single, half = (dict(tensors(bonus.state_dict())) for bonus in made)
    assert all(torch.equal(value, half[name]) for name, value in single.items())
    one, other = (bonus.compute(rollout(states[None])) for bonus in made)
    assert not torch.equal(one, other)
    torch.testing.assert_close(one, other, rtol=0.05, atol=0.01)


def tensors(state, prefix=""):
    for key, value in state.items():
        if isinstance(value, dict):
            yield from tensors(value, f"{prefix}{key}/")
        elif isinstance(value, torch.Tensor):
            yield f"{prefix}{key}", value


def test_a_bonus_in_bfloat16_reads_what_it_has_just_learned():
    """The rounded copy of the regressors is made anew after an update and after loading a state."""
    states, (one, other) = drawn(3, 40, 5), (bonus("gradient", "bfloat16") for _ in range(2))
    seen = rollout(states.view(4, 10, 5))
    one.update(seen)
    first = one.compute(seen)
    one.update(seen)
    second, saved = one.compute(seen), one.state_dict()
    assert (second < 0.99 * first).float().mean() > 0.8
    other.compute(seen)
    other.load_state_dict(saved)
    assert torch.equal(other.compute(seen), second)


def test_what_the_paper_and_the_released_code_do_is_not_rounded():
    assert PAPER.precision == RELEASED.precision == bonuses.ACBConfig().precision == "float32"
    with pytest.raises(ValueError, match="precision must be"):
        bonuses.ACBConfig(precision="float16")
