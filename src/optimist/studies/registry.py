"""The one list of studies: a name, and the module that is it.

A new study is one module in one of the rooms ``bandits``, ``training``, ``atari`` and ``fidelity``, and one line here.
The command line, the documentation and the tests read this list.
"""

from importlib import import_module
from typing import Any

from optimist.config import suggestion
from optimist.studies.study import Study

STUDIES = {
    "figure1": "atari.figure1",
    "figure2": "bandits.figure2",
    "figure3": "atari.figure3",
    "figure4": "atari.figure4",
    "figure5": "atari.figure5",
    "figure6": "atari.figure6",
    "figure7": "atari.figure7",
    "linear-bandits": "bandits.linear_bandits",
    "fidelity": "fidelity.fidelity",
    "classic": "training.classic",
    "mixing": "training.mixing",
    "streaming": "training.streaming",
    "deepsea": "training.deepsea",
    "frozen-lake": "training.frozen_lake",
    "combination-lock": "training.combination_lock",
    "minigrid": "training.minigrid",
    "minigrid-hard": "training.minigrid_hard",
    "memory": "training.memory",
    "atari": "atari.atari",
    "montezuma": "atari.montezuma",
    "ablation": "training.ablation",
}
"""Modules of `optimist.studies`, by the name of the study; each has a ``STUDY``."""


def find_study(name: str) -> Study[Any]:
    """The study called ``name``; its module, and PyTorch if it needs that, is imported only now."""
    if name not in STUDIES:
        raise ValueError(f"there is no study {name!r}: {suggestion(name, STUDIES)}")
    return import_module(f"optimist.studies.{STUDIES[name]}").STUDY
