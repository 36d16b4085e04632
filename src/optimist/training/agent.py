"""The agent: a trunk that reads observations, an actor, and a critic with an extrinsic and an intrinsic head."""

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from optimist.bonuses.acb.auxiliary import copied
from optimist.bonuses.learned.networks import linear
from optimist.bonuses.observations import Observations, ObservationShape, flatten_time, named, take
from optimist.own import called, errors_of, imported
from optimist.training.config import Activation, Precision, PrecisionChoice
from optimist.training.normalizer import Normalizer, make_normalizer
from optimist.training.recurrence import GRU, with_hidden, without_hidden
from optimist.training.trunks import AtariTrunk, Dtype, Shape, make_trunk, plain_shape, random_observations

Factory = Callable[[ObservationShape, int], nn.Module]
"""A function of the user's own that makes a network for observations of a shape and a number of outputs."""
Network = str | nn.Module | Factory
"""The name of a trunk, ``package.module:factory``, a factory, or a module."""
FLOATS = np.dtype(np.float32)

ACTIVATIONS: dict[Activation, Callable[[], nn.Module]] = {
    "leaky-relu": nn.LeakyReLU,
    "relu": nn.ReLU,
    "tanh": nn.Tanh,
}


class Policy(nn.Module):
    """Trunk and actor: what ACB differentiates. Shapes: (n, ...) -> (n, outputs), as `distributions` reads them.

    A trunk gives features (n, width) and the actor reads them. Without an actor the trunk gives a pair instead: the
    outputs (n, outputs), and the features (n, width) that the critic reads. A ``normalizer`` reads observations first.
    A ``memory`` reads what the trunk gives and the hidden state that comes with the observations (`with_hidden`): what
    it gives are then the features, and the next hidden state.
    """

    def __init__(self, trunk: nn.Module, actor: nn.Module | None, width: int):
        super().__init__()
        self.normalizer: Normalizer | None = None
        self.memory: GRU | None = None
        self.trunk = trunk
        self.actor = actor
        self.width = width

    def forward(self, observations: Observations) -> Tensor:
        """Logits of discrete actions; means and log deviations of continuous ones."""
        return self.read(observations)[0]

    def read(self, observations: Observations, precision: Precision = "float32") -> tuple[Tensor, Tensor]:
        """The outputs and the features. Shapes: (n, ...) -> (n, outputs), (n, width).

        With the ``precision`` bf16 the trunk multiplies in bfloat16. What it gives is float32 again, and so are
        memory, actor and critic, and everything else that reads a policy, a bonus for instance.
        """
        if self.memory is None:
            found = self._seen(observations, precision)
        else:
            observations, hidden = without_hidden(observations)
            found = self.memory(self._seen(observations, precision), hidden)
        return found if self.actor is None else (self.actor(found), found)

    def sequence(
        self, observations: Observations, hidden: Tensor, starts: Tensor, precision: Precision = "float32"
    ) -> tuple[Tensor, Tensor]:
        """The outputs and the features of whole sequences: see `GRU.sequence`. Shapes: (T, n, ...) -> (T, n, ...)."""
        if self.memory is None or self.actor is None:
            raise RuntimeError("a policy without a memory reads every observation for itself")
        seen = self._seen(flatten_time(observations), precision).unflatten(0, starts.shape)
        features = self.memory.sequence(seen, hidden, starts)
        return self.actor(features), features

    def _seen(self, observations: Observations, precision: Precision) -> Any:
        read = observations if self.normalizer is None else self.normalizer(observations)
        if precision == "float32":
            return self.trunk(read)
        device = next(iter(named(observations).values())).device.type
        with torch.autocast(device, dtype=torch.bfloat16):
            seen = self.trunk(read)
        return seen.float() if isinstance(seen, Tensor) else tuple(part.float() for part in seen)


