"""Logged decisions and labeled rows from files: CSV, Parquet, Vowpal Wabbit's text and its dsjson logs.

    read_data("clicks.csv").data        # Logs, or LabeledData if the table has a column called label

- A table (CSV, Parquet) with the columns ``action``, ``reward`` (or ``cost``) and ``probability`` holds logs; one with
  ``label`` holds labeled rows. All other columns are features: numbers as they are, words one-hot. Every action is
  an arm with a model of its own.
- Vowpal Wabbit's files hold logs, in costs, which are the negative of rewards. One line per decision
  (``2:0.5:0.25 | a b:3``) is one with arms; blocks of lines with an empty line between them, and dsjson, have features
  for every action. A model is shared by all actions then, on their features and the products of these with those of
  the ``shared`` line. Beyond ``max_features`` names, features are hashed.

Columns are divided by their root mean square, rows by that of their norms, so that ``ridge=1`` means something.
"""

import csv
import math
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, NamedTuple, NoReturn

import numpy as np
from numpy.typing import NDArray

from optimist.bandits.evaluation import Logs
from optimist.bandits.problems import LabeledData
from optimist.bandits.vw_logs import Decision, number_in, numbered_lines, read_dsjson, read_text
from optimist.checks import require_choice, require_count
from optimist.memory import require_memory

Form = Literal["auto", "csv", "parquet", "vw", "dsjson"]
ENDINGS: Mapping[str, Form] = {
    ".csv": "csv", ".tsv": "csv", ".parquet": "parquet", ".pq": "parquet",
    ".vw": "vw", ".txt": "vw", ".dat": "vw", ".dsjson": "dsjson", ".json": "dsjson", ".jsonl": "dsjson",
}  # fmt: skip
"""The format that the end of a file's name says."""
ACTION, REWARD, COST, PROBABILITY, LABEL = "action", "reward", "cost", "probability", "label"
LEVELS = 1_000
"""Different words that a column may have, and different actions."""


class Read(NamedTuple):
    """What a file holds."""

    data: Logs | LabeledData
    actions: tuple[str, ...]
    """The names of the arms, where every one has a model of its own."""
    skipped: int
    """Decisions without a reward, which say nothing."""


def read_data(path: str | Path, form: str = "auto", max_features: int = 1_000) -> Read:
    """What the file holds; a ValueError that names the line for whatever it does not understand."""
    path = Path(path)
    require_choice("form", form, Form)
    require_count("max_features", max_features)
    if not path.is_file():
        raise FileNotFoundError(f"there is no file {path}")
    if form == "auto":
        if path.suffix.lower() not in ENDINGS:
            raise ValueError(f"{path}: name its format, or let its name end in one of {', '.join(ENDINGS)}")
        form = ENDINGS[path.suffix.lower()]
    if form in ("csv", "parquet"):
        return (_csv if form == "csv" else _parquet)(path).read()
    skipped = [0]
    found = list((read_text if form == "vw" else read_dsjson)(path, skipped))
    if len(found) < 2:
        raise ValueError(f"{path} holds {len(found)} decisions with a reward ({skipped[0]} without): give at least two")
    if any(decision.actions for decision in found):
        return Read(_shared_model(path, found, max_features), (), skipped[0])
    most = 1 + max(decision.played for decision in found)
    if most > LEVELS:
        raise ValueError(f"{path} has {most:,} arms, at most {LEVELS:,} are taken: give actions features instead")
    rows = [decision.shared for decision in found]
    X = _scaled(_matrix(path, [rows], max_features)[0])
    return Read(_logs(found, X[:, None], most), tuple(str(arm + 1) for arm in range(most)), skipped[0])


# Tables ---------------------------------------------------------------------------------------------------------------


