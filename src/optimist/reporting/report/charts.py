"""The charts of a report, as Plotly's own JSON: ``{"data": [...], "layout": {...}}``."""

import math
import textwrap
from collections.abc import Iterable, Sequence
from html import escape
from typing import Any

import numpy as np

from optimist.reporting.report.conditions import Condition
from optimist.reporting.report.measures import Curve, curve, final, is_share, thinned
from optimist.reporting.style import GRID, INK, PAPER, PARTS, band

Chart = dict[str, Any]
SINGLE = "single runs"
LABEL, TITLE = 32, 48
"""Letters in a line of a label, and in a title."""
DECADES = 30
"""The span beyond which a logarithmic axis has marks at powers of ten alone."""
BELOW, AXIS_TITLE = 28, 20
PHONE, LEGEND_MARK, LETTER, LEGEND_LINE = 330, 46, 6, 19
"""Pixels: below a chart, its width on a phone, and of a legend the mark, a letter and a line."""


def label(text: str) -> str:
    """The text for Plotly, which reads tags: escaped, and broken where it is too long for a legend."""
    return "<br>".join(escape(line, quote=False) for line in textwrap.wrap(text, LABEL)) or " "


def learning_curves(conditions: Sequence[Condition], measure: str, title: str) -> Chart | None:
    """The measure of every condition of a task along the steps, in a band; single runs hide behind the legend."""
    traces: list[Any] = []
    singles: list[Any] = []
    for condition in conditions:
        if measure == "bonus_mean" and condition.fields["bonus"] == "none":
            continue
        found = curve(condition.runs, measure)
        if found is None:
            continue
        traces += _line(condition, found)
        if len(condition.runs) > 1:
            singles += [_single(condition, k, measure) for k in range(len(condition.runs))]
    if not traces:
        return None
    if singles:
        singles[0]["showlegend"] = True
    layout = _layout(title, legend=[trace["name"] for trace in traces + singles if trace.get("showlegend", True)])
    layout |= {
        "hovermode": "x unified",
        "xaxis": _axis(tickformat="~s", rangemode="tozero", title={"text": "steps", "standoff": 6})
        | {"unifiedhovertitle": {"text": "%{x:,d} steps"}, "spikecolor": INK, "spikethickness": -1, "spikedash": "dot"},
        "yaxis": _height_axis(measure, traces),
    }
    return {"data": traces + singles, "layout": layout}


def final_bars(conditions: Sequence[Condition], measure: str, title: str) -> Chart | None:
    """How the conditions of a task ended: bars with intervals, the best on top, and a dot for every run."""
    ends = [(condition, final(condition, measure)) for condition in conditions]
    ends = sorted((end for end in ends if math.isfinite(end[1].center)), key=lambda end: end[1].center)
    if not ends:
        return None
    names = [label(condition.learner) for condition, _ in ends]
    bars = {
        "type": "bar",
        "orientation": "h",
        "y": names,
        "x": _numbers(end.center for _, end in ends),
        "marker": {"color": [condition.look.light for condition, _ in ends]},
        "error_x": {
            "type": "data",
            "symmetric": False,
            "array": _numbers(_reach(end.high - end.center) for _, end in ends),
            "arrayminus": _numbers(_reach(end.center - end.low) for _, end in ends),
            "thickness": 1.4,
            "color": INK,
        },
        "customdata": [[*_numbers([end.low, end.high]), len(end.values)] for _, end in ends],
        "hovertemplate": "%{y}: %{x:,.4~g}<br>%{customdata[0]:,.4~g} to %{customdata[1]:,.4~g}"
        "<br>%{customdata[2]} runs<extra></extra>",
        "showlegend": False,
    }
    dots = {
        "type": "scatter",
        "mode": "markers",
        "y": [name for name, (_, end) in zip(names, ends, strict=True) for _ in end.values],
        "x": _numbers(value for _, end in ends for value in end.values),
        "marker": {"size": 5, "color": PAPER, "line": {"width": 1, "color": INK}},
        "hoverinfo": "skip",
        "showlegend": False,
    }
    layout = _layout(title) | {
        "height": 80 + _line_height(names) * len(names),
        "bargap": 0.35,
        "xaxis": _axis(tickformat="~s", rangemode="tozero"),
        "yaxis": {"automargin": True, "type": "category", "ticksuffix": "  ", "fixedrange": True},
    }
    return {"data": [bars, dots], "layout": layout}


def time_shares(rows: Sequence[tuple[str, dict[str, float]]], title: str) -> Chart:
    """Where the time of each condition went: one bar per condition, percent of its seconds by part."""
    parts = list(dict.fromkeys(part for _, seconds in rows for part in seconds))
    names = [label(name) for name, _ in rows]
    shares = [[100 * seconds.get(part, 0.0) / (sum(seconds.values()) or 1.0) for part in parts] for _, seconds in rows]
    bars = [
        {
            "type": "bar",
            "orientation": "h",
            "name": label(part),
            "y": names[::-1],
            "x": _numbers(share[k] for share in shares[::-1]),
            "marker": {"color": PARTS[k % len(PARTS)]},
            "hovertemplate": "%{y}<br>%{fullData.name}: %{x:.1f} %<extra></extra>",
        }
        for k, part in enumerate(parts)
    ]
    layout = _layout(title, legend=parts)
    layout["margin"]["b"] -= AXIS_TITLE
    layout |= {
        "barmode": "stack",
        "bargap": 0.3,
        "height": 50 + layout["margin"]["b"] + _line_height(names) * len(names),
        "xaxis": _axis(ticksuffix=" %", range=[0, 100]),
        "yaxis": {"automargin": True, "type": "category", "ticksuffix": "  ", "fixedrange": True},
    }
    return {"data": bars, "layout": layout}


