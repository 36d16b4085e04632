"""What the README shows runs, what it points to exists, and it stays short."""

import re
from pathlib import Path

import torch

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_the_quickstarts_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"```python\n(.*?)```", README, re.S)
    assert len(blocks) == 2
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    for block in blocks:
        exec(compile(block, "README.md", "exec"), {})
        assert block.count("\n") <= 12
    torch.set_num_threads(threads)
    assert (tmp_path / "policy.npz").exists()


def test_links_and_pictures_exist():
    targets = re.findall(r"\]\(([^)#]+)\)", README)
    assert len(targets) >= 10
    for target in targets:
        assert (ROOT / target).exists(), target


def test_the_commands_are_the_makefiles():
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for target in re.findall(r"^make (\w+)", README, re.M):
        assert f"\n{target}:" in makefile


def test_it_is_at_most_120_lines_with_one_picture():
    assert README.count("\n") <= 120
    assert README.count("![") == 1
