"""The auxiliary network follows the policy by the formula, buffers included, and shares nothing with it."""

import copy

import pytest
import torch
from torch import nn

from optimist.bonuses.acb.auxiliary import AuxiliaryNetwork


def policy(seed=0):
    """Two tied layers, and batch normalization for its buffers, real and integer."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        network = nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3), nn.Linear(3, 3), nn.Linear(3, 2))
    network[2].weight = network[0].weight
    network[1].running_mean += seed
    network[1].num_batches_tracked += seed
    return network


def test_it_starts_as_the_policy_and_shares_no_memory():
    network = policy()
    auxiliary = AuxiliaryNetwork(network)
    before = {name: tensor.clone() for name, tensor in auxiliary.network.state_dict().items()}
    assert all(torch.equal(tensor, before[name]) for name, tensor in network.state_dict().items())
    with torch.no_grad():
        for tensor in [*network.parameters(), *network.buffers()]:
            tensor += 1
    assert all(torch.equal(tensor, before[name]) for name, tensor in auxiliary.network.state_dict().items())
    assert auxiliary.network[2].weight is auxiliary.network[0].weight  # ties are kept
    assert auxiliary.network.training == network.training


def test_it_moves_by_the_formula_and_only_reads_the_policy():
    first, second = policy(1), policy(2)
    auxiliary, kept = AuxiliaryNetwork(first), copy.deepcopy(second.state_dict())
    second[0].weight.grad = grad = torch.ones(3, 3)
    auxiliary.move_towards(second, 0.25)
    for name, tensor in auxiliary.network.state_dict().items():
        old, new = first.state_dict()[name], second.state_dict()[name]
        if tensor.is_floating_point():
            torch.testing.assert_close(tensor, 0.25 * new + 0.75 * old)
        else:
            assert int(tensor) == int(new) == 2
    assert all(torch.equal(tensor, kept[name]) for name, tensor in second.state_dict().items())
    assert second[0].weight.grad is grad
    assert all(parameter.requires_grad for parameter in second.parameters())


@pytest.mark.parametrize(("alpha", "source"), [(0.0, 1), (1.0, 2)])
def test_the_ends_are_exact(alpha, source):
    auxiliary = AuxiliaryNetwork(policy(1))
    auxiliary.move_towards(policy(2), alpha)
    for ours, theirs in zip(auxiliary.network.parameters(), policy(source).parameters(), strict=True):
        assert torch.equal(ours, theirs)


def test_the_papers_alpha_moves_a_network_in_single_precision():
    # A step of 1e-6 times 0.01 is a twelfth of the spacing of floats above 1: without the double average none counts.
    still, ahead = nn.Linear(1, 1), nn.Linear(1, 1)
    nn.init.constant_(still.weight, 1.0)
    nn.init.constant_(ahead.weight, 1.01)
    auxiliary = AuxiliaryNetwork(still)
    for _ in range(3_000):
        auxiliary.move_towards(ahead, 1e-6)
    expected = 1.0 + (ahead.weight.item() - 1.0) * (1 - (1 - 1e-6) ** 3_000)
    assert auxiliary.network.weight.item() == pytest.approx(expected, abs=1e-7)
    assert expected > 1.00002


def test_a_saved_state_goes_on_exactly():
    auxiliary, again = AuxiliaryNetwork(policy(1)), AuxiliaryNetwork(policy(3))
    auxiliary.move_towards(policy(2), 1e-6)
    state = copy.deepcopy(auxiliary.state_dict())
    again.load_state_dict(state)
    for copied in (auxiliary, again):
        copied.move_towards(policy(4), 0.3)
    for name, tensor in auxiliary.network.state_dict().items():
        assert torch.equal(tensor, again.network.state_dict()[name])
    assert all(torch.equal(a, again.state_dict()["average"][k]) for k, a in auxiliary.state_dict()["average"].items())
    assert not torch.equal(state["average"]["0.weight"], auxiliary.state_dict()["average"]["0.weight"])


def broken_policy():
    network = policy(2)
    network[3].bias.data[0] = torch.nan
    return network


@pytest.mark.parametrize(
    ("act", "message"),
    [
        (lambda a: a.move_towards(policy(2), 1.5), r"alpha must be in \[0, 1\], got 1.5"),
        (lambda a: a.move_towards(policy(2), float("nan")), "got nan"),
        (lambda a: a.move_towards(broken_policy(), 0.5), "'3.bias' is not finite"),
        (
            lambda a: a.move_towards(nn.Linear(3, 2), 0.5),
            "the policy must have the same tensors.*0.bias: nothing instead of",
        ),
        (lambda a: a.load_state_dict({"average": {}, "copied": {}}), "the state must have the same tensors"),
    ],
)
def test_what_does_not_fit_is_refused_and_changes_nothing(act, message):
    auxiliary = AuxiliaryNetwork(policy(1))
    with pytest.raises(ValueError, match=message):
        act(auxiliary)
    for name, tensor in auxiliary.network.state_dict().items():
        assert torch.equal(tensor, policy(1).state_dict()[name])
