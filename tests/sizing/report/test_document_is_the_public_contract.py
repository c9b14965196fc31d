from __future__ import annotations

import json
from dataclasses import replace
from io import StringIO

import pytest
from rich.console import Console

from firsttoken_sizing import Arrivals, Limit, Percentile, Sla, SlaMode, Workload, size, sizing_json
from firsttoken_sizing.report.table import sizing_table
from tests.fixtures.worked_examples import call_center

# design/api.md, `size -o json`
CONTRACT = {
    "feasible",
    "reason",
    "replicas",
    "gpus",
    "servers",
    "gpusPerReplica",
    "tensorParallel",
    "precision",
    "gpu",
    "peakRequestsPerSecond",
    "requestsPerSecondPerReplica",
    "requestsPerSecondPerGPU",
    "requestsPerSecondPerServer",
    "concurrencyPerReplica",
    "ttftMilliseconds",
    "itlMilliseconds",
    "endToEndMilliseconds",
    "bindingConstraint",
    "basis",
    "errorBandPercent",
    "memory",
    "engineSettings",
    "cost",
    "warnings",
    "disaggregated",
    "alternatives",
}


def rendered(text: object, width: int = 160) -> str:
    out = StringIO()
    Console(file=out, width=width).print(text)
    return out.getvalue()


def test_every_name_of_the_contract_is_there() -> None:
    document = sizing_json(size(call_center()))

    assert set(document) >= CONTRACT
    assert set(document["ttftMilliseconds"]) == {"mean", "p50", "p90", "p95", "p99"}
    assert json.loads(json.dumps(document, allow_nan=False)) == document


def test_an_infeasible_sizing_is_valid_json_too() -> None:
    document = sizing_json(size(call_center(ttft_milliseconds=1)))

    assert document["feasible"] is False
    assert document["cause"] == "SingleRequestTTFT"
    assert document["predictions"] == []
    assert document["ttftMilliseconds"]["p95"] is None
    json.dumps(document, allow_nan=False)


@pytest.mark.parametrize(
    "name",
    [
        "replicas",
        "gpus",
        "servers",
        "requestsPerSecondPerReplica",
        "requestsPerSecondPerGPU",
        "requestsPerSecondPerServer",
        "concurrencyPerReplica",
        "basis",
        "errorBandPercent",
        "utilizationCapPercent",
    ],
)
def test_what_an_infeasible_sizing_does_not_have_is_null_and_never_zero(name: str) -> None:
    infeasible = size(call_center(ttft_milliseconds=1))

    document = sizing_json(infeasible, infeasible)

    assert document[name] is None
    assert document["otherReading"].get(name) is None
    assert document["gpu"] == "H100-SXM-80GB"
    assert document["peakRequestsPerSecond"] == 200


def test_a_context_that_is_too_long_has_no_configuration_at_all() -> None:
    workload = Workload(input_tokens=9000, output_tokens=200, concurrent_requests=5)

    document = sizing_json(size(replace(call_center(), workload=workload)))

    assert [document[n] for n in ("gpu", "requestsPerSecondPerGPU", "peakRequestsPerSecond")] == [None, None, None]


def test_predictions_show_what_happens_with_one_replica_fewer() -> None:
    fewer, sized, more = sizing_json(size(call_center()))["predictions"]

    assert [p["replicas"] for p in (fewer, sized, more)] == [38, 39, 40]
    assert [p["insideCapacity"] for p in (fewer, sized, more)] == [False, True, True]
    assert [p["insideSLA"] for p in (fewer, sized, more)] == [True, True, True]
    assert fewer["loadPercent"] == pytest.approx(100 * 200 / 38 / 5.1954)
    assert fewer["ttftMilliseconds"]["p95"] > sized["ttftMilliseconds"]["p95"] > more["ttftMilliseconds"]["p95"]


def test_the_other_kind_of_arrivals_stands_beside() -> None:
    poisson = size(call_center(arrivals=Arrivals.POISSON))

    document = sizing_json(size(call_center()), poisson)

    assert document["otherReading"]["arrivals"] == "Poisson"
    assert document["otherReading"]["replicas"] == poisson.replicas
    assert sizing_json(size(call_center()), "no points")["otherReading"] == "no points"


