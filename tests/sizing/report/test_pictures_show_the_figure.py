"""Both renderers draw the same description: what is in it is in the page and, by its pixels, in the image."""

from __future__ import annotations

import json
import re
import struct
from dataclasses import replace
from typing import Any

import pytest

from firsttoken_sizing.report.figure import (
    COLORS,
    Axis,
    Figure,
    LimitLine,
    Mark,
    MarkKind,
    Panel,
    Series,
    Shape,
    axis_range,
    log_ticks,
    tick_label,
)
from firsttoken_sizing.report.matplotlib_png import png_image
from firsttoken_sizing.report.pictures import PictureFormat, draw
from firsttoken_sizing.report.plotly_page import html_page

CURVE = Series(
    "FP8 TP1 <Measured>",
    "TP1",
    x=(20.0, 200.0, 2000.0),
    y=(1.0, 5.0, 8.0),
    color=1,
    shape=Shape.SQUARE,
    kept=(True, None, False),
    notes=("a\nb", "c", "d"),
)
PANEL = Panel(
    Axis("TTFT (ms)", log=True),
    Axis("Requests/s"),
    series=(CURVE,),
    limits=(LimitLine("limit: TTFT P95 300 ms", 300, vertical=True), LimitLine("limit: 7", 7, vertical=False)),
    marks=(Mark(MarkKind.CHOSEN, "chosen: 39 x FP8", 200.0, 5.0, 1), Mark(MarkKind.KNEE, "knee", 2000.0, 8.0, 1)),
)
FIGURE = Figure("Llama <script>", (PANEL,), ("300 ms & more",))


def drawn(page: str) -> tuple[dict[str, dict[str, Any]], dict[str, Any]]:
    """Traces by name, and the layout, out of the page's call of plotly."""
    start = page.rindex("Plotly.newPlot(")
    decoder = json.JSONDecoder()
    traces, end = decoder.raw_decode(page, page.index("[", start))
    layout, _ = decoder.raw_decode(page, page.index("{", end))
    return {trace["name"]: trace for trace in traces}, layout


def size_of(image: bytes) -> tuple[int, int]:
    assert image[:8] == b"\x89PNG\r\n\x1a\n"
    width, height = struct.unpack(">II", image[16:24])
    return width, height


def test_the_page_has_every_curve_limit_and_mark() -> None:
    traces, layout = drawn(html_page(FIGURE))

    curve = traces[CURVE.name]
    assert (curve["x"], curve["y"]) == ([20, 200, 2000], [1, 5, 8])
    assert curve["marker"]["symbol"] == "square"
    assert curve["marker"]["color"] == [COLORS[1], COLORS[1], "white"]
    assert curve["text"][0] == "a<br>b"
    assert traces["limit: TTFT P95 300 ms"]["x"] == [300, 300]
    assert traces["limit: 7"]["y"] == [7, 7]
    assert (traces["chosen: 39 x FP8"]["x"], traces["chosen: 39 x FP8"]["y"]) == ([200], [5])
    assert layout["xaxis"]["title"]["text"] == "TTFT (ms)"
    assert (layout["xaxis"]["type"], layout["xaxis"]["ticktext"]) == (
        "log",
        ["20", "50", "100", "200", "500", "1,000", "2,000"],
    )


def test_the_words_of_a_limit_stand_where_its_line_is() -> None:
    _, layout = drawn(html_page(FIGURE))
    (words,) = (a for a in layout["annotations"] if a["text"].startswith("limit: TTFT"))

    # Positions on a logarithmic axis are logarithms.
    assert 10 ** words["x"] == pytest.approx(300)


def test_the_page_needs_no_network_and_holds_no_markup_from_names() -> None:
    page = html_page(FIGURE)

    assert re.findall(r"<(?:script|link)[^>]+(?:src|href)=", page) == []
    assert "<title>Llama &lt;script&gt;</title>" in page
    assert "<p>300 ms &amp; more</p>" in page
    assert "<Measured>" not in page


