from __future__ import annotations

import json
import re
from typing import Any

import pytest

from firsttoken_sizing import Arrivals, Sizing, size
from firsttoken_sizing.report.plot import sizing_plot
from tests.fixtures.worked_examples import call_center


def drawn(page: str) -> tuple[dict[str, dict[str, Any]], dict[str, Any]]:
    """Traces by name, and the layout, out of the page's call of plotly."""
    start = page.rindex("Plotly.newPlot(")
    decoder = json.JSONDecoder()
    traces, end = decoder.raw_decode(page, page.index("[", start))
    layout, _ = decoder.raw_decode(page, page.index("{", end))
    return {trace["name"]: trace for trace in traces}, layout


@pytest.fixture(scope="module")
def readings() -> list[tuple[str, Sizing]]:
    return [("support-rag", size(call_center(arrivals=arrivals))) for arrivals in Arrivals]


def test_every_reading_has_its_curves_and_its_point(readings: list[tuple[str, Sizing]]) -> None:
    traces, _ = drawn(sizing_plot(readings))

    for name, sizing in readings:
        label = f"{name}, {sizing.arrivals.value}: TTFT"
        assert sizing.table is not None
        for statistic, column in (("Mean", 0), ("P95", 3)):
            curve = traces[f"{label} {statistic}"]
            assert curve["x"] == pytest.approx(sizing.table.rates.tolist())
            assert curve["y"] == pytest.approx(sizing.table.ttft[:, column].tolist())
        chosen = traces[f"{label} P95 as sized"]
        assert (chosen["x"], chosen["y"]) == ([sizing.requests_per_second_per_replica], [sizing.ttft.p95])


def test_what_was_not_measured_is_no_point(readings: list[tuple[str, Sizing]]) -> None:
    traces, _ = drawn(sizing_plot(readings))

    assert "support-rag, ClosedLoop: ITL P95 as sized" not in traces
    assert "support-rag, Poisson: ITL P95 as sized" in traces


def test_the_limit_is_drawn_once(readings: list[tuple[str, Sizing]]) -> None:
    traces, _ = drawn(sizing_plot(readings))

    assert [name for name in traces if name.startswith("limit")] == ["limit: TTFT P95 300 ms"]
    assert traces["limit: TTFT P95 300 ms"]["y"] == [300, 300]


def test_an_infeasible_sizing_has_no_curve_and_says_why() -> None:
    traces, layout = drawn(sizing_plot([("x", size(call_center(ttft_milliseconds=1)))]))

    assert set(traces) == {"limit: TTFT P95 1 ms"}
    assert "SingleRequestTTFT" in layout["title"]["text"]


def test_the_page_needs_no_network(readings: list[tuple[str, Sizing]]) -> None:
    page = sizing_plot(readings)

    assert "Plotly.newPlot" in page
    assert re.findall(r"<(?:script|link)[^>]+(?:src|href)=", page) == []
