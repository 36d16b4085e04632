"""docs/adapters/torchrl.md and cleanrl.md: every snippet runs, every command parses."""

import importlib.util
import re
import shlex
import sys
from pathlib import Path

import pytest
import tyro

ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize("page", ["torchrl", "cleanrl"])
def test_every_snippet_runs(page, tmp_path, monkeypatch):
    if page == "torchrl":
        pytest.importorskip("torchrl")
    path = ROOT / "docs" / "adapters" / f"{page}.md"
    text = path.read_text(encoding="utf-8")
    snippets = [(match.start(1), match[1]) for match in re.finditer(r"^```python\n(.*?)^```$", text, re.M | re.S)]
    assert len(snippets) == text.count("```python") >= 2
    monkeypatch.chdir(tmp_path)
    namespace = {"__name__": "docs"}
    for start, code in snippets:
        # Blank lines before the code, so that an error names the line of the page.
        exec(compile("\n" * text.count("\n", 0, start) + code, str(path), "exec"), namespace)


@pytest.mark.parametrize("source", ["docs/adapters/cleanrl.md", "examples/ppo_acb.py"])
def test_every_command_parses(source, monkeypatch):
    specification = importlib.util.spec_from_file_location("ppo_acb_of_docs", ROOT / "examples" / "ppo_acb.py")
    module = importlib.util.module_from_spec(specification)
    monkeypatch.setitem(sys.modules, "ppo_acb_of_docs", module)
    specification.loader.exec_module(module)
    lines = re.findall(r"^python examples/ppo_acb\.py(.*)$", (ROOT / source).read_text(encoding="utf-8"), re.M)
    assert len(lines) >= 3
    for line in lines:
        tyro.cli(module.Args, args=shlex.split(line, comments=True))
