"""ACB, Algorithm 2 of the paper: how far regressors that are trained on pure noise still are from zero at a state.

Every line of the algorithm is marked below, but for line 7, acting, and line 9, PPO, which are the host's: a host calls
``compute`` for the states of a rollout (lines 4 to 6) and ``update`` after it (line 8, every tau steps).
"""

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from optimist.bonuses.acb.auxiliary import AuxiliaryNetwork
from optimist.bonuses.acb.cache import CHUNK, FeatureCache, joined, together
from optimist.bonuses.acb.config import DEFAULT, ACBConfig, with_settings
from optimist.bonuses.acb.minibatches import minibatch_rows, noise_minibatches
from optimist.bonuses.acb.sharing import own_rows, probes, shared_steps
from optimist.bonuses.acb.sizing import LateSizing, require_network, vector_example
from optimist.bonuses.checkpointing import require_same_layout, seeded_generator, unchanged_on_error
from optimist.bonuses.features.losses import Loss, forward
from optimist.bonuses.observations import Observations
from optimist.bonuses.protocol import Bonus
from optimist.bonuses.transitions import Transitions, at_valid_steps, from_valid_steps, shared_rows
from optimist.checks import require_seed
from optimist.ranks import ALONE, Ranks, SharedRows


class ACB(Bonus):
    """The bonus ``max_m <w_m, g(s')>^2`` (or their mean) of the next state s', ``w_m`` regressors of noise on g.

    g is a feature of the policy network, by default a sketch of the gradient of its log-loss at its most likely
    action, taken at an auxiliary copy of the network that follows the policy at the rate alpha. ``config`` owns every
    choice; single fields of it and of its solver may be given by name: ``ACB(network, solver="exact", ridge=0.01)``.
    ``logits`` says how to read (n, A) logits off a network whose output is something else; ``loss`` replaces the
    log-loss, e.g. for continuous actions.

    With ``features="observations"`` g is the observation itself, a vector that the caller brings, and there is no
    network: ``ACB(features="observations", n_features=4096)``.

    ``example_observation`` (n, ...), zeros will do, sizes the ensemble and says which keys of a Dict are read. Without
    it the first ``update`` sizes the ensemble, for all keys, with the same outcome: the draws depend on ``seed`` alone.

    Paper: Algorithm 2 and section 4.
    Deviation: the released code moves the auxiliary network before it trains the ensemble; here, as in Algorithm 2,
    after.
    """

    reads_policy = True
    shares_ranks = True

    def __init__(
        self,
        policy_network: nn.Module | None = None,
        example_observation: Observations | None = None,
        *,
        seed: int = 0,
        config: ACBConfig | None = None,
        logits: Callable[[nn.Module, Any], Tensor] = forward,
        loss: Loss | None = None,
        ranks: Ranks = ALONE,
        **settings: Any,
    ):
        self.ranks = ranks
        self.config = with_settings(config or DEFAULT, settings)
        self._policy = require_network(policy_network, self.config)
        self._auxiliary = AuxiliaryNetwork(self._policy)  # line 2: theta_aux <- theta
        example = vector_example(self.config) if example_observation is None else example_observation
        self._sizing = LateSizing(  # line 1: w_0, drawn once the size of g is known
            self._auxiliary.network, example, self.config, seed=require_seed(seed), logits=logits, loss=loss
        )
        self._generator = seeded_generator(seed, "acb")
        self._cache = FeatureCache()

    @torch.no_grad()
    def compute(self, transitions: Transitions) -> Tensor:
        """The bonus of every next state, (T, N); changes nothing."""
        probed = self._probes(transitions, "next_observations")
        if self.config.statistics != "batch":
            return at_valid_steps(transitions, lambda valid: self._bonuses(valid, CHUNK, probed))
        # Released code: the statistics are those of the N states of one step, whether or not they are valid.
        rows, n_envs = transitions.rows, transitions.n_envs
        return at_valid_steps(transitions, lambda _: self._bonuses(transitions, n_envs, probed).to(rows.device)[rows])

    def _bonuses(self, transitions: Transitions, size: int, probed: Observations | None) -> Tensor:
        """The bonus of every next state, ``size`` of them read together, (T N,)."""
        states = transitions.next_observations  # line 4: observe x_t
        regression = self._sizing.regression_for(states, probed)
        scale = regression.scale.settled(lambda: self._cache.read(regression, states, size), self.ranks)
        # line 5: g_t = g(x_t; f, theta_aux); once for equal states, unless the statistics are those of this rollout
        if self.config.statistics in ("running", "none"):
            batches, which = self._cache.read_once(regression, states, size)
        else:
            batches, which = self._cache.read(regression, states, size), None
        if self.config.statistics == "rollout":
            batches = [joined(batches)]
        # line 6: b_t = max_m (w_m' g_t)^2, or the mean over m; in the form that the configuration asks for
        aggregate, form = self.config.aggregate, self.config.form
        bonuses = together([regression.bonuses(g, scale, aggregate, form, self.ranks) for g in batches])
        return bonuses if which is None else bonuses[which]

    @torch.no_grad()
    @from_valid_steps
    def update(self, transitions: Transitions, rows: SharedRows) -> dict[str, float]:
        """The squared error and the states used in training on a rollout, after which the auxiliary network moves."""
        states, total = getattr(transitions, self.config.train_on), rows.total
        regression = self._sizing.regression_for(states, self._probes(transitions, self.config.train_on, rows))
        # All or nothing: what can be refused is refused before anything changes, and a fit that fails is undone.
        self._auxiliary.require(self._policy)
        generator = self._generator.clone_state()
        schedule = minibatch_rows(total, self.config, generator=generator)
        read = self._cache.lookup(regression, states, own_rows(rows, torch.cat(schedule)))  # line 5, for lines 10, 11
        shared = shared_steps(read, regression, states, rows, self.ranks)
        # line 10: draw y_m ~ N(0, 1); line 11: fit w_m by the loss (w_m' g - y_m)^2 + lambda |w_m - w_0|^2
        like = regression.solver.ensembles[0]
        noise = noise_minibatches(shared, schedule, total, self.config, like=like, generator=generator)
        with unchanged_on_error(regression.scale):
            loss = shared.fit(regression, noise, regression.scale)
        self._sizing.settle(regression)
        self._generator = generator
        # line 12: theta_aux <- alpha theta + (1 - alpha) theta_aux
        alpha = self.config.auxiliary_rate
        self._auxiliary.move_towards(self._policy, alpha, biases=self.config.auxiliary_biases)
        self._cache.clear()
        return {"loss": loss, "trained": float(sum(len(rows) for rows in schedule))}

    def _probes(self, transitions: Transitions, which: str, rows: SharedRows | None = None) -> Observations | None:
        """On several ranks, until the regression is settled: the states on which all of them probe the network."""
        if self.ranks.alone or self._sizing.is_settled or transitions.only_valid is None:
            return None
        return probes(getattr(transitions.only_valid, which), rows or shared_rows(transitions, self.ranks))

    def state_dict(self) -> dict[str, Any]:
        """Ensemble, optimizer, averages, feature statistics, auxiliary network, random state, observation layout."""
        own = {"auxiliary": self._auxiliary.state_dict(), "generator": self._generator.get_state()}
        return own | self._sizing.state_dict()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue exactly where ``state`` was taken; the seed, and with it the sketch, is the saved one's."""
        own = self.state_dict()
        require_same_layout(dict.fromkeys(state), dict.fromkeys(own))
        known = ("seed", "auxiliary", "generator")  # the others depend on the observations, which the state knows
        fixed = require_same_layout({key: state[key] for key in known}, {key: own[key] for key in known})
        self._sizing = self._sizing.loaded(state)
        self._auxiliary.load_state_dict(fixed["auxiliary"])
        self._generator.set_state(fixed["generator"])
        self._cache.clear()

    def __repr__(self) -> str:
        chosen, dimensions = self.config, self._sizing.dimensions
        sizes = f"dimensions={dimensions}, ensemble_size={chosen.ensemble_size}"
        return f"ACB(features={chosen.features!r}, {sizes}, solver={chosen.solver})"