@dataclass
class Table:
    """Columns of a file; ``where`` says how its rows are counted for the reader."""

    path: Path
    columns: dict[str, list[Any]]
    where: str
    first: int
    lines: list[int] = field(default_factory=list)

    def read(self) -> Read:
        """The logs or labeled rows of the table."""
        names = list(self.columns)
        n = len(next(iter(self.columns.values()), []))
        if n < 2:
            raise ValueError(f"{self.path} has {n} rows: give a header and at least two")
        if LABEL in names:
            kinds, labels = self._levels(LABEL)
            return Read(LabeledData(self._features({LABEL}), labels), kinds, 0)
        gain = COST if COST in names and REWARD not in names else REWARD
        missing = [name for name in (ACTION, gain, PROBABILITY) if name not in names]
        if missing:
            raise ValueError(
                f"{self.path} has no column {' and '.join(map(repr, missing))}: logs need action, reward (or cost) and "
                f"probability, labeled rows need label; it has {', '.join(map(repr, names[:12]))}"
            )
        kinds, actions = self._levels(ACTION)
        reward = self._numbers(gain) * (1.0 if gain == REWARD else -1.0)
        chance = self._numbers(PROBABILITY)
        for i in np.flatnonzero((chance <= 0) | (chance > 1)):
            self._refuse(int(i), f"probability must be in (0, 1], got {chance[i]:g}")
        X = self._features({ACTION, gain, PROBABILITY})
        return Read(Logs(X[:, None], actions, reward, chance, n_arms=len(kinds)), kinds, 0)

    def _features(self, others: set[str]) -> NDArray[np.float64]:
        """Numbers as they are, words one-hot, and a constant. Shapes: (n, d)."""
        parts = []
        for name in self.columns:
            if name not in others and self._is_numeric(name):
                parts.append(self._numbers(name)[:, None])
            elif name not in others:
                kinds, places = self._levels(name)
                parts.append(np.eye(len(kinds))[places])
        n = len(next(iter(self.columns.values())))
        return _scaled(np.concatenate([*parts, np.ones((n, 1))], axis=1))

    def _is_numeric(self, name: str) -> bool:
        """Whether most of the column are numbers; a single word among them is then an error, not a kind."""
        return 2 * sum(number_in(value) is not None for value in self.columns[name]) > len(self.columns[name])

    def _numbers(self, name: str) -> NDArray[np.float64]:
        values = [number_in(value) for value in self.columns[name]]
        for i, value in enumerate(values):
            if value is None or not math.isfinite(value):
                self._refuse(i, f"{name} must be a finite number, got {str(self.columns[name][i])[:40]!r}")
        return np.array(values, np.float64)

    def _levels(self, name: str) -> tuple[tuple[str, ...], NDArray[np.int64]]:
        """The different words of a column, in order, numbers by their size, and the place of each row's."""
        words = [str(value).strip() if value is not None else "" for value in self.columns[name]]
        for i, word in enumerate(words):
            if not word:
                self._refuse(i, f"{name} is empty")
        kinds = sorted(set(words), key=lambda word: (number_in(word) is None, number_in(word) or 0.0, word))
        if len(kinds) > LEVELS:
            raise ValueError(
                f"{self.path}: column {name!r} has {len(kinds):,} different words, at most {LEVELS:,} are taken"
            )
        places = {kind: i for i, kind in enumerate(kinds)}
        return tuple(kinds), np.array([places[word] for word in words], np.int64)

    def _refuse(self, row: int, why: str) -> NoReturn:
        line = self.lines[row] if self.lines else self.first + row
        raise ValueError(f"{self.path}, {self.where} {line}: {why}")


def _csv(path: Path) -> Table:
    rows, lines = [], []
    for number, row in _csv_rows(path):
        if rows and len(row) != len(rows[0]):
            raise ValueError(f"{path}, line {number}: {len(row)} cells, the header has {len(rows[0])}")
        rows.append(row)
        lines.append(number)
    if not rows:
        raise ValueError(f"{path} is empty: give a header and at least two rows")
    header = [name.strip() for name in rows[0]]
    if len(set(header)) < len(header) or not all(header):
        raise ValueError(f"{path}, line {lines[0]}: the names of columns must be given, and different from each other")
    columns = {name: [row[i] for row in rows[1:]] for i, name in enumerate(header)}
    return Table(path, columns, "line", 2, lines[1:])


