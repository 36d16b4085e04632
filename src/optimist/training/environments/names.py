"""From an id to environments: ours, EnvPool's, Gymnasium's, or the user's own factory."""

import difflib
import re
from collections.abc import Callable, Mapping
from functools import partial
from types import MappingProxyType
from typing import Any

from gymnasium.vector import VectorEnv

from optimist.checks import require_count
from optimist.own import called, imported, name_of
from optimist.ranks import ALONE, Ranks
from optimist.training.environments.combination_lock import CombinationLock
from optimist.training.environments.deep_sea import DeepSea
from optimist.training.environments.frame_stack import FrameStack
from optimist.training.environments.frozen_lake import MAPS, FrozenLake
from optimist.training.environments.gymnasium_vector import (
    GymnasiumVector,
    is_registered,
    make_gymnasium,
    registered_ids,
)
from optimist.training.environments.protocol import (
    Environments,
    options_refused,
    require_environments,
    require_parts,
)
from optimist.training.environments.spaces import options_without
from optimist.training.environments.swing_up import SwingUp

NO_OPTIONS: Mapping[str, Any] = MappingProxyType({})
SINGLE: Mapping[str, Callable[..., Environments]] = {"CombinationLock": CombinationLock, "CartPoleSwingUp": SwingUp}
GYMNASIUM_ONLY = ("level",)  # EnvPool cannot start every episode alike
GYMNASIUM_FIRST = ("FrozenLake", "MiniGrid-MultiRoom")
"""Ids that EnvPool has too, but otherwise: its FrozenLake takes other options; of its MultiRoom's doors many
open on a wall of the next room (EnvPool 1.2.5: 26 % in N2-S4, 36 % in N4-S5, 14 % in N6), and that level has no end."""
OURS = ("DeepSea-30", "CombinationLock", "CartPoleSwingUp", *MAPS)


def make(
    env_id: str | Callable[..., Any],
    *,
    n_envs: int,
    options: Mapping[str, Any] = NO_OPTIONS,
    frame_stack: int = 1,
    ranks: Ranks = ALONE,
) -> Environments:
    """``n_envs`` environments called ``env_id``, not yet started: `reset` does that.

    - ``DeepSea-N``, ``CombinationLock``, ``CartPoleSwingUp``, ``FrozenLake-8x8``, ``FrozenLake-12x12``: ours.
    - Any id of EnvPool's or Gymnasium's: EnvPool where it has the id, unless the option ``level`` (an integer: every
      episode starts from this seed, so with the same layout) asks for Gymnasium. ``gymnasium:ID`` and ``envpool:ID``
      force one. FrozenLake and MiniGrid's MultiRoom are Gymnasium's: see `GYMNASIUM_FIRST`.
    - ``package.module:function``: imports your module and calls ``function(n_envs, **options)``, which returns
      `Environments` or a ``gymnasium.vector.VectorEnv``. A resumed run whose config names it imports it again.
      The function itself may be given too.

    ``options`` go to whoever makes the environments; an unknown one is an error there. ``observation_key`` does not: it
    says which keys of a Dict are read, ``image`` or ``position,velocity``; all of them without it, of MiniGrid image.
    ``frame_stack`` above 1 makes the last so many observations one: see `FrameStack`. Of several ``ranks`` each gets
    its own part of the ``n_envs``, which plays just as it would among all of them.
    """
    part = ranks.part(require_count("n_envs", n_envs))
    made = _made(env_id, part.stop - part.start, options)
    if not ranks.alone:
        require_parts(made, str(env_id)).set_part(part.start, n_envs)
    return made if frame_stack == 1 else FrameStack(made, frame_stack)


def _made(env_id: str | Callable[..., Any], n_envs: int, options: Mapping[str, Any]) -> Environments:
    require_count("n_envs", n_envs)
    if not isinstance(env_id, str):
        return _yours(env_id, name_of(env_id), n_envs, options)
    source, _, name = env_id.rpartition(":")
    if source == "envpool":
        return _envpool(name, n_envs, options)
    if source == "gymnasium":
        return _gymnasium(name, n_envs, options)
    if source:
        return _yours(imported(env_id), env_id, n_envs, options)
    ours = _ours(env_id)
    if ours is not None:
        with options_refused(env_id, options):
            return ours(n_envs=n_envs, **options)
    if any(option in options for option in GYMNASIUM_ONLY) or env_id.startswith(GYMNASIUM_FIRST):
        return _gymnasium(env_id, n_envs, options)
    from optimist.training.environments.envpool_pool import known_ids

    return (_envpool if env_id in known_ids() else _gymnasium)(env_id, n_envs, options)


def _ours(env_id: str) -> Callable[..., Environments] | None:
    if env_id in SINGLE:
        return SINGLE[env_id]
    if env_id in MAPS:
        return partial(FrozenLake, MAPS[env_id].rows, max_episode_steps=MAPS[env_id].max_episode_steps)
    size = re.fullmatch(r"DeepSea-(\d+)", env_id)
    return None if size is None else partial(DeepSea, int(size[1]))


def _envpool(env_id: str, n_envs: int, options: Mapping[str, Any]) -> Environments:
    from optimist.training.environments.envpool_pool import EnvPool, known_ids

    if env_id not in known_ids():
        raise _unknown(env_id)
    return EnvPool(env_id, n_envs=n_envs, options=options)


def _gymnasium(env_id: str, n_envs: int, options: Mapping[str, Any]) -> Environments:
    if not is_registered(env_id):
        raise _unknown(env_id)
    return make_gymnasium(env_id, n_envs=n_envs, options=options)


def _yours(function: Callable[..., Any], env_id: str, n_envs: int, options: Mapping[str, Any]) -> Environments:
    keys = options.get("observation_key")
    made = called(function, n_envs, settings=options_without(options, "observation_key"), what=env_id)
    if isinstance(made, VectorEnv):
        made = GymnasiumVector(made, observation_key=keys)
    elif keys is not None:
        raise ValueError(
            f"observation_key={keys!r} chooses from the Dict of a gymnasium.vector.VectorEnv, and {env_id} returns "
            f"{type(made).__name__}: choose there what it observes"
        )
    return require_environments(made, env_id, n_envs)


def _unknown(env_id: str) -> ValueError:
    from optimist.training.environments.envpool_pool import known_ids

    known = {name.lower(): name for name in (*registered_ids(), *known_ids(), *OURS)}
    near = [known[match] for match in difflib.get_close_matches(env_id.lower(), known, n=5)]
    hint = f"did you mean {', '.join(near)}?" if near else "see envpool.list_all_envs() and gymnasium.pprint_registry()"
    return ValueError(f"no environment is called {env_id!r}: {hint}")
