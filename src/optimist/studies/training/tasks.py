"""What a study of training runs is made of: tasks, who learns them, and on which seeds."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any, Self

from optimist.bonuses import factory
from optimist.config import key_values, replaced
from optimist.studies.study import FURTHER_SEEDS, require_seeds
from optimist.studies.training.runs import Job
from optimist.training.config import TrainConfig
from optimist.training.presets import defaults_for

RANDOM = "random"
"""The learner that does not learn: the initial policy, which is nearly uniform."""
UNTRAINED: dict[str, Any] = {"bonus": "count", "untrained": True}
REPORTED_SEEDS = (100, 101, 102, 103, 104)
"""Seeds 0 to 9 are for tuning."""
SMALL_ROLLOUTS: dict[str, Any] = {"n_envs": 4, "steps": 32, "epochs": 1, "minibatches": 2, "warm_up_steps": 32}

preset_of = cache(defaults_for)  # to know a game as one of Atari's, EnvPool is asked, which takes a while


@dataclass(frozen=True)
class Task:
    """An environment, its budget and its learners. Each is a bonus (``none`` is none), or ``random``.

    A learner is trained with the preset of the environment, in which ``changes`` replaces fields (``extrinsic.weight``
    is one of a nested configuration) for all and ``own`` those of one learner. ``{seed}`` in an option of the
    environment is the seed of the run, where each is to meet a problem of its own.
    """

    name: str
    env: str
    total_steps: int
    learners: tuple[str, ...]
    changes: dict[str, Any] = field(default_factory=dict)
    own: dict[str, dict[str, Any]] = field(default_factory=dict)
    contested: tuple[str, ...] = ()
    """Learners that are played on `FURTHER_SEEDS` too: five seeds left a claim about them undecided."""

    def __post_init__(self) -> None:
        strangers = sorted({*self.own, *self.contested} - set(self.learners))
        if strangers:
            raise ValueError(f"{self.name} has fields for {', '.join(strangers)}, which is none of {self.learners}")

    def config(self, learner: str, seed: int) -> TrainConfig:
        """Everything that the run of ``learner`` depends on."""
        own = (UNTRAINED if learner == RANDOM else {"bonus": learner}) | self.own.get(learner, {})
        fields: dict[str, Any] = self.changes | own | {"total_steps": self.total_steps, "seed": seed}
        options = tuple(option.replace("{seed}", str(seed)) for option in fields.get("env_options", ()))
        return replaced(preset_of(self.env), fields | {"env_options": options})


def with_variants(task: Task, of: str, variants: Mapping[str, Mapping[str, Any]]) -> Task:
    """``task`` for learners that are ``of`` in ``task`` with other fields; one that changes nothing is ``of`` itself.

    Options of the bonus are added to those that ``of`` has, and replace the ones of the same key.
    """
    own: dict[str, Any] = {"bonus": of} | task.own.get(of, {})
    before: tuple[str, ...] = (task.changes | own).get("bonus_options", ())
    result: dict[str, dict[str, Any]] = {}
    for name, fields in variants.items():
        added: tuple[str, ...] = fields.get("bonus_options", ())
        keys = {option.partition("=")[0] for option in added}
        kept = tuple(option for option in before if option.partition("=")[0] not in keys)
        result[name] = own | dict(fields) | {"bonus_options": kept + added}
    return replace(task, learners=tuple(variants), own=result, contested=())


@dataclass(frozen=True)
class TrainingSettings:
    """Everything that a study depends on: every learner of every task on every seed, the contested ones on more."""

    tasks: tuple[Task, ...]
    seeds: tuple[int, ...] = REPORTED_SEEDS
    added: tuple[str, ...] = ()
    """Learners that a user added to every task."""

    def with_seeds(self, seeds: Sequence[int]) -> Self:
        """The same tasks on other seeds, all learners on the same ones."""
        tasks = tuple(replace(task, contested=()) for task in self.tasks)
        return replace(self, tasks=tasks, seeds=require_seeds(seeds))

    def with_learners(self, learners: Sequence["Added"]) -> Self:
        """Every task with further learners."""
        tasks = self.tasks
        for learner in learners:
            tasks = tuple(learner.joined(task) for task in tasks)
        return replace(self, tasks=tasks, added=(*self.added, *(learner.label for learner in learners)))

    def jobs(self) -> list[Job]:
        """The runs, seed by seed: a study that is interrupted has something of every learner."""
        rounds = [(seed, [(task, task.learners) for task in self.tasks]) for seed in self.seeds]
        rounds += [(seed, [(task, task.contested) for task in self.tasks]) for seed in FURTHER_SEEDS]
        return [
            Job(task.name, learner, task.config(learner, seed))
            for seed, places in rounds
            for task, learners in places
            for learner in learners
        ]


@dataclass(frozen=True)
class Added:
    """A learner that a user adds to a study: a bonus of any name, with options of its own, under a label."""

    label: str
    bonus: str
    options: tuple[str, ...] = ()

    @classmethod
    def parse(cls, text: str) -> Self:
        """The learner that ``[label=]bonus[,key=value ...]`` writes, or an error that says what is wrong with it.

        The bonus is a name, ``package.module:factory``, or a product of two. Without a label it has its own name; that
        of a factory is the function's.
        """
        head, *options = (part.strip() for part in text.split(","))
        label, _, bonus = (part.strip() for part in head.rpartition("="))
        for factor in factory.parse(bonus):
            factory.builder(factor)
        key_values("the options of --bonus", options)
        return cls(label or re.sub(r"[\w.]+:", "", bonus), bonus, tuple(options))

    def joined(self, task: Task) -> Task:
        """``task`` with this learner, trained as the others are."""
        if self.label in task.learners:
            raise ValueError(
                f"--bonus adds a learner {self.label!r}, and {task.name} has one of that name already: "
                f"give it another, such as  --bonus my-{self.label}={self.bonus}"
            )
        own = {self.label: {"bonus": self.bonus, "bonus_options": self.options}}
        return replace(task, learners=(*task.learners, self.label), own=task.own | own)


def smoke(*tasks: Task) -> TrainingSettings:
    """The tasks in small rollouts on two seeds: seconds, and nothing is learned."""
    small = tuple(replace(task, changes=SMALL_ROLLOUTS | task.changes) for task in tasks)
    return TrainingSettings(small, seeds=REPORTED_SEEDS[:2])