def test_several_panels_share_one_legend_entry_a_name() -> None:
    page = html_page(replace(FIGURE, panels=(replace(PANEL, title="a"), replace(PANEL, title="b"))))
    start = page.rindex("Plotly.newPlot(")
    traces, _ = json.JSONDecoder().raw_decode(page, page.index("[", start))

    assert [t["showlegend"] for t in traces if t["name"] == CURVE.name] == [True, False]


def test_a_page_is_light_and_fits_a_phone() -> None:
    page = html_page(FIGURE)

    assert len(page.encode()) < 1_500_000
    assert '<meta name="viewport" content="width=device-width' in page
    assert '"responsive": true' in page
    assert page.index("plotly.js (basic") < page.rindex("Plotly.newPlot(")


def test_the_verdict_stands_before_the_chart() -> None:
    page = html_page(replace(FIGURE, verdict="kept <all>"))

    assert page.index('<p class="verdict">kept &lt;all&gt;</p>') < page.rindex("Plotly.newPlot(")
    assert 'class="verdict"' not in html_page(FIGURE)


@pytest.mark.slow
def test_the_image_grows_with_panels_and_notes_and_is_the_same_every_time() -> None:
    one = png_image(FIGURE)
    two = png_image(replace(FIGURE, panels=(PANEL, PANEL)))
    noted = png_image(replace(FIGURE, notes=("word " * 200,)))

    assert one == png_image(FIGURE)
    assert size_of(two)[1] > size_of(one)[1]
    assert size_of(noted)[1] > size_of(one)[1]
    assert size_of(two)[0] == size_of(one)[0] == 1560


def test_what_a_curve_shows_changes_the_image() -> None:
    hollow = replace(PANEL, series=(replace(CURVE, kept=(False, False, False)),))

    assert png_image(replace(FIGURE, panels=(hollow,))) != png_image(FIGURE)


@pytest.mark.parametrize("picture", PictureFormat)
def test_a_figure_without_panels_is_still_a_picture(picture: PictureFormat) -> None:
    assert len(draw(Figure("nothing", ()), picture)) > 1000


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [
        (18, 2200, ["20", "50", "100", "200", "500", "1,000", "2,000"]),
        (0.04, 3, ["0.05", "0.1", "0.2", "0.5", "1", "2"]),
        (1, 100_000, ["1", "10", "100", "1,000", "10,000", "100,000"]),
        (310, 390, ["320", "340", "360", "380"]),
    ],
    ids=["two decades", "below one", "many decades", "less than a factor of two"],
)
def test_a_logarithmic_axis_has_a_handful_of_round_ticks(low: float, high: float, expected: list[str]) -> None:
    assert [tick_label(t) for t in log_ticks(low, high)] == expected


@pytest.mark.parametrize("log", [True, False])
@pytest.mark.parametrize("values", [(), (0.0,), (5.0,), (5.0, 500.0)], ids=str)
def test_an_axis_holds_all_its_values_with_a_margin(values: tuple[float, ...], log: bool) -> None:
    low, high = axis_range(Axis("x", log=log), values)

    assert low < high
    assert all(low < v < high for v in values if v > 0)
    assert low == 0 or log


def test_stacked_curves_are_filled_steps_on_top_of_each_other_in_both_pictures() -> None:
    lower, upper = (Series(name, name, (0.0, 1.0, 2.0), y, color) for name, y, color in (
        ("lower", (1.0, 4.0, 1.0), 0), ("upper", (2.0, 2.0, 3.0), 1)))  # fmt: skip
    panel = Panel(Axis("days"), Axis("GPUs"), (lower, upper), title="pool", stacked=True)
    traces, _ = drawn(html_page(Figure("load", (panel,))))

    assert panel.values(vertical=True) == (3.0, 6.0, 4.0)
    assert {traces[name]["stackgroup"] for name in ("lower", "upper")} == {"stacked"}
    assert {traces[name]["line"]["shape"] for name in ("lower", "upper")} == {"hv"}
    beside = png_image(Figure("load", (replace(panel, stacked=False),)))
    assert png_image(Figure("load", (panel,))) != beside
