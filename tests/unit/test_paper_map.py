"""docs/paper_map.md names only what exists: objects can be imported, tests are there, deviations are told."""

import importlib
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
MAP = (ROOT / "docs/paper_map.md").read_text()
ROWS = [line for line in MAP.splitlines() if line.startswith("| ") and not line.startswith("| place")]


@pytest.mark.parametrize("name", sorted(set(re.findall(r"`(optimist\.[\w.]+)`", MAP))))
def test_every_named_object_exists(name):
    parts = name.split(".")
    for cut in range(len(parts), 0, -1):
        try:
            found = importlib.import_module(".".join(parts[:cut]))
        except ModuleNotFoundError:
            continue
        for attribute in parts[cut:]:
            found = getattr(found, attribute)
        return
    pytest.fail(f"{name} does not exist")


@pytest.mark.parametrize("name", sorted(set(re.findall(r"`(tests/[^`]+)`", MAP))))
def test_every_named_test_exists(name):
    path, _, function = name.partition("::")
    source = (ROOT / path).read_text()
    assert f"def {function}(" in source if function else "def test_" in source


def test_no_row_is_empty_and_every_deviation_is_told():
    deviations = (ROOT / "docs/deviations.md").read_text()
    for row in ROWS:
        place, what, code, test, deviation = (cell.strip() for cell in row.strip("|").split("|"))
        assert all((place, what, code, test)), row
        for number in filter(None, deviation.split(", ")):
            assert f"| {number} |" in deviations, f"{number} is not in docs/deviations.md"
