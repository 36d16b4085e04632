"""Compiled code is kept on disk where that is possible, and everything works where it is not."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import optimist

CODE = """
import numpy as np
from optimist import bandits
policy = bandits.ACB(3, seed=1).partial_fit(np.eye(3), np.arange(3.0))
print(bandits.__file__, policy.scores(np.eye(3)).tolist())
"""


def run(source, **environment):
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("NUMBA", "XDG"))}
    done = subprocess.run(
        [sys.executable, "-c", CODE],
        env=kept | {"PYTHONPATH": str(source)} | environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    path, scores = done.stdout.split(" ", 1)
    assert Path(path).is_relative_to(source)
    return scores, done.stderr


def test_bandits_work_where_nothing_can_be_written(tmp_path):
    """A stand-in for a read-only file system that binds root too: files stand where the caches would be made."""
    source = tmp_path / "source"
    shutil.copytree(Path(optimist.__file__).parent, source / "optimist", ignore=shutil.ignore_patterns("__pycache__"))
    for folder in [source / "optimist", *(f for f in (source / "optimist").rglob("*") if f.is_dir())]:
        (folder / "__pycache__").write_text("not a folder")
    home = tmp_path / "home"
    home.write_text("not a folder")
    scores, said = run(source, HOME=str(home))
    assert said.count("compiled code cannot be kept on disk here") == 1
    assert "set NUMBA_CACHE_DIR" in said
    kept, said = run(source, HOME=str(home), NUMBA_CACHE_DIR=str(tmp_path / "cache"))
    assert said == ""
    assert any((tmp_path / "cache").rglob("*.nbi"))
    assert kept == scores
