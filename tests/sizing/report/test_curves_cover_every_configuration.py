from __future__ import annotations

import io
from dataclasses import replace

import pytest
from rich.console import Console

from firsttoken_sizing import Arrivals, Hardware, Limit, Percentile, Sizing, Sla
from firsttoken_sizing.profile import Latency, Load, Point
from firsttoken_sizing.report.curve_document import curves_json
from firsttoken_sizing.report.curve_figure import Grouping, View, curve_figure
from firsttoken_sizing.report.curve_table import curve_tables
from firsttoken_sizing.report.curves import CONCURRENCIES, Curve, Loads, Study, study
from firsttoken_sizing.report.figure import MarkKind
from firsttoken_sizing.report.quantity import Quantity, ReplicaFacts
from firsttoken_sizing.request import Basis
from tests.fixtures.worked_examples import CALL_CENTER_POINTS, LLAMA_8B_H100_FP8, call_center, call_center_profile


@pytest.fixture(scope="module")
def closed() -> Study:
    return study(call_center())


@pytest.fixture(scope="module")
def poisson() -> Study:
    return study(call_center(arrivals=Arrivals.POISSON))


def curve_of(found: Study, tensor_parallel: int) -> Curve:
    (curve,) = (c for c in found.curves if c.key.tensor_parallel == tensor_parallel)
    return curve


def test_every_tensor_parallelism_has_a_curve(closed: Study) -> None:
    assert [c.key.tensor_parallel for c in closed.curves] == [1, 2, 4, 8]
    assert {c.key.pipeline_parallel for c in closed.curves} == {1}


def test_a_measured_curve_is_what_was_measured(closed: Study) -> None:
    curve = curve_of(closed, 1)

    assert curve.basis is Basis.MEASURED
    shown = {p.concurrency: (p.requests_per_second, p.ttft.mean, p.itl.mean) for p in curve.points}
    assert shown == {float(c): point for c, point in CALL_CENTER_POINTS.items()}


def test_only_what_is_judged_and_drawn_has_percentiles_filled_in(closed: Study) -> None:
    curve = curve_of(closed, 1)
    p95 = {p.concurrency: p.ttft.p95 for p in curve.points}

    assert p95 == {float(c): 268.0 if c == 10 else None for c in CALL_CENTER_POINTS}
    assert all(p.ttft.p95 is not None for p in curve.filled)
    assert dict(zip(p95, curve.kept, strict=True)) == {c: c <= 10 for c in p95}


def test_the_chosen_point_is_the_size(closed: Study) -> None:
    curve = curve_of(closed, 1)

    assert isinstance(closed.sizing, Sizing)
    assert curve.chosen is not None
    assert (curve.chosen.concurrency, curve.chosen.requests_per_second) == (10, 5.1954)
    assert [c.chosen for c in closed.curves if c is not curve] == [None, None, None]


def test_the_knee_has_the_most_throughput_for_its_latency(closed: Study) -> None:
    # Of the course's points it is concurrency 25: 8.84 requests/s in 2.82 s; at 50, 11.1 in 4.48 s.
    knee = curve_of(closed, 1).knee

    assert knee is not None
    assert knee.concurrency == 25


def test_a_modeled_curve_has_the_usual_loads_and_all_percentiles(closed: Study) -> None:
    curve = curve_of(closed, 2)

    assert [p.concurrency for p in curve.points][: len(CONCURRENCIES) - 1] == list(CONCURRENCIES[:-1])
    assert None not in [getattr(p.ttft, s) for p in curve.points for s in ("mean", "p50", "p90", "p95", "p99")]
    rates = [p.requests_per_second for p in curve.points[:7]]
    assert rates == sorted(rates)


def test_asked_loads_are_measured_or_between_or_modeled() -> None:
    found = study(call_center(), Loads(concurrencies=(10, 30, 400)))
    curve = curve_of(found, 1)
    at = {p.concurrency: p.requests_per_second for p in curve.points}

    assert list(at) == [10, pytest.approx(30), 400]
    assert at[10.0] == 5.1954
    assert 8.8434 < curve.points[1].requests_per_second < 11.132
    # 400 is outside of what was measured, so the whole curve is no better than the model.
    assert curve.basis is Basis.FITTED
    assert curve.band.percent > 1
    assert study(call_center(), Loads(concurrencies=(10, 30))).curves[0].basis is Basis.INTERPOLATED


@pytest.mark.slow
def test_poisson_curves_end_below_the_stable_rate(poisson: Study) -> None:
    for curve in poisson.curves:
        rates = [p.offered_requests_per_second for p in curve.points]
        assert len(rates) == 10
        assert rates == sorted(rates, key=lambda r: r or 0.0)
        ttft = [p.ttft.mean for p in curve.points]
        assert ttft[-1] is not None
        assert curve.alone.ttft.mean is not None
        assert ttft[-1] > 1.5 * curve.alone.ttft.mean


