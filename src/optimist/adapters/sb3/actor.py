"""The actor of a stable-baselines3 policy as a network of its own, which is what ACB differentiates."""

from typing import Any

import torch
from gymnasium import spaces
from stable_baselines3.common.policies import ActorCriticPolicy
from stable_baselines3.common.preprocessing import preprocess_obs
from torch import Tensor, nn

from optimist.bonuses.observations import map_observations


class Actor(nn.Module):
    """The parts of a live policy that lead to its action, shared with it: no critic's head, no optimizer.

    Shapes: observations (n, ...) as the policy reads them -> (n, outputs): logits, or the means of a Gaussian.
    """

    def __init__(self, policy: ActorCriticPolicy):
        super().__init__()
        self.extractor = policy.pi_features_extractor
        self.hidden = policy.mlp_extractor
        self.action_net = policy.action_net
        self.log_std: nn.Parameter | None = None
        if isinstance(policy.action_space, spaces.Box) and not policy.use_sde:
            self.log_std = policy.log_std
        self.binary = isinstance(policy.action_space, spaces.MultiBinary)
        self.space, self.normalizes_images = policy.observation_space, policy.normalize_images

    def forward(self, observations: Any) -> Tensor:
        """Logits or means."""
        device = next(self.parameters()).device
        here: Any = map_observations(lambda part: part.to(device), observations)
        x = preprocess_obs(here, self.space, normalize_images=self.normalizes_images)
        outputs = self.action_net(self.hidden.forward_actor(self.extractor(x)))
        # a Bernoulli of logit l is a softmax over 0 and l: two columns for each choice, as of MultiDiscrete
        return torch.stack([torch.zeros_like(outputs), outputs], dim=2).flatten(1) if self.binary else outputs


def moments(actor: nn.Module, observations: Any) -> tuple[Tensor, Tensor]:
    """Mean and log deviation of a Gaussian; gSDE's deviation is one of features, not of actions, and is taken as 1."""
    mean = actor(observations)
    log_std = actor.log_std
    return mean, torch.zeros_like(mean[0]) if log_std is None else log_std  # pyrefly: ignore
