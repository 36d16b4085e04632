"""Every built-in bonus tells the truth about itself: each trait is set against what the bonus is seen to do."""

from dataclasses import replace

import pytest
import torch
from torch import nn

from optimist.bonuses import DiscreteActions, FixedEmbedding, Sum, Transitions, make
from optimist.bonuses.e3b import E3B
from optimist.bonuses.factory import BUILDERS
from optimist.bonuses.protocol import TRAITS

T, N = 6, 3
STATES = torch.randn(4, 3, generator=torch.Generator().manual_seed(0))  # few, so that they are met again
OWN = [f"own_bonuses:{factory}" for factory in ("episodic", "counting", "lifelong")]
GAINS = ["novelty-gain(acb)", "novelty-gain(rnd)*episodic-count"]
EVERY = [*BUILDERS, "rnd*episodic-count", "acb*e3b", "count*icm", *GAINS, *OWN]
EVERY += ["own_bonuses:lifelong * own_bonuses:episodic"]
EXPECTED = {
    "acb": {"reads_policy"},
    "count": {"depends_on_order"},
    "e3b": {"needs_warm_up", "depends_on_order", "is_episodic"},
    "elliptical": {"reads_policy"},
    "episodic-count": {"depends_on_order", "is_episodic"},
    "icm": {"needs_warm_up", "reads_actions"},
    "rnd": {"needs_warm_up"},
    "acb*e3b": {"reads_policy", "needs_warm_up", "depends_on_order", "is_episodic"},
    "count*icm": {"needs_warm_up", "depends_on_order", "reads_actions"},
    "novelty-gain(acb)": {"reads_policy", "reads_actions"},
    "novelty-gain(rnd)*episodic-count": {"needs_warm_up", "depends_on_order", "is_episodic", "reads_actions"},
    "rnd*episodic-count": {"needs_warm_up", "depends_on_order", "is_episodic"},
    "own_bonuses:counting": {"depends_on_order"},
    "own_bonuses:episodic": {"depends_on_order", "is_episodic"},
    "own_bonuses:lifelong": set(),
    "own_bonuses:lifelong * own_bonuses:episodic": {"depends_on_order", "is_episodic"},
}
every_bonus = pytest.mark.parametrize("name", EVERY)


def policy(seed):
    network = nn.Sequential(nn.Linear(3, 16), nn.Tanh(), nn.Linear(16, 2))
    generator = torch.Generator().manual_seed(seed)
    for parameter in network.parameters():
        nn.init.normal_(parameter, std=0.5, generator=generator)
    return network


def built(name, *, policy_seed=0):
    return make(name, observation_shape=(3,), actions=DiscreteActions(2), policy_network=policy(policy_seed), seed=0)


def rollout(seed, *, ends=0.2):
    """T steps of N environments among four states; episodes end at random, but none with the last step."""
    generator = torch.Generator().manual_seed(seed)
    before, after = STATES[torch.randint(0, 4, (2, T, N), generator=generator)]
    actions = torch.randint(0, 2, (T, N), generator=generator)
    terminated = torch.rand(T, N, generator=generator) < ends
    terminated[-1] = False
    return Transitions(before, actions, after, terminated, torch.zeros_like(terminated))


def same(a, b):
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(same(a[key], b[key]) for key in a)
    return torch.equal(a, b) if isinstance(a, torch.Tensor) else a == b


def close(a, b):
    """Equal up to the rounding of other batch sizes; what truly differs does so by a percent and more."""
    return torch.allclose(a, b, rtol=1e-3, atol=0)


@every_bonus
def test_the_traits_are_those_of_the_documentation(name):
    assert {trait for trait in TRAITS if getattr(built(name), trait)} == EXPECTED[name]


@every_bonus
def test_only_where_order_matters_does_a_step_alone_differ_from_one_among_others(name):
    bonus = built(name)
    bonus.update(rollout(0))
    transitions = rollout(1)
    alone = [bonus.compute(transitions.mapped(lambda part, t=t: part[t : t + 1])) for t in range(T)]
    assert close(torch.cat(alone), bonus.compute(transitions)) != bonus.depends_on_order


@every_bonus
def test_a_host_that_shows_earlier_steps_again_scores_each_step_right(name):
    bonus = built(name)
    bonus.update(rollout(0))
    transitions = rollout(1)
    shown = [bonus.compute(transitions.mapped(lambda part, t=t: part[: t + 1]))[-1] for t in range(T)]
    assert close(torch.stack(shown), bonus.compute(transitions))


