"""What the documentation site adds to the pages of this folder: the results, the changelog, and the API reference.

Pages link to files of the repository as GitHub shows them (``../results/README.md``). Those that the site has too are
led to the site's own copy; others (sources, tests) lose their link and keep their text.
"""

import importlib
import inspect
import posixpath
import re
from pathlib import Path

from mkdocs.structure.files import File

ROOT = Path(__file__).parents[1]
SERVED = ("results", "CHANGELOG.md", "CONTRIBUTING.md")
REFERENCE = {
    "bandits": ("optimist.bandits", "optimist.bandits.evaluation", "optimist.bandits.reading"),
    "theory": ("optimist.bandits.theory",),
    "bonuses": ("optimist.bonuses",),
    "training": ("optimist.training", "optimist.training.environments", "optimist.ranks"),
    "adapters": (
        "optimist.adapters",
        "optimist.adapters.gymnasium",
        "optimist.adapters.sb3",
        "optimist.adapters.torchrl",
        "optimist.adapters.rllib",
        "optimist.adapters.rlexplore",
    ),
    "reporting": ("optimist.reporting.statistics",),
}
"""The pages of the reference, and the packages whose public names each has."""
LINK = re.compile(r"(!?\[[^\]]*\])\(([^)\s#]*)(#[^)]*)?\)")


def on_files(files, config):
    """Add what lies outside this folder, and the pages of the reference."""
    for path in (ROOT / "results").rglob("*"):
        if path.suffix in (".png", ".csv") or path.name == "README.md":
            place = path.relative_to(ROOT).as_posix()
            files.append(File.generated(config, place, abs_src_path=str(path)))
    for name in ("CHANGELOG.md", "CONTRIBUTING.md"):
        files.append(File.generated(config, name, abs_src_path=str(ROOT / name)))
    for page, packages in REFERENCE.items():
        files.append(File.generated(config, f"reference/{page}.md", content=reference_page(packages)))
    return files


def on_page_markdown(markdown, page, config, files):
    """Links to files of the repository, led to the site's own pages."""
    here = page.file.src_uri
    origin = here if here.startswith(SERVED) else f"docs/{here}"

    def led(match):
        text, target, anchor = match[1], match[2], match[3] or ""
        if not target or "://" in target:
            return match[0]
        place = posixpath.normpath(posixpath.join(posixpath.dirname(origin), target))
        inside = place.removeprefix("docs/") if place.startswith("docs/") else place
        if not place.startswith(("docs/", *SERVED)) or files.get_file_from_path(inside) is None:
            return text if text.startswith("!") else f"{text[1:-1]}"
        return f"{text}({posixpath.relpath(inside, posixpath.dirname(here) or '.')}{anchor})"

    fenced = re.split(r"(^```.*?^```$)", markdown, flags=re.M | re.S)
    return "".join(part if part.startswith("```") else LINK.sub(led, part) for part in fenced)


def reference_page(packages):
    """Every public name of ``packages``: what it says of itself, in the order of the alphabet."""
    lines = [f"# {packages[0]}", ""]
    for package in packages:
        module = importlib.import_module(package)
        if package != packages[0]:
            lines += [f"# {package}", ""]
        lines += [inspect.getdoc(module) or "", ""]
        for name in public_names(module):
            lines += [f"::: {home(package, name)}", ""]
    return "\n".join(lines)


def public_names(module):
    """The names that ``module`` offers: its ``__all__``, or what it defines itself without an underscore."""
    if hasattr(module, "__all__"):
        names = [name for name in module.__all__ if not inspect.ismodule(getattr(module, name))]
        return sorted(names, key=str.lower)
    own = [
        name
        for name, value in vars(module).items()
        if not name.startswith("_") and getattr(value, "__module__", None) == module.__name__
    ]
    return sorted(own, key=str.lower)


def home(package, name):
    """The path under which a name is defined: where the reference finds its text."""
    value = getattr(importlib.import_module(package), name)
    if inspect.isclass(value) or inspect.isfunction(value):
        return f"{value.__module__}.{value.__qualname__}"
    return f"{package}.{name}"
