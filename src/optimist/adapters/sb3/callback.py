"""A callback that puts a bonus into PPO and A2C: intrinsic advantages, with a discount of their own."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.on_policy_algorithm import OnPolicyAlgorithm
from torch import Tensor

from optimist.adapters.building import bonus_for
from optimist.adapters.files import read_state, write_state
from optimist.adapters.intrinsic import IntrinsicReward
from optimist.adapters.sb3.actor import Actor, moments
from optimist.adapters.sb3.critic import IntrinsicCritic
from optimist.adapters.sb3.episodes import Finals, endings, next_observations
from optimist.adapters.spaces import action_reader, space_reader
from optimist.bonuses.checkpointing import require_same_layout
from optimist.bonuses.observations import map_observations, unflatten_time
from optimist.bonuses.protocol import Bonus, Observations, Transitions
from optimist.checks import require_counts, require_fields, require_positive_fields, require_seed
from optimist.config import replaced
from optimist.training.advantages import advantages
from optimist.training.distributions import feature_loss

KIND = "stable-baselines3 callback"


@dataclass(frozen=True)
class BonusCallbackConfig:
    """Every default of the callback."""

    weight: float = 0.5
    """Of intrinsic advantages; extrinsic to intrinsic are 2 : 1, as RND has them."""
    extrinsic_weight: float = 1.0
    """Of extrinsic advantages; 0 turns the extrinsic reward off: nothing of it reaches the policy or its critic."""
    discount: float = 0.99
    """Of intrinsic rewards, RND's; that of the extrinsic ones is the algorithm's own gamma."""
    memory_steps: int = 0
    """Steps that the scale of the bonus remembers; 0: all, as RND. See `ReturnScale`."""
    critic_width: int = 256
    """Features of the intrinsic critic."""
    critic_learning_rate: float = 1e-3
    """Adam's step size of the intrinsic critic."""
    critic_epochs: int = 4
    """Passes of the intrinsic critic over a rollout."""
    critic_batch_size: int = 256
    """States in a minibatch of the intrinsic critic, at most."""

    def __post_init__(self) -> None:
        require_fields(self, "weight", "extrinsic_weight", "memory_steps", least=0)
        require_counts(self, "critic_width", "critic_epochs", "critic_batch_size")
        require_positive_fields(self, "critic_learning_rate")
        if not 0 <= self.discount < 1:
            raise ValueError(f"discount must lie in [0, 1), got {self.discount}: intrinsic returns never end")


