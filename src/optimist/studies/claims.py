"""One table of every claim: what the paper says and where, what our studies measured, and how it was judged."""

import json
import re
import shlex
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import optimist
from optimist.reporting.tables import Row
from optimist.studies.study import ALL_RUNS_FINISH, FURTHER_SEEDS, Verdict, read_verdicts


@dataclass(frozen=True)
class Claim:
    """A sentence of the paper, the study that tests it, and which of its verdicts do (a regular expression)."""

    place: str
    words: str
    study: str
    verdicts: str = ""


PAPER = (
    Claim("section 1", "ACB approximates the elliptical bonus of LinUCB", "fidelity"),
    Claim("Figure 1", "when the agent dies, the ACB bonus typically drops by a significant margin", "figure1", "drops"),
    Claim(
        "Figure 1, caption",
        "large bonuses often belong to states on the periphery of what was seen",
        "figure1",
        "periphery",
    ),
    Claim(
        "Figure 2", "up to a point, increasing ensemble size improves the cumulative regret", "figure2", "increasing"
    ),
    Claim("section 3", "M must be small enough to avoid too many upper-tail events", "figure2", "too large"),
    Claim("section 3, lazy", "lazy re-randomization keeps the regret", "linear-bandits", "lazy"),
    Claim("section 3, conjecture", "incremental ACB works beyond multi-armed bandits", "linear-bandits", "conjecture"),
    Claim("section 4", "gradients tend to perform better than the penultimate layer", "ablation", "=penultimate"),
    Claim("section 4, scale", "ACB handles features of over a million dimensions", "ablation", "features=gradient"),
    Claim("Figure 3", "gradient features seem to offer improved exploration over penultimate ones", "figure3"),
    Claim(
        "section 5", "tail-averaged parameters and batch normalization help", "ablation", "statistics=none|auxiliary"
    ),
    Claim("Figure 4", "larger ensembles are generally more stable and observe more extrinsic reward", "figure4"),
    Claim("section 5, start", "the bonuses make the agent avoid the start state", "figure1", "at the start"),
    Claim("Figure 5", "without reward many agents play well; ACB is competitive with other bonuses", "figure5"),
    Claim("Figure 6", "ACB visits as many or more states than baselines in most of the games", "figure6"),
    Claim("Figure 7", "with reward ACB is at least as good as RND on most games, sometimes better", "figure7"),
    Claim("section 6", "ACB does not perform as well as RND on Montezuma's Revenge", "montezuma"),
)
"""The empirical claims in the order of the paper; the theorems are tested, not judged (docs/paper_map.md)."""
OURS = "ours"
"""The place of what the paper does not claim."""


@dataclass(frozen=True)
class StudyFolder:
    """What a study left: its name, the command and the version that made it, its settings and its verdicts."""

    name: str
    command: str
    version: str
    settings: Mapping[str, Any]
    verdicts: Sequence[Verdict]


def claim_rows(folders: Sequence[Path]) -> list[Row]:
    """A row for each verdict in the folders of studies, in the paper's order, then what it does not claim.

    A claim that none of the studies tests has a row that says so. Folders without verdicts are passed over.
    """
    studies = [read_study(folder) for folder in folders if (folder / "verdicts.csv").is_file()]
    if not studies:
        raise FileNotFoundError(
            f"no study among {', '.join(map(str, folders)) or 'no folders'}: a study's folder has a verdicts.csv"
        )
    result: list[Row] = []
    for claim in PAPER:
        found = [row for study in studies if study.name == claim.study for row in study_rows(study, claim)]
        result += found or [untested(claim)]
    for study in studies:
        mine = [claim for claim in PAPER if claim.study == study.name]
        claimed = {row["claim"] for claim in mine for row in study_rows(study, claim)}
        result += [row for row in study_rows(study, Claim(OURS, "", study.name)) if row["claim"] not in claimed]
    return result


def read_study(folder: Path) -> StudyFolder:
    """The study in ``folder``; its name is in the command of its record, and without one it is the folder's."""
    path = folder / "record.json"
    try:
        record = json.loads(path.read_text()) if path.is_file() else {}
        command, settings = str(record.get("command", "")), record.get("settings") or {}
        words = shlex.split(command)
    except (ValueError, AttributeError) as problem:
        raise ValueError(f"{path} is not the record of a study: {problem}") from None
    name = words[2] if words[1:2] == ["study"] and len(words) > 2 else folder.name
    version = str(record.get("version", "unknown"))
    return StudyFolder(name, command, version, settings, read_verdicts(folder / "verdicts.csv"))


