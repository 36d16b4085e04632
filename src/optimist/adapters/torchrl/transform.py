"""A transform that writes a bonus as ``intrinsic_reward``, and a loss module that trains it, like TorchRL's own RND."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from tensordict import TensorDict
from tensordict.utils import NestedKey
from torch import Tensor, nn
from torchrl.data import Unbounded
from torchrl.envs import EnvBase, Transform
from torchrl.objectives import LossModule

from optimist.adapters.building import bonus_for
from optimist.adapters.intrinsic import IntrinsicReward
from optimist.adapters.torchrl.reading import Rollout, Steps, TransitionReader, reader_of
from optimist.bonuses.observations import named
from optimist.bonuses.protocol import Bonus
from optimist.bonuses.transitions import Transitions


class BonusTransform(Transform):
    """Writes ``intrinsic_reward`` and ``total_reward``, and leaves ``reward`` alone. Make one with `bonus_transform`.

    ``intrinsic_reward`` is the normalized bonus times ``weight``; ``total_reward`` is ``extrinsic_weight`` times the
    environment's reward and that: give it to an advantage or loss by ``set_keys(reward="total_reward")``. Inside an
    environment, steps are scored one by one. Called with a rollout or a collector's batch, it scores all of it at once,
    which is faster. Only the scale is learned here, until `freeze`. `BonusLoss` trains the bonus, with the same steps
    and no others if the bonus depends on their order. ``state_dict`` holds the bonus, its scale and the steps between.

    Resets are seen inside an environment. Outside, an episodic bonus needs to be told: the last step before a reset is
    ``truncated`` (``env.rollout(..., set_truncated=True)``), or `end_episodes` is called.
    The module's own ``training`` is not read: a TransformedEnv switches it off in every transform.
    """

    def __init__(
        self,
        bonus: Bonus,
        reader: TransitionReader,
        *,
        seed: int | None = None,
        weight: float = 1.0,
        extrinsic_weight: float = 1.0,
        normalize: bool = True,
        discount: float = 0.99,
        memory_steps: int = 0,
        out_keys: Sequence[NestedKey] = ("intrinsic_reward", "total_reward"),
    ) -> None:
        if len(out_keys) != 2 or not math.isfinite(extrinsic_weight):
            raise ValueError(
                "out_keys must name the intrinsic and the total reward, and extrinsic_weight be finite, "
                f"got {list(out_keys)} and {extrinsic_weight}"
            )
        super().__init__(in_keys=list(reader.observation_keys), out_keys=list(out_keys))
        self.reader, self.extrinsic_weight = reader, extrinsic_weight
        self.intrinsic = IntrinsicReward(
            bonus,
            seed=seed,
            weight=weight,
            normalize=normalize,
            discount=discount,
            memory_steps=memory_steps,
            learning_starts=0,
        )
        self._latest: Transitions | None = None  # the last step that was taught; not part of the state

    @property
    def bonus(self) -> Bonus:
        """The bonus itself."""
        return self.intrinsic.bonus

    def freeze(self, frozen: bool = True) -> "BonusTransform":
        """Itself, with a scale that does not move: for evaluation, or to score one batch twice."""
        self.intrinsic.training = not frozen
        return self

    def end_episodes(self, which: Any = None) -> None:
        """The running episodes of the chosen environments, (N,) bool, or of all are over: you have reset them."""
        self.intrinsic.end_episodes(which)
        self._latest = None

    def forward(self, tensordict: Steps) -> Steps:
        """The rollout with its rewards written under ``next``."""
        rollout = self.in_order(tensordict)
        if self.bonus.is_episodic and self.intrinsic.training:
            self._require_following(rollout.transitions)
        self._write(rollout, self.intrinsic.reward(rollout.transitions), tensordict["next"])
        return tensordict

    def in_order(self, tensordict: Steps) -> Rollout:
        """The rollout that ``tensordict`` holds; an error if an episodic bonus could not tell its episodes."""
        rollout = self.reader.rollout(tensordict, tensordict["next"])
        if rollout.time is None and self.bonus.is_episodic:
            raise ValueError(
                "this bonus looks within episodes, so it needs steps in their order, got a batch without a time axis: "
                "give it the whole batch of a collector or of env.rollout, not flattened, and no samples"
            )
        return rollout

    def learned(self, rollout: Rollout) -> dict[str, float]:
        """The metrics of training the bonus on ``rollout``: what `BonusLoss` does."""
        metrics = self.intrinsic.learn_from(rollout.transitions)
        self._latest = rollout.transitions.mapped(lambda part: part[-1:].clone())
        return metrics

    def _step(self, tensordict: Steps, next_tensordict: Steps) -> Steps:
        rollout = self.reader.rollout(tensordict, next_tensordict)
        self._write(rollout, self.intrinsic.reward(rollout.transitions), next_tensordict)
        if self.intrinsic.training and self.intrinsic.reads_in_order:
            self.intrinsic.hold(rollout.transitions)
        return next_tensordict

    def _reset(self, tensordict: Steps, tensordict_reset: Steps) -> Steps:
        which = tensordict.get("_reset", None)
        self.end_episodes(None if which is None else which.reshape(-1))
        return tensordict_reset

    def _require_following(self, rollout: Transitions) -> None:
        """An error if an episode that was running when it was last taught does not go on in ``rollout``."""
        latest = self._latest
        if latest is None or latest.n_envs != rollout.n_envs:
            return
        before, after = named(latest.next_observations), named(rollout.observations)
        moved = torch.stack([(before[key][0] != after[key][0]).reshape(rollout.n_envs, -1).any(1) for key in before])
        running = ~latest.ended[0] if latest.valid is None else ~latest.ended[0] & latest.valid[0]
        if jumped := (moved.any(0) & running).nonzero().flatten().tolist():
            raise ValueError(
                f"this bonus looks within episodes, but those of the environments {jumped} do not go on where the last "
                "batch, which stopped in mid-episode, left them: play with env.rollout(..., set_truncated=True), or "
                "call end_episodes() after a reset; freeze() to score what was not played next"
            )

    def _write(self, rollout: Rollout, rewards: Tensor, after: Steps) -> None:
        reward = rollout.restored(rewards)
        paid = after[self.reader.reward_key]
        # A weight of 0 does not read the reward at all, be it infinite.
        total = reward + (self.extrinsic_weight * paid if self.extrinsic_weight else torch.zeros_like(reward))
        after.update(dict(zip(self.out_keys, (reward, total), strict=True)))

    def transform_reward_spec(self, reward_spec: Any) -> Any:
        """The specification with both rewards, shaped as the environment's own."""
        own = reward_spec[self.reader.reward_key]
        for key in self.out_keys:
            reward_spec[key] = Unbounded(shape=own.shape, device=own.device, dtype=torch.float32)
        return reward_spec

    def get_extra_state(self) -> dict[str, Any]:
        """What ``state_dict`` carries: everything of the bonus and its scale."""
        return self.intrinsic.state_dict()

    def set_extra_state(self, state: Mapping[str, Any]) -> None:
        """Continue exactly where ``state`` was taken."""
        self.intrinsic.load_state_dict(state)

    def _check_batched_worker_compat(self) -> None:
        raise RuntimeError(
            "a bonus inside the workers of a SerialEnv or ParallelEnv would be a copy in each, which nobody trains: "
            "put the transform around the batched environment, TransformedEnv(ParallelEnv(...), transform)"
        )