def _csv_rows(path: Path) -> Iterator[tuple[int, list[str]]]:
    """Line number and cells of every row that is not empty; comma, semicolon or tab, whichever the header has most."""
    lines = numbered_lines(path)
    first = next(lines, (1, ""))[1]
    delimiter = max(",;\t", key=first.count)
    reader = csv.reader((line for _, line in numbered_lines(path)), delimiter=delimiter, strict=True)
    try:
        for row in reader:
            if row:
                yield reader.line_num, row
    except csv.Error as problem:
        raise ValueError(f"{path}, line {reader.line_num}: {problem}") from None


def _parquet(path: Path) -> Table:
    import pyarrow
    import pyarrow.parquet

    try:
        columns = pyarrow.parquet.read_table(path).to_pydict()
    except (pyarrow.ArrowException, OSError) as problem:
        raise ValueError(f"{path} is no Parquet file that can be read: {problem}") from None
    return Table(path, columns, "row", 1)


# Features by name -> columns ------------------------------------------------------------------------------------------


def _shared_model(path: Path, found: Sequence[Decision], max_features: int) -> Logs:
    """Logs whose actions have features: their own, and the products with those of the shared line."""
    sets = [[_with_products(decision.shared, action) for action in decision.actions] for decision in found]
    X = _matrix(path, sets, max_features)
    scale = math.sqrt(np.mean([float((x * x).sum(axis=1).mean()) for x in X])) or 1.0
    X = [x / scale for x in X]
    is_even = len({len(x) for x in X}) == 1
    return _logs(found, np.stack(X) if is_even else X, None)


def _with_products(shared: Mapping[str, float], action: Mapping[str, float]) -> dict[str, float]:
    products = {f"{s}*{a}": v * w for s, v in shared.items() for a, w in action.items()}
    return dict(action) | products


def _matrix(path: Path, sets: Iterable[Sequence[Mapping[str, float]]], max_features: int) -> list[NDArray[np.float64]]:
    """One array per set, (rows, d): a column per name, or hashed where there are more than ``max_features`` names."""
    sets = list(sets)
    names = sorted({name for rows in sets for row in rows for name in row})
    if not names:
        raise ValueError(f"{path} has no features: actions that have none are arms, one decision per line")
    d = min(len(names), max_features)
    require_memory(
        16 * d * sum(map(len, sets)), f"{path} with {d:,} features", "give fewer features or fewer decisions"
    )
    if len(names) <= max_features:
        where = {name: (i, 1.0) for i, name in enumerate(names)}
    else:
        hashes = {name: zlib.crc32(name.encode()) for name in names}
        where = {name: (h % max_features, 1.0 if (h >> 16) & 1 else -1.0) for name, h in hashes.items()}
    arrays = []
    for rows in sets:
        array = np.zeros((len(rows), d))
        for row, features in zip(array, rows, strict=True):
            for name, value in features.items():
                column, sign = where[name]
                row[column] += sign * value
        arrays.append(array)
    return arrays


def _logs(found: Sequence[Decision], X: Any, n_arms: int | None) -> Logs:
    played = np.array([decision.played for decision in found], np.int64)
    rewards, chances = ([getattr(decision, name) for decision in found] for name in ("reward", "probability"))
    return Logs(X, played, np.array(rewards), np.array(chances), n_arms=n_arms)


def _scaled(x: NDArray[np.float64]) -> NDArray[np.float64]:
    """Columns of root mean square 1, then rows whose norms have root mean square 1. Shapes: (n, d) -> (n, d)."""
    size = np.sqrt((x * x).mean(axis=0))
    x = x / np.where(size > 0, size, 1.0)
    return x / (math.sqrt(float((x * x).sum(axis=1).mean())) or 1.0)
