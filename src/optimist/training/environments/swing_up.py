"""A cart whose pole hangs down and has to be swung up and held there: rewards are sparse, and every push costs."""

import json
from collections.abc import Mapping
from typing import Any

import numpy as np

from optimist.bonuses.actions import DiscreteActions
from optimist.checks import require_count, require_number
from optimist.seeding import split
from optimist.training.environments.protocol import Step, replaced, require_choices, require_integers

GRAVITY, CART, POLE, HALF_LENGTH, FORCE, SECONDS = 9.8, 1.0, 0.1, 0.5, 10.0, 0.01
EDGE = 3.0  # meters from the middle: beyond it the episode ends
STEPS = 1000
SLOW, MIDDLE = 1.0, 1.0  # rewarded: at most so many radians per second, at most so many meters from the middle


class SwingUp:
    """``n_envs`` poles on carts that start hanging down at rest, up to a small chance. Left, nothing, right.

    A step pays 1 while the pole points up (``cos > height``), turns slowly and the cart is near the middle; a push
    costs ``move_cost``. Episodes have 1,000 steps of 0.01 s and end early at the edge. Observed: place, speed, sine,
    cosine and speed of the angle. Random play never sees a reward, only costs: doing nothing is the best that it finds.

    The rules are those of bsuite's cartpole_swingup (Osband et al. 2020), the equations those of Barto et al. 1983.
    """

    success_return = 100.0
    observation_dtype = np.dtype(np.float32)
    observation_shape = (5,)

    def __init__(self, *, n_envs: int, height: float = 0.5, move_cost: float = 0.1) -> None:
        self.n_envs = require_count("n_envs", n_envs)
        self._height = require_number("height", height, least=-1, most=1, why="it is a cosine")
        self._move_cost = require_number("move_cost", move_cost, least=0)
        self.actions = DiscreteActions(3)
        self._rng = np.random.default_rng(split(0, "environments"))
        self._state = np.zeros((self.n_envs, 4))  # place, speed, angle from upright, its speed
        self._elapsed = np.zeros(self.n_envs, np.int64)
        self.set_part(0, self.n_envs)

    def set_part(self, first: int, total: int) -> None:
        """Draw the starts of all ``total`` environments, and keep those of these."""
        self._part, self._total = slice(first, first + self.n_envs), total

    def reset(self, seed: int) -> np.ndarray:
        """Every pole hangs down."""
        self._rng = np.random.default_rng(split(seed, "environments"))
        self._state = self._starts()
        self._elapsed = np.zeros(self.n_envs, np.int64)
        return self._observed(self._state)

    def step(self, actions: np.ndarray) -> Step:
        """One hundredth of a second by Euler's rule."""
        pushes = require_choices(actions, n_envs=self.n_envs, choices=3) - 1
        _, speed, angle, turning = self._state.T
        sine, cosine = np.sin(angle), np.cos(angle)
        pushed = (FORCE * pushes + POLE * HALF_LENGTH * turning**2 * sine) / (CART + POLE)
        inertia = HALF_LENGTH * (4 / 3 - POLE * cosine**2 / (CART + POLE))
        angular = (GRAVITY * sine - cosine * pushed) / inertia
        linear = pushed - POLE * HALF_LENGTH * angular * cosine / (CART + POLE)
        rates = np.stack([speed, linear, turning, angular], axis=1)
        state = self._state + SECONDS * rates
        state[:, 2] = np.remainder(state[:, 2] + np.pi, 2 * np.pi) - np.pi
        self._elapsed = self._elapsed + 1
        is_up = (np.cos(state[:, 2]) > self._height) & (np.abs(state[:, 3]) < SLOW) & (np.abs(state[:, 0]) < MIDDLE)
        rewards = is_up - self._move_cost * np.abs(pushes)
        terminated, truncated = np.abs(state[:, 0]) > EDGE, self._elapsed >= STEPS
        ended, next_observations = terminated | truncated, self._observed(state)
        starts = self._starts()  # in every step: what is drawn must not depend on who ends
        if ended.any():
            state[ended] = starts[ended]
            self._elapsed[ended] = 0
        self._state = state
        observations = replaced(next_observations, ended, self._observed(state[ended]))
        return Step(observations, next_observations, rewards.astype(np.float32), terminated, truncated)

    def state_dict(self) -> dict[str, Any]:
        """The poles, how long each episode has lasted, and the generator of starts."""
        rng = json.dumps(self._rng.bit_generator.state)
        return {"state": self._state.copy(), "elapsed": self._elapsed.copy(), "rng": rng}

    def load_state_dict(self, state: Mapping[str, Any]) -> np.ndarray:
        """The saved poles."""
        poles = np.asarray(state["state"], np.float64)
        if poles.shape != self._state.shape or not np.isfinite(poles).all():
            raise ValueError(f"state must be finite numbers {self._state.shape}, got shape {poles.shape}")
        self._elapsed = require_integers(state["elapsed"], n_envs=self.n_envs, below=STEPS, name="elapsed")
        self._state = poles.copy()
        self._rng.bit_generator.state = json.loads(state["rng"])
        return self._observed(self._state)

    def close(self) -> None:
        """Nothing to release."""

    def _starts(self) -> np.ndarray:
        state = self._rng.uniform(-0.05, 0.05, (self._total, 4))[self._part]
        state[:, 2] += np.pi
        return state

    @staticmethod
    def _observed(state: np.ndarray) -> np.ndarray:
        place, speed, angle, turning = state.T
        seen = [place / EDGE, speed / EDGE, np.sin(angle), np.cos(angle), turning / 5]
        return np.stack(seen, axis=1).astype(np.float32)
