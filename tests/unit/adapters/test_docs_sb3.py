"""docs/adapters/sb3.md: every snippet runs, in order, in one namespace, and what it names exists."""

import re
from dataclasses import fields
from pathlib import Path

import pytest

pytest.importorskip("stable_baselines3")

from optimist.adapters.intrinsic import IntrinsicConfig
from optimist.adapters.sb3 import BonusCallbackConfig

ROOT = Path(__file__).parents[3]
PAGE = ROOT / "docs" / "adapters" / "sb3.md"
TEXT = PAGE.read_text(encoding="utf-8")


def test_the_snippets_run_in_order(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    snippets = [(match.start(1), match[1]) for match in re.finditer(r"^```python\n(.*?)^```$", TEXT, re.M | re.S)]
    assert len(snippets) == TEXT.count("```python") >= 6
    namespace = {"__name__": "docs"}
    for start, code in snippets:
        # Blank lines before the code, so that an error names the line of the page.
        exec(compile("\n" * TEXT.count("\n", 0, start) + code, str(PAGE), "exec"), namespace)
    assert {path.name for path in tmp_path.iterdir()} == {"run.zip", "run.bonus", "run.wrapper"}


def test_fields_and_files_exist():
    names = {field.name for config in (BonusCallbackConfig, IntrinsicConfig) for field in fields(config)}
    assert {"weight", "extrinsic_weight", "discount", "train_every", "batch_size", "learning_starts"} <= names
    for path in re.findall(r"`(tests/[\w/]+\.py)`", TEXT):
        assert (ROOT / path).is_file(), path
