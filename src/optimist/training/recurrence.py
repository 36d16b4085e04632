"""Recurrent policies: a GRU, what it remembers beside each observation, and rollouts as sequences to learn from."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from optimist.bonuses.learned.networks import linear
from optimist.bonuses.observations import Observations, ObservationShape, map_observations
from optimist.bonuses.transitions import Transitions

if TYPE_CHECKING:
    from optimist.training.agent import Agent

LONGEST_MEMORY = 128
"""Steps after which the slowest unit of a fresh `GRU` has forgotten to 1 / e: a rollout."""
SEEN, HIDDEN = "seen", "hidden state"
"""The names of an observation that is no Dict, and of the hidden state, where a recurrent policy reads both."""


class GRU(nn.Module):
    """``h' = (1 - z) n + z h``, ``n = tanh(W_n x + r (U_n h))``, with the gates r and z sigmoids of ``W x + U h``.

    The features that a policy acts by are h' itself. W and U are plain linear layers, each used once per state, so that
    ACB's gradient of a state is a product of what enters and leaves them, as in every other layer.

    A fresh one remembers: its units forget over 2 to LONGEST_MEMORY steps, evenly on a logarithmic scale. With z = 1/2
    everywhere, as zero biases have it, nothing of a sight would be left ten steps after it.

    Shapes: x (n, inputs), h (n, width) -> (n, width).
    Paper: Cho et al. 2014, with the reset gate after U, as PyTorch's ``nn.GRU`` has it; Tallec and Ollivier 2018 for
    the biases of z, spread as they spread them but for the logarithm. Ours: the paper has no memory.
    """

    def __init__(self, inputs: int, width: int, *, generator: torch.Generator):
        super().__init__()
        self.width = width
        self.inputs = linear(inputs, 3 * width, generator=generator, gain=1.0)
        self.recurrent = linear(width, 3 * width, generator=generator, gain=1.0)
        with torch.no_grad():  # z = sigmoid(b) keeps e^-1 after about 1 + e^b steps
            self.inputs.bias[width : 2 * width] = torch.linspace(0, math.log(LONGEST_MEMORY - 1), width)

    def forward(self, x: Tensor, hidden: Tensor) -> Tensor:
        """One step."""
        return self._advanced(self.inputs(x), hidden)

    def sequence(self, x: Tensor, hidden: Tensor, starts: Tensor) -> Tensor:
        """All steps of some sequences; where one ``starts`` anew, from 0.

        Shapes: x (T, n, inputs), hidden (n, width) before step 0, starts (T, n) -> (T, n, width).
        """
        steps, going_on = [], (~starts).unsqueeze(2).to(x.dtype)
        for gates, goes_on in zip(self.inputs(x), going_on, strict=True):
            hidden = self._advanced(gates, hidden * goes_on)
            steps.append(hidden)
        return torch.stack(steps)

    def _advanced(self, gates: Tensor, hidden: Tensor) -> Tensor:
        both, new = gates.split((2 * self.width, self.width), dim=1)
        both_hidden, new_hidden = self.recurrent(hidden).split((2 * self.width, self.width), dim=1)
        r, z = torch.sigmoid(both + both_hidden).chunk(2, dim=1)
        return torch.lerp(torch.tanh(new + r * new_hidden), hidden, z)


def with_hidden(observations: Observations, hidden: Tensor) -> dict[str, Tensor]:
    """Observations and the hidden states that they are read with, as one Dict. Shapes: (..., w) beside (..., *)."""
    parts = dict(observations) if isinstance(observations, Mapping) else {SEEN: observations}
    return parts | {HIDDEN: hidden}


def without_hidden(observations: Observations) -> tuple[Observations, Tensor]:
    """What `with_hidden` put together."""
    parts = dict(observations)  # pyrefly: ignore
    hidden = parts.pop(HIDDEN)
    return (parts[SEEN] if parts.keys() == {SEEN} else parts), hidden


def shapes_with_hidden(shape: ObservationShape, width: int) -> tuple[ObservationShape, ObservationShape]:
    """The shapes of what `with_hidden` gives: of the observations alone, as most bonuses read it, and of all of it."""
    seen = dict(shape) if isinstance(shape, Mapping) else {SEEN: shape}
    return seen, seen | {HIDDEN: (width,)}  # pyrefly: ignore


def forgetful(transitions: Transitions, width: int) -> Transitions:
    """Transitions that no policy has played, such as random ones, with nothing remembered."""
    nothing = torch.zeros(*transitions.terminated.shape, width)
    return remembered(transitions, nothing, nothing)


def remembered(transitions: Transitions, hidden: Tensor, next_hidden: Tensor) -> Transitions:
    """The transitions from state to state of a recurrent policy: each observation with its hidden state.

    Shapes: hidden (T, N, w), what was remembered before each observation was read; next_hidden, after it.
    """
    return Transitions(
        with_hidden(transitions.observations, hidden),
        transitions.actions,
        with_hidden(transitions.next_observations, next_hidden),
        transitions.terminated,
        transitions.truncated,
        transitions.valid,
    )


@dataclass(frozen=True, eq=False)
class Sequences:
    """A rollout to be learned from by a recurrent policy: its minibatches are environments with all their steps.

    ``hidden`` is what was remembered when the rollout began; what came after it is computed anew as the policy changes.
    ``starts`` are the steps at which an episode begins. Shapes: (T, N, ...); hidden (N, w); targets (T, N, 2).
    """

    observations: Observations
    hidden: Tensor
    starts: Tensor
    valid: Tensor
    actions: Tensor
    log_probabilities: Tensor
    advantages: Tensor
    targets: Tensor

    def __len__(self) -> int:
        return self.starts.shape[1]

    @property
    def returns(self) -> Tensor:
        """The targets of the valid steps, (n, 2)."""
        return self.targets[self.valid]

    def rows(self, index: Tensor, device: torch.device) -> "SequenceBatch":
        """The chosen environments, on ``device``."""

        def chosen(part: Tensor) -> Tensor:
            return part[:, index].to(device)

        valid = chosen(self.valid)
        steps = (self.actions, self.log_probabilities, self.advantages, self.targets)
        return SequenceBatch(
            map_observations(chosen, self.observations),
            self.hidden[index].to(device),
            chosen(self.starts),
            valid,
            *(chosen(part)[valid] for part in steps),
        )


@dataclass(frozen=True, eq=False)
class SequenceBatch:
    """A minibatch of `Sequences`: the sequences that are read, (T, n, ...), and of their valid steps what was done."""

    observations: Observations
    hidden: Tensor
    starts: Tensor
    valid: Tensor
    actions: Tensor
    log_probabilities: Tensor
    advantages: Tensor
    returns: Tensor

    def evaluated_by(self, agent: "Agent") -> tuple[Tensor, Tensor]:
        """The outputs and the values of the valid steps, by time and environment."""
        outputs, values = agent.sequence(self.observations, self.hidden, self.starts)
        return outputs[self.valid], values[self.valid]


def sequences_of(
    transitions: Transitions, hidden: Tensor, log_probabilities: Tensor, advantages: Tensor, targets: Tensor
) -> Sequences:
    """The rollout ``transitions`` as sequences, begun with ``hidden`` (N, w) in memory."""
    valid = torch.ones_like(transitions.terminated) if transitions.valid is None else transitions.valid
    starts, seen = episode_starts(transitions), transitions.observations
    return Sequences(seen, hidden, starts, valid, transitions.actions, log_probabilities, advantages, targets)


def episode_starts(transitions: Transitions) -> Tensor:
    """Whether a step acts on the first observation of an episode that began within the rollout, (T, N).

    So it does after an end, and after a step that only reset.
    """
    after = transitions.terminated | transitions.truncated
    if transitions.valid is not None:
        after = after | ~transitions.valid
    return torch.cat([torch.zeros_like(after[:1]), after[:-1]])
