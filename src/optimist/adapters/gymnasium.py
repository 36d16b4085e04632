"""`BonusVectorEnv`: any Gymnasium vector environment, its rewards with a bonus added, in every autoreset mode."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from optimist.adapters.building import bonus_for, missing_host
from optimist.adapters.intrinsic import IntrinsicConfig, IntrinsicReward
from optimist.bonuses.observations import map_observations, named, unnamed
from optimist.bonuses.protocol import Bonus, Observations, Transitions

try:
    from gymnasium.vector import AutoresetMode, VectorEnv, VectorWrapper
except ModuleNotFoundError as error:
    raise missing_host("gymnasium", extra="rl") from error

from optimist.adapters.spaces import SpaceReader, action_reader, space_reader


class BonusVectorEnv(VectorWrapper):
    """Rewards ``extrinsic_weight * reward + weight * bonus``, the bonus normalized and trained as the steps come.

    ``bonus`` is a name (see `bonuses.make`; ``settings`` are its own) or a ready one. Without ``policy_network``, ACB
    reads a random network drawn from ``seed``. Other keywords are fields of `IntrinsicConfig`: weight, train_every ...
    ``report_only`` leaves the rewards as they are. ``extrinsic_weight=0`` is the one switch for reward-free play.

    ``infos`` has ``intrinsic_reward`` and ``extrinsic_reward`` of every environment, and ``extrinsic_return``, where
    ``_extrinsic_return`` is True, of the episodes that ended. The last step of an episode is scored with its true final
    observation; a step that only resets (NEXT_STEP autoreset) earns no bonus and is not learned from.
    """

    def __init__(
        self,
        env: VectorEnv,
        bonus: str | Bonus = "acb",
        *,
        seed: int = 0,
        extrinsic_weight: float = 1.0,
        report_only: bool = False,
        observation_keys: Sequence[str] | None = None,
        policy_network: nn.Module | None = None,
        settings: Mapping[str, Any] | None = None,
        config: IntrinsicConfig | None = None,
        **overrides: Any,
    ) -> None:
        super().__init__(env)
        mode = env.metadata.get("autoreset_mode")
        if not isinstance(mode, AutoresetMode):
            raise ValueError(
                f"{env} must say in metadata['autoreset_mode'] how it starts new episodes, got {mode!r}: "
                "set it to a gymnasium.vector.AutoresetMode, or the true final observations cannot be told"
            )
        if not 0 <= extrinsic_weight < float("inf"):
            raise ValueError(f"extrinsic_weight must be >= 0 and finite, got {extrinsic_weight}")
        self.extrinsic_weight, self.report_only = extrinsic_weight, report_only
        self._mode = mode
        self._read = space_reader(env.single_observation_space, keys=observation_keys)
        self._read_actions = action_reader(env.single_action_space)
        made = bonus_for(
            bonus,
            observation_shape=self._read.shape,
            actions=self._read_actions.kind,
            seed=seed,
            policy_network=policy_network,
            settings=settings or {},
        )
        known = seed if isinstance(bonus, str) else None
        self.intrinsic = IntrinsicReward(made, seed=known, config=config, **overrides)
        self._observations: Observations | None = None
        self._resetting = np.zeros(env.num_envs, bool)
        self._returns = np.zeros(env.num_envs)

    def __repr__(self) -> str:
        return f"BonusVectorEnv({self.env}, {self.intrinsic!r}, extrinsic_weight={self.extrinsic_weight:g})"

    @property
    def training(self) -> bool:
        """Whether the bonus learns. Off, as for evaluation, neither it nor its scale moves."""
        return self.intrinsic.training

    @training.setter
    def training(self, value: bool) -> None:
        self.intrinsic.training = value

    def reset(self, *, seed: Any = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """The first observations; with ``options["reset_mask"]`` only the chosen environments start anew.

        An episode that still ran is over for the bonus, too.
        """
        fresh = np.ones(self.num_envs, bool)
        if options is not None and "reset_mask" in options:
            fresh = np.array(options["reset_mask"], bool)  # read first: the environment takes it out of ``options``
        raw, infos = self.env.reset(seed=seed, options=options)
        self.intrinsic.end_episodes(fresh)
        self._observations = self._as_step(raw)
        self._resetting &= ~fresh
        self._returns[fresh] = 0
        return raw, infos

    def step(self, actions: Any) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        """The environment's answer, with the bonus in its rewards and both parts apart in ``infos``."""
        if self._observations is None:
            raise RuntimeError("step came before the first reset: call reset() first")
        raw, rewards, terminated, truncated, infos = self.env.step(actions)
        extrinsic, ended = np.array(rewards), np.logical_or(terminated, truncated)
        valid = ~self._resetting if self._mode is AutoresetMode.NEXT_STEP else None
        before, self._observations = self._observations, self._as_step(raw)
        next_observations = self._observations
        if self._mode is AutoresetMode.SAME_STEP and ended.any():
            next_observations = with_finals(self._read, next_observations, infos, ended)
        transitions = Transitions(
            before,
            self._read_actions(actions).unsqueeze(0),
            next_observations,
            _flags(terminated),
            _flags(truncated),
            None if valid is None else _flags(valid),
        )
        intrinsic = self.intrinsic.step(transitions)[0].numpy()
        self._resetting = ended if valid is None else ended & valid
        return (
            raw,
            self._total(extrinsic, intrinsic),
            terminated,
            truncated,
            self._reported(infos, extrinsic, intrinsic),
        )

    def state_dict(self) -> dict[str, Any]:
        """Everything that the bonus is; the environments are not part of it."""
        return self.intrinsic.state_dict()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue with the bonus exactly where ``state`` was taken."""
        self.intrinsic.load_state_dict(state)

    def save(self, path: str | Path) -> None:
        """Write the state of the bonus to one file."""
        self.intrinsic.save(path)

    def load(self, path: str | Path) -> None:
        """Continue with the bonus exactly where `save` was called."""
        self.intrinsic.load(path)

    def _as_step(self, raw: Any) -> Observations:
        """Shapes: (N, ...) -> (1, N, ...)."""
        return map_observations(lambda part: part.unsqueeze(0), self._read(raw))

    def _total(self, extrinsic: np.ndarray, intrinsic: np.ndarray) -> np.ndarray:
        if self.report_only:
            return extrinsic.copy()
        # A weight of 0 does not read the reward at all, be it infinite.
        weighted = self.extrinsic_weight * extrinsic if self.extrinsic_weight else np.zeros_like(extrinsic)
        return weighted + intrinsic

    def _reported(self, infos: dict[str, Any], extrinsic: np.ndarray, intrinsic: np.ndarray) -> dict[str, Any]:
        self._returns += extrinsic
        ended = self._resetting
        all_of_them = np.ones(self.num_envs, bool)
        reported = {
            **infos,
            "intrinsic_reward": intrinsic.copy(),
            "_intrinsic_reward": all_of_them,
            "extrinsic_reward": extrinsic,
            "_extrinsic_reward": all_of_them.copy(),
            "extrinsic_return": np.where(ended, self._returns, 0.0),
            "_extrinsic_return": ended.copy(),
        }
        self._returns[ended] = 0
        return reported


def with_finals(
    read: SpaceReader, observations: Observations, infos: Mapping[str, Any], ended: np.ndarray
) -> Observations:
    """``observations`` (1, N, ...) with ``infos["final_obs"]`` in the places of ended episodes, as a copy."""
    if "final_obs" not in infos:
        raise RuntimeError(
            "an episode ended without infos['final_obs'], which a SAME_STEP vector environment must give: "
            "the true final observation is needed"
        )
    rows = [infos["final_obs"][i] for i in np.flatnonzero(ended)]
    if isinstance(read.parts, Mapping):
        finals = read({key: np.stack([row[key] for row in rows]) for key in read.parts})
    else:
        finals = read(np.stack(rows))
    where = torch.from_numpy(ended)
    replaced = {name: part.clone() for name, part in named(observations).items()}
    for name, part in named(finals).items():
        replaced[name][0, where] = part
    return unnamed(replaced, like=observations)


def _flags(values: Any) -> Tensor:
    return torch.from_numpy(np.array(values, bool)).unsqueeze(0)
