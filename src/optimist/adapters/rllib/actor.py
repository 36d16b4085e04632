"""The actor of an RLlib module as a network of its own, which is what ACB differentiates."""

from typing import Any

from gymnasium import spaces
from ray.rllib.algorithms.ppo.torch.default_ppo_torch_rl_module import DefaultPPOTorchRLModule
from ray.rllib.core.columns import Columns
from ray.rllib.core.models.base import ENCODER_OUT
from ray.rllib.core.rl_module.rl_module import RLModule
from torch import Tensor, nn


class Actor(nn.Module):
    """The parts of a live module that lead to its action, shared with it: no critic, no optimizer.

    Shapes: observations (n, ...), channels first -> (n, outputs): logits, or the means and log deviations
    of a Gaussian, side by side.
    """

    def __init__(self, module: DefaultPPOTorchRLModule):
        super().__init__()
        both: Any = module.encoder
        self.encoder = both.encoder if hasattr(both, "encoder") else both.actor_encoder
        self.head: Any = module.pi
        self.space: Any = module.observation_space

    def forward(self, observations: Tensor) -> Tensor:
        """The inputs of the action distribution."""
        device = next(self.parameters()).device
        x = observations.to(device)
        if isinstance(self.space, spaces.Box) and x.shape[1:] != self.space.shape:
            x = x.movedim(1, -1)  # RLlib's networks read images as they are, channels last
        x = x if x.is_floating_point() else x.float()
        return self.head(self.encoder({Columns.OBS: x})[ENCODER_OUT])


def actor_of(module: RLModule) -> Actor | None:
    """The actor inside a learner's module; None unless it is RLlib's own PPO module without memory."""
    module = module.unwrapped()
    return Actor(module) if isinstance(module, DefaultPPOTorchRLModule) and not module.is_stateful() else None
