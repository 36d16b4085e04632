"""ACB: how far an ensemble of regressors, trained on pure noise, still is from zero at a state."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from optimist.bonuses.acb_config import ACBConfig
from optimist.bonuses.acb_parts import Parts, build
from optimist.bonuses.auxiliary import AuxiliaryNetwork
from optimist.bonuses.ensemble import predictions, squared_deviation
from optimist.bonuses.features import Dense, FeatureBatch, Loss
from optimist.bonuses.features.feature_map import map_observations
from optimist.bonuses.features.loss import forward
from optimist.bonuses.observations import WHOLE, chunks, named, shaped_rows
from optimist.bonuses.protocol import Observations, Transitions, flatten_time
from optimist.bonuses.rollout_features import (
    CHUNK,
    HELD_NUMBERS,
    HeldFeatures,
    explained,
    require_finite,
    rollout_features,
    take,
)
from optimist.bonuses.schedule import minibatch_rows
from optimist.bonuses.state import require_same_layout, seeded_generator
from optimist.bonuses.valid_steps import at_valid_steps, from_valid_steps
from optimist.configuration import replaced
from optimist.seeding import require_seed


class ACB:
    """The bonus ``max_m <w_m, g(s')>^2`` (or their mean) of the successor s', ``w_m`` regressors of noise on g.

    g is a feature of the policy network, by default a sketch of the gradient of its log-loss at its most likely
    action, taken at an auxiliary copy of the network that follows the policy at the rate alpha. ``config`` owns every
    choice (see `presets`); single fields may be given by name, ``ACB(network, ensemble_size=64)``. ``logits`` says
    how to read (n, A) logits off a network whose output is something else; ``loss`` replaces the log-loss, e.g. for
    continuous actions.

    ``example_observation`` (n, ...), zeros will do, sizes the ensemble and says which keys of a Dict are read. Without
    it the first ``update`` sizes the ensemble, for all keys, with the same outcome: the draws depend on ``seed`` alone.

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
        self.config = replaced(config or ACBConfig(), overrides)
        self._seed = require_seed(seed)
        self._policy = policy_network
        self._auxiliary = AuxiliaryNetwork(policy_network)
        self._logits = logits
        self._loss = loss
        self._generator = seeded_generator(seed, "acb")
        self._parts = None if example_observation is None else self._build(example_observation, seed)
        self._held: HeldFeatures | None = None  # of the last ``compute``, for its update: spares work, is no state
        self._prospect: Parts | None = None  # built by ``compute`` before the first update: spares work, is no state

    @torch.no_grad()
    def compute(self, transitions: Transitions) -> Tensor:
        """The bonus of every successor, (T, N); changes nothing."""
        if self.config.statistics != "batch":
            return at_valid_steps(transitions, lambda valid: self._bonuses(valid, CHUNK))
        # Released code: the statistics are those of the N states of one step, whether or not they are paid for.
        together = transitions.environments
        return at_valid_steps(transitions, lambda _: self._bonuses(transitions, together)[transitions.rows])

    @torch.no_grad()
    @from_valid_steps
    def update(self, transitions: Transitions) -> dict[str, float]:
        """The squared error and the states used in training on a rollout, after which the auxiliary network moves."""
        trained_on = getattr(transitions, self.config.train_on)
        parts = self._sized_for(trained_on)
        observations, total = _flat(parts.example, trained_on), transitions.ended.numel()
        # Everything that can be refused is refused here, before anything moves.
        self._auxiliary.require(self._policy)
        generator = self._generator.clone_state()
        schedule = minibatch_rows(total, self.config, generator=generator)
        features = self._features(parts, trained_on, observations, torch.cat(schedule).unique())
        self._parts, self._prospect, self._held, self._generator = parts, None, None, generator
        loss = parts.solver.fit(self._minibatches(parts, features, total, schedule))
        self._auxiliary.move_towards(self._policy, self.config.auxiliary_rate, still=self._still())
        return {"loss": loss, "trained": float(sum(len(rows) for rows in schedule))}

    def warm_up(self, transitions: Transitions) -> None:
        """Nothing: the statistics of features are of the states trained on."""

    def state_dict(self) -> dict[str, Any]:
        """Ensemble, optimiser, averages, feature statistics, auxiliary network, random state, observation layout."""
        return self._fixed_state() | _parts_state(self._parts)

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue exactly where ``state`` was taken; the seed, and with it the sketch, is the saved one's."""
        fixed = self._fixed_state()
        require_same_layout(dict.fromkeys(state, ""), dict.fromkeys(fixed | _parts_state(None), ""))
        require_same_layout({key: state[key] for key in fixed}, fixed)
        example = _loaded_example(state["example"])
        parts = None if example is None else self._build(example, state["seed"])
        if parts is not None:
            parts.scale.load_state_dict(state["scale"])
            parts.solver.load_state_dict(state["solver"])
        self._auxiliary.load_state_dict(state["auxiliary"])
        self._generator.set_state(state["generator"])
        self._seed, self._parts, self._prospect, self._held = state["seed"], parts, None, None

    def _bonuses(self, transitions: Transitions, size: int) -> Tensor:
        """The bonus of every successor, ``size`` of them read together, (T N,)."""
        parts = self._sized_for(transitions.next_observations)
        observations = _flat(parts.example, transitions.next_observations)
        batches = self._read(parts, observations, transitions.ended.numel(), size)
        if self.config.statistics == "rollout":
            batches = [Dense(torch.cat([features.dense() for features in batches]))]
        bonuses, written_out = [], []
        for features in batches:
            predicted = predictions(parts.solver.weights, parts.scale.standardise(features))
            bonuses.append(squared_deviation(predicted, self.config.aggregate))
            written_out += [features.features] if isinstance(features, Dense) else []
        if sum(piece.numel() for piece in written_out) in range(1, HELD_NUMBERS):
            self._held = HeldFeatures(transitions.next_observations, torch.cat(written_out))
        squares = torch.cat(bonuses)
        return squares.sqrt_() if self.config.form == "width" else squares

    def _read(self, parts: Parts, observations: Observations, total: int, size: int) -> Iterable[FeatureBatch]:
        """The features of ``total`` states, ``size`` at a time."""
        for rows in chunks(total, size):
            with explained(observations):
                yield parts.features(take(observations, rows))

    def _fixed_state(self) -> dict[str, Any]:
        """The entries whose layout does not depend on the observations."""
        return {
            "seed": self._seed,
            "auxiliary": self._auxiliary.state_dict(),
            "generator": self._generator.get_state(),
        }

    def _build(self, example: Observations, seed: int) -> Parts:
        with explained(example):
            return build(self._auxiliary.network, example, self.config, seed=seed, logits=self._logits, loss=self._loss)

    def _sized_for(self, observations: Observations) -> Parts:
        """The parts; without an example and before the first update those that ``update`` would start from."""
        if self._parts is not None:
            return self._parts
        flat = flatten_time(observations)
        if self._prospect is None or _sizes(self._prospect.example) != _sizes(flat):
            self._prospect = self._build(flat, self._seed)
        return self._prospect

    def _features(
        self, parts: Parts, trained_on: Observations, observations: Observations, rows: Tensor
    ) -> Callable[[Tensor], FeatureBatch]:
        """A function from rows of a rollout to their features: those that ``compute`` held, or computed now."""
        if self._held is None or not self._held.are_of(trained_on):
            read = self._logits if self._loss is None else self._loss
            return rollout_features(parts.features, read, observations, rows)
        held = self._held.features
        require_finite("features", held)
        return lambda chosen: Dense(held[chosen])

    def _minibatches(
        self, parts: Parts, features: Callable[[Tensor], FeatureBatch], total: int, schedule: list[Tensor]
    ) -> Iterator[tuple[FeatureBatch, Tensor]]:
        members = self.config.ensemble_size
        like = parts.solver.weights[0]
        tied = self.config.targets == "per-rollout"
        noise = torch.randn(total, members, generator=self._generator) if tied else None
        for rows in schedule:
            drawn = torch.randn(len(rows), members, generator=self._generator) if noise is None else noise[rows]
            batch = features(rows)
            parts.scale.observe(batch)
            yield parts.scale.standardise(batch), drawn.to(like)

    def _still(self) -> list[str]:
        """The parameters that the auxiliary network keeps: none, or its vectors (biases, gains)."""
        return [name for name, p in self._policy.named_parameters() if p.ndim < 2 and not self.config.auxiliary_biases]


def _flat(example: Observations, observations: Observations) -> Observations:
    """The tensors that ``example`` has too, checked against it. Shapes: (T, N, ...) -> (T N, ...)."""
    rows = shaped_rows(_sizes(example), observations)
    return rows[WHOLE] if isinstance(example, Tensor) else rows


def _sizes(observations: Observations) -> dict[str, tuple[int, ...]]:
    return {name: tuple(tensor.shape[1:]) for name, tensor in named(observations).items()}


def _parts_state(parts: Parts | None) -> dict[str, Any]:
    """The entries that exist once the layout of observations is known; the example is a tensor or those of a Dict."""
    if parts is None:
        return {"example": {}, "scale": {}, "solver": {}}
    kind = "tensor" if isinstance(parts.example, Tensor) else "dict"
    return {
        "example": {kind: map_observations(torch.clone, parts.example)},
        "scale": parts.scale.state_dict(),
        "solver": parts.solver.state_dict(),
    }


def _loaded_example(state: Mapping[str, Any]) -> Observations | None:
    """The example that ``_parts_state`` wrote, None if there was none."""
    if not state:
        return None
    match state:
        case {"tensor": Tensor() as example}:
            return example
        case {"dict": {**parts}} if all(isinstance(part, Tensor) for part in parts.values()):
            return parts
    raise ValueError("state['example'] must be {}, {'tensor': ...} or {'dict': ...}: was it saved by ACB?")
