"""The report in a real browser: charts are drawn, nothing breaks, nothing runs that a name brought in."""

import pytest
from selenium.webdriver import ActionChains
from selenium.webdriver.common.by import By

from browser import browser
from optimist.reporting.report import write_report
from report_folders import HACK, write_everything

DRAWN = "return document.body.dataset.drawn"
LINES = "return [...document.querySelectorAll('.chart')].map(chart => chart.querySelectorAll('.trace').length)"


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    place = tmp_path_factory.mktemp("report")
    write_report(write_everything(place), place / "report.html")
    return place / "report.html"


@pytest.mark.parametrize(("width", "dark"), [(1200, False), (1200, True), (390, False), (390, True)])
def test_it_opens_from_disk_and_draws_every_chart(width, dark, report, tmp_path):
    with browser(report, width=width, dark=dark) as page:
        page.wait_for(DRAWN)
        assert len(page.run(LINES)) == 13
        assert min(page.run(LINES)) > 0
        assert page.run("return [...document.images].every(image => image.naturalWidth > 0)")
        assert page.overflow() == 0
        assert page.console_errors() == []
        assert page.requests() == []
        ground, ink = page.run("""const seen = getComputedStyle(document.body);
            const label = document.querySelector('.chart .xtick text');
            return [seen.backgroundColor, getComputedStyle(label).fill].map(c => Number(c.match(/\\d+/)[0]))""")
        assert (ground < 60 and ink > 180) if dark else (ground > 220 and ink < 80)
        widest = page.run("return Math.max(...[...document.images].map(image => image.getBoundingClientRect().right))")
        assert widest <= width  # no picture is cut
        grounds = page.run(
            "return [...document.querySelectorAll('figure .frame')].map(f => getComputedStyle(f).background)"
        )
        assert all(("rgba(0, 0, 0, 0)" in ground) == dark for ground in grounds)  # no white slab on a dark page
        assert page.screenshot(tmp_path / "report.png", full=True).stat().st_size > 50_000


def test_the_legend_shows_single_runs_and_the_numbers_are_there_to_hover(report):
    with browser(report) as page:
        page.wait_for(DRAWN)
        chart = "document.querySelector('.chart .js-plotly-plot')"
        shown = f"return {chart}.querySelectorAll('.scatterlayer .trace').length"
        before = page.run(shown)
        page.run("""const toggles = [...document.querySelectorAll('.chart')][0].querySelectorAll('.legendtoggle');
            for (const name of ['mousedown', 'mouseup'])
              toggles[toggles.length - 1].dispatchEvent(new MouseEvent(name, {bubbles: true}))""")
        page.wait_for(f"{shown} === {before + 6}")
        plot = page.driver.find_element(By.CSS_SELECTOR, ".chart .nsewdrag")
        page.run("arguments[0].scrollIntoView({block: 'center', behavior: 'instant'})", plot)
        ActionChains(page.driver).move_to_element(plot).move_by_offset(9, 0).move_by_offset(9, 0).perform()
        hovered = page.wait_for(f"return {chart}.querySelector('.hoverlayer').textContent")
        assert "acb" in hovered
        assert "3 runs" in hovered
        assert "steps" in hovered
        assert page.console_errors() == []


def test_a_picture_is_enlarged_and_its_frame_scrolls(report):
    with browser(report, width=390) as page:
        page.wait_for(DRAWN)
        frame = "document.querySelector('figure .frame')"
        assert page.run(f"return {frame}.scrollWidth - {frame}.clientWidth") == 0
        page.run(f"{frame}.click()")
        assert page.run(f"return {frame}.scrollWidth - {frame}.clientWidth") > 300
        assert page.overflow() == 0
        page.run(f"{frame}.click()")
        assert page.run(f"return {frame}.scrollWidth - {frame}.clientWidth") == 0


def test_the_colors_follow_the_reader(report):
    color = "return document.querySelector('.chart .js-lines, .chart .js-line').style.stroke"
    with browser(report) as page:
        page.wait_for(DRAWN)
        light = page.run(color)
        scheme = {"features": [{"name": "prefers-color-scheme", "value": "dark"}]}
        page.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", scheme)
        page.wait_for(f"{color} !== '{light}'")


def test_names_and_texts_with_markup_are_shown_and_not_executed(tmp_path):
    hostile = tmp_path / "<img src=x onerror=document.title='hacked'>"
    write_report(write_everything(hostile, claim=HACK, text=HACK), tmp_path / "report.html")
    with browser(tmp_path / "report.html") as page:
        page.wait_for(DRAWN)
        assert "hacked" not in page.run("return document.title").lower()
        assert page.run("return document.querySelectorAll('img[src=x]').length") == 0
        assert HACK in page.run("return document.querySelector('#summary').textContent")
        assert HACK in page.run("return document.querySelector('#curves').textContent")
        for label in (".legendtext", ".ytick"):
            labels = page.run(f"return [...document.querySelectorAll('.chart {label}')].map(t => t.textContent)")
            assert any("<img src=x" in each for each in labels)
        assert page.console_errors() == []