class BonusCallback(BaseCallback):
    """Adds ``weight`` x intrinsic advantages to the rollout of PPO or A2C, before the policy learns from it.

    Extrinsic returns and advantages are stable-baselines3's own, and its one value head stays extrinsic. Intrinsic
    advantages are GAE's, with the algorithm's lambda, ``discount``, and the values of a critic of the callback's own;
    they are non-episodic, as RND's: an episode's end is a step like any other. So the advantage of a step is
    ``extrinsic_weight A_E + weight A_I``. The environment's rewards are never changed: ``rollout/ep_rew_mean`` is the
    extrinsic return, and what the bonus does is logged under ``intrinsic/``.

    ``bonus`` is a name that `bonuses.make` knows, built when training starts with ``settings``, and for ACB on the live
    policy; or a ready one. Fields of `BonusCallbackConfig` may be given by name.
    """

    def __init__(
        self,
        bonus: str | Bonus = "acb",
        *,
        seed: int = 0,
        settings: Mapping[str, Any] | None = None,
        config: BonusCallbackConfig | None = None,
        **overrides: Any,
    ):
        super().__init__()
        self.config = replaced(config or BonusCallbackConfig(), overrides)
        self._bonus, self._seed, self._settings = bonus, require_seed(seed), dict(settings or {})
        self._actor: Actor | None = None
        self._waiting: Mapping[str, Any] | None = None  # a state that waits for its model
        self._finals: Finals = {}
        self._ended: list[tuple[np.ndarray, np.ndarray]] = []
        self.intrinsic: IntrinsicReward  # both are there from the start of training on
        self.critic: IntrinsicCritic

    def __repr__(self) -> str:
        described = repr(self._bonus) if self._actor is None else repr(self.intrinsic)
        return f"BonusCallback({described}, weight={self.config.weight:g}, discount={self.config.discount:g})"

    def state_dict(self) -> dict[str, Any]:
        """The bonus, the scale of its rewards, and the intrinsic critic."""
        if self._actor is None:
            raise ValueError("the callback has no state yet: it is built when model.learn(callback=...) starts")
        return {"intrinsic": self.intrinsic.state_dict(), "critic": self.critic.state_dict()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue exactly where ``state`` was taken; before training has started, as soon as it does."""
        require_same_layout(dict.fromkeys(state, ""), dict.fromkeys(("intrinsic", "critic"), ""))
        if self._actor is None:
            self._waiting = state
            return
        before = self.critic.state_dict()
        self.critic.load_state_dict(state["critic"])
        try:
            self.intrinsic.load_state_dict(state["intrinsic"])
        except ValueError:  # both or neither
            self.critic.load_state_dict(before)
            raise

    def save(self, path: str | Path) -> None:
        """Write settings and state to one file beside the model's; no pickle."""
        made_from = {
            "bonus": self._bonus if isinstance(self._bonus, str) else None,
            "seed": self._seed,
            "settings": self._settings,
            "config": asdict(self.config),
        }
        write_state(Path(path), {"made_from": made_from, "state": self.state_dict()}, kind=KIND)

    @classmethod
    def load(cls, path: str | Path, bonus: Bonus | None = None) -> "BonusCallback":
        """The callback that was saved, for the model saved beside it; one with a ready ``bonus`` needs one like it.

        The model may have another number of environments: see `IntrinsicReward.resize`.
        """
        state = read_state(Path(path), kind=KIND)
        made_from = dict(state["made_from"])
        if made_from["bonus"] is None and bonus is None:
            raise ValueError(f"{path} was saved with a ready bonus: pass load(path, bonus) one built alike")
        made_from["bonus"] = made_from["bonus"] or bonus
        made_from["config"] = BonusCallbackConfig(**made_from["config"])
        callback = cls(**made_from)
        callback.load_state_dict(state["state"])
        return callback

    def _init_callback(self) -> None:
        if not isinstance(self.model, OnPolicyAlgorithm):
            raise ValueError(
                f"BonusCallback is for on-policy algorithms (PPO, A2C), got {type(self.model).__name__}: "
                "wrap the environments in BonusVecEnv instead"
            )
        actor = Actor(self.model.policy)
        if self._actor is not None and self._actor.action_net is actor.action_net:
            return
        state = self._waiting if self._actor is None else self.state_dict()
        self._build(self.model, actor)
        if state is not None:
            self.load_state_dict(state)
            self._waiting = None

    def _build(self, model: OnPolicyAlgorithm, actor: Actor) -> None:
        config = self.config
        self._read, self._read_actions = space_reader(model.observation_space), action_reader(model.action_space)
        bonus = bonus_for(
            self._bonus,
            observation_shape=self._read.shape,
            actions=self._read_actions.kind,
            seed=self._seed,
            policy_network=actor,
            loss=feature_loss(self._read_actions.kind, moments),
            settings=self._settings,
        )
        steps = model.n_steps * model.n_envs
        self.intrinsic = IntrinsicReward(
            bonus,
            seed=self._seed if isinstance(self._bonus, str) else None,
            discount=config.discount,
            memory_steps=config.memory_steps,
            learning_starts=0,
            train_every=1,
            batch_size=steps,
        )
        self.critic = IntrinsicCritic(
            self._read.shape, width=config.critic_width, learning_rate=config.critic_learning_rate, seed=self._seed
        )
        self._actor = actor

    def _on_training_start(self) -> None:
        # All True after a reset, which ``learn`` makes unless it continues; otherwise where an episode has just ended.
        self.intrinsic.end_episodes(self.model._last_episode_starts)

    def _on_rollout_start(self) -> None:
        self._finals, self._ended = {}, []

    def _on_step(self) -> bool:
        terminated, truncated, finals = endings(self.locals["dones"], self.locals["infos"], len(self._ended))
        self._ended.append((terminated, truncated))
        self._finals |= finals
        return True

    def _on_rollout_end(self) -> None:
        config, buffer = self.config, self.model.rollout_buffer  # pyrefly: ignore
        rollout, last = self._transitions()
        rewards, values = self.intrinsic.reward(rollout), self.critic.values(rollout.observations)
        gains = advantages(
            rewards,
            values,
            torch.cat([values[1:], self.critic.values(last)]),
            rollout.terminated,
            rollout.truncated,
            None,
            discount=config.discount,
            gae_lambda=buffer.gae_lambda,
            episodic=False,
        )
        extrinsic, intrinsic = config.extrinsic_weight * buffer.advantages, config.weight * gains.numpy()
        buffer.advantages = extrinsic + intrinsic
        if config.extrinsic_weight == 0:
            buffer.returns = buffer.values.copy()  # otherwise the reward would move what critic and actor share
        self._record(rewards, values, values + gains)
        self.logger.record("intrinsic/share", share(intrinsic, extrinsic))
        learned = self.intrinsic.observe(rollout) | self.critic.update(
            rollout.observations, values + gains, epochs=config.critic_epochs, batch_size=config.critic_batch_size
        )
        for name, value in learned.items():
            self.logger.record(f"intrinsic/{name}", value)

    def _transitions(self) -> tuple[Transitions, Observations]:
        """The rollout as a bonus reads it, and the observations after it, (1, N, ...)."""
        buffer, latest = self.model.rollout_buffer, self.locals["new_obs"]  # pyrefly: ignore
        leading, read = (buffer.buffer_size, buffer.n_envs), self._read
        observations = unflatten_time(read(_rows(buffer.observations, latest)), leading)
        last = map_observations(lambda x: x.unsqueeze(0), read(latest))
        actions = buffer.actions.reshape(-1, *self.model.action_space.shape)  # pyrefly: ignore
        terminated, truncated = (torch.from_numpy(np.stack(part)) for part in zip(*self._ended, strict=True))
        rollout = Transitions(
            observations,
            self._read_actions(actions).unflatten(0, leading),
            next_observations(observations, last, self._finals, read),
            terminated,
            truncated,
        )
        return rollout, last

    def _record(self, rewards: Tensor, values: Tensor, returns: Tensor) -> None:
        unexplained = (returns - values).var(correction=0) / returns.var(correction=0).clamp_min(1e-12)
        self.logger.record("intrinsic/reward_mean", float(rewards.mean()))
        self.logger.record("intrinsic/reward_max", float(rewards.max()))
        self.logger.record("intrinsic/explained_variance", float(1 - unexplained))


def share(intrinsic: np.ndarray, extrinsic: np.ndarray) -> float:
    """How much of what moves the policy is intrinsic, 0 .. 1: ``sd_I / (sd_I + sd_E)`` of the weighted advantages.

    0 if neither varies: then nothing moves the policy.
    """
    deviations = float(np.std(intrinsic)), float(np.std(extrinsic))
    return deviations[0] / sum(deviations) if any(deviations) else 0.0


def _rows(raw: Any, like: Any) -> Any:
    """The buffer's observations, one row per state, shaped as the environment gives them. Shapes: (T, N, ...)."""
    if isinstance(raw, Mapping):
        return {key: _rows(part, like[key]) for key, part in raw.items()}
    return raw.reshape(-1, *np.shape(like)[1:])
