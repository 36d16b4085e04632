"""What the README shows runs, and what it points to exists."""

import re
from pathlib import Path

from optimist.cli import STUDIES

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()


def test_the_ten_lines_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"```python\n(.*?)```", README, re.S)
    assert blocks
    for block in blocks:
        exec(compile(block, "README.md", "exec"), {})
    assert (tmp_path / "policy.npz").exists()


def test_links_and_pictures_exist():
    for target in re.findall(r"\]\(([^)#]+)\)", README):
        assert (ROOT / target).exists(), target


def test_the_commands_are_the_makefiles_and_the_studies_are_named():
    makefile = (ROOT / "Makefile").read_text()
    for target in re.findall(r"^make (\w+)", README, re.M):
        assert f"\n{target}:" in makefile
    assert all(name in README for name in STUDIES)
