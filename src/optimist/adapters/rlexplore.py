"""The shape of RLeXplore's rewards: ``watch``, ``compute``, ``update`` on dictionaries of (steps, envs, ...) arrays.

``from rllte.xplore.reward import RND`` becomes ``from optimist.adapters.rlexplore import RND``; the constructor steps
no environment. Settings of theirs that mean nothing here are named in a warning and left out.
"""

import warnings
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor, nn

from optimist.adapters.building import bonus_for
from optimist.adapters.files import read_state, write_state
from optimist.adapters.intrinsic import IntrinsicConfig, dealt_out
from optimist.adapters.spaces import action_reader, space_reader
from optimist.bonuses.actions import DiscreteActions
from optimist.bonuses.observations import Observations, unflatten_time
from optimist.bonuses.protocol import Bonus
from optimist.bonuses.scaling import ReturnScale
from optimist.bonuses.transitions import Transitions
from optimist.checks import require_choice

RewardNorm = Literal["rms", "minmax", "none"]
ObservationNorm = Literal["rms", "none"]
KEYS = ("observations", "actions", "rewards", "terminateds", "truncateds", "next_observations")
OURS = {"latent_dim": "n_features", "lr": "learning_rate", "update_proportion": "fraction"}
"""What settings of theirs are called here."""
MEANINGLESS = ("encoder_model", "weight_init")
"""What ours choose by the observation's shape."""
SAME = 1e-5
"""Rewards of one rollout this near to each other differ by rounding only: "minmax" must not stretch it to 0 .. 1."""
KIND = "RLeXplore reward"
ENTRIES = {"bonus", "scale", "seed", "n_envs", "global_step"}


class IgnoredSetting(UserWarning):
    """A setting of RLeXplore has no counterpart here and was left out."""


