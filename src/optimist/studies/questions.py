"""What the page about a folder of studies asks: each question, where it is answered, and what is shown of the tables.

A study that is added gets its place here; `optimist.studies.results` writes the page.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from optimist.reporting.tables import Row
from optimist.studies.study import Tables
from optimist.studies.training.verdicts import number

Shown = tuple[Sequence[str], Sequence[Sequence[str]]]
"""The head and the rows of a table on the page."""


@dataclass(frozen=True)
class Exhibit:
    """What one folder contributes to a question."""

    folder: str
    show: Callable[[Tables], Shown]
    figures: tuple[tuple[str, str], ...] = ()
    """Names of figures, and what is seen on them."""
    script: str = ""
    """The benchmark that wrote the table, by the name of its file without ``bench_``."""
    title: str = ""
    """What heads the exhibit; the benchmark or the folder if there is none."""
    claims: str = ""
    """A regular expression: the claims that belong to the question. That all runs finish is told elsewhere."""


@dataclass(frozen=True)
class Question:
    """A question, and where it is answered."""

    words: str
    exhibits: tuple[Exhibit, ...]


# ---- Tables of the page ----------------------------------------------------------------------------------------------


def by_learner(table: str, cell: Callable[[Row], str], **only: str) -> Callable[[Tables], Shown]:
    """Shows ``table`` with one line per task and one column per learner."""

    def show(tables: Tables) -> Shown:
        rows = [row for row in tables[table] if all(row[name] == value for name, value in only.items())]
        learners = list(dict.fromkeys(row["learner"] for row in rows))
        cells = {(row["task"], row["learner"]): cell(row) for row in rows}
        tasks = dict.fromkeys(row["task"] for row in rows)
        return ("task", *learners), [(task, *(cells.get((task, one), "") for one in learners)) for task in tasks]

    return show


def mean_cell(row: Row) -> str:
    """Mean, standard error and seeds, and what was published."""
    ours = f"{number(row['mean'])} ± {number(row['se'], 2)} ({row['seeds']})" if row["known"] else "not played"
    if row["seeds"] and not row["known"]:
        ours = f"none of {row['seeds']}"
    return ours + (f"; published {number(row['published'])}" if math.isfinite(row["published"]) else "")


def solved_cell(row: Row) -> str:
    """How many seeds got there, and after how many steps."""
    steps = f", step {number(row['mean'])}" if row["known"] else ""
    published = f"; published step {number(row['published'])}" if math.isfinite(row["published"]) else ""
    return (f"{row['known']} of {row['seeds']}{steps}" if row["seeds"] else "not played") + published


def ensemble_sizes(tables: Tables) -> Shown:
    """Regret against M, on trials that nothing was selected on."""
    lines: dict[str, dict[int, str]] = {}
    for row in tables["regret"]:
        if (row["role"], row["protocol"]) == ("selected", "held-out"):
            lines.setdefault(row["panel"], {})[row["ensemble_size"]] = f"{number(row['mean'])} ± {number(row['se'], 2)}"
    sizes = sorted({size for line in lines.values() for size in line})
    head = ("solver", *(f"M = {size}" for size in sizes))
    return head, [(name, *(line.get(size, "") for size in sizes)) for name, line in lines.items()]


def policies(tables: Tables) -> Shown:
    """Regret by policy on every problem."""
    rows = [row for name in ("published", "changing", "drifting", "labeled") for row in tables.get(name, ())]
    places = list(dict.fromkeys((row["problem"], row["d"]) for row in rows))
    cells: dict[str, dict[tuple[str, int], str]] = {}
    for row in rows:
        text = f"{number(row['mean'])} ± {number(row['se'], 2)}"
        text += f"; published {number(row['published'])}" if row.get("published", "") != "" else ""
        cells.setdefault(row["policy"], {})[row["problem"], row["d"]] = text
    head = ("policy", *(f"{problem}, d = {d}" for problem, d in places))
    return head, [(policy, *(mine.get(place, "not played") for place in places)) for policy, mine in cells.items()]


def ablation(tables: Tables) -> Shown:
    """States visited with each choice taken back, task by task, the most first."""
    tasks = list(dict.fromkeys(row["task"] for row in tables["ablation"]))
    rows = sorted(tables["ablation"], key=lambda row: (tasks.index(row["task"]), -row["mean"]))
    head = ("task", "choice taken back", "deviation", "states at the end", "95 % interval", "seeds")
    return head, [
        (
            *(r[name] for name in ("task", "learner", "deviation")),
            number(r["mean"]),
            f"{number(r['low'])} to {number(r['high'])}",
            str(r["seeds"]),
        )
        for r in rows
    ]


def drops(tables: Tables) -> Shown:
    """How far the bonus of each agent falls at the ends of episodes."""
    head = ("game", "seed", "ends", "fell at", "bonus before", "bonus after", "drop as a share")
    return head, [
        (
            r["task"],
            str(r["seed"]),
            str(r["ends"]),
            str(r["fell"]),
            *(number(r[n]) for n in ("before", "after", "share")),
        )
        for r in tables["drops"]
    ]


def fidelity(tables: Tables) -> Shown:
    """Rank correlation with the exact bonus of each variant's own ridge, at the last checkpoint, over replicates."""
    last = max(row["states"] for row in tables["fidelity"])
    groups: dict[tuple[str, str, str, str], dict[str, list[Row]]] = {}
    for row in tables["fidelity"]:
        if row["states"] == last and row["reference"] == "own":
            place = (row["environment"], row.get("policy", "random"), row["features"], row["variant"])
            groups.setdefault(place, {}).setdefault(row["aggregate"], []).append(row)
    head = ("environment", "policy", "features", "variant", "rms", "its ceiling", "max", "its ceiling")
    return head, [
        (
            *place,
            *(f"{mean_of(rows[kind], name):.3f}" for kind in ("rms", "max") for name in ("correlation", "ceiling")),
        )
        for place, rows in groups.items()
    ]


