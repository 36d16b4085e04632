"""A `VecEnvWrapper` that adds a bonus to the rewards, for every algorithm of stable-baselines3."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import torch
from stable_baselines3.common.vec_env import VecEnv, VecEnvWrapper, VecNormalize, is_vecenv_wrapped
from stable_baselines3.common.vec_env.base_vec_env import VecEnvObs, VecEnvStepReturn

from optimist.adapters.building import bonus_for
from optimist.adapters.files import read_state, write_state
from optimist.adapters.intrinsic import IntrinsicConfig, IntrinsicReward
from optimist.adapters.sb3.episodes import endings, next_observations
from optimist.adapters.spaces import action_reader, space_reader
from optimist.bonuses.observations import map_observations
from optimist.bonuses.protocol import Bonus, Observations, Transitions

KIND = "stable-baselines3 wrapper"


class BonusVecEnv(VecEnvWrapper):
    """Environments whose reward is ``extrinsic_weight`` x their own + the weighted, normalized bonus.

    Modelled on ``VecNormalize``: it learns while ``training`` is on, `save` and `load` keep everything, and
    `get_original_reward` is what the environments paid. Each step's ``infos`` hold ``extrinsic_reward`` and
    ``intrinsic_reward``. Episode returns that a ``Monitor`` inside has counted, and so ``rollout/ep_rew_mean``, are
    extrinsic. The last step of an episode is scored with its ``terminal_observation``.

    ``bonus`` is a name that `bonuses.make` knows, made with ``settings``, or a ready one; ACB by name looks into a
    fixed random network, as a wrapper knows no policy. Fields of `IntrinsicConfig` may be given by name.
    """

    def __init__(
        self,
        venv: VecEnv,
        bonus: str | Bonus = "acb",
        *,
        seed: int = 0,
        extrinsic_weight: float = 1.0,
        observation_keys: Sequence[str] | None = None,
        settings: Mapping[str, Any] | None = None,
        config: IntrinsicConfig | None = None,
        **overrides: Any,
    ):
        if is_vecenv_wrapped(venv, VecNormalize):
            raise ValueError(
                "VecNormalize must be outside, VecNormalize(BonusVecEnv(venv)), got it inside: off-policy algorithms "
                "store the reward as VecNormalize got it, so that the bonus would never reach them"
            )
        if not 0 <= extrinsic_weight < float("inf"):
            raise ValueError(f"extrinsic_weight must be >= 0 and finite, got {extrinsic_weight}")
        super().__init__(venv)
        self._read = space_reader(venv.observation_space, keys=observation_keys)
        self._read_actions = action_reader(venv.action_space)
        made = bonus_for(
            bonus,
            observation_shape=self._read.shape,
            actions=self._read_actions.kind,
            seed=seed,
            settings=settings or {},
        )
        known = seed if isinstance(bonus, str) else None
        self.intrinsic = IntrinsicReward(made, seed=known, config=config, **overrides)
        self.extrinsic_weight = extrinsic_weight
        self._made_from: dict[str, Any] = {
            "bonus": bonus if isinstance(bonus, str) else None,
            "seed": seed,
            "extrinsic_weight": extrinsic_weight,
            "observation_keys": None if observation_keys is None else list(observation_keys),
            "settings": dict(settings or {}),
            "config": asdict(self.intrinsic.config),
        }
        self._observations: Observations | None = None
        self._sent: tuple[Observations, np.ndarray]  # what was acted on, and the actions: there from step_async on
        self._original = np.zeros(self.num_envs, np.float32)

    def __repr__(self) -> str:
        return f"BonusVecEnv({self.venv}, {self.intrinsic!r}, extrinsic_weight={self.extrinsic_weight:g})"

    @property
    def training(self) -> bool:
        """Whether the bonus and its scale learn; it is added all the same."""
        return self.intrinsic.training

    @training.setter
    def training(self, training: bool) -> None:
        self.intrinsic.training = training

    def reset(self) -> VecEnvObs:
        """The first observations of all environments. An episode that still ran is over for the bonus, too."""
        raw = self.venv.reset()
        self.intrinsic.end_episodes()
        self._observations = self._as_step(raw)
        return raw

    def step_async(self, actions: np.ndarray) -> None:
        """Send the actions on their way."""
        if self._observations is None:
            raise ValueError("the environments have not been reset: call reset() before step()")
        self._sent = self._observations, actions
        self.venv.step_async(actions)

    def step_wait(self) -> VecEnvStepReturn:
        """Observations to act on, rewards with the bonus, which episodes ended, and infos with both rewards."""
        raw, rewards, dones, infos = self.venv.step_wait()
        before, actions = self._sent
        terminated, truncated, finals = endings(dones, infos, 0)
        latest = self._as_step(raw)
        step = Transitions(
            before,
            self._read_actions(actions).unsqueeze(0),
            next_observations(before, latest, finals, self._read),
            torch.from_numpy(terminated).unsqueeze(0),
            torch.from_numpy(truncated).unsqueeze(0),
        )
        bonus = self.intrinsic.step(step)[0].numpy()
        self._observations, self._original = latest, np.array(rewards)
        told = [
            info | {"extrinsic_reward": float(extrinsic), "intrinsic_reward": float(intrinsic)}
            for info, extrinsic, intrinsic in zip(infos, rewards, bonus, strict=True)
        ]
        # A weight of 0 does not read the reward at all, be it infinite.
        paid = self.extrinsic_weight * rewards if self.extrinsic_weight else np.zeros_like(rewards)
        return raw, (paid + bonus).astype(np.float32), dones, told

    def get_original_reward(self) -> np.ndarray:
        """What the environments paid for the last step, (N,)."""
        return self._original.copy()

    def save(self, path: str | Path) -> None:
        """Write settings and state to one file; no pickle."""
        write_state(Path(path), {"made_from": self._made_from, "state": self.intrinsic.state_dict()}, kind=KIND)

    @classmethod
    def load(cls, path: str | Path, venv: VecEnv, bonus: Bonus | None = None) -> "BonusVecEnv":
        """The wrapper that was saved, around ``venv``; one that was given a ready ``bonus`` needs one like it again.

        ``venv`` may have another number of environments: see `IntrinsicReward.resize`.
        """
        state = read_state(Path(path), kind=KIND)
        made_from = dict(state["made_from"])
        if made_from["bonus"] is None and bonus is None:
            raise ValueError(f"{path} was saved with a ready bonus: pass load(path, venv, bonus) one built alike")
        made_from["bonus"] = made_from["bonus"] or bonus
        made_from["config"] = IntrinsicConfig(**made_from["config"])
        wrapper = cls(venv, **made_from)
        wrapper.intrinsic.load_state_dict(state["state"])
        return wrapper

    def _as_step(self, raw: Any) -> Observations:
        """Shapes: (N, ...) -> (1, N, ...)."""
        return map_observations(lambda part: part.unsqueeze(0), self._read(raw))


class EvalVecEnv(VecEnvWrapper):
    """Environments for evaluation, where `BonusVecEnv` stands in training: nothing is added, nothing is learned.

    ``EvalCallback`` copies the statistics of ``VecNormalize`` from the training environments to those of evaluation,
    and for that wants both wrapped alike: ``VecNormalize(BonusVecEnv(...))`` and ``VecNormalize(EvalVecEnv(...))``.
    """

    def reset(self) -> VecEnvObs:
        """The first observations of all environments."""
        return self.venv.reset()

    def step_wait(self) -> VecEnvStepReturn:
        """What the environments answer."""
        return self.venv.step_wait()
