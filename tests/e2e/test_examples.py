"""Every example runs as its reader would run it, and the notebook from its first cell to its last."""

import os
import re
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

EXAMPLES = Path(__file__).parents[2] / "examples"
SCRIPTS = {
    "recommender.py": r"hour 23: +(9\d|100)% of the best revenue.*same decisions: True",
    "check_the_theory.py": r"Lemma 1.*LinUCB's elliptical norm: (0\.9\d+|1\.0\d+) to (0\.9\d+|1\.0\d+).*bound",
    "own_bonus.py": r"mean bonus: \d\.\d where it has been, [4-9]\d\.\d far away",
    "sb3_sparse_reward.py": r"PPO alone: +mean return 0\.00.*PPO with ACB: mean return (0\.[5-9]|1)",
}
"""What each prints; `ppo_acb.py` has tests of its own."""


@pytest.mark.parametrize("name", SCRIPTS)
def test_a_script_runs_and_shows_what_it_promises(name, tmp_path):
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, str(EXAMPLES / name)],
        cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert re.search(SCRIPTS[name], done.stdout, re.S), done.stdout


def test_the_notebook_runs(tmp_path, monkeypatch):
    monkeypatch.delenv("MPLBACKEND", raising=False)  # other tests draw without a screen; a notebook draws into itself
    notebook = nbformat.read(EXAMPLES / "first_steps.ipynb", as_version=4)
    NotebookClient(
        notebook, timeout=300, kernel_name="python3", resources={"metadata": {"path": str(tmp_path)}}
    ).execute()
    pictures = [
        output for cell in notebook.cells for output in cell.get("outputs", []) if "image/png" in output.get("data", {})
    ]
    assert len(pictures) == 2


def test_the_index_has_every_example():
    index = (EXAMPLES / "README.md").read_text(encoding="utf-8")
    names = {path.name for path in EXAMPLES.iterdir() if path.suffix in (".py", ".ipynb")}
    names |= {f"{path.parent.name}/" for path in EXAMPLES.glob("*/README.md")}
    assert names == set(re.findall(r"^\|[^|]*\| `([^`]+)`", index, re.M))