def frontier(tables: Tables) -> Shown:
    """Rank correlation with the exact bonus on moving frontiers, and scales of often, rarely and never seen states."""
    groups: dict[tuple[str, str, str], list[Row]] = {}
    for row in tables.get("frontier", ()):
        groups.setdefault((row["environment"], row["policy"], row["variant"]), []).append(row)
    measured = ("correlation", "often", "rarely", "never")
    head = ("environment", "policy", "variant", "rank correlation", "scale, often", "scale, rarely", "scale, never")
    return head, [
        (*place, f"{mean_of(rows, measured[0]):.3f}", *(f"{mean_of(rows, name):.2f}" for name in measured[1:]))
        for place, rows in groups.items()
    ]


def mean_of(rows: Sequence[Row], column: str) -> float:
    """The mean of a column."""
    return sum(row[column] for row in rows) / len(rows)


def columns(table: str, heads: Mapping[str, str]) -> Callable[[Tables], Shown]:
    """Shows some columns of ``table``, under other heads."""

    def show(tables: Tables) -> Shown:
        found = tables.get(table, ())
        rows = [[value if isinstance(value := row[n], str) else number(value) for n in heads] for row in found]
        return tuple(heads.values()), rows

    return show


# ---- Questions -------------------------------------------------------------------------------------------------------

STATES, SUCCESS = by_learner("summary", mean_cell, measure="unique_states"), by_learner("summary", mean_cell)
SCORE = by_learner("summary", mean_cell, measure="return")
SOLVED = by_learner("summary", solved_cell, measure="solved_at")

