"""The last k frames of any environment as one observation: what moves can be seen in it."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from optimist.bonuses.observations import WHOLE, Discrete
from optimist.checks import require_count
from optimist.training.environments.protocol import Arrays, Environments, Layout, Mapped, Step, named_arrays, replaced
from optimist.training.trunks import ArrayShape, Grid, Shape


class FrameStack:
    """``environments`` that observe their last ``frames`` observations, the newest last, along the first axis.

    Images and codes (C, H, W) become (frames C, H, W), vectors (k,) become (frames k,); of a Dict states stay as they
    are. An episode begins with its first observation ``frames`` times, so that nothing of the episode before is seen,
    and its final observation is the stack that the episode ended with.
    """

    def __init__(self, environments: Environments, frames: int) -> None:
        self._inner, self.frames = environments, require_count("frame_stack", frames)
        shape = environments.observation_shape
        shapes: dict[str, ArrayShape] = dict(shape) if isinstance(shape, Mapping) else {WHOLE: shape}
        self._stacked = tuple(name for name, shape in shapes.items() if not isinstance(shape, Discrete))
        if not self._stacked:
            raise ValueError(
                f"frame_stack={frames} stacks images, codes and vectors, got observations {shape}: leave it at 1"
            )
        stacked = {name: _times(shape, frames) if name in self._stacked else shape for name, shape in shapes.items()}
        self.observation_shape: Shape = stacked if isinstance(shape, Mapping) else stacked[WHOLE]
        self.observation_dtype = environments.observation_dtype
        self.n_envs, self.actions = environments.n_envs, environments.actions
        self.success_return = environments.success_return
        self._now: dict[str, np.ndarray] = {}

    def layout(self) -> Layout | None:
        """The map of the environments inside."""
        return self._inner.layout() if isinstance(self._inner, Mapped) else None

    def reset(self, seed: int) -> Arrays:
        """The first observations, each ``frames`` times."""
        self._now = self._filled(self._inner.reset(seed))
        return self._given(self._now)

    def step(self, actions: np.ndarray) -> Step:
        """The answer to ``actions``, with the stacks that it led to and the stacks to act on next."""
        step = self._inner.step(actions)
        led_to = self._slid(step.next_observations)
        if step.valid is not None:  # a step that only reset led to the first stack of the new episode
            led_to = self._begun(led_to, ~step.valid, step.next_observations)
        self._now = led_to
        if step.observations is not step.next_observations:
            self._now = self._begun(led_to, step.terminated | step.truncated, step.observations)
        return replace(step, observations=self._given(self._now), next_observations=self._given(led_to))

    def state_dict(self) -> dict[str, Any] | None:
        """The stacks and the state of the environments inside; None if that cannot be saved."""
        inner = self._inner.state_dict()
        return None if inner is None else {"inner": inner, "stacks": {k: v.copy() for k, v in self._now.items()}}

    def load_state_dict(self, state: Mapping[str, Any]) -> Arrays:
        """The saved stacks."""
        now = self._filled(self._inner.load_state_dict(state["inner"]))
        for name, stack in now.items():
            saved = np.asarray(state["stacks"][name])
            if saved.shape != stack.shape or saved.dtype != stack.dtype:
                raise ValueError(
                    f"the saved stacks must be {stack.dtype} of shape {stack.shape}, got {saved.dtype} of shape "
                    f"{saved.shape}: this state was taken from other environments"
                )
            now[name] = saved.copy()
        self._now = now
        return self._given(now)

    def close(self) -> None:
        """Close the environments inside."""
        self._inner.close()

    def _begun(self, stacks: dict[str, np.ndarray], where: np.ndarray, firsts: Arrays) -> dict[str, np.ndarray]:
        """``stacks`` with those of a new episode ``where`` one begins; ``stacks`` themselves if none does."""
        if not where.any():
            return stacks
        return replaced(stacks, where, {name: part[where] for name, part in self._filled(firsts).items()})

    def _given(self, parts: dict[str, np.ndarray]) -> Arrays:
        return parts if isinstance(self.observation_shape, Mapping) else parts[WHOLE]

    def _filled(self, observations: Arrays) -> dict[str, np.ndarray]:
        """Stacks of one observation. Shapes: (N, C, ...) -> (N, frames C, ...)."""
        return {
            name: np.concatenate([part] * self.frames, axis=1) if name in self._stacked else part
            for name, part in named_arrays(observations).items()
        }

    def _slid(self, observations: Arrays) -> dict[str, np.ndarray]:
        """The stacks with the newest observation at their end, and the oldest gone."""
        return {
            name: np.concatenate([self._now[name][:, part.shape[1] :], part], axis=1) if name in self._stacked else part
            for name, part in named_arrays(observations).items()
        }


def _times(shape: ArrayShape, frames: int) -> ArrayShape:
    if isinstance(shape, Grid):
        return Grid((frames * shape.shape[0], *shape.shape[1:]))
    return (frames * shape[0], *shape[1:])  # pyrefly: ignore
