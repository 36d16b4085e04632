"""Which choices of ACB are taken back, one at a time, at three scales that differ only in numbers."""

from dataclasses import dataclass
from typing import Any

from optimist.studies.deepsea.settings import FREE_STEPS, reward_free
from optimist.studies.training_tasks import REPORTED_SEEDS, Task, TrainingSettings, smoke, with_variants

SIZE = 30


@dataclass(frozen=True)
class Choice:
    """What was chosen otherwise, where docs/deviations.md says so, and the fields that take it back."""

    deviation: str
    fields: dict[str, Any]


def bonus(deviation: str, *options: str) -> Choice:
    """A choice that is made by options of the bonus."""
    return Choice(deviation, {"bonus_options": options})


CHOICES = {
    "aggregate=max": bonus("D5", "aggregate=max"),
    "form=square": bonus("D5", "form=square"),
    "solver=proximal": bonus("D3", "solver=proximal", "ridge=1000"),  # the ridge that suits it best
    "solver=rmsprop": bonus("D3", "solver=rmsprop"),
    "solver=rmsprop, statistics=batch": bonus("D3, D6", "solver=rmsprop", "statistics=batch"),
    "ridge=1000": bonus("D3", "ridge=1000"),
    "statistics=batch": bonus("D6", "statistics=batch"),
    "absolute epsilon": bonus("D6", "epsilon=1e-5", "epsilon_form=absolute"),
    # Too large for the exact solver: the proximal one, with the ridge and the batches that suit it.
    "features=gradient": bonus("D9", "features=gradient", "ridge=1000", "minibatch_size=128"),
    "features=last-layer": bonus("D9", "features=last-layer"),
    "features=penultimate": bonus("D9", "features=penultimate"),
    "train_on=observations": bonus("D2", "train_on=observations"),
    "intrinsic_memory=0": Choice("P1", {"intrinsic_memory": 0}),
    "value_scale_rate=0": Choice("P2", {"value_scale_rate": 0.0}),
    "preset=paper": bonus("D2", "preset=paper"),
    "preset=released": bonus("D2", "preset=released"),
}
"""By the name of the learner; ``acb`` stands beside them as it ships."""


def variants(task: Task) -> Task:
    """ACB in ``task`` as it ships, and with every choice taken back."""
    return with_variants(task, "acb", {"acb": {}} | {name: choice.fields for name, choice in CHOICES.items()})


LAPTOP = variants(reward_free(SIZE, FREE_STEPS[SIZE]))
"""The runs of ``acb`` are those of the study ``deepsea``: --runs takes them from there."""
SCALES = {
    "smoke": smoke(variants(reward_free(4, 128))),
    "laptop": TrainingSettings((LAPTOP,), REPORTED_SEEDS[:3]),
    "paper": TrainingSettings((LAPTOP,)),
}
