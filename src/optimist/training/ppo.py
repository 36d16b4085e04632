"""PPO with an exploration bonus: two reward signals, two value heads, one loop that reads from top to bottom."""

import os
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from optimist import bonuses
from optimist.bonuses.normalization import ReturnScale
from optimist.bonuses.observations import Image, ObservationShape, parts_of
from optimist.bonuses.protocol import Bonus, Transitions
from optimist.bonuses.state import (
    load_optimizer_state,
    module_state,
    optimizer_state,
    require_same_layout,
    seeded_generator,
)
from optimist.seeding import split
from optimist.training import environments
from optimist.training.advantages import advantages
from optimist.training.config import TrainConfig, key_values
from optimist.training.distributions import Gaussian, distribution_of
from optimist.training.losses import HEADS, Batch, explained_variance, track_returns, update_agent
from optimist.training.metrics import Episodes, Stopwatch
from optimist.training.networks import make_agent
from optimist.training.rollout import NotFinite, Rollout, collect, random_play
from optimist.training.state_map import PARTS, StateMap
from optimist.training.unique_states import UniqueStates, fingerprints

WHITENING = {"rnd", "icm", "e3b"}
"""The bonuses whose ``warm_up`` does something."""
FOLLOWING = {"acb", "elliptical"}
"""The bonuses whose features are the policy network's."""