BANDITS = {"d": "d", "contestant": "contestant", "milliseconds": "ms per round", "times_faster": "times"}
BANDITS |= {"than": "as fast as"}
SPARSE = {"d": "d", "nonzeros": "non-zeros", "contestant": "contestant", "milliseconds": "ms per round"}
SPARSE |= {"times_acb_sgd": "times ACB sgd"}
BATCH = {"rows": "rows", "d": "d", "what": "learner", "CPU ms": "CPU ms", "ratio": "times the normal equations"}
STARTUP = {"policy": "policy", "compiled code": "compiled code", "stage": "stage", "cpu_seconds": "CPU seconds"}
SERVICE = {name: name for name in ("what", "decisions per second", "median ms", "p99 ms")}
SERVICE |= {"service CPU ms per decision": "CPU ms of the service per decision"}
SGD = {"problem": "problem", "exact": "exact", "sgd": "sgd", "ratio": "ratio", "error": "±", "trials": "trials"}
SGD_BONUS = {"rows": "rows", "ridge": "ridge", "median": "median", "q10": "10 % quantile", "q90": "90 % quantile"}
RECOMMENDER = {"problem": "problem", "policy": "policy", "regret": "regret, clicks", "se": "±", "seeds": "seeds"}
BETA = {"policy": "policy", "beta_over_noise": "beta / noise", "mean": "regret", "se": "±", "q95": "95 % quantile"}
BETA |= {"locked_in": "share locked in"}
TRAINING = {"task": "task", "variant": "variant", "steps_per_second": "steps per second"}
TRAINING |= {"ratio": "times the first of its task"}
ENVIRONMENTS = {"n_envs": "environments", "steps_per_second": "steps per second", "environment_us": "emulation, us"}
ENVIRONMENTS |= {"inference_us": "inference, us", "bonus_us": "bonus, us", "update_us": "update, us"}
ENVIRONMENTS |= {"start_s": "start, s", "memory_mb": "memory, MB"}
CAMPAIGN = {"environment": "environment", "bonus": "bonus", "SIGKILL": "SIGKILL", "SIGTERM": "SIGTERM"}
CAMPAIGN |= {"SIGINT": "SIGINT", "damaged": "files damaged", "crowded": "two processes", "no room": "no room"}
CAMPAIGN |= {"full disk": "full disk", "compared": "ends compared", "identical": "identical"}
SOAK = {"solver": "solver", "distinct": "different states", "visits": "visits", "states": "states", "finite": "finite"}
SOAK |= {"least eigenvalue": "least eigenvalue", "ratio, least": "over the exact bonus, least"}
SOAK |= {"ratio, median": "median", "ratio, largest": "largest", "law": "times 1 / sqrt(n + 1)"}
SOAK |= {"identical": "goes on exactly", "CPU minutes": "CPU minutes"}
ADAPTERS = {"host": "host", "case": "case", "ratio": "seconds with the bonus over seconds without"}

