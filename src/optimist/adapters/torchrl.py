"""TorchRL: a transform that writes a bonus as ``intrinsic_reward``, and a loss module that trains it, like its RND."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import nn

from optimist.adapters.building import bonus_for
from optimist.adapters.hosts import missing_host
from optimist.adapters.online import IntrinsicReward, looks_within_episodes
from optimist.bonuses.protocol import Bonus

try:
    from tensordict import TensorDict
    from tensordict.utils import NestedKey
    from torchrl.data import Unbounded
    from torchrl.envs import EnvBase, Transform
    from torchrl.objectives import LossModule

    from optimist.adapters.torchrl_reading import Rollout, Steps, TransitionReader, reader_of
except ModuleNotFoundError as error:
    raise missing_host("torchrl", extra="torchrl") from error


class BonusTransform(Transform):
    """Writes ``intrinsic_reward`` and ``total_reward``, and leaves ``reward`` alone. Make one with `bonus_transform`.

    ``intrinsic_reward`` is the normalised bonus times ``weight``; ``total_reward`` is ``extrinsic_weight`` times the
    environment's reward and that: give it to an advantage or loss by ``set_keys(reward="total_reward")``. In an
    environment steps are scored one by one; called with a rollout or a collector's batch, whole, which is faster, and
    the only way for a bonus that looks within episodes. Nothing is learned here but the scale, until `freeze`:
    `BonusLoss` trains the bonus. ``state_dict`` holds the bonus, its scale and all.
    Module's own ``training`` is not read: a TransformedEnv switches it off in every transform.
    """

    def __init__(
        self,
        bonus: Bonus,
        reader: TransitionReader,
        *,
        seed: int | None = None,
        weight: float = 1.0,
        extrinsic_weight: float = 1.0,
        normalise: bool = True,
        discount: float = 0.99,
        memory: int = 0,
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
            bonus, seed=seed, weight=weight, normalise=normalise, discount=discount, memory=memory, learning_starts=0
        )

    @property
    def bonus(self) -> Bonus:
        """The bonus itself."""
        return self.intrinsic.bonus

    def freeze(self, frozen: bool = True) -> "BonusTransform":
        """Itself, with a scale that does not move: for evaluation, or to score one batch twice."""
        self.intrinsic.training = not frozen
        return self

    def forward(self, tensordict: Steps) -> Steps:
        """The rollout with its rewards written under ``next``."""
        self._step(tensordict, tensordict["next"])
        return tensordict

    def _step(self, tensordict: Steps, next_tensordict: Steps) -> Steps:
        self._write(self.reader.rollout(tensordict, next_tensordict), next_tensordict)
        return next_tensordict

    def _write(self, rollout: Rollout, successor: Steps) -> None:
        if rollout.time is None and looks_within_episodes(self.bonus):
            raise ValueError(
                "this bonus looks within episodes, so it needs rollouts in their order, got steps without a time axis: "
                "leave it out of the environment and call it with the whole batch of a collector or of env.rollout"
            )
        reward = rollout.restored(self.intrinsic.reward(rollout.transitions))
        paid = successor[self.reader.reward_key]
        # A weight of 0 does not read the reward at all, be it infinite.
        total = reward + (self.extrinsic_weight * paid if self.extrinsic_weight else torch.zeros_like(reward))
        successor.update(dict(zip(self.out_keys, (reward, total), strict=True)))

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
    """Trains the bonus of a `BonusTransform`; its loss is 0, because a bonus has its own solver or optimiser.

    Call it once with every batch that was collected, beside the policy's loss: calling it is the training. Numbers of
    the bonus come with it as ``bonus_...``. It holds no parameters and no state: the transform does.
    """

    out_keys = ["loss_bonus"]  # noqa: RUF012  # pyrefly: ignore (TorchRL's own way)

    def __init__(self, transform: BonusTransform) -> None:
        super().__init__()
        self._parts = (transform.bonus, transform.reader)  # a module here would be saved twice

    def forward(self, tensordict: Steps) -> Steps:
        """``loss_bonus``, a 0 that ``backward`` accepts, and the metrics of learning from the batch."""
        bonus, reader = self._parts
        metrics = bonus.update(reader.rollout(tensordict, tensordict["next"]).transitions)
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
    normalise: bool = True,
    discount: float = 0.99,
    memory: int = 0,
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
        normalise=normalise,
        discount=discount,
        memory=memory,
    )