class Agent(nn.Module):
    """Policy and critic on one trunk. Heads: value 0 is extrinsic, value 1 intrinsic.

    The critic is ``x + act(linear(x))`` and two linear heads; actor and heads have gain 0.01. The heads give values in
    units of ``value_deviation`` around ``value_mean``, which `rescale_values` moves without moving any value. The trunk
    multiplies in ``precision``.
    Paper: RND's network, as Appendix A.2 takes it over; van Hasselt et al. 2016 (PopArt) for the units.
    """

    value_mean: Tensor
    value_deviation: Tensor

    def __init__(self, policy: Policy, activation: Callable[[], nn.Module], *, generator: torch.Generator):
        super().__init__()
        self.policy = policy
        self.precision: Precision = "float32"
        width = policy.width
        self.critic = nn.Sequential(linear(width, width, generator=generator), activation())
        self.values = linear(width, 2, generator=generator, gain=0.01)
        self.register_buffer("value_mean", torch.zeros(2))
        self.register_buffer("value_deviation", torch.ones(2))

    def forward(self, observations: Observations) -> tuple[Tensor, Tensor]:
        """The policy's outputs and both values. Shapes: (n, ...) -> (n, outputs), (n, 2)."""
        outputs, x = self.policy.read(observations, self.precision)
        return outputs, self.valued(x)

    def step(self, observations: Observations, hidden: Tensor | None) -> tuple[Tensor, Tensor, Tensor | None]:
        """The outputs, the features that `valued` reads, and the hidden state after the observations, or None."""
        if hidden is None:
            return *self.policy.read(observations, self.precision), None
        outputs, x = self.policy.read(with_hidden(observations, hidden), self.precision)
        return outputs, x, x

    def sequence(self, observations: Observations, hidden: Tensor, starts: Tensor) -> tuple[Tensor, Tensor]:
        """The outputs and both values of whole sequences. Shapes: (T, n, ...) -> (T, n, outputs), (T, n, 2)."""
        outputs, x = self.policy.sequence(observations, hidden, starts, self.precision)
        return outputs, self.valued(x)

    def first_hidden(self, n_envs: int) -> Tensor | None:
        """What is remembered before the first observation of an episode, zeros (N, width); None without a memory."""
        return None if self.policy.memory is None else self.value_mean.new_zeros(n_envs, self.policy.width)

    def valued(self, x: Tensor) -> Tensor:
        """Both values of states with these features. Shapes: (..., width) -> (..., 2)."""
        heads = self.values(x + self.critic(x))
        return torch.addcmul(self.value_mean, heads, self.value_deviation)

    @torch.no_grad()
    def rescale_values(self, mean: Tensor, deviation: Tensor) -> None:
        """Change the units of the heads, and the heads themselves so that every value stays what it was."""
        ratio = self.value_deviation / deviation
        self.values.weight.mul_(ratio.unsqueeze(1))
        self.values.bias.copy_((self.values.bias * self.value_deviation + self.value_mean - mean) / deviation)
        self.value_mean.copy_(mean)
        self.value_deviation.copy_(deviation)


def make_agent(
    shape: Shape,
    outputs: int,
    *,
    network: Network,
    activation: Activation,
    width: int,
    generator: torch.Generator,
    dtype: Dtype = FLOATS,
    normalize: bool = False,
    recurrent: bool = False,
) -> Agent:
    """An agent for observations of ``shape`` whose actor has ``outputs`` numbers, drawn from ``generator`` alone.

    ``dtype`` is that of the observations; a network of the user's own is tried on some before it is taken. With
    ``normalize`` the policy reads vectors through a `Normalizer`, and if it is ``recurrent`` it has a `GRU`.
    """
    act = ACTIVATIONS[activation]
    if not isinstance(network, str) or ":" in network:
        example = random_observations(shape, dtype, 4, generator=generator)
        policy = own_policy(network, plain_shape(shape), outputs, example, generator=generator)
    else:
        trunk = make_trunk(network, shape, act, width, generator=generator)  # pyrefly: ignore
        layers = []
        if isinstance(trunk, AtariTrunk):  # RND's actor has a hidden layer of its own
            layers = [linear(trunk.width, trunk.width, generator=generator, gain=0.01), act()]
        elif recurrent:  # what to do depends on what was seen and what is seen together
            layers = [linear(trunk.width, trunk.width, generator=generator), act()]
        layers.append(linear(trunk.width, outputs, generator=generator, gain=0.01))
        policy = Policy(trunk, nn.Sequential(*layers), trunk.width)
    policy.normalizer = make_normalizer(shape) if normalize else None
    if recurrent:
        if policy.actor is None:
            raise ValueError("a recurrent policy puts its memory between features and actor: return features, no pair")
        policy.memory = GRU(policy.width, policy.width, generator=generator)
    return Agent(policy, act, generator=generator)