def test_a_rate_that_no_replica_can_do_is_named() -> None:
    found = study(call_center(arrivals=Arrivals.POISSON), Loads(rates=(1.0, 1000.0)))

    assert [len(c.points) for c in found.curves] == [1, 1, 1, 1]
    assert found.left_out[0].key == LLAMA_8B_H100_FP8
    assert found.left_out[0].reason.startswith("1000 requests/s are not below 1")


@pytest.mark.slow
def test_a_poisson_benchmark_is_read_at_its_rates() -> None:
    points = tuple(
        Point(rate, offered_requests_per_second=rate, ttft=Latency(mean=ttft), itl=Latency(mean=7.0))
        for rate, ttft in ((1.0, 40.0), (4.0, 80.0))
    )
    profile = replace(call_center_profile(), load=Load.POISSON, points=points)
    request = call_center(arrivals=Arrivals.POISSON, percentile=Percentile.MEAN, profile=profile)
    curve = curve_of(study(request, Loads(rates=(1.0, 2.0))), 1)

    assert [p.offered_requests_per_second for p in curve.points] == [1.0, pytest.approx(2.0)]
    assert curve.points[1].ttft.mean == pytest.approx((40 * 80) ** 0.5)
    assert curve.basis is Basis.INTERPOLATED


def test_an_impossible_sla_hides_no_curve() -> None:
    found = study(call_center(ttft_milliseconds=1))

    assert isinstance(found.sizing, Sizing)
    assert not found.sizing.feasible
    assert len(found.curves) == 4
    assert {kept for c in found.curves for kept in c.kept} == {False}


def test_what_does_not_fit_is_named() -> None:
    request = replace(call_center(), model="meta-llama/Meta-Llama-3-70B-Instruct", profiles=())
    found = study(request)

    assert [c.key.tensor_parallel for c in found.curves] == [2, 4, 8]
    assert [one.key.tensor_parallel for one in found.left_out] == [1]
    assert found.left_out[0].reason.startswith("ModelDoesNotFit: ")


def test_formats_of_equal_speed_have_one_curve() -> None:
    found = study(replace(call_center(), precision=None, hardware=Hardware(gpus=("H100-SXM-80GB",), tensor_parallel=1)))

    speeds = ["FP16" if c.key.precision == "BF16" else c.key.precision for c in found.curves]
    assert len(speeds) == len(set(speeds)) >= 2


def test_a_declared_pipeline_is_drawn() -> None:
    hardware = Hardware(gpus=("H100-SXM-80GB",), tensor_parallel=2, pipeline_parallel=2)

    assert [c.key.gpus_per_replica for c in study(replace(call_center(), hardware=hardware)).curves] == [4]


@pytest.mark.slow
def test_json_has_a_mean_and_percentiles_of_every_point(closed: Study, poisson: Study) -> None:
    first = curves_json([closed])[0]

    assert first["points"][3] == {
        "concurrency": 10,
        "requestsPerSecondPerReplica": 5.1954,
        "ttftMilliseconds": 220.8,
        "itlMilliseconds": 8.56,
        "endToEndMilliseconds": pytest.approx(1924.24),
        "ttftPercentilesMilliseconds": {"p50": None, "p90": None, "p95": 268.0, "p99": None},
        "itlPercentilesMilliseconds": {"p50": None, "p90": None, "p95": None, "p99": None},
        "endToEndPercentilesMilliseconds": {"p50": None, "p90": None, "p95": None, "p99": None},
        "insideSLA": True,
    }
    assert (first["model"], first["tensorParallel"], first["basis"]) == (LLAMA_8B_H100_FP8.model, 1, "Measured")
    assert (first["chosen"]["concurrency"], first["knee"]["concurrency"]) == (10, 25)
    point = curves_json([poisson])[0]["points"][0]
    assert point["requestsPerSecond"] == point["requestsPerSecondPerReplica"]
    assert "concurrency" not in point


