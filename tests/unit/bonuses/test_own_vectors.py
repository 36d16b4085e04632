"""``features="observations"``: ACB and the exact bonus on vectors that the caller brings, with no policy network."""

import pytest
import torch

from optimist.bonuses import ACB, Discrete, Transitions, make
from optimist.bonuses.acb.solvers.exact import ExactSolver
from optimist.bonuses.acb.solvers.streaming import StreamingSolver


def transitions_of(states):
    never = torch.zeros(states.shape[:2], dtype=torch.bool)
    return Transitions(states, never.long(), states, never, never)


def vectors(seed, *shape):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def test_without_a_network_the_bonus_is_that_of_the_vectors():
    bonus, exact = (
        make("acb", features="observations", n_features=12, ensemble_size=4000),
        make("elliptical", features="observations", n_features=12),
    )
    mixing = vectors(9, 12, 12)
    for seed in range(3):
        rollout = transitions_of(vectors(seed, 16, 4, 12) @ mixing + seed)
        assert bonus.update(rollout)["trained"] == exact.update(rollout)["states"] - 64 * seed
    queries = transitions_of(vectors(5, 10, 4, 12))
    # The rms of 4,000 exact draws has the relative sd 1 / sqrt(2 M): 5.5 sd, 40 states, 1 in 700,000.
    ratio = bonus.compute(queries) / exact.compute(queries)
    assert (ratio - 1).abs().max() < 5.5 / 8000**0.5


@pytest.mark.parametrize(("size", "solver"), [(4_096, ExactSolver), (65_536, StreamingSolver)])
def test_vectors_of_many_dimensions(size, solver):
    """As hidden states of a language model: the seen becomes small against the unseen, and a state is loaded again."""
    bonus, other = (ACB(features="observations", n_features=size, ensemble_size=4, seed=k) for k in range(2))
    prompts = vectors(0, 6, size) + 0.1
    seen = prompts[torch.arange(48) % 3].view(24, 2, size) + 1e-3 * vectors(1, 24, 2, size)
    bonus.update(transitions_of(seen))
    assert isinstance(bonus._sizing.regression_for(seen).solver, solver)
    known, new = bonus.compute(transitions_of(prompts[:3, None])), bonus.compute(transitions_of(prompts[3:, None]))
    assert new.min() > 0.99 > 2 * known.max()
    other.load_state_dict(bonus.state_dict())
    assert torch.equal(other.compute(transitions_of(prompts[:3, None])), known)
    assert torch.equal(other.compute(transitions_of(prompts[3:, None])), new)


def test_a_dict_of_vectors_is_read_side_by_side_and_sized_by_the_first_rollout():
    bonus = ACB(features="observations", ensemble_size=4)
    parts = {"text": vectors(0, 8, 2, 5), "image": vectors(1, 8, 2, 3)}
    never = torch.zeros(8, 2, dtype=torch.bool)
    bonus.update(Transitions(parts, never.long(), parts, never, never))
    assert bonus._sizing.dimensions == 8


def test_a_network_is_not_read_and_a_policy_is_not_needed():
    shape = {"observation_shape": (5,)}
    made = make("acb", **shape, features="observations", ensemble_size=4)
    made.update(transitions_of(vectors(0, 8, 2, 5)))
    assert "average" in made.state_dict()["auxiliary"]
    assert not made.state_dict()["auxiliary"]["average"]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: ACB(), "features='sketch' are those of a policy network: pass it, or features='observations'"),
        (lambda: make("acb", observation_shape=(3,)), "needs policy_network"),
        (lambda: ACB(n_features=4), "n_features is the length of vectors with features='observations'"),
        (lambda: make("elliptical", features="observations"), "needs observation_shape"),
        (lambda: make("elliptical", n_features=4, observation_shape=(4,)), "n_features is the length of vectors"),
    ],
)
def test_what_is_missing_is_said(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_vectors_of_another_length_are_refused():
    bonus = ACB(features="observations", n_features=4, ensemble_size=4)
    with pytest.raises(ValueError, match="4"):
        bonus.update(transitions_of(vectors(0, 8, 2, 5)))
    assert make("elliptical", features="observations", observation_shape=Discrete(4)) is not None
