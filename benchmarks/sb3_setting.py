"""stable-baselines3's PPO on the environments, the network and the hyper-parameters of our own."""

import warnings
from collections.abc import Mapping
from typing import Any

import envpool
import numpy as np
import torch
from gymnasium import spaces
from stable_baselines3 import PPO
from stable_baselines3.common.logger import Logger
from stable_baselines3.common.policies import ActorCriticPolicy
from stable_baselines3.common.torch_layers import BaseFeaturesExtractor
from stable_baselines3.common.vec_env import VecEnv
from torch import Tensor, nn

from optimist.config import key_values
from optimist.training.agent import Agent, make_agent
from optimist.training.config import TrainConfig
from optimist.training.environments import Grid


def sb3_ppo(config: TrainConfig, *, fused: bool = False) -> PPO:
    """stable-baselines3's PPO with everything that ``config`` says of ours; it has no bonus and one value head.

    ``fused`` gives it PyTorch's fused Adam, as ours has it; it is not stable-baselines3's default.
    """
    options = key_values("env_options", config.env_options)
    pool = Pool(config.env, config.n_envs, seed=config.seed, clip_rewards=config.clip_rewards, options=options)
    shape = pool.observation_space.shape
    agent = make_agent(
        Grid(shape) if pool.image_key else shape,
        int(pool.action_space.n),
        network=config.network,
        activation=config.activation,
        width=config.width,
        generator=torch.Generator().manual_seed(config.seed),
    )
    model = PPO(
        SharedNetwork,
        pool,
        learning_rate=config.learning_rate,
        n_steps=config.steps,
        batch_size=config.rollout_steps // config.minibatches,
        n_epochs=config.epochs,
        gamma=config.extrinsic.discount,
        gae_lambda=config.gae_lambda,
        clip_range=config.clip,
        normalize_advantage=config.normalize_advantages,
        ent_coef=config.entropy_weight,
        vf_coef=config.value_weight,
        max_grad_norm=config.max_gradient_norm or float("inf"),
        policy_kwargs={
            "agent": agent,
            "features_extractor_class": Trunk,
            "features_extractor_kwargs": {"agent": agent},
            "optimizer_kwargs": {"fused": fused},
        },
        seed=config.seed,
        device="cpu",
    )
    model.set_logger(Logger(None, []))  # no terminal, no files: as lean as it can be
    ours, theirs = (sum(p.numel() for p in module.parameters()) for module in (agent, model.policy))
    one_head = agent.policy.trunk.width + 1
    if ours - theirs != one_head:
        raise RuntimeError(f"the networks differ by more than our second value head: {ours} and {theirs} parameters")
    return model


def sb3_iteration(model: PPO) -> None:
    """One rollout and its update."""
    model.learn(model.n_steps * model.n_envs, reset_num_timesteps=False)


class Trunk(BaseFeaturesExtractor):
    """Our trunk."""

    def __init__(self, observation_space: spaces.Space, agent: Agent):
        super().__init__(observation_space, agent.policy.trunk.width)
        self.trunk = agent.policy.trunk

    def forward(self, observations: Tensor) -> Tensor:
        """Features of observations as they are."""
        return self.trunk(observations)


class Branches(nn.Module):
    """Our actor but for its last layer, and our critic but for its heads: those layers are stable-baselines3's own."""

    def __init__(self, agent: Agent):
        super().__init__()
        self.actor, self.critic = agent.policy.actor[:-1], agent.critic
        self.latent_dim_pi = self.latent_dim_vf = agent.policy.trunk.width

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """What the last layers of actor and critic read."""
        return self.forward_actor(x), self.forward_critic(x)

    def forward_actor(self, x: Tensor) -> Tensor:
        """What the actor's last layer reads."""
        return self.actor(x)

    def forward_critic(self, x: Tensor) -> Tensor:
        """What the value's last layer reads."""
        return x + self.critic(x)