class Trainer:
    """Everything that a run is: agent, bonus, environments, normalisers, random streams. `iterate` moves it on.

    Paper: Algorithm 2 for the bonus, section 5 and appendix A.2 for PPO; RND, sections 2.2 to 2.4.
    """

    def __init__(self, config: TrainConfig):
        self.config = config
        self.step = 0
        self.rewarded = False
        torch.set_num_threads(config.threads or os.cpu_count() or 1)
        self.device = torch.device(chosen_device(config.device))
        self.environments = environments.make(
            config.env, count=config.environments, options=key_values("env_options", config.env_options)
        )
        self.distribution = distribution_of(self.environments.actions)
        self.agent = make_agent(
            self.environments.observation_shape,
            self.distribution.outputs,
            network=config.network,
            activation=config.activation,
            width=config.width,
            generator=seeded_generator(config.seed, "agent"),
        ).to(self.device)
        self.optimizer = torch.optim.Adam(self.agent.parameters(), lr=config.learning_rate, fused=True)
        self.bonus = self._make_bonus() if config.explores else None
        self.scale = ReturnScale(
            discount=config.intrinsic_discount, memory=config.intrinsic_memory * config.rollout_steps
        )
        self.action_generator = seeded_generator(config.seed, "actions")
        self.minibatch_generator = seeded_generator(config.seed, "minibatches")
        self.episodes = Episodes(config.environments, success_return=self.environments.success_return)
        self.states = UniqueStates(config.unique_states_limit // 2)
        self.stacks = UniqueStates(config.unique_states_limit // 2)
        self.map = StateMap(-(-config.total_steps // PARTS))
        self.watch = Stopwatch()
        self.observations = np.zeros(0)

    def start(self) -> None:
        """Warm up the bonus by random play if it whitens observations, then start the environments."""
        if self.bonus is not None and WHITENING & set(self.config.bonus.split("*")):
            self._warm_up(self.bonus)
        self.observations = self.environments.reset(self._environment_seed())

    def iterate(self, *, cut: bool = False) -> dict[str, float]:
        """The metrics of one rollout and one update. ``cut`` truncates the episodes that are running after it."""
        config, watch = self.config, self.watch
        rollout, self.observations = collect(
            self.agent,
            self.environments,
            self.observations,
            steps=config.steps,
            cut=cut,
            distribution=self.distribution,
            generator=self.action_generator,
            episodes=self.episodes,
            watch=watch,
            first_step=self.step,
        )
        transitions, seen_by_bonus = rollout.transitions, self._on_bonus_device(rollout.transitions)
        rewards = [rollout.rewards.clamp(-1, 1) if config.clip_rewards else rollout.rewards]
        self.rewarded |= bool(rollout.rewards.any())
        with watch.time("bonus"):
            raw = torch.zeros_like(rollout.rewards)
            if self.bonus is not None:
                raw = self.bonus.compute(seen_by_bonus).cpu()
                self._require_finite(raw, "bonus")
                self.scale.update(raw)
            rewards.append(self.scale.normalise(raw))
        with watch.time("update"):
            gains = torch.stack([self._advantages(rollout, rewards[k], k) for k in range(2)], dim=-1)
            batch = self._batch(rollout, gains)
            if config.value_scale_rate:
                track_returns(self.agent, batch.returns.to(self.device), config.value_scale_rate)
            heads = (config.extrinsic_weight > 0, self.bonus is not None)
            try:
                losses = update_agent(
                    self.agent,
                    self.optimizer,
                    batch,
                    config,
                    self.distribution,
                    heads=heads,
                    generator=self.minibatch_generator,
                )
            except NotFinite as problem:
                raise NotFinite(
                    f"{problem} in the update after step {self.step + config.rollout_steps:,}: "
                    "lower the learning rate; the run can be resumed from its last checkpoint"
                ) from None
        with watch.time("bonus"):
            learned = {} if self.bonus is None else self.bonus.update(seen_by_bonus)
        with watch.time("bookkeeping"):
            self._count_states(transitions)
            if rollout.places is not None:
                valid = slice(None) if transitions.valid is None else transitions.valid.flatten().numpy()
                self.map.add(self.step, rollout.places.reshape(-1, 2)[valid], raw.flatten().numpy()[valid])
            self.step += config.rollout_steps
            metrics = self.episodes.summary() | {
                "unique_states": float(self.states.count),
                "unique_stacks": float(self.stacks.count),
                "bonus_mean": float(raw.mean()),
                "bonus_deviation": float(raw.std()),
                "bonus_max": float(raw.max()),
                "intrinsic_reward": float(rewards[1].mean()),
            }
            metrics |= losses
            for k, head in enumerate(HEADS):
                values = rollout.values[..., k]
                metrics[f"explained_variance_{head}"] = explained_variance(values, values + gains[..., k])
            metrics |= {f"bonus/{name}": value for name, value in learned.items()}
        seconds = watch.read_and_clear()
        metrics["steps_per_second"] = config.rollout_steps / sum(seconds.values())
        return metrics | {f"seconds/{name}": value for name, value in seconds.items()}

    @property
    def succeeded(self) -> bool:
        """Whether so many of the last 100 episodes succeeded that the run is to end."""
        aim = self.config.stop_at_success
        return aim > 0 and self.episodes.finished >= 100 and self.episodes.success_rate >= aim

    @property
    def restarts_environments(self) -> bool:
        """Whether the state of the environments cannot be saved, so that they restart at every checkpoint."""
        return self.environments.state_dict() is None

    def restart_environments(self) -> None:
        """Start the environments anew from a seed that is derived from the step, as a resumed run will."""
        self.observations = self.environments.reset(self._environment_seed())
        self.episodes.abandon()

    def state_dict(self) -> dict[str, Any]:
        """Everything that `iterate` changes. ``environments`` is None where an emulator's state cannot be saved."""
        return {
            "step": self.step,
            "rewarded": self.rewarded,
            "agent": module_state(self.agent),
            "optimizer": optimizer_state(self.optimizer),  # pyrefly: ignore
            "bonus": {} if self.bonus is None else self.bonus.state_dict(),
            "scale": self.scale.state_dict(),
            "action_generator": self.action_generator.get_state(),
            "minibatch_generator": self.minibatch_generator.get_state(),
            "episodes": self.episodes.state_dict(),
            "states": self.states.state_dict(),
            "stacks": self.stacks.state_dict(),
            "map": self.map.state_dict(),
            "environments": self.environments.state_dict(),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue where ``state`` was taken; environments whose state could not be saved are restarted."""
        require_same_layout(state["agent"], module_state(self.agent))
        self.step = state["step"]
        self.rewarded = state["rewarded"]
        self.agent.load_state_dict(state["agent"])
        load_optimizer_state(self.optimizer, state["optimizer"])  # pyrefly: ignore
        if self.bonus is not None:
            self.bonus.load_state_dict(state["bonus"])
        self.scale.load_state_dict(state["scale"])
        self.action_generator.set_state(state["action_generator"])
        self.minibatch_generator.set_state(state["minibatch_generator"])
        self.episodes.load_state_dict(state["episodes"])
        self.states.load_state_dict(state["states"])
        self.stacks.load_state_dict(state["stacks"])
        self.map.load_state_dict(state["map"])
        if state["environments"] is None:
            self.restart_environments()
        else:
            self.observations = self.environments.load_state_dict(state["environments"])

    def _make_bonus(self) -> Bonus:
        settings = key_values("bonus_options", self.config.bonus_options)
        if isinstance(self.distribution, Gaussian):
            for name in self.config.bonus.split("*"):
                if name in ("acb", "elliptical"):
                    settings[f"{name}.loss" if "*" in self.config.bonus else "loss"] = bonuses.GaussianLoss(_moments)
        return bonuses.make(
            self.config.bonus,
            seed=self.config.seed,
            observation_shape=self.environments.observation_shape,
            actions=self.environments.actions,
            policy_network=self.agent.policy,
            **settings,
        )

    def _warm_up(self, bonus: Bonus) -> None:
        """Show the bonus uniformly random play, rollout by rollout, from a stream of its own."""
        generator = seeded_generator(self.config.seed, "warm-up")
        observations = self.environments.reset(stream_seed(self.config.seed, "warm-up environments"))
        for played in range(0, self.config.warm_up_steps, self.config.steps):
            steps = min(self.config.steps, self.config.warm_up_steps - played)
            transitions, observations = random_play(
                self.environments, observations, steps=steps, distribution=self.distribution, generator=generator
            )
            bonus.warm_up(transitions)

    def _advantages(self, rollout: Rollout, rewards: Tensor, head: int) -> Tensor:
        config, name = self.config, HEADS[head]
        episodic: bool = getattr(config, f"{name}_episodic")
        next_values = rollout.successor_values if episodic else rollout.next_values
        return advantages(
            rewards,
            rollout.values[..., head],
            next_values[..., head],
            rollout.transitions.terminated,
            rollout.transitions.truncated,
            rollout.transitions.valid,
            discount=getattr(config, f"{name}_discount"),
            gae_lambda=config.gae_lambda,
            episodic=episodic,
        )

    def _batch(self, rollout: Rollout, gains: Tensor) -> Batch:
        """The valid steps, with one advantage: the weighted sum of both signals'.

        Deviation: a task that has not paid yet has no advantages. They would be nothing but its value head's errors,
        and where advantages are brought to deviation 1 these move the policy as far as a reward does.
        """
        config, transitions = self.config, rollout.transitions
        weights = torch.tensor([config.extrinsic_weight * self.rewarded, config.intrinsic_weight * config.explores])
        rows = slice(None) if transitions.valid is None else transitions.valid.flatten()
        return Batch(
            transitions.observations.flatten(0, 1)[rows],  # pyrefly: ignore
            transitions.actions.flatten(0, 1)[rows],
            rollout.log_probabilities.flatten()[rows],
            (gains @ weights).flatten()[rows],
            (gains + rollout.values).flatten(0, 1)[rows],
        )

    def _count_states(self, transitions: Transitions) -> None:
        """Count the states that were acted on: whole observations, and of stacked frames the newest."""
        stacks: np.ndarray = transitions.observations.flatten(0, 1).numpy()  # pyrefly: ignore
        if transitions.valid is not None:
            stacks = stacks[transitions.valid.flatten().numpy()]
        self.stacks.add(fingerprints(stacks))
        newest = newest_frames(self.environments.observation_shape, stacks)
        self.states.add(fingerprints(newest))

    def _on_bonus_device(self, transitions: Transitions) -> Transitions:
        """The transitions where the bonus reads them: beside the policy if it is a feature of it, else on the CPU."""
        if self.device.type == "cpu" or not FOLLOWING & set(self.config.bonus.split("*")):
            return transitions
        moved = {name: part.to(self.device) for name, part in vars(transitions).items() if isinstance(part, Tensor)}
        return replace(transitions, **moved)

    def _require_finite(self, values: Tensor, name: str) -> None:
        if not bool(torch.isfinite(values).all()):
            raise NotFinite(
                f"the {name} is not finite at step {self.step + self.config.rollout_steps:,}: "
                "the run can be resumed from its last checkpoint"
            )

    def _environment_seed(self) -> int:
        return stream_seed(self.config.seed, f"environments {self.step}")


def stream_seed(seed: int, name: str) -> int:
    """An integer for the stream ``name`` of the run ``seed``, below 2^31."""
    return int(split(seed, name).generate_state(1)[0] % 2**31)


def newest_frames(shape: ObservationShape, observations: np.ndarray) -> np.ndarray:
    """The newest frame of stacked images; other observations as they are. Shapes: (n, C, H, W) -> (n, c, H, W)."""
    part = next(iter(parts_of(shape, channels="newest").values()))
    return np.ascontiguousarray(observations[:, -part.channels :]) if isinstance(part, Image) else observations


def _moments(network: torch.nn.Module, observations: Any) -> tuple[Tensor, Tensor]:
    mean, log_deviation = network(observations).chunk(2, dim=1)
    return mean, log_deviation


def chosen_device(name: str) -> str:
    """The device called ``name``; auto is the fastest there is."""
    if name != "auto":
        return name
    if torch.cuda.is_available():
        return "cuda"
    return "mps" if torch.backends.mps.is_available() else "cpu"