def test_the_table_shows_both_kinds_of_arrivals_their_basis_the_cost_and_why() -> None:
    text = rendered(sizing_table("call-center", size(call_center()), size(call_center(arrivals=Arrivals.POISSON))))

    for expected in ("ClosedLoop (asked)", "Poisson", "Measured", "Fitted", "41.56", "Why: 200 requests/s", "0.0943"):
        assert expected in text
    assert "H100-SXM-80GB FP8 TP2" in text


def test_the_table_of_an_infeasible_sizing_says_why() -> None:
    text = rendered(sizing_table("x", size(call_center(ttft_milliseconds=1)), "Poisson cannot be read"))

    assert "SingleRequestTTFT" in text
    assert "The other reading: Poisson cannot be read" in text


def test_the_table_of_an_infeasible_sizing_claims_no_basis() -> None:
    text = rendered(sizing_table("x", size(call_center(ttft_milliseconds=1))))

    assert "Fitted" not in text
    assert "±" not in text


@pytest.mark.parametrize("arrivals", list(Arrivals), ids=str)
def test_latencies_above_the_limit_are_not_called_inside_the_sla(arrivals: Arrivals) -> None:
    request = replace(call_center(arrivals=arrivals, peak=10), sla=Sla(time_to_first_token=Limit(100, Percentile.P95)))
    sizing = size(request)

    predictions = sizing_json(sizing)["predictions"]

    assert sizing.replicas > 1
    assert [p["replicas"] for p in predictions if p["insideSLA"]] == [
        p["replicas"] for p in predictions if p["ttftMilliseconds"]["p95"] <= 100 and not p["saturated"]
    ]
    assert predictions[1]["insideSLA"] is True
    assert predictions[1]["loadPercent"] <= 100


def test_a_load_above_the_end_of_the_curve_is_never_inside_the_sla() -> None:
    request = call_center(ttft_milliseconds=5000, percentile=Percentile.MEAN, peak=27)

    fewer, sized, _ = sizing_json(size(request))["predictions"]

    assert fewer["ttftMilliseconds"]["mean"] < 5000
    assert (fewer["saturated"], fewer["insideSLA"]) == (True, False)
    assert sized["insideSLA"] is True


def test_the_fastest_measured_point_is_known_and_not_saturated() -> None:
    request = call_center(ttft_milliseconds=5000, percentile=Percentile.MEAN, peak=2 * 13.827)

    _, sized, _ = sizing_json(size(request))["predictions"]

    assert sized["loadPercent"] == pytest.approx(100)
    assert (sized["saturated"], sized["insideSLA"]) == (False, True)


def test_without_limits_nothing_is_inside_or_outside() -> None:
    offline = size(replace(call_center(), sla=Sla(mode=SlaMode.OFFLINE)))

    assert {p["insideSLA"] for p in sizing_json(offline)["predictions"]} == {None}


@pytest.mark.slow
@pytest.mark.parametrize("percentile", ["Mean", "P50", "P90", "P95", "P99"])
def test_the_table_shows_the_statistic_that_the_sla_names(percentile: str) -> None:
    limits = {name: Limit(10_000, Percentile(percentile)) for name in ("time_to_first_token", "inter_token_latency")}
    sizing = size(replace(call_center(arrivals=Arrivals.POISSON), sla=Sla(**limits)))

    text = rendered(sizing_table("x", sizing))

    shown = "P95" if percentile == "Mean" else percentile
    assert f"TTFT ms mean / {shown}" in text
    assert f"ITL ms mean / {shown}" in text
    assert "E2E ms mean / P95" in text
    for other in {"P50", "P90", "P99"} - {shown}:
        assert other not in text


@pytest.mark.slow
@pytest.mark.parametrize("peak", [14, 20_000], ids=["overloaded at N-1", "hundreds of replicas"])
@pytest.mark.parametrize("arrivals", list(Arrivals), ids=str)
def test_eighty_columns_cut_nothing(arrivals: Arrivals, peak: float) -> None:
    sla = Sla(
        time_to_first_token=Limit(3000, Percentile.P99),
        inter_token_latency=Limit(140, Percentile.P99),
        end_to_end=Limit(35_000, Percentile.P99),
    )
    request = replace(call_center(peak=peak, arrivals=arrivals), sla=sla)

    text = rendered(sizing_table("x", size(request), size(replace(request, arrivals=Arrivals.POISSON))), width=80)

    assert "…" not in text
    assert "> " in text or peak != 14
    assert "in the" in text
    assert "load" in text