@pytest.mark.parametrize(
    ("quantity", "expected"),
    [
        (Quantity.TTFT, 220.8),
        (Quantity.ITL, 8.56),
        (Quantity.E2E, 1924.24),
        (Quantity.CONCURRENCY, 10),
        (Quantity.REQUESTS, 5.1954),
        (Quantity.REQUESTS_PER_GPU, 5.1954 / 2),
        (Quantity.REQUESTS_PER_8_GPUS, 4 * 5.1954),
        (Quantity.TOKENS, 5.1954 * 200),
        (Quantity.TOKENS_PER_GPU, 5.1954 * 100),
        (Quantity.TOKENS_PER_USER, 1000 / 8.56),
        (Quantity.TTFT_RATIO, 220.8 / 1924.24),
        (Quantity.QUEUEING, 220.8 / 34.7),
    ],
)
def test_every_axis_has_its_value(quantity: Quantity, expected: float) -> None:
    point = Point(
        5.1954, concurrency=10, ttft=Latency(mean=220.8), itl=Latency(mean=8.56), end_to_end=Latency(mean=1924.24)
    )

    assert ReplicaFacts(2, 200, 34.7).value(quantity, point) == pytest.approx(expected)
    assert ReplicaFacts(2, 200, None).value(quantity, Point(1.0)) in (None, 1.0, 0.5, 4.0, 200.0, 100.0)


def test_the_picture_has_every_curve_with_its_group_the_limit_the_knees_and_the_choice(closed: Study) -> None:
    view = View(None, Quantity.REQUESTS_PER_GPU, Grouping.TENSOR_PARALLEL)
    (panel,) = curve_figure([("support-rag", [closed])], view).panels

    assert panel.x.title == "TTFT, P95 (ms)"
    assert [s.group for s in panel.series] == ["TP1", "TP2", "TP4", "TP8"]
    assert panel.series[0].name == "FP8 TP1 (Measured, P95 filled in)"
    assert panel.series[1].y == pytest.approx([p.requests_per_second / 2 for p in closed.curves[1].points])
    assert [(limit.value, limit.vertical) for limit in panel.limits] == [(300, True)]
    kinds = [m.kind for m in panel.marks]
    assert (kinds.count(MarkKind.KNEE), kinds.count(MarkKind.CHOSEN)) == (4, 1)
    (chosen,) = (m for m in panel.marks if m.kind is MarkKind.CHOSEN)
    assert (chosen.label, chosen.x, chosen.y) == ("chosen: 39 x FP8 TP1", 268, 5.1954)


def test_a_limit_of_another_statistic_is_no_line(closed: Study) -> None:
    view = View(None, Quantity.REQUESTS, Grouping.TENSOR_PARALLEL, percentile=Percentile.MEAN)
    (panel,) = curve_figure([("support-rag", [closed])], view).panels

    assert (panel.x.title, panel.limits) == ("TTFT, mean (ms)", ())


def test_a_ratio_is_drawn_against_the_load(closed: Study) -> None:
    view = View(None, Quantity.QUEUEING, Grouping.TENSOR_PARALLEL)
    (panel,) = curve_figure([("support-rag", [closed])], view).panels

    assert panel.x.title == "Requests/s a GPU"
    assert not panel.x.log
    assert panel.series[0].y[0] == pytest.approx(1.0)
    assert panel.series[0].y[3] == pytest.approx(220.8 / 34.7)


def test_color_dash_and_shape_tell_all_curves_apart() -> None:
    request = replace(call_center(), precision=None)
    studies = [study(request), study(replace(request, workload=replace(request.workload, input_tokens=200)))]
    for by in (Grouping.TENSOR_PARALLEL, Grouping.PRECISION, Grouping.LENGTHS):
        (panel,) = curve_figure([("x", studies)], View(Quantity.E2E, Quantity.TOKENS, by)).panels
        looks = [(s.color, s.dash, s.shape) for s in panel.series]
        assert len(looks) == len(set(looks)) >= 16
        assert len({s.group for s in panel.series}) == len({s.color for s in panel.series})


def test_deployments_have_panels_of_their_own(closed: Study) -> None:
    other = study(replace(call_center(), sla=Sla(time_to_first_token=Limit(500, Percentile.MEAN))))
    figure = curve_figure([("a", [closed]), ("b", [other])], View(None, Quantity.REQUESTS, Grouping.MODEL))

    assert [(p.title, p.x.title) for p in figure.panels] == [("a", "TTFT, P95 (ms)"), ("b", "TTFT, mean (ms)")]


def test_the_table_marks_the_knee_and_the_chosen_point_and_fits_80_columns(closed: Study) -> None:
    out = io.StringIO()
    Console(width=80, file=out).print(curve_tables("support-rag", [closed]))
    text = out.getvalue()

    rows = [line for line in text.splitlines() if "chosen" in line]
    assert len(rows) == 1
    assert [cell.strip() for cell in rows[0].split("│")][1:6] == ["10", "5.195", "5.195", "220.8", "268"]
    assert text.count("knee") == 4
    assert "…" not in text
    assert "39" in text
    assert "0.0943" in text
