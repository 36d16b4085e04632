"""PPO's learner with a bonus, which is the same one in all learners and is saved with them."""

from collections.abc import Collection, Mapping
from typing import Any

import numpy as np
import torch
from ray.rllib.algorithms.ppo.torch.ppo_torch_learner import PPOTorchLearner
from ray.rllib.connectors.connector_v2 import ConnectorV2
from ray.rllib.connectors.learner import AddObservationsFromEpisodesToBatch
from ray.rllib.core import DEFAULT_MODULE_ID
from ray.rllib.core.columns import Columns
from torch import distributed

from optimist.adapters.building import bonus_for
from optimist.adapters.intrinsic import IntrinsicReward
from optimist.adapters.rllib.actor import actor_of
from optimist.adapters.rllib.episodes import Chunk, chunk_of, stream_of
from optimist.adapters.spaces import action_reader, space_reader
from optimist.training.distributions import feature_loss

SETTING = "optimist_bonus"
"""The entry of ``learner_config_dict`` that `with_bonus` writes, and of a learner's state."""


class AddBonusToRewards(ConnectorV2):
    """A piece of the learner's pipeline that gives the batch its rewards: the environment's and the weighted bonus.

    Episodes are left as they are; a step that RLlib adds for its values earns nothing.
    """

    def __init__(self, learner: "BonusPPOTorchLearner"):
        super().__init__()
        self._learner = learner

    def __call__(self, *, batch: dict[str, Any], episodes: list[Any], metrics: Any = None, **rest: Any) -> Any:
        """The batch with its rewards."""
        if Columns.REWARDS in batch:
            raise ValueError("the batch has rewards before the bonus: a learner connector must not write them itself")
        chunks = [chunk_of(episode) for episode in episodes]
        paid = [episode.get_rewards(slice(0, len(chunk))) for episode, chunk in zip(episodes, chunks, strict=True)]
        bonuses, told = self._learner.scored(chunks)
        weight = self._learner.extrinsic_weight
        for episode, extrinsic, bonus in zip(episodes, paid, bonuses, strict=True):
            # A weight of 0 does not read the reward at all, be it infinite.
            total = bonus + weight * np.asarray(extrinsic, np.float32) if weight else bonus
            self.add_n_batch_items(batch, Columns.REWARDS, np.append(total, np.float32(0)), len(total) + 1, episode)
        if metrics is not None:
            told |= {
                "extrinsic_reward_mean": float(np.concatenate(paid).mean()),
                "intrinsic_reward_mean": float(np.concatenate(bonuses).mean()),
                "intrinsic_reward_max": float(np.concatenate(bonuses).max()),
            }
            for name, value in told.items():
                metrics.log_value((DEFAULT_MODULE_ID, name), value, window=1)
        return batch