QUESTIONS = (
    Question(
        "Does it help on tasks nobody tuned, and harm nowhere?",
        (
            Exhibit("classic", SOLVED, (("success", "success rate along the steps, one setting for all tasks"),)),
            Exhibit("mixing", SOLVED, (("success", "success rate along the steps, parts of the mix taken back"),)),
        ),
    ),
    Question(
        "Does ACB visit more states than other bonuses?",
        (
            Exhibit("deepsea", STATES, (("unique_states", "unique states along the steps"),), claims="reward-free"),
            Exhibit("streaming", STATES, (("unique_states", "unique states with and without a matrix"),)),
            Exhibit("figure6", STATES, (("unique_states", "Figure 6: unique states along the steps"),)),
            Exhibit("atari", STATES),
        ),
    ),
    Question(
        "Are tasks solved with it that are not solved without?",
        (
            Exhibit("deepsea", SOLVED, (("solved", "share of the seeds that solved a sea"),), claims="reward, "),
            Exhibit("frozen-lake", SOLVED, (("success", "success rate along the steps"),)),
            Exhibit("minigrid", SUCCESS, (("success", "success rate along the steps"),)),
            Exhibit("memory", SUCCESS, (("success", "success rate along the steps"),)),
            Exhibit("minigrid-hard", SOLVED, (("success", "success rate along the steps"),)),
            Exhibit("combination-lock", SUCCESS, (("success", "success rate along the steps"),)),
        ),
    ),
    Question(
        "Does an agent that is trained on bonuses alone score?",
        (Exhibit("figure5", SCORE, (("return", "Figure 5: raw return along the steps"),)),),
    ),
    Question(
        "With reward, is ACB as good as RND?",
        (Exhibit("figure7", SCORE, (("return", "Figure 7: raw return along the steps"),)),),
    ),
    Question(
        "Is RND better on Montezuma's Revenge, as the paper says?",
        (
            Exhibit(
                "montezuma",
                SCORE,
                (
                    ("cells", "coarse frames visited along the steps"),
                    ("map_unseen_rooms", "the bonus of rooms that no agent has entered, times that of the own play"),
                ),
            ),
        ),
    ),
    Question(
        "Do bigger ensembles help?",
        (
            Exhibit("figure2", ensemble_sizes, (("figure2", "Figure 2: regret against the ensemble size"),)),
            Exhibit("figure4", SCORE, (("return", "Figure 4: raw return along the steps"),)),
        ),
    ),
    Question(
        "Gradients or penultimate features?",
        (Exhibit("figure3", STATES, (("unique_states", "Figure 3: unique states along the steps"),)),),
    ),
    Question(
        "Which of our choices matter?",
        (
            Exhibit(
                "ablation",
                ablation,
                (
                    ("ablation", "states visited in DeepSea-30 with each choice taken back"),
                    ("ablation_deepsea_50", "states visited in DeepSea-50"),
                    ("ablation_multiroom_one_level", "views seen in MultiRoom"),
                    ("ablation_breakout", "screens seen in Breakout"),
                ),
            ),
        ),
    ),
    Question(
        "Does the bonus drop where an episode ends?",
        (Exhibit("figure1", drops, (("film_strip_breakout", "Figure 1: the bonus along a game of Breakout"),)),),
    ),
    Question(
        "How does ACB compare with LinUCB and others on linear bandits?",
        (
            Exhibit(
                "linear-bandits",
                policies,
                (
                    ("policies", "regret of every policy on every problem"),
                    ("open_question", "the open question of section 3: incremental ACB against d and T"),
                ),
            ),
        ),
    ),
    Question(
        "How near does descent without a matrix come to the exact solver of a bandit?",
        (
            Exhibit("benchmarks", columns("sgd", SGD), script="sgd", title="regret"),
            Exhibit("benchmarks", columns("sgd_bonus", SGD_BONUS), script="sgd", title="bonus over the exact one"),
        ),
    ),
    Question(
        "How does it compare with Vowpal Wabbit on hashed features?",
        (Exhibit("benchmarks", columns("recommender", RECOMMENDER), script="recommender"),),
    ),
    Question(
        "How is beta to be chosen?",
        (
            Exhibit(
                "benchmarks",
                columns("beta", BETA),
                (("beta", "regret and the share of trials locked in on a wrong action, against beta"),),
                script="beta",
            ),
        ),
    ),
    Question(
        "How closely does ACB follow the exact bonus?",
        (
            Exhibit(
                "fidelity",
                fidelity,
                (("fidelity_own_ridge", "rank correlation of every solver"),),
                claims="^(?!.*moving frontier)",
            ),
            Exhibit(
                "fidelity",
                frontier,
                (("frontier", "rank correlation and scale on moving frontiers"),),
                title="fidelity on moving frontiers",
                claims="moving frontier",
            ),
        ),
    ),
    Question(
        "How fast is it?",
        (
            Exhibit(
                "benchmarks",
                columns("bandits", BANDITS),
                (("bandits_scaling", "time of a round against d and M"),),
                script="bandits",
            ),
            Exhibit(
                "benchmarks", columns("bandits_sparse", SPARSE), script="bandits", title="bandits, hashed features"
            ),
            Exhibit("benchmarks", columns("bandits_batch", BATCH), script="bandits", title="bandits, a warm start"),
            Exhibit("benchmarks", columns("startup", STARTUP), script="startup"),
            Exhibit("benchmarks", columns("service", SERVICE), script="service"),
            Exhibit("benchmarks", columns("training", TRAINING), script="training"),
            Exhibit("benchmarks", columns("environments", ENVIRONMENTS), script="environments"),
            Exhibit("benchmarks", columns("adapters", ADAPTERS), script="adapters"),
        ),
    ),
    Question("Does the bonus hold for two million states?", (Exhibit("soak", columns("soak", SOAK)),)),
    Question("What does a run survive?", (Exhibit("campaign", columns("campaign", CAMPAIGN)),)),
)