def _line(condition: Condition, found: Curve) -> list[Chart]:
    """The line of a condition with its numbers on hover, over its band."""
    group = label(condition.learner)
    steps = found.steps.astype(int).tolist()
    line = {
        "type": "scatter",
        "mode": "lines" if len(steps) > 1 else "markers",
        "name": group,
        "legendgroup": group,
        "x": steps,
        "y": _numbers(found.center),
        "line": {"color": condition.look.light, "dash": condition.look.dash, "width": 2},
        "marker": {"color": condition.look.light},
        "customdata": [
            [*_numbers(bounds), int(count)] for *bounds, count in zip(found.low, found.high, found.count, strict=True)
        ],
        "hovertemplate": "%{y} (%{customdata[0]:.3~g} to %{customdata[1]:.3~g}, %{customdata[2]} runs)",
    }
    if found.count.max() == 1:
        return [line | {"hovertemplate": "%{y}"}]
    area = {
        "type": "scatter",
        "mode": "lines",
        "legendgroup": group,
        "showlegend": False,
        "x": steps + steps[::-1],
        "y": _numbers([*found.low, *found.high[::-1]]),
        "fill": "toself",
        "fillcolor": band(condition.look.light),
        "line": {"width": 0, "color": condition.look.light},
        "hoverinfo": "skip",
    }
    return [area, line]


def _single(condition: Condition, k: int, measure: str) -> Chart:
    """A thin line of one run, hidden until the legend is asked for it."""
    metrics = condition.runs[k].metrics
    at = thinned(np.arange(len(metrics["step"]), dtype=float)).astype(int)
    values = metrics[measure][at] if measure in metrics else []
    return {
        "type": "scatter",
        "mode": "lines",
        "name": SINGLE,
        "legendgroup": SINGLE,
        "visible": "legendonly",
        "showlegend": False,
        "x": metrics["step"][at].astype(int).tolist(),
        "y": _numbers(values),
        "line": {"color": condition.look.light, "width": 0.8},
        "hoverinfo": "skip",
    }


def _layout(title: str, legend: Sequence[str] = ()) -> Chart:
    """What all charts share; room for the legend below is kept as on a phone, where names stand in few columns."""
    lines = [line for name in legend for line in name.split("<br>")]
    columns = max(1, PHONE // (LEGEND_MARK + LETTER * max(map(len, lines), default=0)))
    below = LEGEND_LINE * math.ceil(len(lines) / columns)
    return {
        "title": {
            "text": escape(textwrap.shorten(title, TITLE), quote=False),
            "font": {"size": 13},
            "x": 0.01,
            "y": 1,
            "pad": {"t": 10},
            "yanchor": "top",
        },
        "height": 270 + below,
        "showlegend": bool(legend),
        "margin": {"l": 48, "r": 14, "t": 38, "b": BELOW + AXIS_TITLE + below if legend else BELOW},
        "paper_bgcolor": "rgba(0,0,0,0)",
        "plot_bgcolor": "rgba(0,0,0,0)",
        "font": {"family": "system-ui, -apple-system, Segoe UI, Roboto, sans-serif", "size": 12, "color": INK},
        "hoverlabel": {"bgcolor": PAPER, "bordercolor": GRID, "namelength": -1, "font": {"color": INK}},
        "legend": {
            "orientation": "h",
            "traceorder": "normal",
            "x": 0,
            "y": 0,
            "yref": "container",
            "yanchor": "bottom",
            "font": {"size": 11},
        },
    }


def _height_axis(measure: str, traces: Sequence[Chart]) -> Chart:
    """A share goes from 0 to 1; bonuses of different learners have different units, so theirs is logarithmic."""
    if is_share(measure):
        return _axis(tickformat=".0%", range=[-0.03, 1.03], hoverformat=".0%")
    axis = _axis(tickformat="~g", hoverformat=".4~g")
    heights = [y for trace in traces for y in trace["y"]]
    if measure != "bonus_mean" or any(y is None or y <= 0 for y in heights):
        return axis
    return axis | {"type": "log", "dtick": 1 if max(heights) > DECADES * min(heights) else "D2"}


def _line_height(names: Sequence[str]) -> int:
    """Pixels of a bar with its name."""
    return max(30, 16 * max(name.count("<br>") + 1 for name in names))


def _axis(**settings: Any) -> Chart:
    return {"gridcolor": GRID, "zerolinecolor": GRID, "linecolor": GRID, "automargin": True} | settings


def _numbers(values: Iterable[float]) -> list[float | None]:
    """Five digits of each value, None for what JSON cannot write: NaN."""
    return [float(f"{value:.5g}") if math.isfinite(value) else None for value in values]


def _reach(length: float) -> float:
    return max(0.0, length) if math.isfinite(length) else 0.0
