"""ACB: how far an ensemble of regressors, trained on pure noise, still is from zero at a state."""

import dataclasses
import difflib
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from optimist.bonuses.acb_config import ACBConfig
from optimist.bonuses.acb_parts import Parts, build, minibatch_rows
from optimist.bonuses.auxiliary import AuxiliaryNetwork
from optimist.bonuses.ensemble import predictions, squared_deviation
from optimist.bonuses.features import FeatureBatch, Loss
from optimist.bonuses.features.feature_map import map_observations
from optimist.bonuses.features.loss import forward
from optimist.bonuses.observations import chunks
from optimist.bonuses.protocol import Observations, Transitions, flatten_time
from optimist.bonuses.state import require_same_layout, seeded_generator
from optimist.seeding import require_seed

CHUNK = 512  # states whose bonus is read at a time, unless batch statistics say which belong together


class ACB:
    """The bonus ``max_m <w_m, g(s')>^2`` (or their mean) of the successor s', ``w_m`` regressors of noise on g.

    g is a feature of the policy network, by default a sketch of the gradient of its log-loss at its most likely
    action, taken at an auxiliary copy of the network that follows the policy at the rate alpha. ``config`` owns every
    choice (see `presets`); single fields may be given by name, ``ACB(network, ensemble_size=64)``. ``logits`` says
    how to read (n, A) logits off a network whose output is something else; ``loss`` replaces the log-loss, e.g. for
    continuous actions.

    ``example_observation`` (n, ...), zeros will do, sizes the ensemble. Without it that happens at the first call of
    ``compute`` or ``update``, with the same outcome: the draws depend on ``seed`` alone.

    Paper: Algorithm 2 and section 4.
    Deviation: the released code moves the auxiliary network before it trains the ensemble; here, as in Algorithm 2,
    after.
    """

    def __init__(
        self,
        policy_network: nn.Module,
        example_observation: Observations | None = None,
        *,
        seed: int = 0,
        config: ACBConfig | None = None,
        logits: Callable[[nn.Module, Any], Tensor] = forward,
        loss: Loss | None = None,
        **overrides: Any,
    ):
        self.config = _overridden(config or ACBConfig(), overrides)
        self._seed = require_seed(seed)
        self._policy = policy_network
        self._auxiliary = AuxiliaryNetwork(policy_network)
        self._logits = logits
        self._loss = loss
        self._generator = seeded_generator(seed, "acb")
        self._parts = None if example_observation is None else self._build(example_observation, seed)

    @torch.no_grad()
    def compute(self, transitions: Transitions) -> Tensor:
        """The bonus of every successor, (T, N); changes nothing."""
        observations = flatten_time(transitions.next_observations)
        parts = self._sized_for(observations)
        # Released code: batch statistics are those of the N states of one step.
        size = transitions.environments if self.config.statistics == "batch" else CHUNK
        bonuses = []
        for rows in chunks(transitions.ended.numel(), size):
            features = parts.scale.standardise(parts.features(_rows(observations, rows)))
            bonuses.append(squared_deviation(predictions(parts.solver.weights, features), self.config.aggregate))
        return torch.cat(bonuses).reshape(transitions.ended.shape)

    @torch.no_grad()
    def update(self, transitions: Transitions) -> dict[str, float]:
        """The squared error and the states used in training on a rollout, after which the auxiliary network moves."""
        observations = flatten_time(getattr(transitions, self.config.train_on))
        parts = self._sized_for(observations)
        self._require_finite_policy()
        schedule = minibatch_rows(transitions.ended.numel(), self.config, generator=self._generator)
        loss = parts.solver.fit(self._minibatches(parts, observations, transitions.ended.numel(), schedule))
        self._move_auxiliary()
        return {"loss": loss, "trained": float(sum(len(rows) for rows in schedule))}

    def state_dict(self) -> dict[str, Any]:
        """Ensemble, optimiser, averages, feature statistics, auxiliary network, random state, observation layout."""
        parts = self._parts
        return {
            "seed": self._seed,
            "example": {} if parts is None else _named(parts.example),
            "scale": {} if parts is None else parts.scale.state_dict(),
            "solver": {} if parts is None else parts.solver.state_dict(),
            "auxiliary": self._auxiliary.state_dict(),
            "generator": self._generator.get_state(),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue exactly where ``state`` was taken; the seed, and with it the sketch, is the saved one's."""
        entries = {"seed", "example", "scale", "solver", "auxiliary", "generator"}
        if state.keys() != entries:
            raise ValueError(
                f"state must have the entries {sorted(entries)}, got {sorted(state)}: was it saved by ACB?"
            )
        require_same_layout(state["auxiliary"], self._auxiliary.state_dict())
        parts = self._build(_unnamed(state["example"]), state["seed"]) if state["example"] else None
        if parts is not None:
            parts.scale.load_state_dict(state["scale"])
            parts.solver.load_state_dict(state["solver"])
        self._auxiliary.load_state_dict(state["auxiliary"])
        self._generator.set_state(state["generator"])
        self._seed, self._parts = state["seed"], parts

    def _build(self, example: Observations, seed: int) -> Parts:
        return build(self._auxiliary.network, example, self.config, seed=seed, logits=self._logits, loss=self._loss)

    def _sized_for(self, observations: Observations) -> Parts:
        if self._parts is None:
            self._parts = self._build(observations, self._seed)
        expected = {name: tuple(part.shape[1:]) for name, part in _named(self._parts.example).items()}
        came = {name: tuple(part.shape[1:]) for name, part in _named(observations).items()}
        if came != expected:
            raise ValueError(f"observations must have the shapes {expected}, got {came}: ACB was sized for the former")
        return self._parts

    def _minibatches(
        self, parts: Parts, observations: Observations, total: int, schedule: list[Tensor]
    ) -> Iterator[tuple[FeatureBatch, Tensor]]:
        members = self.config.ensemble_size
        like = parts.solver.weights[0]
        tied = self.config.targets == "per-rollout"
        noise = torch.randn(total, members, generator=self._generator) if tied else None
        for rows in schedule:
            drawn = torch.randn(len(rows), members, generator=self._generator) if noise is None else noise[rows]
            features = parts.features(_rows(observations, rows))
            parts.scale.observe(features)
            yield parts.scale.standardise(features), drawn.to(like)

    def _move_auxiliary(self) -> None:
        before = self._auxiliary.state_dict()
        self._auxiliary.move_towards(self._policy, self.config.auxiliary_rate)
        if not self.config.auxiliary_biases:
            after = self._auxiliary.state_dict()
            vectors = [name for name, p in self._policy.named_parameters() if p.ndim < 2]
            after["average"].update({name: before["average"][name] for name in vectors})
            self._auxiliary.load_state_dict(after)

    def _require_finite_policy(self) -> None:
        for name, parameter in self._policy.named_parameters():
            if not parameter.isfinite().all():
                raise ValueError(
                    f"the policy network's parameter {name} is not finite: training has diverged; nothing was changed"
                )


def _overridden(config: ACBConfig, overrides: Mapping[str, Any]) -> ACBConfig:
    fields = [field.name for field in dataclasses.fields(ACBConfig)]
    for name in overrides:
        if name not in fields:
            near = difflib.get_close_matches(name, fields, n=1)
            raise TypeError(
                f"ACB has no option {name!r}: " + (f"did you mean {near[0]!r}?" if near else f"see {fields}")
            )
    return dataclasses.replace(config, **overrides)


def _rows(observations: Observations, rows: Tensor | slice) -> Observations:
    return map_observations(lambda tensor: tensor[rows], observations)


def _named(observations: Observations) -> dict[str, Tensor]:
    return {"": observations} if isinstance(observations, Tensor) else dict(observations)


def _unnamed(tensors: Mapping[str, Tensor]) -> Observations:
    return tensors[""] if set(tensors) == {""} else tensors
