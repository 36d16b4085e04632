"""docs/paper_map.md names only what exists, and every citation of the paper names the place where it stands."""

import importlib
import re
from pathlib import Path

import pytest

from paper_places import ALGORITHM_LINES, NUMBERED, QUOTES, SECTIONS, TOPICS

ROOT = Path(__file__).parents[2]
MAP = (ROOT / "docs/paper_map.md").read_text()
ROWS = [line for line in MAP.splitlines() if line.startswith("| ") and not line.startswith("| place")]
PAPER = ROOT.parent / "shared" / "paper.tex"
"""The paper itself, which lies beside the project where it is developed; its licence keeps it out of the repository."""
SECTION = r"(?:section \d|appendix [A-C](?:\.\d)?)(?!\.?\d)"
SOURCES = sorted([*(ROOT / "src").rglob("*.py"), *(ROOT / "docs").rglob("*.md"), ROOT / "README.md"])
OTHERS = r"RND|Burda|ICM|Pathak|E3B|Henaff|PPO|Schulman|Tang|PC-PG|bsuite|RIDE|FACTS|DESIGN|inverse"
"""A line that names one of these cites another paper."""


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


def places_of(text):
    """The places that a text cites, each as it is called in `paper_places`."""
    found = re.findall(r"(section) (\d)(?!\.?\d)|(appendix) ([A-C](?:\.\d)?)", text, re.I)
    return [f"{(one or other).lower()} {(number or letter).upper()}" for one, number, other, letter in found]


def test_every_place_of_the_map_is_one_of_the_paper():
    ours = MAP.split("## Benchmarks that are not in the paper")[0].splitlines()
    for row in (line for line in ours if line in ROWS):
        place = row.strip("|").split("|")[0]
        assert set(places_of(place)) <= SECTIONS.keys(), place
        for number, lines in re.findall(r"Algorithm (\d)(?:, lines? ([\d, to]+))?", place):
            assert all(1 <= int(line) <= ALGORITHM_LINES[int(number)] for line in re.findall(r"\d+", lines)), place
        for kind, numbers in re.findall(r"(Proposition|Theorem|Lemma|Figure|equation)s? ([\d, to]+)", place):
            assert all(1 <= int(number) <= NUMBERED[kind] for number in re.findall(r"\d+", numbers)), place


def test_a_subject_is_cited_where_it_stands():
    """Rows of the map, and lines of code and documentation, that name a subject and a section of the paper."""
    wrong = []
    for path in SOURCES:
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            cited = set(places_of(line))
            if not cited or re.search(OTHERS, line):
                continue
            for subject, place in TOPICS.items():
                if re.search(subject, line, re.I) and place not in cited:
                    wrong.append(f"{path.relative_to(ROOT)}:{number}: {line.strip()} (stands in {place})")
    assert not wrong, "\n".join(wrong)


def plain(text):
    """Words alone: case, mathematics' signs and line ends do not count."""
    text = re.sub(r"\\(?:citep?|looseness|label|ref)\S*\{[^}]*\}|\\looseness=-1", " ", text)
    text = text.replace("\\lambda", "lambda").replace("\\alpha", "alpha")
    return re.sub(r"[^a-z0-9]+", " ", text.lower()).strip()


def test_what_is_quoted_stands_in_the_place_that_is_cited():
    """A citation such as ``section 5, "a Polyak-averaged version of the ensemble"``, in code and documentation."""
    quoted = 0
    for path in SOURCES:
        for place, words in re.findall(rf"({SECTION})[,:]? \"([^\"]+)\"", path.read_text(encoding="utf-8"), re.I):
            (place,) = places_of(place)
            if place in QUOTES:
                quoted += 1
                assert any(plain(words) in plain(quote) for quote in QUOTES[place]), f"{path}: {place}, {words!r}"
    assert quoted >= 8


def test_the_places_are_those_of_the_paper():
    """Where the paper lies beside the project: titles, the lines of algorithms, and every quotation."""
    if not PAPER.exists():
        assert QUOTES.keys() <= SECTIONS.keys()
        return
    text = PAPER.read_text(encoding="utf-8")
    main, appendix = text.split("\\appendix", 1)
    bodies = {}
    for number, part in enumerate(re.split(r"\\section\{", main)[1:], 1):
        bodies[f"section {number}"] = part
    for letter, part in zip("ABC", re.split(r"\\section\{", appendix)[1:], strict=True):
        bodies[f"appendix {letter}"] = part
        for number, sub in enumerate(re.split(r"\\subsection\{", part)[1:], 1):
            bodies[f"appendix {letter}.{number}"] = sub
    for place, title in SECTIONS.items():
        assert bodies[place].startswith(title), place
    for place, quotes in QUOTES.items():
        # Floats stand where LaTeX put them: a caption may lie in the source of a neighboring section.
        for quote in quotes:
            assert plain(quote) in plain(bodies[place]) or plain(quote) in plain(" ".join(captions(text))), (
                place,
                quote,
            )
    algorithms = re.findall(r"\\begin\{algorithmic\}\[1\](.*?)\\end\{algorithmic\}", text, re.S)
    for number, body in enumerate(algorithms, 1):
        lines = len(re.findall(r"\\(?:STATE|FOR|IF|ENDFOR|ENDIF)\b", body))
        assert ALGORITHM_LINES[number] == lines, number


def captions(text):
    return re.findall(r"\\caption\{(.*?)\}\s*(?:\\label|\\vspace|$)", text, re.S)