@every_bonus
def test_only_what_needs_a_warm_up_is_changed_by_one(name):
    bonus = built(name)
    before = bonus.state_dict()
    bonus.warm_up(rollout(0))
    assert same(bonus.state_dict(), before) != bonus.needs_warm_up


@every_bonus
def test_only_an_episodic_bonus_has_episodes_to_forget(name):
    bonus = built(name)
    bonus.update(rollout(0))
    before, answer = bonus.state_dict(), bonus.compute(rollout(1))
    bonus.forget_episodes()
    assert same(bonus.state_dict(), before) != bonus.is_episodic
    assert torch.equal(bonus.compute(rollout(1)), answer) != bonus.is_episodic


@every_bonus
def test_only_an_episodic_bonus_asks_where_episodes_end(name):
    bonus, endless = built(name), built(name)
    bonus.update(rollout(0, ends=0.5))
    endless.update(rollout(0, ends=0.0))
    assert same(bonus.state_dict(), endless.state_dict()) != bonus.is_episodic


@every_bonus
def test_only_what_reads_actions_asks_how_a_state_was_reached(name):
    bonus = built(name)
    bonus.update(rollout(0))
    steps = rollout(1)
    otherwise = replace(steps, observations=STATES[0].expand_as(steps.observations), actions=1 - steps.actions)
    assert close(bonus.compute(steps), bonus.compute(otherwise)) != bonus.reads_actions


@every_bonus
def test_only_what_reads_the_policy_differs_with_it(name):
    bonus, other = built(name), built(name, policy_seed=1)
    for made in (bonus, other):
        made.update(rollout(0))
    assert close(bonus.compute(rollout(1)), other.compute(rollout(1))) != bonus.reads_policy


EPISODIC = {
    "e3b": lambda: built("e3b"),
    "e3b of a fixed embedding": lambda: E3B(FixedEmbedding(lambda x: x.flatten(0, 1), 3)),
    "episodic count": lambda: built("episodic-count"),
    "product": lambda: built("rnd*episodic-count"),
    "product, episodic first": lambda: built("e3b*count"),
    "sum": lambda: Sum(built("e3b"), built("episodic-count"), weights=(0.5, 2.0)),
    "own": lambda: built("own_bonuses:episodic"),
}
every_episodic_bonus = pytest.mark.parametrize("build", EPISODIC.values(), ids=EPISODIC.keys())


@every_episodic_bonus
@pytest.mark.parametrize("which", [(True, False, True), (False, True, False), (False,) * N, (True,) * N])
def test_to_forget_an_episode_is_to_have_it_end_by_truncation(build, which):
    forgetting, ended = build(), build()
    chosen, transitions = torch.tensor(which), rollout(0)
    truncated = torch.zeros_like(transitions.truncated)
    truncated[-1] = chosen
    forgetting.update(transitions)
    forgetting.forget_episodes(chosen)
    ended.update(replace(transitions, truncated=truncated))
    assert same(forgetting.state_dict(), ended.state_dict())
    for seed in (1, 2):
        assert torch.equal(forgetting.compute(rollout(seed)), ended.compute(rollout(seed)))
        assert forgetting.update(rollout(seed)) == ended.update(rollout(seed))


@every_episodic_bonus
def test_to_forget_all_episodes_is_to_forget_each_and_their_number(build):
    bonus, other = build(), build()
    for forgotten, which in ((bonus, None), (other, torch.ones(N, dtype=torch.bool))):
        forgotten.update(rollout(0))
        forgotten.forget_episodes(which)
    assert torch.equal(bonus.compute(rollout(1)), other.compute(rollout(1)))
    fewer = rollout(1).mapped(lambda part: part[:, : N - 1])
    assert bonus.compute(fewer).shape == (T, N - 1)
    bonus.update(fewer)


@every_episodic_bonus
def test_there_is_nothing_to_forget_before_the_first_update(build):
    bonus, other = build(), build()
    bonus.forget_episodes(torch.ones(N, dtype=torch.bool))
    bonus.forget_episodes()
    assert torch.equal(bonus.compute(rollout(1)), other.compute(rollout(1)))


@pytest.mark.parametrize("name", ["e3b", "episodic-count"])
@pytest.mark.parametrize("which", [torch.ones(N), torch.ones(N + 1, dtype=torch.bool), torch.tensor([0, 1])])
def test_a_wrong_choice_of_environments_is_refused_and_forgets_nothing(name, which):
    bonus = built(name)
    bonus.update(rollout(0))
    before = bonus.state_dict()
    with pytest.raises(ValueError, match=r"which must be a bool tensor of shape \(3,\), one entry per environment"):
        bonus.forget_episodes(which)
    assert same(bonus.state_dict(), before)
