"""The page as text: charts that Plotly accepts, colors for the dark, nothing read as markup, nothing overwritten."""

import base64
import hashlib
import json
import re
from html import unescape

import pytest
from plotly import graph_objects

from optimist.reporting.report import sections, write_report
from optimist.reporting.report.markup import script_json, text
from optimist.reporting.style import on_dark
from report_folders import HACK, write_everything, write_picture, write_run, write_study


@pytest.fixture(scope="module")
def hostile(tmp_path_factory):
    """A page of everything, with markup in every name and text."""
    place = tmp_path_factory.mktemp("hostile")
    write_report(write_everything(place, claim=HACK, text=HACK), place / "report.html")
    return (place / "report.html").read_text()


def without_scripts(page):
    return re.sub(r"<script.*?</script>", "", page, flags=re.S)


def charts(page):
    return [json.loads(found) for found in re.findall(r'<script type="application/json">(.*?)</script>', page, re.S)]


def test_every_chart_is_one_that_plotly_accepts(hostile):
    found = charts(hostile)
    assert len(found) == 3 * 3 + 3 + 1  # three measures and the bars of three tasks, and the time
    for chart in found:
        assert len(graph_objects.Figure(chart).data) == len(chart["data"]) > 0


def test_single_runs_hide_behind_one_name_of_the_legend(hostile):
    traces = next(chart for chart in charts(hostile) if chart["layout"]["title"]["text"] == "unique states")["data"]
    lines = [trace["name"] for trace in traces if trace.get("showlegend", True)]
    assert lines == ["acb", "rnd", "single runs"]
    assert sum(trace.get("visible") == "legendonly" for trace in traces) == 6


def test_every_color_has_its_partner_in_the_dark(hostile):
    def colors(value, key=""):
        if isinstance(value, dict):
            return {found for name, inner in value.items() for found in colors(inner, name)}
        if isinstance(value, list):
            return {found for inner in value for found in colors(inner, key)}
        return {value} if key.endswith("color") else set()

    used = {found for chart in charts(hostile) for found in colors(chart)}
    assert used - on_dark().keys() == {"rgba(0,0,0,0)"}


def test_markup_is_shown_and_not_read(hostile):
    assert "<img src=x" not in hostile
    assert HACK not in hostile
    assert unescape(without_scripts(hostile)).count(HACK) >= 5  # the claim, the task, the option, the error, its text
    labels = [trace.get("name", "") for chart in charts(hostile) for trace in chart["data"]]
    assert not any("<" in label.replace("<br>", "") for label in labels)  # Plotly would read it as a tag


def test_the_page_has_plotly_once_and_runs_no_script_but_its_own(hostile):
    scripts = re.findall(r"<script>(.*?)</script>", hostile, re.S)
    assert [script.count("plotly.js v") for script in scripts] == [1, 0]
    hashes = [base64.b64encode(hashlib.sha256(script.encode()).digest()).decode() for script in scripts]
    allowed = re.search(r"script-src ([^\"]*)\"", hostile)[1]
    assert allowed == " ".join(f"'sha256-{known}'" for known in hashes)
    assert not re.search(r"(src|href)=\"(?!data:|#)", without_scripts(hostile))


def test_it_says_what_is_in_it(hostile):
    shown = unescape(re.sub(r"<[^>]*>", "", without_scripts(hostile)))
    for expected in (
        "18 runs",
        "17 finished, 1 unfinished",
        "holds: 1, does not hold: 1, not enough data: 1",
        "1 of 2 finished",
        "optimist study deepsea --out study",
        "optimist train --env DeepSea-6 --total-steps 4000 --seed 1 --extrinsic.weight 0.0 --threads 1",
        "optimist resume ",
        "Film strip",
        "Unique states",
        "acb: by ridge",
        "75.0 %",
        "regret.csv, 2 rows",
    ):
        assert expected in shown, expected


def test_a_study_alone_makes_a_page_without_the_sections_of_runs(tmp_path):
    write_report([write_study(tmp_path / "study")], tmp_path / "report.html")
    anchors = re.findall(r'<section id="(\w+)"', (tmp_path / "report.html").read_text())
    assert anchors == ["summary", "pictures", "commands", "tables"]


def test_only_a_report_is_overwritten(tmp_path):
    run, out = write_run(tmp_path / "run"), tmp_path / "deep" / "report.html"
    write_report([run], out)
    first = out.read_text()
    write_report([run], out)
    assert out.read_text() == first
    assert [path.name for path in out.parent.iterdir()] == ["report.html"]
    out.write_text("my notes")
    with pytest.raises(FileExistsError, match="is not a report"):
        write_report([run], out)
    assert out.read_text() == "my notes"
    with pytest.raises(FileExistsError, match="is a folder"):
        write_report([run], tmp_path)


def test_pictures_beyond_the_room_are_left_out_and_named(tmp_path, monkeypatch):
    run = write_run(tmp_path / "run")
    for name in ("film_strip", "heat_map"):
        write_picture(run / "play" / f"{name}.png")
    monkeypatch.setattr(sections, "PICTURE_BYTES", (run / "play" / "film_strip.png").stat().st_size + 10)
    write_report([run], tmp_path / "report.html")
    page = (tmp_path / "report.html").read_text()
    assert page.count('<img src="data:image/png;base64,') == 1
    assert "left out for its size" in page
    assert "heat_map.png" in page


def test_text_and_data_cannot_leave_their_place():
    assert text(HACK).count("<") == 0
    assert text('"') == "&quot;"
    assert "<" not in script_json({"a": HACK})
    assert json.loads(script_json({"a": HACK})) == {"a": HACK}
    with pytest.raises(ValueError, match="not JSON compliant"):
        script_json(float("nan"))


def test_evaluations_have_curves_and_final_numbers_where_there_are_any(tmp_path):
    from optimist.reporting.tables import read_csv, write_csv

    plain, evaluated = write_run(tmp_path / "plain"), write_run(tmp_path / "evaluated", bonus="rnd", eval_every=2000)
    rows = read_csv(evaluated / "metrics.csv")
    for row in rows:
        done = int(row["step"]) % 2000 == 0
        row |= {"evaluation/greedy_return": 0.25 * row["step"] if done else "", "evaluation/greedy_success": ""}
    write_csv(evaluated / "metrics.csv", rows)
    write_report([plain], tmp_path / "without.html")
    write_report([plain, evaluated], tmp_path / "with.html")
    without, page = ((tmp_path / name).read_text() for name in ("without.html", "with.html"))
    assert "greedy evaluation" not in without
    assert page.count("return, greedy evaluation") >= 2  # a chart, and a column of the table
    assert "1000" in page.replace(",", "")  # at the end of the run
    assert "success, greedy evaluation" not in page  # the task defines no success
