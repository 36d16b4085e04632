"""Every snippet of docs/adapters/gymnasium.md and rlexplore.md runs, in order, in one namespace a page."""

import re
from pathlib import Path

import pytest
import torch

PAGES = Path(__file__).parents[3] / "docs" / "adapters"


ADAPTERS = [page for page in sorted(PAGES.glob("*.md")) if page.stem != "rsl_rl"]  # that one is no part of Optimist


@pytest.mark.parametrize("page", ADAPTERS, ids=lambda page: page.stem)
def test_every_guide_answers_the_same_questions(page):
    text = page.read_text(encoding="utf-8")
    assert "pip install 'optimist[" in text
    for heading in ("What is logged", "Saving", "Autoreset", "Limits"):
        assert text.count(f"\n## {heading}\n") == 1, heading


@pytest.mark.parametrize("name", ["gymnasium", "rlexplore"])
def test_the_snippets_run_in_order(name):
    page = PAGES / f"{name}.md"
    text = page.read_text(encoding="utf-8")
    snippets = [(match.start(1), match[1]) for match in re.finditer(r"^```python\n(.*?)^```$", text, re.M | re.S)]
    assert len(snippets) == text.count("```python") >= 3
    namespace = {"__name__": "docs"}
    with torch.random.fork_rng(devices=[]):  # a reader's own loop may use the global generator; other tests may not
        torch.manual_seed(0)
        for start, code in snippets:
            # Blank lines before the code, so that an error names the line of the page.
            exec(compile("\n" * text.count("\n", 0, start) + code, str(page), "exec"), namespace)
