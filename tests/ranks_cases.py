"""Small runs of every bonus, solver and normalizer, to be played by any number of processes: what each logs must agree.

``python ranks_cases.py FOLDER CASE ...`` plays them in one process, under torchrun in several, and the first process
writes what `Trainer.iterate` told, rollout by rollout, to ``FOLDER/CASE.json``.
"""

import json
import sys
import zlib
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import torch
from gymnasium.vector import AutoresetMode, SyncVectorEnv

from optimist.ranks import Ranks, joined
from optimist.training.config import Signal, TrainConfig
from optimist.training.environments.deep_sea import DeepSea
from optimist.training.ppo import Trainer

ROLLOUTS = 4
SMALL: dict[str, Any] = {
    "env": "DeepSea-6",
    "n_envs": 8,
    "steps": 16,
    "total_steps": 10_000,
    "epochs": 2,
    "minibatches": 3,  # 128 steps make no three equal ones
    "learning_rate": 1e-3,
    "width": 16,
    "warm_up_steps": 20,
    "value_scale_rate": 0.1,
    "max_gradient_norm": 0.5,
    "device": "cpu",
    "threads": 1,
}
ACB = ("ensemble_size=8", "sketch_size=4", "minibatch_size=40")
POLE = {"env": "gymnasium:CartPole-v1", "value_scale_rate": 0.0}


def acb(*options: str, **fields: Any) -> dict[str, Any]:
    """A run with ACB whose bonus has these options."""
    return {"bonus": "acb", "bonus_options": (*ACB, *options), **fields}


def later(n_envs: int) -> SyncVectorEnv:
    """CartPole that starts a new episode one step late: that step is not valid."""
    makers = [lambda: gymnasium.make("CartPole-v1", max_episode_steps=9)] * n_envs
    return SyncVectorEnv(makers, autoreset_mode=AutoresetMode.NEXT_STEP)


class Unaware:
    """DeepSea whose environments do not know which ones of all they are."""

    def __init__(self, n_envs: int):
        self._inner = DeepSea(4, n_envs=n_envs)

    def __getattr__(self, name: str) -> Any:
        if name == "set_part":
            raise AttributeError(name)
        return getattr(self._inner, name)


def unaware(n_envs: int) -> Unaware:
    """Environments that several processes cannot play."""
    return Unaware(n_envs)


CASES: dict[str, dict[str, Any]] = {
    # ACB: solvers, statistics, features.
    "exact": acb(),
    "exact-batch": acb("statistics=batch", "form=width"),
    "exact-rollout": acb("statistics=rollout"),
    "exact-none": acb("statistics=none", "form=square", "aggregate=max"),
    "exact-gradient": acb("features=gradient", "solver=exact"),
    "exact-fraction": acb("fraction=0.3", "targets=fresh", "train_on=observations"),
    "exact-penultimate": acb("features=penultimate", "floor=all"),
    "exact-last-layer": acb("features=last-layer", "feature_loss=argmax"),
    "exact-observations": acb("features=observations", **POLE),
    "streaming": acb("solver=streaming"),
    "streaming-few": acb("solver=streaming", "rank=6"),  # more states than it has directions
    "proximal": acb("solver=proximal"),
    "proximal-narrowest": acb("solver=proximal", "averaging=narrowest"),
    "proximal-gradient": acb("features=gradient", "solver=proximal"),
    "proximal-batch": acb("solver=proximal", "statistics=batch"),
    "rmsprop": acb("solver=rmsprop", "epochs=2"),
    "rmsprop-paper": {"bonus": "acb", "bonus_options": ("preset=paper", "ensemble_size=8")},
    # The other bonuses.
    "none": {"bonus": "none"},
    "elliptical": {"bonus": "elliptical", "bonus_options": ("sketch_size=4",)},
    "elliptical-none": {"bonus": "elliptical", "bonus_options": ("sketch_size=4", "statistics=none")},
    "rnd": {"bonus": "rnd", "bonus_options": ("n_features=16",)},
    "rnd-vectors": {"bonus": "rnd", "bonus_options": ("n_features=16",), **POLE},
    "icm": {"bonus": "icm", "bonus_options": ("n_features=16",), **POLE},
    "e3b": {"bonus": "e3b", "bonus_options": ("n_features=16",), **POLE},
    "count": {"bonus": "count"},
    "count-simhash": {"bonus": "count", **POLE},
    "episodic-count": {"bonus": "episodic-count", **POLE},
    "acb-e3b": {"bonus": "acb*e3b", "bonus_options": ("acb.ensemble_size=8", "acb.sketch_size=4", "e3b.n_features=8")},
    "counts-acb": {"bonus": "episodic-count*acb", "bonus_options": ("acb.ensemble_size=8", "acb.sketch_size=4")},
    "novelty-gain": {"bonus": "novelty-gain(acb)", "bonus_options": ACB},
    "noveld": {"bonus": "novelty-gain(acb)*episodic-count", "bonus_options": ("novelty-gain(acb).ensemble_size=8",)},
    # The rest of the trainer.
    "balanced": acb(mixing="balanced"),
    "normalized": acb(normalize_advantages=True, normalize_observations=True, **POLE),
    "recurrent": acb(recurrent=True, minibatches=3, normalize_advantages=True),
    "continuous": acb(env="gymnasium:MountainCarContinuous-v0", mixing="balanced"),
    "stacked": acb(env="gymnasium:CartPole-v1", frame_stack=2),
    "late-resets": acb(env="ranks_cases:later", normalize_advantages=True),
    "late-resets-count": {"bonus": "count", "env": "ranks_cases:later", "recurrent": True},
    "late-resets-e3b": {"bonus": "e3b", "env": "ranks_cases:later", "bonus_options": ("n_features=8",)},
    "restarts": acb(restart_every=32, **POLE),
    "untrained": acb(untrained=True),
    "target-kl": acb(target_kl=1e-4, epochs=4),
    "lock": acb(env="CombinationLock"),
    "swing-up": acb(env="CartPoleSwingUp"),
    "reward-free": acb(extrinsic=Signal(weight=0.0, discount=0.999, episodic=True)),
}


def config_of(case: str) -> TrainConfig:
    """The configuration of a case."""
    return TrainConfig(**(SMALL | CASES[case]))


def played(case: str, ranks: Ranks) -> list[dict[str, float]]:
    """What every rollout of a case told, but for times; an error unless all ranks have the same agent in the end."""
    trainer = Trainer(config_of(case), ranks=ranks)
    trainer.start()
    told = [trainer.iterate() for _ in range(ROLLOUTS)]
    weights = np.concatenate([p.detach().numpy().ravel() for p in trainer.agent.parameters()])
    if len(set(ranks.objects(zlib.crc32(weights.tobytes())))) > 1:
        raise AssertionError(f"the ranks' agents differ after {case}")
    trainer.environments.close()
    timed = ("seconds/", "steps_per_second")
    return [{name: value for name, value in row.items() if not name.startswith(timed)} for row in told]


def main(folder: Path, cases: list[str]) -> None:
    """Play the cases, and write what the first rank was told."""
    torch.set_num_threads(1)
    with joined() as ranks:
        for case in cases:
            told = played(case, ranks)
            if ranks.is_first:
                (folder / f"{case}.json").write_text(json.dumps(told))


if __name__ == "__main__":
    sys.modules["ranks_cases"] = sys.modules["__main__"]  # where the environment of a case is found
    main(Path(sys.argv[1]), sys.argv[2:] or list(CASES))
