"""Pieces of HTML. Text from outside enters through `text` alone, so that nothing in it is ever read as markup."""

import base64
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

from optimist.reporting.style import told_by


@dataclass(frozen=True)
class Html:
    """Markup that is ready for the page; plain strings are not."""

    markup: str


Content = Html | str | int | float
NUMBER = re.compile(r"[-+±]?[\d.,]+(e[-+]?\d+)?( ?(%|s|min|h))?")


def text(content: Content) -> str:
    """The markup that shows ``content``: strings letter by letter, `Html` as it is."""
    return content.markup if isinstance(content, Html) else escape(str(content))


def element(tag: str, *contents: Content, **attributes: Content) -> Html:
    """``<tag attribute="...">contents</tag>``; ``class_`` is the attribute class, ``data_x`` is data-x."""
    named = "".join(f' {name.rstrip("_").replace("_", "-")}="{text(value)}"' for name, value in attributes.items())
    return Html(f"<{tag}{named}>{''.join(map(text, contents))}</{tag}>")


def joined(parts: Iterable[Html]) -> Html:
    """The parts one after the other."""
    return Html("\n".join(part.markup for part in parts))


def table(columns: Sequence[str], rows: Iterable[Sequence[Content]], *, class_: str = "plain") -> Html:
    """A table that scrolls in its own frame where it is wider than the page."""
    return _framed(columns, [_body(rows)], class_)


def grouped_table(columns: Sequence[str], groups: Mapping[str, Iterable[Sequence[Content]]]) -> Html:
    """A table whose rows stand in groups, each under its name."""
    bodies = []
    for name, rows in groups.items():
        heading = element("tr", element("th", name, colspan=len(columns), scope="rowgroup"))
        bodies += [element("tbody", heading, class_="heading"), _body(rows)]
    return _framed(columns, bodies, "plain")


def _framed(columns: Sequence[str], bodies: Sequence[Html], class_: str) -> Html:
    head = element("thead", element("tr", *(element("th", name, scope="col") for name in columns)))
    return element("div", element("table", head, *bodies, class_=class_), class_="frame", tabindex="0")


def _body(rows: Iterable[Sequence[Content]]) -> Html:
    return element("tbody", *(element("tr", *map(_cell, row)) for row in rows))


def _cell(content: Content) -> Html:
    is_number = not isinstance(content, Html) and NUMBER.fullmatch(str(content)) is not None
    return element("td", content, class_="number") if is_number else element("td", content)


def folded(summary: Content, *contents: Content) -> Html:
    """Contents behind a line that opens them."""
    return element("details", element("summary", summary), *contents)


def code(line: str) -> Html:
    """A command or a path to copy."""
    return element("pre", element("code", line), tabindex="0")


def picture(path: Path, caption: Content) -> Html:
    """The PNG or SVG itself, within the page: charts are inverted on a dark page, films are dark as they are."""
    kind, told = told_by(path)
    media = "svg+xml" if path.suffix == ".svg" else "png"
    image = f"data:image/{media};base64,{base64.b64encode(path.read_bytes()).decode()}"
    shown = Html(f'<img src="{image}" alt="{escape(told or path.stem)}" class="drawn-{kind or "elsewhere"}">')
    frame = element("div", shown, class_="frame", tabindex="0", title="click to enlarge")
    return element("figure", frame, element("figcaption", caption))


def chart(specification: dict[str, Any], label: str) -> Html:
    """A place for a chart, with its data; the page's script draws it."""
    height = specification["layout"]["height"]
    data = Html(script_json(specification))
    script = element("script", data, type="application/json")
    return element("div", script, class_="chart", role="img", aria_label=label, style=f"min-height:{height}px")


def script_json(value: Any) -> str:
    """JSON that may stand within a script: no ``<`` in it can end the script."""
    return json.dumps(value, allow_nan=False, separators=(",", ":")).replace("<", "\\u003c")