def study_rows(study: StudyFolder, claim: Claim) -> list[Row]:
    """The rows of one study's verdicts; what a verdict does not say of seeds and budget is read in the settings."""
    seeds, budget = budget_of(study.settings)
    return [
        {
            "place": claim.place,
            "claim": verdict.claim,
            "measured": verdict.measured,
            "seeds": seeds if verdict.seeds is None else verdict.seeds,
            "budget": verdict.budget or budget,
            "judgement": verdict.judgement,
            "study": study.name,
            "version": study.version,
            "command": study.command,
        }
        for verdict in study.verdicts
        if claim.place == OURS or (re.search(claim.verdicts, verdict.claim) and verdict.claim != ALL_RUNS_FINISH)
    ]


def untested(claim: Claim) -> Row:
    """The row of a claim without a measurement."""
    how = f"not measured: optimist study {claim.study}" if claim.study else "not measured: no study tests it"
    nothing = {"seeds": "", "budget": "", "judgement": "not enough data", "study": claim.study}
    return {"place": claim.place, "claim": claim.words, "measured": how} | nothing | {"version": "", "command": ""}


def budget_of(settings: Mapping[str, Any]) -> tuple[str, str]:
    """The number of seeds or trials of a study and how long each was, from the settings in its record."""
    training = settings.get("training", settings)
    if "tasks" in training:
        steps = spread([task["total_steps"] for task in training["tasks"]])
        further = len(FURTHER_SEEDS) if any(task.get("contested") for task in training["tasks"]) else 0
        seeds = len(training["seeds"])
        return spread([seeds, seeds + further]), f"{steps} steps per run"
    rounds = spread([value for name, value in settings.items() if name.endswith("horizon")])
    trials = [v for name, v in settings.items() if name.endswith("trials") and not name.startswith("selection")]
    return spread(trials), f"{rounds} rounds per trial" if rounds else ""


def spread(values: Sequence[int]) -> str:
    """The one value, or the lowest to the highest."""
    return " to ".join(f"{value:,}" for value in sorted({min(values), max(values)})) if values else ""


def markdown_table(head: Sequence[str], rows: Sequence[Sequence[Any]]) -> list[str]:
    """The lines of a table."""
    lines = ["| " + " | ".join(head) + " |", "|---" * len(head) + "|"]
    return lines + ["| " + " | ".join(str(cell).replace("|", "\\|") for cell in row) + " |" for row in rows]


def standing(rows: Sequence[Row]) -> list[str]:
    """What holds of the paper's claims, what does not, and what is open, a paragraph each; then what is not claimed.

    A claim that some verdicts support and others contradict is in both of the first two. Only verdicts of today's
    version decide: a former one had other defaults, and a claim that it alone has measured is open.
    """
    told: dict[str, list[str]] = {"holds": [], "does not hold": [], "not enough data": []}
    for claim in PAPER:
        mine = [row for row in rows if row["place"] == claim.place]
        versions = sorted({row["version"] for row in mine} - {""})
        counts = Counter(row["judgement"] for row in mine if row["version"] == optimist.__version__)
        if not counts:
            by_others = f"measured by version {' and '.join(versions)} alone" if versions else "not measured"
            told["not enough data"].append(f"{claim.words} ({claim.place}: {by_others})")
            continue
        for kind in [kind for kind in ("holds", "does not hold") if counts[kind]] or ["not enough data"]:
            told[kind].append(f"{claim.words} ({claim.place}: {counts[kind]} of {counts.total()})")
    ours = Counter(row["judgement"] for row in rows if row["place"] == OURS)
    heads = {"holds": "What holds", "does not hold": "What does not", "not enough data": "What two cores cannot decide"}
    lines = [f"**{head}.** {sentences(told[kind])}" for kind, head in heads.items()]
    lines.append(
        f"In brackets: the place, and how many of its verdicts say so. Of {ours.total()} verdicts on what the paper "
        f"does not claim, {ours['holds']} hold, {ours['does not hold']} do not, {ours['not enough data']} are open."
    )
    return lines


def sentences(parts: Sequence[str]) -> str:
    """The parts as sentences of a paragraph."""
    return " ".join(f"{part[0].upper()}{part[1:]}." for part in parts) or "Nothing so far."


def markdown(rows: Sequence[Row]) -> str:
    """What holds and what does not, then the rows as tables; the paper's words stand before the verdicts of a place."""
    columns = ("claim", "measured", "seeds", "budget", "judgement")
    lines: list[str] = ["# Every claim, and what was measured"]
    lines += [line for paragraph in standing(rows) for line in ("", paragraph)]
    words = {claim.place: claim.words for claim in PAPER}
    for place in dict.fromkeys(row["place"] for row in rows):
        lines += ["", f"## {place}: {words[place]}" if place in words else "## Not claimed by the paper", ""]
        mine = [row for row in rows if row["place"] == place]
        lines += markdown_table(columns, [[row[column] for column in columns] for row in mine])
        made = [one for one in dict.fromkeys((row["command"], row["version"]) for row in mine) if one[0]]
        lines += ["", *(f"Made by `{command}`, version {version}." for command, version in made)] if made else []
    return "\n".join(lines) + "\n"