class BonusPPOTorchLearner(PPOTorchLearner):
    """PPO's learner whose rewards are ``extrinsic_weight`` x the environment's + ``weight`` x the normalized bonus.

    `with_bonus` puts it into a config. A learner of your own is a subclass of it. Each rollout is scored, with the true
    final observations of its episodes, and then learned from, once. The first one earns nothing: it sets the statistics
    of RND's and ICM's observations and teaches the bonus, which would find everything in it equally new. Several
    learners send each other their episodes, and each scores all of them: their bonuses are one and the same, and the
    cost is not shared out. Returns of episodes are counted where they are played, and so without the bonus.
    """

    intrinsic: IntrinsicReward
    """The bonus and its scale; there from `build` on."""

    def build(self) -> None:
        """Build PPO's learner, the bonus, and the piece of the pipeline that pays it."""
        if self._is_built:
            return
        made_from = self.config.learner_config_dict.get(SETTING)
        if made_from is None:
            raise ValueError("this learner needs to know its bonus: make the config with optimist's with_bonus(config)")
        if self.config.is_multi_agent:
            raise ValueError("this learner is for one policy in single-agent environments, got a multi-agent config")
        super().build()
        pipeline = self._learner_connector
        if pipeline is None or not pipeline[AddObservationsFromEpisodesToBatch]:
            raise ValueError(
                "this learner needs RLlib's own learner connectors: leave num_aggregator_actors_per_learner at 0 and "
                "add_default_connectors_to_learner_pipeline at True"
            )
        self._build_bonus(made_from)
        pipeline.insert_before(AddObservationsFromEpisodesToBatch, AddBonusToRewards(self))

    def _build_bonus(self, made_from: Mapping[str, Any]) -> None:
        config: Mapping[str, Any] = made_from["config"]
        module: Any = self.module[DEFAULT_MODULE_ID]
        self._read, self._read_actions = space_reader(module.observation_space), action_reader(module.action_space)
        actor = actor_of(module) if config["network"] == "policy" else None
        bonus = bonus_for(
            made_from["bonus"],
            observation_shape=self._read.shape,
            actions=self._read_actions.kind,
            seed=made_from["seed"],
            policy_network=actor,
            loss=None if actor is None else feature_loss(self._read_actions.kind),
            settings=made_from["settings"],
        )
        if bonus.reads_policy and actor is None and config["network"] == "policy":
            raise ValueError(
                "network='policy' needs RLlib's own PPO module without memory, where this bonus finds the actor, got "
                f"{type(module.unwrapped()).__name__}, another or a recurrent one: choose network='random'"
            )
        if bonus.is_episodic and self.config.batch_mode != "complete_episodes":
            raise ValueError(
                "this bonus looks within episodes, which RLlib cuts at the end of a batch: "
                "choose config.env_runners(batch_mode='complete_episodes')"
            )
        self.extrinsic_weight: float = config["extrinsic_weight"]
        self.intrinsic = IntrinsicReward(
            bonus,
            seed=made_from["seed"],
            weight=config["weight"],
            normalize=config["normalize"],
            discount=config["discount"],
            memory_steps=config["memory_steps"],
            learning_starts=0,
        )

    def scored(self, chunks: list[Chunk]) -> tuple[list[np.ndarray], dict[str, float]]:
        """The weighted bonuses of every chunk, (n,) each, and metrics; learns from all chunks of all learners then."""
        everyone = [chunks]
        if self.distributed:
            everyone = [[] for _ in range(distributed.get_world_size())]
            distributed.all_gather_object(everyone, chunks)
        mine = sum(map(len, everyone[: distributed.get_rank()])) if self.distributed else 0
        stream = stream_of([chunk for each in everyone for chunk in each], self._read, self._read_actions)
        transitions = stream.transitions
        if self.intrinsic.bonus.reads_policy and self._device is not None:
            transitions = transitions.mapped(lambda part: part.to(self._device))
        if self.intrinsic.updates:
            rewards = self.intrinsic.reward(transitions)
        else:  # an untrained bonus finds everything new, which would set the scale for long
            self.intrinsic.bonus.warm_up(transitions)
            rewards = torch.zeros(transitions.terminated.shape)
        learned = self.intrinsic.learn_from(transitions)
        starts = stream.starts[mine : mine + len(chunks)]
        paid = [rewards[start : start + len(chunk), 0].numpy() for start, chunk in zip(starts, chunks, strict=True)]
        return paid, {f"bonus_{name}": value for name, value in learned.items()}

    def get_state(
        self,
        components: str | Collection[str] | None = None,
        *,
        not_components: str | Collection[str] | None = None,
        **kwargs: Any,
    ) -> dict[str, Any]:
        """The learner's state with that of the bonus, which is the same in every learner."""
        state: dict[str, Any] = super().get_state(components, not_components=not_components, **kwargs)
        if self._check_component(SETTING, components, not_components):
            state[SETTING] = self.intrinsic.state_dict()
        return state

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Continue where ``state`` was taken; one without a bonus, of another learner, leaves the bonus alone."""
        if SETTING in state:
            self.intrinsic.load_state_dict(state[SETTING])
        super().set_state(state)  # pyrefly: ignore
