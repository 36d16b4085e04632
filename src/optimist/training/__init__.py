"""Training: PPO with two value heads and a bonus, on any environment, in runs that survive anything.

    from optimist import training
    training.train(env="DeepSea-20", bonus="acb", total_steps=100_000, out="runs/sea")
    training.resume("runs/sea", total_steps=200_000)   # also after a kill at any moment
    played = training.play_back("runs/sea", steps=200)

- `TrainConfig` has every choice and its default, with one `Signal` per reward and the `Balance` of both; `defaults_for`
  the preset of an environment (`ATARI`, `GRID`, `VECTOR`, `DEEP_SEA`), `train_command` the command line that repeats
  a run.
- `train` and `resume` make a run on disk and say by an `Outcome` how it ended; callbacks are given a `Moment` after
  every rollout, and may stop the run; `Interrupted` says that a signal did. `read_config` and `read_metrics` read
  its files. `Trainer` is the run itself, rollout by rollout, for loops of your own; `NotFinite` is
  raised where a number is not.
- `play_back` watches a trained agent: a `Playback` with one `Game` per environment.
- `Environments` and `Step` are what an environment of your own provides; `GymnasiumVector` wraps Gymnasium's.

What needs PyTorch is imported when it is first asked for: configurations can be read without it.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from optimist.training.config import Balance, Signal, TrainConfig
from optimist.training.presets import ATARI, DEEP_SEA, GRID, VECTOR, defaults_for, train_command
from optimist.training.runs.callbacks import Moment, Outcome
from optimist.training.runs.metrics_log import read_metrics
from optimist.training.runs.stopping import Interrupted

if TYPE_CHECKING:
    from optimist.training.environments import Environments, GymnasiumVector, Step
    from optimist.training.interface import resume, train
    from optimist.training.playback import Game, Playback, play_back
    from optimist.training.ppo import Trainer
    from optimist.training.rollout import NotFinite
    from optimist.training.runs.run import read_config

__all__ = [
    "ATARI",
    "DEEP_SEA",
    "GRID",
    "VECTOR",
    "Balance",
    "Environments",
    "Game",
    "GymnasiumVector",
    "Interrupted",
    "Moment",
    "NotFinite",
    "Outcome",
    "Playback",
    "Signal",
    "Step",
    "TrainConfig",
    "Trainer",
    "defaults_for",
    "play_back",
    "read_config",
    "read_metrics",
    "resume",
    "train",
    "train_command",
]

_LATER = {
    **dict.fromkeys(("Environments", "GymnasiumVector", "Step"), "environments"),
    **dict.fromkeys(("Game", "Playback", "play_back"), "playback"),
    **dict.fromkeys(("resume", "train"), "interface"),
    "read_config": "runs.run",
    "NotFinite": "rollout",
    "Trainer": "ppo",
}
"""Where the names are that need PyTorch."""


def __getattr__(name: str) -> Any:
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_LATER[name]}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
