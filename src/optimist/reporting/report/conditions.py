"""Runs that differ only in their seed are one condition; conditions that learn the same task share a panel."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from optimist.config import key_values, leaves
from optimist.reporting.report.folders import Run
from optimist.reporting.style import Look, looks_of
from optimist.training.config import TrainConfig
from optimist.training.presets import defaults_for

IGNORED = ("seed", "threads", "device", "checkpoint_every", "checkpoint_minutes")
"""Which replicate it is, and where it ran."""

Fields = Mapping[str, Any]


@dataclass(frozen=True, eq=False)
class Condition:
    """Runs of one configuration; ``learner`` names it within its ``task``."""

    task: str
    learner: str
    look: Look
    fields: Fields
    runs: tuple[Run, ...]


def conditions(runs: Sequence[Run]) -> list[Condition]:
    """The conditions, sorted by task as they come; each learner looks as in all our figures."""
    grouped: dict[tuple[tuple[str, Any], ...], list[Run]] = {}
    for run in runs:
        grouped.setdefault(tuple(fields_of(run.config).items()), []).append(run)
    by_task: dict[str, list[tuple[Fields, list[Run]]]] = {}
    for key, members in grouped.items():
        by_task.setdefault(task_of(dict(key)), []).append((dict(key), members))
    result = []
    for task, group in by_task.items():
        names = labels([fields for fields, _ in group])
        looks = looks_of(names)
        for name, (fields, members) in zip(names, group, strict=True):
            members.sort(key=lambda run: run.config.seed)
            result.append(Condition(task, name, looks[name], fields, tuple(members)))
    return result


def fields_of(config: TrainConfig) -> dict[str, Any]:
    """The configuration without the seed, an entry for each leaf and each option of the environment and the bonus.

    An option of the environment that is the seed itself says that every run meets a problem of its own.
    """
    fields = {name: value for name, value in leaves(config).items() if name not in IGNORED}
    for name in ("env_options", "bonus_options"):
        for option, value in key_values(name, fields.pop(name)).items():
            is_seed = name == "env_options" and "seed" in option and value == config.seed
            fields[f"{name}.{option}"] = "the run's" if is_seed else _hashable(value)
    return fields


def task_of(fields: Fields) -> str:
    """What is learned: the environment with its options, and whether its reward counts."""
    options = [f"{name.partition('.')[2]}={value}" for name, value in fields.items() if name.startswith("env_options.")]
    free = ["reward-free"] if fields["extrinsic.weight"] == 0 else []
    return ", ".join([str(fields["env"]), *options, *free])


def labels(group: Sequence[Fields]) -> list[str]:
    """The name of each condition of a task: its bonus, and where that is not enough, what is not as by default."""
    learners = [learner_of(fields) for fields in group]
    result = []
    for fields, learner in zip(group, learners, strict=True):
        alike = [other for other, name in zip(group, learners, strict=True) if name == learner]
        defaults = fields_of(defaults_for(fields["env"]))
        odd = [name for name in differing(alike) if fields.get(name) != defaults.get(name)]
        result.append(" ".join([learner, *(f"{short(name)}={fields.get(name)}" for name in odd)]))
    return result


def short(name: str) -> str:
    """The name of a field as a reader needs it: an option of the environment or the bonus without whose it is."""
    return name.removeprefix("env_options.").removeprefix("bonus_options.")


def learner_of(fields: Fields) -> str:
    """The bonus, or ``random`` for a policy that never moves."""
    return "random" if fields["untrained"] else str(fields["bonus"])


def differing(group: Sequence[Fields]) -> list[str]:
    """The names of the fields in which the group is not of one mind, as they come."""
    names = dict.fromkeys(name for fields in group for name in fields)
    return [name for name in names if len({fields.get(name) for fields in group}) > 1]


def _hashable(value: Any) -> Any:
    return value if isinstance(value, str | int | float | bool | None) else str(value)
