"""The documentation site builds without a warning, has every public name, and needs nothing from elsewhere."""

import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The folder of the built site."""
    folder = tmp_path_factory.mktemp("site")
    command = [str(Path(sys.executable).with_name("mkdocs")), "build", "--strict", "--quiet", "--site-dir", str(folder)]
    environment = os.environ | {"NO_MKDOCS_2_WARNING": "1", "PYTHONPATH": str(ROOT / "src")}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


@pytest.fixture(scope="module")
def hooks():
    """The module that adds the reference."""
    spec = importlib.util.spec_from_file_location("site_hooks", ROOT / "docs/_site.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_public_name_is_described(site, hooks):
    described = 0
    for page, packages in hooks.REFERENCE.items():
        html = (site / f"reference/{page}.html").read_text(encoding="utf-8")
        for package in packages:
            for name in hooks.public_names(importlib.import_module(package)):
                assert f'id="{hooks.home(package, name)}"' in html, f"{package}.{name}"
                described += 1
    assert described > 80


def test_results_pictures_and_links_are_there(site):
    assert (site / "results/index.html").exists()
    assert "figure2/figure2.png" in (site / "gallery.html").read_text(encoding="utf-8")
    for html in site.rglob("*.html"):
        for target in re.findall(r'(?:src|href)="([^"#?:]+?)(?:[#?][^"]*)?"', html.read_text(encoding="utf-8")):
            if not target.startswith("/"):
                assert (html.parent / target).exists(), f"{html.relative_to(site)}: {target}"


def test_nothing_is_loaded_from_elsewhere(site):
    for html in site.rglob("*.html"):
        text = html.read_text(encoding="utf-8")
        assert not re.findall(r'<(?:script|img|iframe)[^>]+src="https?://', text)
        assert not re.findall(r'<link[^>]+rel="(?:stylesheet|preconnect)"[^>]+href="https?://', text)
