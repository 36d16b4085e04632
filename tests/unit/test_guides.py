"""The guides: every snippet runs, every link leads somewhere, and the index has every page."""

import re
from pathlib import Path

import pytest
import torch

ROOT = Path(__file__).parents[2]
INDEX = ROOT / "docs/README.md"
GUIDES = sorted((ROOT / "docs/guides").glob("*.md"))


def links_of(page):
    """The relative links and pictures of a page: path and anchor."""
    found = re.findall(r"\]\(([^)#\s]*)(?:#([^)]*))?\)", page.read_text(encoding="utf-8"))
    return [(path, anchor) for path, anchor in found if "://" not in path]


def anchors_of(page):
    """What its headings are called in a link."""
    headings = re.findall(r"^#+ (.*)$", page.read_text(encoding="utf-8"), re.M)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", GUIDES, ids=lambda page: page.stem)
def test_the_snippets_run_in_order(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    text = page.read_text(encoding="utf-8")
    snippets = list(re.finditer(r"^```python\n(.*?)^```$", text, re.M | re.S))
    assert len(snippets) == text.count("```python") >= 3
    namespace, threads = {"__name__": "docs"}, torch.get_num_threads()
    with torch.random.fork_rng(devices=[]):  # a reader's own network may use the global generator; other tests may not
        torch.manual_seed(0)
        for snippet in snippets:
            # Blank lines before the code, so that an error names the line of the page.
            code = "\n" * text.count("\n", 0, snippet.start(1)) + snippet[1]
            exec(compile(code, str(page), "exec"), namespace)
    torch.set_num_threads(threads)


@pytest.mark.parametrize("page", [INDEX, *GUIDES], ids=lambda page: page.stem)
def test_links_lead_somewhere(page):
    links = links_of(page)
    assert links
    for path, anchor in links:
        target = (page.parent / path).resolve() if path else page
        assert target.exists(), path
        assert not anchor or anchor in anchors_of(target), f"{path}#{anchor}"


def test_there_is_a_guide_for_each_person():
    assert [page.stem for page in GUIDES] == ["bandits", "deep_rl", "exploration_research", "theory"]


def test_the_index_has_every_page():
    pages = {str(page.relative_to(INDEX.parent)) for page in INDEX.parent.rglob("*.md")} - {"README.md"}
    assert pages <= {path for path, _ in links_of(INDEX)}


@pytest.mark.parametrize("page", GUIDES, ids=lambda page: page.stem)
def test_files_that_are_named_exist(page):
    for path in re.findall(r"`((?:tests|examples|benchmarks|src)/[\w/.]+)`", page.read_text(encoding="utf-8")):
        assert (ROOT / path).exists(), path


def test_the_files_of_one_rollout_exist_and_are_at_most_twenty():
    page = (ROOT / "docs/reading_the_code.md").read_text(encoding="utf-8")
    files = re.findall(r"^\| \d+ \| `([\w/.]+)`", page, re.M)
    assert 15 <= len(files) <= 20
    assert all((ROOT / "src/optimist" / name).exists() for name in files)