class BonusLoss(LossModule):
    """Trains the bonus of a `BonusTransform`; its loss is 0, because a bonus has its own solver or optimizer.

    Call it once with every batch that was collected, beside the policy's loss: calling it is the training. Numbers of
    the bonus come with it as ``bonus_...``. It holds no parameters and no state: the transform does.
    """

    out_keys = ["loss_bonus"]  # noqa: RUF012  # pyrefly: ignore (TorchRL's own way)

    def __init__(self, transform: BonusTransform) -> None:
        super().__init__()
        self._transform = (transform,)  # in a tuple: a module of a module would be saved twice

    def forward(self, tensordict: Steps) -> Steps:
        """``loss_bonus``, a 0 that ``backward`` accepts, and the metrics of learning from the batch."""
        (transform,) = self._transform
        metrics = transform.learned(transform.in_order(tensordict))
        loss = torch.zeros((), device=tensordict.device, requires_grad=True)
        numbers: dict[Any, Any] = {f"bonus_{name}": torch.tensor(value) for name, value in metrics.items()}
        return TensorDict({"loss_bonus": loss, **numbers}, [])

    def _forward_value_estimator_keys(self, **keys: Any) -> None:
        """There is no value here."""


def bonus_transform(
    env: EnvBase,
    bonus: str | Bonus = "acb",
    *,
    seed: int = 0,
    policy_network: nn.Module | None = None,
    in_keys: Sequence[NestedKey] | None = None,
    weight: float = 1.0,
    extrinsic_weight: float = 1.0,
    normalize: bool = True,
    discount: float = 0.99,
    memory_steps: int = 0,
    **settings: Any,
) -> BonusTransform:
    """A transform for ``env`` that writes the bonus called so, or a ready one; ``settings`` are the named bonus's.

    ``policy_network`` is the module inside your actor: observations to logits; ACB reads a random network without it.
    ``in_keys`` chooses observations, all by default; several become a mapping by name. ``env`` is only read.
    """
    reader = reader_of(env, in_keys)
    made = bonus_for(
        bonus,
        observation_shape=reader.observation_shape,
        actions=reader.actions,
        seed=seed,
        policy_network=policy_network,
        settings=settings,
    )
    return BonusTransform(
        made,
        reader,
        seed=seed if isinstance(bonus, str) else None,
        weight=weight,
        extrinsic_weight=extrinsic_weight,
        normalize=normalize,
        discount=discount,
        memory_steps=memory_steps,
    )