class SharedNetwork(ActorCriticPolicy):
    """stable-baselines3's policy made of the modules of our agent."""

    def __init__(self, *arguments: Any, agent: Agent, **named: Any):
        self.given = [agent]  # in a list, as torch registers no module before its own constructor has run
        super().__init__(*arguments, **named)

    def _build_mlp_extractor(self) -> None:
        self.mlp_extractor = Branches(self.given[0])

    def extract_features(self, obs: Tensor, features_extractor: BaseFeaturesExtractor | None = None) -> Tensor:
        """Features without the conversion to floats and division by 255: our trunk does its own."""
        return self.features_extractor(obs)


class Pool(VecEnv):
    """An EnvPool in sync mode as stable-baselines3 wants it, with as little Python as that allows.

    A finished environment is reset at once, its final observation is handed over for the value of a truncated episode,
    and the returns and lengths of episodes are kept, as stable-baselines3's own ``VecMonitor`` does.
    """

    def __init__(self, env_id: str, count: int, *, seed: int, clip_rewards: bool, options: Mapping[str, Any]):
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message=".*precision lowered", category=UserWarning)
            self.pool = envpool.make(env_id, env_type="gymnasium", num_envs=count, seed=seed, **options)
            space = self.pool.observation_space
        self.image_key = isinstance(space, spaces.Dict)
        if self.image_key:
            height, width, channels = space["image"].shape
            space = spaces.Box(0, 255, (channels, height, width), np.uint8)
        super().__init__(count, space, self.pool.action_space)
        self.clip_rewards = clip_rewards
        self.returns, self.lengths = np.zeros(count), np.zeros(count, np.int64)
        self.nothing: list[dict[str, Any]] = [{} for _ in range(count)]

    def reset(self) -> np.ndarray:
        """The first observations of all environments."""
        self.returns[:], self.lengths[:] = 0, 0
        return self._observations(self.pool.reset()[0])

    def step_async(self, actions: np.ndarray) -> None:
        """Send the actions on their way."""
        self.pool.send(actions.astype(np.int32))

    def step_wait(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, list[dict[str, Any]]]:
        """Observations to act on, rewards, which episodes ended, and what is known of those."""
        raw, rewards, terminated, truncated, _ = self.pool.recv()
        observations, dones = self._observations(raw), terminated | truncated
        self.returns += rewards
        self.lengths += 1
        infos = self.nothing
        if dones.any():
            ended = np.flatnonzero(dones)
            infos = infos.copy()
            for i in ended:
                episode = {"r": float(self.returns[i]), "l": int(self.lengths[i])}
                cut = bool(truncated[i] and not terminated[i])
                final = observations[i].copy()
                infos[i] = {"episode": episode, "terminal_observation": final, "TimeLimit.truncated": cut}
            observations[ended] = self._observations(self.pool.reset(ended.astype(np.int32))[0])
            self.returns[ended], self.lengths[ended] = 0, 0
        return observations, np.clip(rewards, -1, 1) if self.clip_rewards else rewards, dones, infos

    def close(self) -> None:
        """Stop the environments."""
        self.pool.close()

    def get_attr(self, attr_name: str, indices: Any = None) -> list[Any]:
        """Nothing: an EnvPool's environments have no attributes in Python."""
        return [None] * self.num_envs

    def set_attr(self, attr_name: str, value: Any, indices: Any = None) -> None:
        """Refuse."""
        raise NotImplementedError("the environments of an EnvPool have no attributes in Python")

    def env_method(self, method_name: str, *arguments: Any, indices: Any = None, **named: Any) -> list[Any]:
        """Refuse."""
        raise NotImplementedError("the environments of an EnvPool have no methods in Python")

    def env_is_wrapped(self, wrapper_class: type, indices: Any = None) -> list[bool]:
        """False for every environment."""
        return [False] * self.num_envs

    def _observations(self, raw: Any) -> np.ndarray:
        return np.ascontiguousarray(raw["image"].transpose(0, 3, 1, 2)) if self.image_key else raw
