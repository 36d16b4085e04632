"""PPO with an exploration bonus: two reward signals, two value heads, one loop that reads from top to bottom."""

import warnings
from collections.abc import Callable, Iterator, Mapping
from copy import deepcopy
from dataclasses import replace
from typing import Any, TypedDict, Unpack

import numpy as np
import torch
from torch import Tensor, nn

from optimist import bonuses
from optimist.bonuses.checkpointing import (
    load_optimizer_state,
    module_state,
    optimizer_state,
    require_same_layout,
    seeded_generator,
)
from optimist.bonuses.observations import flatten_time, map_observations, take
from optimist.bonuses.protocol import Bonus, Transitions, require_bonus
from optimist.bonuses.transitions import shared_rows
from optimist.config import key_values
from optimist.memory import keep_freed_memory
from optimist.ranks import ALONE, Ranks
from optimist.seeding import stream_seed
from optimist.training import environments
from optimist.training.advantages import advantages
from optimist.training.agent import Factory, chosen_device, chosen_precision, make_agent
from optimist.training.config import Signal, TrainConfig
from optimist.training.distributions import distribution_of, feature_loss
from optimist.training.environments.protocol import Arrays, Environments
from optimist.training.losses import HEADS, Batch, explained_variance, track_returns, update_agent
from optimist.training.mixing import Mixing
from optimist.training.recurrence import Sequences, forgetful, sequences_of, shapes_with_hidden
from optimist.training.rollout import NotFinite, Rollout, collect, random_play
from optimist.training.runs.episodes import Episodes, Steps
from optimist.training.runs.recording import NotRepeated, Recorded
from optimist.training.runs.timer import Timer
from optimist.training.schedules import learning_rate, set_learning_rate
from optimist.training.sharing import share_of
from optimist.training.threads import fitting_threads, usable_cores
from optimist.training.trunks import plain_shape, random_observations
from optimist.training.visits.visits import Visits


class Given(TypedDict, total=False):
    """Python objects in the place of what a configuration names. An object is copied, a function is called."""

    env: Callable[..., Any]
    """``function(n_envs, **env_options)``, which returns environments."""
    bonus: Bonus | Callable[..., Bonus]
    """A bonus, or ``function(task, **bonus_options)``, which returns one."""
    network: nn.Module | Factory
    """A network, or ``function(observation_shape, outputs)``, which returns one."""