class Reward:
    """An intrinsic reward of the bonus called ``name``, or of a ready one, with RLeXplore's arguments.

    The k-th rewards are weighted by ``beta (1 - kappa)^k``. ``rwd_norm_type``: "rms" divides by the running deviation
    of discounted sums (discount ``gamma``; None: of the bonuses themselves), over the last ``memory_steps`` steps or,
    if that is 0, over all, as RLeXplore does; "minmax" maps a rollout to 0 .. 1. ``obs_norm_type="rms"`` takes the
    observation statistics of the first rollout in before it is scored. ACB looks into ``policy_network``, or into a
    random network if there is none. Other ``settings`` are the bonus's own.

    ``batch_size`` is only kept, for hosts that draw as many samples from a replay buffer for `update`.

    Deviation: with ``gamma``, RLeXplore returns the discounted sums themselves; here they set the scale, as in RND.
    With ``sync=False`` `compute` changes nothing; RLeXplore moves its scale.
    """

    def __init__(
        self,
        name: str | Bonus,
        envs: Any,
        device: str | torch.device = "cpu",
        beta: float = 1.0,
        kappa: float = 0.0,
        gamma: float | None = None,
        rwd_norm_type: RewardNorm = "rms",
        obs_norm_type: ObservationNorm = "rms",
        *,
        seed: int = 0,
        policy_network: nn.Module | None = None,
        memory_steps: int = IntrinsicConfig.memory_steps,
        batch_size: int = 256,
        **settings: Any,
    ) -> None:
        require_choice("rwd_norm_type", rwd_norm_type, RewardNorm)
        require_choice("obs_norm_type", obs_norm_type, ObservationNorm)
        if not 0 <= beta < float("inf") or not 0 <= kappa <= 1:
            raise ValueError(f"beta must be >= 0 and finite, and kappa in [0, 1], got {beta} and {kappa}")
        self.device, self.beta, self.kappa, self.gamma = torch.device(device), beta, kappa, gamma
        self.rwd_norm_type, self.obs_norm_type, self.memory_steps = rwd_norm_type, obs_norm_type, memory_steps
        self.global_step, self.seed, self.batch_size = 0, seed, batch_size
        self.metrics: dict[str, float] = {}
        self._read = space_reader(_single(envs, "observation_space"))
        self._actions = action_reader(_single(envs, "action_space"))
        self.bonus = bonus_for(
            name,
            observation_shape=self._read.shape,
            actions=self._actions.kind,
            seed=seed,
            policy_network=policy_network,
            settings=translated(settings),
        )
        self._scale = self._new_scale()
        self._n_envs = 0  # of the rollouts learned from
        self._was_loaded = False

    def __repr__(self) -> str:
        return f"Reward({self.bonus!r}, beta={self.beta:g}, kappa={self.kappa:g}, global_step={self.global_step})"

    @property
    def weight(self) -> float:
        """``beta (1 - kappa)^k`` after k rollouts were learned from."""
        return self.beta * (1 - self.kappa) ** self.global_step

    def watch(
        self,
        observations: Any,
        actions: Any,
        rewards: Any,
        terminateds: Any,
        truncateds: Any,
        next_observations: Any,
    ) -> None:
        """Nothing: `compute` reads whole rollouts, episodes and all."""

    def end_episodes(self, which: Any = None) -> None:
        """The chosen environments, (N,) bool, or all were reset in mid-episode after the last rollout learned from."""
        self.bonus.forget_episodes(None if which is None else torch.as_tensor(which).bool())

    def compute(self, samples: Mapping[str, Any], sync: bool = True) -> Tensor:
        """The rewards (steps, envs) of a rollout, weighted and normalized; with ``sync`` it is then learned from."""
        transitions = self.transitions(samples)
        self._take_n_envs(transitions.n_envs)
        if not sync:
            rewards = self._normalized(self.bonus.compute(transitions).cpu()) * (1 - self.kappa)
        else:
            rewards = self._normalized(self._learned_from(transitions))
        return (rewards * self.weight).to(self.device)

    def update(self, samples: Mapping[str, Any]) -> None:
        """Learn from a rollout: what `compute` does by itself unless ``sync=False``."""
        transitions = self.transitions(samples)
        self._take_n_envs(transitions.n_envs)
        self._learned_from(transitions)

    def transitions(self, samples: Mapping[str, Any]) -> Transitions:
        """The rollout that a dictionary holds. A key ``valid``, besides theirs, says which steps did not only reset."""
        if missing := [key for key in KEYS if key not in samples and key != "rewards"]:
            raise ValueError(f"samples must have the keys {list(KEYS)}, {missing} are missing, got {sorted(samples)}")
        flags = {key: torch.as_tensor(samples[key]).cpu() != 0 for key in ("terminateds", "truncateds")}
        leading = tuple(flags["terminateds"].shape[:2])
        return Transitions(
            self._observations(samples["observations"], leading),
            self._read_actions(samples["actions"], leading),
            self._observations(samples["next_observations"], leading),
            flags["terminateds"].reshape(leading),
            flags["truncateds"].reshape(leading),
            torch.as_tensor(samples["valid"]).cpu() != 0 if "valid" in samples else None,
        )

    def state_dict(self) -> dict[str, Any]:
        """The bonus, the scale and the number of calls."""
        return {
            "bonus": self.bonus.state_dict(),
            "scale": self._scale.state_dict(),
            "seed": self.seed,
            "n_envs": self._n_envs,
            "global_step": self.global_step,
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue exactly where ``state`` was taken. A state that does not fit raises and changes nothing.

        If the next rollout is of another number of environments, running episodes are forgotten and the scale goes on.
        """
        if state.keys() != ENTRIES:
            raise ValueError(
                f"state must have the entries {sorted(ENTRIES)}, got {sorted(state)}: "
                f"was it saved by an {KIND} of this version?"
            )
        if state["seed"] != self.seed:
            raise ValueError(f"expected a state of a reward of seed {self.seed}, got one of seed {state['seed']}")
        scale = self._new_scale()
        scale.load_state_dict(state["scale"])
        self.bonus.load_state_dict(state["bonus"])
        self._scale, self._n_envs, self._was_loaded = scale, int(state["n_envs"]), True
        self.global_step = int(state["global_step"])

    def save(self, path: str | Path) -> None:
        """Write the state to one file, complete or not at all."""
        write_state(Path(path), self.state_dict(), kind=KIND)

    def load(self, path: str | Path) -> None:
        """Continue exactly where `save` was called."""
        self.load_state_dict(read_state(Path(path), kind=KIND))

    def _learned_from(self, transitions: Transitions) -> Tensor:
        """The bonuses that a rollout had before it was learned from, (T, N)."""
        if self.obs_norm_type == "rms" and not self.global_step:
            self.bonus.warm_up(transitions)
        raw = self.bonus.compute(transitions).cpu()
        # Without gamma the order of rewards does not matter, nor then how many environments they are from.
        self._scale.update(raw.reshape(-1, 1) if self.gamma is None else raw)
        self.metrics = self.bonus.update(transitions)
        self._n_envs = transitions.n_envs
        self.global_step += 1
        return raw

    def _take_n_envs(self, n_envs: int) -> None:
        """Go on with another number of environments if these are the first steps after loading."""
        if self._was_loaded and n_envs != self._n_envs:
            self.bonus.forget_episodes()
            if self.gamma is not None:
                self._scale.load_state_dict(dealt_out(self._scale.state_dict(), n_envs))
        self._was_loaded = False

    def _normalized(self, raw: Tensor) -> Tensor:
        match self.rwd_norm_type:
            case "rms":
                return self._scale.normalize(raw)
            case "minmax":
                low, high = torch.aminmax(raw)
                if high - low <= SAME * high.abs():
                    return torch.zeros_like(raw)
                return (raw - low) / (high - low)
        return raw

    def _new_scale(self) -> ReturnScale:
        return ReturnScale(discount=self.gamma or 0.0, memory_steps=self.memory_steps)

    def _observations(self, values: Any, leading: tuple[int, ...]) -> Observations:
        return unflatten_time(self._read(_rows(values, leading)), leading)

    def _read_actions(self, values: Any, leading: tuple[int, ...]) -> Tensor:
        rows = _rows(values, leading)
        if isinstance(self._actions.kind, DiscreteActions):
            rows = rows.reshape(-1)  # theirs may carry an axis of 1, and be floats
        return self._actions(rows).unflatten(0, leading)


def translated(settings: Mapping[str, Any]) -> dict[str, Any]:
    """The settings under our names, without those that mean nothing here, of which a warning tells."""
    for name in MEANINGLESS:
        if name in settings:
            warnings.warn(
                f"{name}={settings[name]!r} has no meaning here and is left out", IgnoredSetting, stacklevel=3
            )
    return {OURS.get(name, name): value for name, value in settings.items() if name not in MEANINGLESS}


ACB = partial(Reward, "acb")
RND = partial(Reward, "rnd")
ICM = partial(Reward, "icm")
E3B = partial(Reward, "e3b")
Elliptical = partial(Reward, "elliptical")
HashCount = partial(Reward, "count")
EpisodicCount = partial(Reward, "episodic-count")


def _single(envs: Any, name: str) -> Any:
    """The space of one environment: of a Gymnasium vector environment, or of one that calls it so, as SB3 does."""
    return getattr(envs, f"single_{name}") if hasattr(envs, f"single_{name}") else getattr(envs, name)


def _rows(values: Any, leading: tuple[int, ...]) -> Any:
    if isinstance(values, Mapping):
        return {name: _rows(part, leading) for name, part in values.items()}
    array = values.detach().cpu().numpy() if isinstance(values, Tensor) else np.asarray(values)
    if tuple(array.shape[:2]) != leading:
        raise ValueError(f"samples must be (steps, envs, ...) = {leading} all, got one of shape {array.shape}")
    return array.reshape(-1, *array.shape[2:])
