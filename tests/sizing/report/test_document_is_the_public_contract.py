from __future__ import annotations

import json
from io import StringIO

from rich.console import Console

from firsttoken_sizing import Arrivals, size, sizing_json
from firsttoken_sizing.report.table import sizing_table
from tests.fixtures.worked_examples import call_center

# design/api.md, `size -o json`
CONTRACT = {
    "feasible", "reason", "replicas", "gpus", "servers", "gpusPerReplica", "tensorParallel", "precision", "gpu",
    "peakRequestsPerSecond", "requestsPerSecondPerReplica", "requestsPerSecondPerGPU", "requestsPerSecondPerServer",
    "concurrencyPerReplica", "ttftMilliseconds", "itlMilliseconds", "endToEndMilliseconds", "bindingConstraint",
    "basis", "errorBandPercent", "memory", "engineSettings", "cost", "warnings", "alternatives",
}


def rendered(text: object) -> str:
    out = StringIO()
    Console(file=out, width=160).print(text)
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


def test_predictions_show_what_happens_with_one_replica_fewer() -> None:
    fewer, sized, more = sizing_json(size(call_center()))["predictions"]

    assert [p["replicas"] for p in (fewer, sized, more)] == [38, 39, 40]
    assert [p["insideCapacity"] for p in (fewer, sized, more)] == [False, True, True]
    assert fewer["ttftMilliseconds"]["p95"] > sized["ttftMilliseconds"]["p95"] > more["ttftMilliseconds"]["p95"]


def test_the_other_reading_stands_beside() -> None:
    poisson = size(call_center(arrivals=Arrivals.POISSON))

    document = sizing_json(size(call_center()), poisson)

    assert document["otherReading"]["arrivals"] == "Poisson"
    assert document["otherReading"]["replicas"] == poisson.replicas
    assert sizing_json(size(call_center()), "no points")["otherReading"] == "no points"


def test_the_table_shows_both_readings_their_basis_the_cost_and_why() -> None:
    text = rendered(sizing_table("call-center", size(call_center()), size(call_center(arrivals=Arrivals.POISSON))))

    for expected in ("ClosedLoop (asked)", "Poisson", "Measured", "Fitted", "41.56", "Why: 200 requests/s", "0.0943"):
        assert expected in text
    assert "no measured points and no shipped fit" in text


def test_the_table_of_an_infeasible_sizing_says_why() -> None:
    text = rendered(sizing_table("x", size(call_center(ttft_milliseconds=1)), "Poisson cannot be read"))

    assert "SingleRequestTTFT" in text
    assert "The other reading: Poisson cannot be read" in text
