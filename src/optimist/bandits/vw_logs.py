"""Vowpal Wabbit's logs, in text and in dsjson, as decisions whose features have names. Costs are negative rewards."""

import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_LABEL = re.compile(r"(\d+):([^:\s]+):([^:\s]+)")


@dataclass(frozen=True)
class Decision:
    """One logged decision: features by name, what was played, what it earned."""

    place: str
    shared: Mapping[str, float]
    actions: Sequence[Mapping[str, float]]
    """Features of every action; none if the actions are arms."""
    played: int
    reward: float
    probability: float


def read_text(path: Path, skipped: list[int]) -> Iterator[Decision]:
    """The decisions of a text log: blocks of lines if there are empty or shared ones, otherwise one per line.

    Those without a cost are counted in ``skipped``.
    """
    block: list[tuple[int, str]] = []
    is_blocks = any(not line.strip() or line.startswith("shared") for _, line in numbered_lines(path))
    for number, line in numbered_lines(path):
        if not is_blocks:
            label, features = _vw_line(path, number, line)
            if label is None:
                skipped[0] += 1
                continue
            if label[0] < 1:
                raise ValueError(f"{path}, line {number}: actions are counted from 1, got {label[0]}")
            yield Decision(f"line {number}", features, (), label[0] - 1, -label[1], label[2])
        elif line.strip():
            block.append((number, line))
        elif block:
            yield from _vw_block(path, block, skipped)
            block = []
    if block:
        yield from _vw_block(path, block, skipped)


def _vw_block(path: Path, block: list[tuple[int, str]], skipped: list[int]) -> Iterator[Decision]:
    shared: dict[str, float] = {}
    actions, labels = [], []
    for number, line in block:
        label, features = _vw_line(path, number, line)
        if line.startswith("shared"):
            if actions:
                raise ValueError(f"{path}, line {number}: the shared line comes first: is an empty line missing?")
            shared |= features
            continue
        if label is not None:
            labels.append((number, len(actions), label))
        actions.append(features)
    if len(labels) > 1:
        raise ValueError(f"{path}, line {labels[1][0]}: a second action with a cost: is an empty line missing?")
    if not labels or not actions:
        skipped[0] += 1
        return
    number, played, (_, cost, chance) = labels[0]
    yield Decision(f"line {number}", shared, actions, played, -cost, chance)


def _vw_line(path: Path, number: int, line: str) -> tuple[tuple[int, float, float] | None, dict[str, float]]:
    """The label (action, cost, probability) if the line has one, and the features by namespace and name."""
    head, bar, rest = line.partition("|")
    if not bar:
        raise ValueError(f"{path}, line {number}: no '|' before the features, got {line.strip()[:40]!r}")
    label = None
    for word in head.split():
        if found := _LABEL.fullmatch(word):
            cost, chance = number_in(found[2]), number_in(found[3])
            if cost is None or not math.isfinite(cost) or chance is None or not 0 < chance <= 1:
                raise ValueError(
                    f"{path}, line {number}: a label is action:cost:probability, the last in (0, 1], got {word!r}"
                )
            label = int(found[1]), cost, chance
        elif ":" in word:
            raise ValueError(f"{path}, line {number}: a label is action:cost:probability, got {word[:40]!r}")
    features: dict[str, float] = {}
    for part in rest.split("|"):
        words = part.split()
        space, scale = "", 1.0
        if words and not part[0].isspace():
            space, _, factor = words.pop(0).partition(":")
            scale = finite(path, number, factor) if factor else 1.0
        for word in words:
            name, _, value = word.partition(":")
            amount = number_in(value) if value else 1.0
            if amount is None:
                name, amount = f"{name}={value}", 1.0
            features[f"{space}^{name}"] = scale * (amount if math.isfinite(amount) else finite(path, number, value))
    return label, features


def read_dsjson(path: Path, skipped: list[int]) -> Iterator[Decision]:
    """The decisions of a dsjson log, one per line; those without a cost are counted in ``skipped``."""
    for number, line in numbered_lines(path):
        if not line.strip():
            continue
        try:
            entry = json.loads(line)
            context = entry["c"]
            actions = [dict(_flat(action)) for action in context["_multi"]]
            shared = dict(_flat({name: value for name, value in context.items() if name != "_multi"}))
        except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError) as problem:
            raise ValueError(f"{path}, line {number}: no dsjson decision with c and _multi ({problem!r:.80})") from None
        cost, chance = number_in(entry.get("_label_cost")), number_in(entry.get("_label_probability"))
        if cost is None or chance is None or entry.get("_skipLearn"):
            skipped[0] += 1
            continue
        first = entry.get("_label_Action")
        played = entry.get("_labelIndex", first - 1 if isinstance(first, int) else None)
        is_action = isinstance(played, int) and 0 <= played < len(actions)
        if not is_action or not math.isfinite(cost) or not 0 < chance <= 1:
            raise ValueError(
                f"{path}, line {number}: needs a finite _label_cost, a _label_probability in (0, 1] and a _labelIndex "
                f"below {len(actions)}, got {cost:g}, {chance:g} and {played!r:.20}"
            )
        yield Decision(f"line {number}", shared, actions, int(played), -cost, chance)


def _flat(value: Any, name: str = "") -> Iterator[tuple[str, float]]:
    """Features by their path: objects are namespaces, words are kinds, lists are numbered. Names with "_" are not."""
    if isinstance(value, Mapping):
        for key, inner in value.items():
            if not key.startswith("_"):
                yield from _flat(inner, f"{name}^{key}" if name else key)
    elif isinstance(value, list):
        for i, inner in enumerate(value):
            yield from _flat(inner, f"{name}[{i}]")
    elif isinstance(value, str):
        yield f"{name}={value}", 1.0
    elif isinstance(value, bool | int | float) and math.isfinite(value):
        yield name, float(value)


def number_in(value: object) -> float | None:
    """The number that a cell or a word says; None if it says none."""
    if value is None or isinstance(value, bool):
        return None if value is None else float(value)
    try:
        return float(value)  # pyrefly: ignore
    except (TypeError, ValueError, OverflowError):
        return None


def finite(path: Path, line: int, word: str) -> float:
    """The finite number that a word says, or an error with the line."""
    number = number_in(word)
    if number is None or not math.isfinite(number):
        raise ValueError(f"{path}, line {line}: a finite number was expected, got {word[:40]!r}")
    return number


def numbered_lines(path: Path) -> Iterator[tuple[int, str]]:
    """Line numbers and lines; an error with the line for what is no text."""
    number = 0
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            for number, line in enumerate(file, start=1):
                yield number, line
    except UnicodeDecodeError as problem:
        raise ValueError(f"{path}, after line {number}: no text in UTF-8 ({problem.reason})") from None
