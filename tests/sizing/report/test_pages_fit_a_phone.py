"""Pages are readable at the width of a phone: nothing is cut, the legend lies below the axis, the page scrolls.

Looked at in a real browser where there is one; what was mended is held without one, too.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from firsttoken_sizing.report.figure import Axis, Figure, LimitLine, Panel, Series
from firsttoken_sizing.report.plotly_page import html_page
from tests.sizing.report.test_pictures_show_the_figure import FIGURE, PANEL, drawn

BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
WIDTH = 500
"""Pixels: the narrowest window that a headless Chromium has."""
PROBE = """
<script>
setTimeout(() => {
  const box = selector => document.querySelector(selector).getBoundingClientRect();
  const legend = box(".legend"), title = box(".xtitle"), note = box("body > p");
  const cut = [...document.querySelectorAll("h1, p, .legend text, .annotation text, .xtitle, .ytitle")]
    .filter(e => e.getBoundingClientRect().right > window.innerWidth || e.getBoundingClientRect().left < 0)
    .map(e => e.textContent);
  const seen = {width: window.innerWidth, page: document.documentElement.scrollWidth, cut, title: title.bottom,
    legend: [legend.top, legend.bottom], note: note.top, bar: box(".modebar-container").height,
    shown: [...document.querySelectorAll(".legendtext")].map(e => e.textContent),
    entries: document.querySelector(".js-plotly-plot").data.filter(t => t.showlegend !== false).length};
  document.body.insertAdjacentHTML("beforeend", `<output>${JSON.stringify(seen)}</output>`);
}, 2000);
</script></body>
"""
LONG = "Replicas that are paid for, with all of those that start, that serve, and that drain at the end"


def figure(curves: int) -> Figure:
    """One panel with a long title, a limit near its right end, and as many curves as the legend has entries."""
    lines = tuple(
        Series(f"Meta-Llama-3-70B-Instruct BF16 TP{i}", f"g{i}", x=(20.0, 2000.0), y=(1.0, 5.0 + i), color=i)
        for i in range(curves)
    )
    limits = (LimitLine("limit: TTFT P95 1500 ms", 1500, vertical=True),)
    panel = Panel(Axis("TTFT (ms)", log=True), Axis("Requests/s"), lines, limits, title=LONG)
    return Figure("call-center/support-rag: a title that is longer than a phone is wide", (panel,), ("A note.",))


def seen(page: str, file: Path) -> dict[str, Any]:
    """Measure a page in a browser of a phone's width."""
    file.write_text(page.replace("</body>", PROBE), encoding="utf-8")
    options = ("--headless=new", "--no-sandbox", "--disable-gpu", f"--window-size={WIDTH},844", "--dump-dom")
    profile = file.parent / "profile"
    done = subprocess.run(
        [str(BROWSER), *options, f"--user-data-dir={profile}", "--virtual-time-budget=8000", file.as_uri()],
        capture_output=True,
        text=True,
        check=True,
        timeout=240,
    )
    (found,) = re.findall(r"<output>(\{.*?)</output>", done.stdout)
    answer: dict[str, Any] = json.loads(found)
    return answer


@pytest.mark.slow
@pytest.mark.parametrize("curves", [2, 17])
def test_a_browser_cuts_and_covers_nothing(curves: int, tmp_path: Path) -> None:
    if BROWSER is None:
        pytest.skip("no browser is installed")

    there = seen(html_page(figure(curves)), tmp_path / "page.html")

    assert there["width"] < 700
    assert there["page"] <= there["width"]
    assert there["cut"] == []
    assert there["title"] <= there["legend"][0]
    assert there["legend"][1] <= there["note"]
    assert len(there["shown"]) == there["entries"] == curves + 1
    assert there["bar"] == 0


def test_a_finger_scrolls_the_page_and_zooms_no_chart() -> None:
    page = html_page(FIGURE)
    script = page[page.rindex("window.innerWidth < 700") :]

    assert '"dragmode": false' in script
    assert ".modebar-container { display: none; }" in page


def test_no_style_of_a_page_is_wider_than_a_phone() -> None:
    page = re.sub(r"<script>.*?</script>", "", html_page(FIGURE), flags=re.DOTALL)

    assert [width for width in re.findall(r"width: ?(\d+)px", page) if int(width) > 360] == ["700"]


@pytest.mark.parametrize(("value", "side"), [(30, "left"), (1500, "right")])
def test_the_words_of_a_limit_are_on_the_side_with_more_room(value: float, side: str) -> None:
    limit = LimitLine("limit: TTFT P95", value, vertical=True)
    _, layout = drawn(html_page(replace(FIGURE, panels=(replace(PANEL, limits=(limit,)),))))

    (words,) = (a for a in layout["annotations"] if a["text"] == limit.label)
    assert words["xanchor"] == side


def test_what_a_heading_of_the_legend_says_is_not_repeated_below_it() -> None:
    curves = [
        replace(PANEL.series[0], name=f"{model} FP8 TP{tp}", group=model) for model in ("8B", "70B") for tp in (1, 2)
    ]
    page = html_page(replace(FIGURE, panels=(replace(PANEL, series=tuple(curves)),)))
    traces, _ = json.JSONDecoder().raw_decode(page, page.index("[", page.rindex("Plotly.newPlot(")))
    entries = [(t.get("legendgroup"), t["name"]) for t in traces if t.get("showlegend") and t.get("legendgroup")]

    assert entries == [(model, f"FP8 TP{tp}") for model in ("8B", "70B") for tp in (1, 2)]
