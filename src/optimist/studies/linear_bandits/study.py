"""Every policy on linear bandits: published tables, changing actions, labelled data, and the paper's open question.

The open question, section 3 of the paper: "We conjecture that the incrementally-updated version guarantees can be
extended to linear bandits beyond MAB for reasonable ensemble sizes." Here its regret is measured against d and T beside
the lazy and the re-randomized history, which have guarantees.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from optimist.bandits import ChangingActions, FixedActions, LabelledData, Problem
from optimist.reporting.regret import draw_open_question, draw_policies
from optimist.reporting.tables import Row
from optimist.studies.comparison import Budget, Entry, compare, curve, summary
from optimist.studies.linear_bandits.settings import PUBLISHED, Settings
from optimist.studies.linear_bandits.verdict import judge
from optimist.studies.lineup import LINEUP
from optimist.studies.outcome import Outcome, Progress
from optimist.studies.workers import Pool

HISTORIES = ("acb", "acb-lazy", "acb-rerandomized")
SLOW_AT_D_7840 = frozenset({"acb-rerandomized", "acb-lazy", "linphe", "lints"})
"""Left out on MNIST: fresh draws from ten matrices of 784 x 784 in every round are too slow here."""


@dataclass(frozen=True)
class Part:
    """One problem of the study and who plays it."""

    table: str
    name: str
    d: int
    problem: Problem
    selection: Problem
    """Other instances of the problem, on which widths are selected."""
    policies: tuple[str, ...]
    budget: Budget


def run(settings: Settings, progress: Progress, workers: int | None = None, folder: Path | None = None) -> Outcome:
    """All parts one after the other; the tables have a row for each policy on each problem."""
    planned = list(parts(settings))
    tables: dict[str, list[Row]] = {}
    curves: list[Row] = []
    with Pool(workers) as pool:
        for index, part in enumerate(planned):

            def advance(done: int, total: int, label: str, index: int = index, part: Part = part) -> None:
                progress(round(100 * (index + done / total)), 100 * len(planned), f"{part.name}, d = {part.d}: {label}")

            entries = compare(part.problem, part.selection, part.policies, part.budget, pool, advance)
            tables.setdefault(part.table, []).extend(table_row(part, entry) for entry in entries)
            if part.table == "open_question":
                curves += [{"problem": part.name, "d": part.d, **row} for entry in entries for row in curve(entry)]
    tables["open_question_curves"] = curves
    everyone = [row for name, rows in tables.items() if name in ("published", "changing", "labelled") for row in rows]
    return Outcome(
        tables=tables,
        verdicts=judge(tables["published"], tables["open_question"], curves),
        figures={
            "policies": partial(draw_policies, everyone),
            "open_question": partial(draw_open_question, tables["open_question"], curves),
        },
    )


def parts(settings: Settings) -> Iterator[Part]:
    """The problems in order."""
    budget = Budget(settings.horizon, settings.trials, settings.selection_trials, settings.seed, settings.widths)
    everyone = tuple(LINEUP)
    for d in settings.dimensions:
        yield Part("published", "fixed", d, *fixed_actions(d, settings, seed=0), everyone, budget)
    for d in settings.changing_dimensions:
        yield Part("changing", "changing", d, *changing_actions(d, settings, seed=0), everyone, budget)
    for data in settings.labelled:
        yield labelled_part(data, everyone, settings)
    for d in settings.open_dimensions:
        yield Part("open_question", "fixed", d, *fixed_actions(d, settings, seed=1), HISTORIES, budget)
    for d in settings.open_dimensions:
        yield Part("open_question", "changing", d, *changing_actions(d, settings, seed=1), HISTORIES, budget)


def fixed_actions(d: int, settings: Settings, seed: int) -> tuple[Problem, Problem]:
    """The problem of the published tables, one instance a trial, and other instances to select widths on."""
    trials, others = settings.trials, settings.selection_trials
    return (
        FixedActions.random(settings.n_actions, d, instances=trials, seed=seed),
        FixedActions.random(settings.n_actions, d, instances=others, seed=seed + 1_000),
    )


def changing_actions(d: int, settings: Settings, seed: int) -> tuple[Problem, Problem]:
    """New actions every round, and the same with another theta to select widths on."""
    n_actions = settings.changing_actions
    return ChangingActions(n_actions, d, 0.3, seed=seed), ChangingActions(n_actions, d, 0.3, seed=seed + 1_000)


def labelled_part(data: str, everyone: Sequence[str], settings: Settings) -> Part:
    """A data set as a bandit; on MNIST without the policies that are too slow at its size."""
    problem = {"digits": LabelledData.digits, "mnist": LabelledData.mnist}[data]()
    names = tuple(name for name in everyone if data != "mnist" or name not in SLOW_AT_D_7840)
    trials = settings.labelled_trials
    budget = Budget(settings.labelled_horizon, trials, max(2, trials // 2), settings.seed, settings.labelled_widths)
    return Part("labelled", data, problem.n_features * problem.n_arms, problem, problem, names, budget)


def table_row(part: Part, entry: Entry) -> Row:
    """The summary of a policy on a problem, with the published regret where there is one."""
    row = {"problem": part.name, "d": part.d, "horizon": part.budget.horizon, **summary(entry)}
    if part.table == "published":
        is_comparable = part.budget.horizon == 10_000
        row["published"] = PUBLISHED.get((entry.policy, part.d), "") if is_comparable else ""
    return row
