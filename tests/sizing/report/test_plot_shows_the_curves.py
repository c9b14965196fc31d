from __future__ import annotations

import pytest

from firsttoken_sizing import Arrivals, Sizing, size
from firsttoken_sizing.report.figure import Figure, MarkKind, Panel
from firsttoken_sizing.report.sizing_figure import sizing_figure
from tests.fixtures.worked_examples import call_center


@pytest.fixture(scope="module")
def sizings() -> list[tuple[str, Sizing]]:
    return [("support-rag", size(call_center(arrivals=arrivals))) for arrivals in Arrivals]


@pytest.fixture(scope="module")
def figure(sizings: list[tuple[str, Sizing]]) -> Figure:
    return sizing_figure(sizings)


def panel(figure: Figure, metric: str) -> Panel:
    (found,) = (p for p in figure.panels if p.y.title.startswith(metric))
    return found


def test_every_sizing_has_its_curves_and_its_point(figure: Figure, sizings: list[tuple[str, Sizing]]) -> None:
    ttft = panel(figure, "TTFT")
    series = {s.name: s for s in ttft.series}
    marks = {m.label: m for m in ttft.marks}

    for _, sizing in sizings:
        label = sizing.arrivals.value
        assert sizing.table is not None
        for statistic, column in (("Mean", 0), ("P95", 3)):
            curve = series[f"{label} {statistic}"]
            assert curve.x == pytest.approx(sizing.table.rates.tolist())
            assert curve.y == pytest.approx(sizing.table.ttft[:, column].tolist())
        chosen = marks[f"{label} P95 as sized"]
        assert chosen.kind is MarkKind.CHOSEN
        assert (chosen.x, chosen.y) == (sizing.requests_per_second_per_replica, sizing.ttft.p95)


def test_what_was_not_measured_is_no_point(figure: Figure) -> None:
    labels = {m.label for m in panel(figure, "ITL").marks}

    assert labels == {"Poisson P95 as sized"}


def test_the_limit_is_drawn_once(figure: Figure) -> None:
    drawn = [(limit.label, limit.value, limit.vertical) for p in figure.panels for limit in p.limits]

    assert drawn == [("limit: TTFT P95 300 ms", 300, False)]


def test_an_infeasible_sizing_has_no_curve_and_says_why() -> None:
    figure = sizing_figure([("x", size(call_center(ttft_milliseconds=1)))])

    assert [p.series for p in figure.panels] == [(), (), ()]
    assert any("SingleRequestTTFT" in note for note in figure.notes)


def test_one_name_is_in_the_title_and_several_are_in_the_legend(sizings: list[tuple[str, Sizing]]) -> None:
    one = sizing_figure(sizings)
    two = sizing_figure([*sizings, ("other", sizings[0][1])])

    assert one.title == "support-rag: latency against the rate of one replica"
    assert not any("support-rag" in s.name for p in one.panels for s in p.series)
    assert len({s.name for p in one.panels for s in p.series}) == 4
    assert {s.name.partition(",")[0] for p in two.panels for s in p.series} == {"support-rag", "other"}


def test_a_mean_above_the_p95_is_explained_and_only_then(sizings: list[tuple[str, Sizing]]) -> None:
    by_load = {sizing.arrivals: sizing_figure([(name, sizing)]) for name, sizing in sizings}
    explained = {load: [note for note in f.notes if "above the P95" in note] for load, f in by_load.items()}

    assert explained[Arrivals.POISSON] == []
    (closed,) = explained[Arrivals.CLOSED_LOOP]
    assert closed.endswith("those of the first round, when all clients send at once.")
