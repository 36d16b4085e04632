"""The command line as functions: `train` and `resume`, with callbacks, and with Python objects for names."""

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from torch import nn

from optimist.bonuses.protocol import Bonus
from optimist.config import replaced
from optimist.own import GIVEN, name_of
from optimist.training.agent import Factory
from optimist.training.config import TrainConfig
from optimist.training.presets import defaults_for, folder_name
from optimist.training.runs import run as runs
from optimist.training.runs.callbacks import Callback, Outcome

OPTIONS = ("env_options", "bonus_options")


def train(
    env: str | Callable[..., Any] | None = None,
    *,
    bonus: str | Bonus | Callable[..., Bonus] | None = None,
    network: str | nn.Module | Factory | None = None,
    config: TrainConfig | None = None,
    out: str | Path | None = None,
    callbacks: Sequence[Callback] = (),
    **settings: Any,
) -> Outcome:
    """How the run ended that ``optimist train --env ENV --bonus BONUS ...`` makes: the same run, in the same folder.

        train(env="DeepSea-20", bonus="acb", total_steps=100_000, bonus_options={"ensemble_size": 64}, out="runs/sea")

    ``settings`` are fields of `TrainConfig`, which replace those of ``config``, or else of the defaults of ``env``.
    Options of the environment and of the bonus may be mappings; so may ``extrinsic`` and ``intrinsic``, of the fields
    that differ. ``out`` is the folder, ``runs/ENV-BONUS-SEED`` if it is not given.

    ``env`` may be a function that makes environments, ``bonus`` a `Bonus` or a function that makes one from a
    `Task`, ``network`` a module or a function that makes one. An object is copied. A function that can be imported is
    remembered by its name; what cannot be must be given again to `resume`.

    ``callbacks`` are called with a `Moment` after every rollout, and may stop the run. Ctrl-C and SIGTERM raise
    `Interrupted` when the checkpoint is written.
    """
    names, given = _named(env=env, bonus=bonus, network=network)
    if config is None:
        config = defaults_for(names.get("env", TrainConfig.env))
    config = replaced(config, names | {name: _value(name, value, config) for name, value in settings.items()})
    return runs.train(config, Path(out or Path("runs") / folder_name(config)), callbacks=callbacks, **given)


def resume(
    folder: str | Path,
    *,
    total_steps: int | None = None,
    env: Callable[..., Any] | None = None,
    bonus: Bonus | Callable[..., Bonus] | None = None,
    network: nn.Module | Factory | None = None,
    callbacks: Sequence[Callback] = (),
) -> Outcome:
    """How the run in ``folder`` ended after it went on from its newest intact checkpoint: see `train`."""
    _, given = _named(env=env, bonus=bonus, network=network, by_name=False)
    return runs.resume(Path(folder), total_steps=total_steps, callbacks=callbacks, **given)


def _named(*, by_name: bool = True, **things: Any) -> tuple[dict[str, str], dict[str, Any]]:
    """What a configuration calls the ``things`` that were given, and those that cannot be found by that name."""
    given = {name: thing for name, thing in things.items() if thing is not None}
    names = {name: thing if isinstance(thing, str) else name_of(thing) for name, thing in given.items()}
    objects = {name: thing for name, thing in given.items() if not isinstance(thing, str)}
    if by_name:
        objects = {name: thing for name, thing in objects.items() if names[name].startswith(GIVEN)}
    return names, objects


def _value(name: str, value: Any, config: TrainConfig) -> Any:
    """The value of a field, from what a caller writes for it."""
    if not isinstance(value, Mapping):
        return tuple(value) if name in OPTIONS and not isinstance(value, str) else value
    if name in OPTIONS:
        return tuple(f"{key}={one if isinstance(one, str) else json.dumps(one)}" for key, one in value.items())
    return replaced(getattr(config, name), value) if hasattr(config, name) else value