class Trainer:
    """Everything that a run is: agent, bonus, environments, normalizers, random streams. `iterate` moves it on.

    ``given`` objects take the place of what the configuration names. Of several ``ranks`` each plays its part of the
    environments, and all of them learn the same: what one rank would, up to rounding.
    Paper: Algorithm 2 for the bonus, section 5 and Appendix A.2 for PPO; RND, sections 2.2 to 2.4.
    """

    def __init__(self, config: TrainConfig, *, ranks: Ranks = ALONE, **given: Unpack[Given]):
        self.config, self.ranks, self._given = config, ranks, given
        self.step = 0
        torch.set_num_threads(ranks.threads(config.threads or usable_cores()))
        keep_freed_memory()
        self.device = chosen_device(config.device)
        precision = chosen_precision(config.precision, self.device)
        self.environments = Recorded(self.make_environments(config.n_envs, ranks), ranks)
        if config.stop_at_success and self.environments.success_return is None:
            raise ValueError(
                f"stop_at_success={config.stop_at_success} needs to know what a success is, and {config.env} does not "
                "say: leave it at 0, or give your own environments a success_return"
            )
        self.distribution = distribution_of(self.environments.actions)
        shape = self.environments.observation_shape
        self.agent = make_agent(
            shape,
            self.distribution.outputs,
            network=given.get("network", config.network),
            activation=config.activation,
            width=config.width,
            generator=seeded_generator(config.seed, "agent"),
            dtype=self.environments.observation_dtype,
            normalize=config.normalize_observations,
            recurrent=config.recurrent,
        ).to(self.device)
        self.agent.precision = precision
        if not config.threads:
            self._choose_threads()
        self.optimizer = torch.optim.Adam(self.agent.parameters(), lr=config.learning_rate, fused=True)
        self.bonus = self._make_bonus() if config.explores else None
        self.mixing = Mixing(config)
        self.action_generator = seeded_generator(config.seed, "actions")
        self.minibatch_generator = seeded_generator(config.seed, "minibatches")
        self.episodes = Episodes(config.n_envs, success_return=self.environments.success_return)
        self.visits = Visits(
            plain_shape(shape),
            limit_bytes=config.unique_states_limit,
            total_steps=config.total_steps,
            frames=config.frame_stack,
            ranks=ranks,
        )
        self.timer = Timer()
        self.observations: Arrays = np.zeros(0)
        self.hidden = self.agent.first_hidden(self.environments.n_envs)

    def start(self) -> None:
        """Play at random for the statistics of a normalizer and of the bonus, then start the environments."""
        if self.agent.policy.normalizer is not None:
            for transitions in self._random_play():
                self.agent.policy.normalizer.update(transitions, self.ranks)
            if self.bonus is not None:  # made anew, since it may copy the policy: with these statistics
                self.bonus = self._make_bonus()
        if self.bonus is not None and self.bonus.needs_warm_up:
            for transitions in self._random_play():
                played = forgetful(transitions, self.agent.policy.width) if self.config.recurrent else transitions
                self.bonus.warm_up(played)
        self.observations = self.environments.reset(self._environment_seed())

    def iterate(self, *, check: Callable[[], object] = lambda: None) -> dict[str, float]:
        """The metrics of one rollout and one update, after which environments are restarted if `restart_every` says so.

        ``check`` is called between steps and between minibatches. What it raises abandons the rollout: the trainer is
        then in between and of no more use, and a state that was taken before is whole.
        """
        config, timer, ranks = self.config, self.timer, self.ranks
        restart = self.environments.is_full_after(config.steps, limit=config.restart_every)

        # Play.
        steps = Steps()
        rollout, self.observations = collect(
            self.agent,
            self.environments,
            self.observations,
            steps=config.steps,
            cut=restart,
            distribution=self.distribution,
            generator=self.action_generator,
            episodes=steps,
            timer=timer,
            first_step=self.step,
            hidden=self.hidden,
            check=check,
            ranks=ranks,
        )
        self.hidden = rollout.hidden_after
        with timer.time("bookkeeping"):
            self.episodes.add_rollout(steps, ranks)
            if not ranks.alone:
                shared_rows(rollout.transitions, ranks)  # an error if a rank has nothing to learn from

        # Two rewards: the environment's, and the bonus over the running deviation of its discounted sums.
        extrinsic = rollout.rewards.clamp(-1, 1) if config.clip_rewards else rollout.rewards
        everyones = self.mixing.extrinsic(ranks.gather(extrinsic, 1), ranks.gather(rollout.transitions.ended, 1))
        extrinsic = ranks.mine(everyones, 1)
        with timer.time("bonus"):
            all_bonuses = all_intrinsic = torch.zeros(config.steps, config.n_envs)
            bonus = ranks.mine(all_bonuses, 1)
            seen_by_bonus = self._on_bonus_device(rollout.states)
            if self.bonus is not None:
                bonus = self.bonus.compute(seen_by_bonus).cpu()
                self._require_finite(bonus, "bonus")
                all_bonuses = ranks.gather(bonus, 1)
                all_intrinsic = self.mixing.intrinsic(all_bonuses)
            intrinsic = ranks.mine(all_intrinsic, 1)

        # Two advantages, one policy: learn from their weighted sum.
        with timer.time("update"):
            gains = torch.stack(
                [
                    self._advantages(rollout, extrinsic, config.extrinsic, head=0),
                    self._advantages(rollout, intrinsic, config.intrinsic, head=1),
                ],
                dim=-1,
            )
            self.weights = self.mixing.weights(self.agent.value_deviation[0].item(), self.episodes.returns)
            all_values, all_gains = ranks.gather(rollout.values, 1), ranks.gather(gains, 1)
            self._track_returns(rollout.transitions, all_gains + all_values)
            losses = self._update_agent(rollout, gains, check)
            if self.distribution.is_discrete:
                self.mixing.remember_entropy(losses["entropy"])
            if self.agent.policy.normalizer is not None:
                self.agent.policy.normalizer.update(rollout.transitions, ranks)
        check()
        with timer.time("bonus"):
            learned = {} if self.bonus is None else self.bonus.update(seen_by_bonus)

        # Tell.
        with timer.time("bookkeeping"):
            self.visits.add(self.step, rollout.transitions, rollout.places, bonus)
            self.step += config.rollout_steps
            if restart:
                self.restart_environments()
            metrics = self.episodes.summary() | self.visits.counts()
            metrics |= {"bonus_mean": float(all_bonuses.mean()), "bonus_deviation": float(all_bonuses.std())}
            metrics |= {"bonus_max": float(all_bonuses.max()), "intrinsic_reward": float(all_intrinsic.mean())}
            metrics |= dict(zip(("weight_extrinsic", "weight_intrinsic"), self.weights.tolist(), strict=True))
            metrics |= losses
            for k, head in enumerate(HEADS):
                values = all_values[..., k]
                metrics[f"explained_variance_{head}"] = explained_variance(values, values + all_gains[..., k])
            metrics |= {f"bonus/{name}": value for name, value in learned.items()}
        seconds = timer.read_and_clear()
        metrics["steps_per_second"] = config.rollout_steps / sum(seconds.values())
        return metrics | {f"seconds/{name}": value for name, value in seconds.items()}

    @property
    def is_finished(self) -> bool:
        """Whether all steps are done, or the run is to end because it has succeeded."""
        return self.step >= self.config.total_steps or self.succeeded

    @property
    def succeeded(self) -> bool:
        """Whether so many of the last 100 episodes succeeded that the run is to end."""
        aim = self.config.stop_at_success
        return aim > 0 and self.episodes.finished >= 100 and self.episodes.success_rate >= aim

    def make_environments(self, n_envs: int, ranks: Ranks = ALONE) -> Environments:
        """``n_envs`` environments of the run's task, not yet started; of several ``ranks`` this one's part of them."""
        return environments.make(
            self._given.get("env", self.config.env),
            n_envs=n_envs,
            options=key_values("env_options", self.config.env_options),
            frame_stack=self.config.frame_stack,
            ranks=ranks,
        )

    def restart_environments(self) -> None:
        """Start the environments anew from a seed that is derived from the step; the running episodes are cut."""
        self.observations = self.environments.reset(self._environment_seed())
        self.hidden = self.agent.first_hidden(self.environments.n_envs)
        self.episodes.cut()
        if self.bonus is not None:
            self.bonus.forget_episodes()

    def state_dict(self) -> dict[str, Any]:
        """Everything that `iterate` changes, of all ranks, each of which must ask for it."""
        return self.own_state() | {"environments": self.environments.state_dict()}

    def own_state(self) -> dict[str, Any]:
        """The state without that of the environments, which need not have one before they are reset."""
        memory = {} if self.hidden is None else {"hidden": self.ranks.gather(self.hidden).clone()}
        return memory | {
            "step": self.step,
            "agent": module_state(self.agent),
            "optimizer": optimizer_state(self.optimizer),  # pyrefly: ignore
            "bonus": {} if self.bonus is None else self.bonus.state_dict(),
            "mixing": self.mixing.state_dict(),
            "action_generator": self.action_generator.get_state(),
            "minibatch_generator": self.minibatch_generator.get_state(),
            "episodes": self.episodes.state_dict(),
            "visits": self.visits.state_dict(),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue where ``state`` was taken. Environments that are not repeatable are restarted, with a warning."""
        require_same_layout(state["agent"], module_state(self.agent))
        self.step = state["step"]
        self.agent.load_state_dict(state["agent"])
        load_optimizer_state(self.optimizer, state["optimizer"])  # pyrefly: ignore
        if self.bonus is not None:
            self.bonus.load_state_dict(state["bonus"])
        self.mixing.load_state_dict(state["mixing"])
        self.action_generator.set_state(state["action_generator"])
        self.minibatch_generator.set_state(state["minibatch_generator"])
        self.episodes.load_state_dict(state["episodes"])
        if self.ranks.is_first:
            self.visits.load_state_dict(state["visits"])
        if self.hidden is not None:
            self.hidden = self.ranks.mine(state["hidden"]).to(self.device)
        try:
            self.observations = self.environments.load_state_dict(state["environments"])
        except NotRepeated as problem:
            warnings.warn(f"{problem}. They are restarted: from here on this is another run", stacklevel=2)
            self.restart_environments()

    def _choose_threads(self) -> None:
        """One thread or all cores, by the size of the network; the configuration has the number, for a resumed run."""
        shape, dtype = self.environments.observation_shape, self.environments.observation_dtype
        one = random_observations(shape, dtype, 1, generator=seeded_generator(self.config.seed, "threads"))
        example = map_observations(lambda part: part.to(self.device), one)
        self.config = replace(
            self.config, threads=self.ranks.threads(fitting_threads(self.config, self.agent, example))
        )
        torch.set_num_threads(self.config.threads)

    def _make_bonus(self) -> Bonus:
        given = self._given.get("bonus", self.config.bonus)
        if not (isinstance(given, str) or callable(given)):
            if not self.ranks.alone:
                raise ValueError(
                    "of several processes each makes its own bonus: give a function that makes one from its Task"
                )
            return deepcopy(require_bonus(given, "your bonus"))
        shape, policy_inputs = plain_shape(self.environments.observation_shape), None
        if self.config.recurrent:
            shape, policy_inputs = shapes_with_hidden(shape, self.agent.policy.width)
        made = bonuses.make(
            given,
            seed=self.config.seed,
            ranks=self.ranks,
            observation_shape=shape,
            policy_inputs=policy_inputs,
            actions=self.environments.actions,
            policy_network=self.agent.policy,
            loss=feature_loss(self.environments.actions),
            **key_values("bonus_options", self.config.bonus_options),
        )
        if not self.ranks.alone and not getattr(made, "shares_ranks", False):
            raise ValueError(
                f"the bonus {self.config.bonus} cannot be learned by several processes: it would see a part of the "
                "environments on each. Let it sum or gather what it learns over the ranks of its Task, and say so by "
                "shares_ranks = True; or train in one process"
            )
        return made

    def _random_play(self) -> Iterator[Transitions]:
        """Uniformly random play, rollout by rollout, from a stream of its own."""
        generator = seeded_generator(self.config.seed, "warm-up")
        observations = self.environments.reset(stream_seed(self.config.seed, "warm-up environments"))
        for played in range(0, self.config.warm_up_steps, self.config.steps):
            steps = min(self.config.steps, self.config.warm_up_steps - played)
            transitions, observations = random_play(
                self.environments,
                observations,
                steps=steps,
                distribution=self.distribution,
                generator=generator,
                ranks=self.ranks,
            )
            yield transitions

    def _advantages(self, rollout: Rollout, rewards: Tensor, signal: Signal, *, head: int) -> Tensor:
        next_values = rollout.successor_values if signal.episodic else rollout.next_values
        return advantages(
            rewards,
            rollout.values[..., head],
            next_values[..., head],
            rollout.transitions.terminated,
            rollout.transitions.truncated,
            rollout.transitions.valid,
            discount=signal.discount,
            gae_lambda=self.config.gae_lambda,
            episodic=signal.episodic,
        )

    def _batch(self, rollout: Rollout, gains: Tensor) -> Batch | Sequences:
        """The valid steps, with one advantage: the sum of both signals', weighed by `Mixing`. Sequences for a GRU."""
        transitions = rollout.transitions
        if rollout.hidden is not None:
            logs, targets = rollout.log_probabilities, gains + rollout.values
            return sequences_of(transitions, rollout.hidden[0], logs, gains @ self.weights, targets)
        rows = slice(None) if transitions.valid is None else transitions.valid.flatten()
        return Batch.of(
            take(flatten_time(transitions.observations), rows),
            transitions.actions.flatten(0, 1)[rows],
            rollout.log_probabilities.flatten()[rows],
            (gains @ self.weights).flatten()[rows],
            (gains + rollout.values).flatten(0, 1)[rows],
        )

    def _track_returns(self, transitions: Transitions, returns: Tensor) -> None:
        """Move the units of the value heads by the returns of all ranks, (T, N, 2)."""
        config = self.config
        if not config.value_scale_rate or config.untrained:
            return
        valid = torch.ones_like(transitions.terminated) if transitions.valid is None else transitions.valid
        rate = torch.tensor([self.mixing.value_rate, config.value_scale_rate]).to(self.device)
        least = torch.tensor([self.mixing.least_deviation, 0.0]).to(self.device)
        track_returns(self.agent, returns[self.ranks.gather(valid, 1)].to(self.device), rate, least)

    def _update_agent(self, rollout: Rollout, gains: Tensor, check: Callable[[], object]) -> dict[str, float]:
        config = self.config
        by_environment = rollout.hidden is not None
        share = share_of(rollout.transitions, gains @ self.weights, by_environment=by_environment, ranks=self.ranks)
        step_size = learning_rate(config, self.step)
        set_learning_rate(self.optimizer, step_size)
        try:
            losses = update_agent(
                self.agent,
                self.optimizer,
                self._batch(rollout, gains),
                config,
                self.distribution,
                heads=(config.extrinsic.weight > 0 and self.mixing.has_task, self.bonus is not None),
                entropy_weight=self.mixing.entropy_weight(),
                generator=self.minibatch_generator,
                check=check,
                share=share,
            )
        except NotFinite as problem:
            raise NotFinite(
                f"{problem} in the update after step {self.step + config.rollout_steps:,}: "
                "lower the learning rate; the run can be resumed from its last checkpoint"
            ) from None
        return losses | {"learning_rate": step_size}

    def _on_bonus_device(self, transitions: Transitions) -> Transitions:
        """The transitions where the bonus reads them: beside the policy if it is a feature of it, else on the CPU."""
        if self.device.type == "cpu" or self.bonus is None or not self.bonus.reads_policy:
            return transitions
        return transitions.mapped(lambda part: part.to(self.device))

    def _require_finite(self, values: Tensor, name: str) -> None:
        if not bool(torch.isfinite(values).all()):
            raise NotFinite(
                f"the {name} is not finite at step {self.step + self.config.rollout_steps:,}: "
                "the run can be resumed from its last checkpoint"
            )

    def _environment_seed(self) -> int:
        return stream_seed(self.config.seed, f"environments {self.step}")