def own_policy(
    network: Network, shape: ObservationShape, outputs: int, example: Observations, *, generator: torch.Generator
) -> Policy:
    """The policy of a network of the user's own: a module (which is copied), its factory, or that factory's name.

    ``factory(observation_shape, outputs)`` gives a module that reads a batch of raw observations: bytes as bytes,
    states as integers, a Dict as a dictionary. It returns features (n, width), to which an actor is added, or a pair:
    outputs (n, outputs), features (n, width). What it draws from PyTorch's global generator depends on ``generator``.
    """
    what = f"your network {network!r}" if isinstance(network, str) else "your network"
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(int(torch.randint(2**62, (), generator=generator)))
        if isinstance(network, nn.Module):
            module = copied(network)
        else:
            factory = imported(network) if isinstance(network, str) else network
            module = called(factory, shape, outputs, settings={}, what=what)
        if not isinstance(module, nn.Module):
            raise ValueError(f"{what} must be a torch.nn.Module, or a function that returns one, got {module!r}")
        with errors_of(what), torch.no_grad():
            answer, some = module(example), module(take(example, slice(2)))
    features = require_features(what, answer, outputs)
    if not torch.allclose(features[:2], require_features(what, some, outputs), rtol=1e-3, atol=1e-5):
        raise ValueError(
            f"{what} must read an observation alike whatever else is in its batch, and alike every time, got other "
            "features for two observations alone than among four: use no batch normalization and no dropout"
        )
    width = features.shape[1]
    if not isinstance(answer, Tensor):
        return Policy(module, None, width)
    return Policy(module, nn.Sequential(linear(width, outputs, generator=generator, gain=0.01)), width)


def require_features(what: str, answer: object, outputs: int) -> Tensor:
    """The features in the answer of a user's network to n observations, or an error that says what it must give."""
    parts = answer if isinstance(answer, tuple) else (answer,)
    tensors = [part for part in parts if isinstance(part, Tensor) and part.ndim == 2 and part.is_floating_point()]
    rows, columns = {len(part) for part in tensors}, [part.shape[1] for part in tensors]
    right = len(tensors) == len(parts) and len(rows) == 1 and min(columns) > 0
    if not right or len(parts) > 2 or (len(parts) == 2 and columns[0] != outputs):
        raise ValueError(
            f"{what} must give features, floats of shape (n, width), for n observations, or a pair: outputs (n, "
            f"{outputs}) and features (n, width); got {described(answer)}"
        )
    return tensors[-1]


def described(answer: object) -> str:
    """What a network returned, in words."""
    if isinstance(answer, Tensor):
        return f"{answer.dtype} of shape {tuple(answer.shape)}"
    if isinstance(answer, tuple | list):
        return f"a {type(answer).__name__} of {', '.join(described(part) for part in answer) or 'nothing'}"
    return type(answer).__name__


def chosen_device(name: str) -> torch.device:
    """The device called ``name``, or an error that says what to write.

    ``auto`` is an accelerator that can compute what a run computes, else, with a warning if there is one that cannot,
    the CPU.
    """
    if name != "auto":
        return _require_usable(name)
    there = {"cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available()}
    for accelerator in [name for name, is_there in there.items() if is_there]:
        try:
            return _require_usable(accelerator)
        except ValueError as problem:
            warnings.warn(f"training on the CPU instead: {problem}", stacklevel=2)
    return torch.device("cpu")


def _require_usable(name: str) -> torch.device:
    """The device called ``name``, after a step of Adam and a number in double precision there."""
    try:
        device = torch.device(name)
        weight = nn.Parameter(torch.ones(2, 2, device=device))
        with torch.enable_grad():
            (weight @ weight).sum().backward()
        torch.optim.Adam([weight], fused=True).step()
        torch.ones(1, device=device, dtype=torch.float64).tolist()  # the device "meta" computes nothing
        return device
    except (RuntimeError, AssertionError, NotImplementedError, TypeError) as problem:
        reason = str(problem).partition("\n")[0]
        raise ValueError(f"the device {name!r} cannot be used here: {reason}. Choose auto, cpu, cuda or mps") from None


def chosen_precision(choice: PrecisionChoice, device: torch.device) -> Precision:
    """What ``device`` is to multiply in: "auto" is bf16 where that is fast. An error if bf16 is asked for elsewhere."""
    if choice == "float32":
        return "float32"
    if multiplies_bf16(device):
        return "bf16"
    if choice == "bf16":
        raise ValueError(
            "precision 'bf16' needs a CPU with AVX512_BF16 or AMX, or an NVIDIA GPU with bfloat16, and "
            f"the device {device} has none of them: use precision float32, or auto"
        )
    return "float32"


def multiplies_bf16(device: torch.device) -> bool:
    """Whether ``device`` multiplies in bfloat16, and faster than in float32."""
    match device.type:
        case "cpu":
            return torch.cpu._is_avx512_bf16_supported() or torch.cpu._is_amx_tile_supported()
        case "cuda":
            return torch.cuda.is_bf16_supported(including_emulation=False)
        case _:
            return False
