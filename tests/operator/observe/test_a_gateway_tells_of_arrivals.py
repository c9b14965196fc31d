"""Arrivals that a gateway counted: what is asked, what is believed, and that the data of the pods stays as it is."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from http.server import BaseHTTPRequestHandler
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from firsttoken_operator.domain import Metrics, Missing, Reason, Value
from firsttoken_operator.observe import gateway
from firsttoken_operator.observe.gateway import GatewayCounter, GatewayReading, Part
from firsttoken_operator.observe.source import Sample, Vector
from firsttoken_operator.observe.store import Store
from firsttoken_operator.run.measuring import Measuring
from firsttoken_operator.run.settings import Settings
from tests.operator.observe.bodies import EPOCH, NAMESPACE, deployment, inference_deployment, replica_set
from tests.operator.observe.fault_server import FaultServer, body, document, vector
from tests.operator.observe.readings import SETTINGS, coverage, reason, value

BACKEND = (NAMESPACE, "nim")
COUNTER = GatewayCounter("gateway_requests_started_total", "backend_namespace", "deployment", {"job": "gateway"})
WHOLE: dict[str, float] = {Part.RATE: 7.0, Part.AGE: 5.0, Part.START_AGE: 65.0, Part.SAMPLES: 4.0}


def said(**changes: float | None) -> GatewayReading:
    parts: dict[str, float | None] = {**WHOLE, **{Part[name.upper()]: number for name, number in changes.items()}}
    return GatewayReading({BACKEND: {part: number for part, number in parts.items() if number is not None}})


def arrivals(reading: GatewayReading) -> Value | Missing:
    measurement = gateway.arrivals(reading, BACKEND, SETTINGS)
    assert isinstance(measurement, Value | Missing)
    return measurement


def test_a_counter_that_is_current_and_covers_the_window_is_a_value() -> None:
    assert arrivals(said()) == Value(7.0, 5.0, 1.0)


def test_one_that_stood_still_through_the_window_is_zero() -> None:
    assert arrivals(said(rate=0.0)) == Value(0.0, 5.0, 1.0)


@pytest.mark.parametrize(
    ("label", "overflowing", "expected"),
    [
        ("namespace", {NAMESPACE}, Reason.TOO_MANY_SERIES),
        ("namespace", {"loud"}, None),
        ("backend_namespace", {""}, Reason.TOO_MANY_SERIES),
    ],
)
async def test_a_namespace_whose_series_are_not_read_has_no_arrivals(
    label: str, overflowing: set[str], expected: Reason | None
) -> None:
    labels = {label: NAMESPACE, "deployment": "nim"}
    samples = tuple(Sample({**labels, gateway.PART: part}, number, 0.0) for part, number in WHOLE.items())

    class Source:
        async def query(self, promql: str) -> Vector:
            return Vector(samples, overflowing=frozenset(overflowing))

    reading = await gateway.ask(Source(), GatewayCounter("m", label, "deployment"), SETTINGS)
    said = arrivals(reading)

    assert (reason(said) if isinstance(said, Missing) else None) is expected


def test_another_backend_has_no_series() -> None:
    assert reason(gateway.arrivals(said(), (NAMESPACE, "other"), SETTINGS)) is Reason.NO_SERIES


@pytest.mark.parametrize("age", [None, 38.1, -600.0, math.nan, math.inf])
def test_a_counter_without_a_current_sample_is_not_read(age: float | None) -> None:
    assert reason(arrivals(said(age=age))) is Reason.STALE


@pytest.mark.parametrize("part", [{"start_age": None}, {"start_age": 99.0}, {"samples": 2.0}, {"samples": None}])
def test_a_part_of_the_window_is_a_lower_bound_and_never_zero(part: dict[str, float | None]) -> None:
    moved, still = arrivals(said(**part)), arrivals(said(rate=0.0, **part))

    assert value(moved) == 7.0
    assert coverage(moved) < 1
    assert reason(still) is Reason.NOT_ENOUGH_SAMPLES


def test_a_counter_that_has_just_appeared_is_not_zero() -> None:
    assert reason(arrivals(said(rate=None, start_age=None, samples=1.0))) is Reason.NOT_ENOUGH_SAMPLES


def test_a_partial_answer_is_a_lower_bound_and_never_zero() -> None:
    moved = arrivals(GatewayReading({BACKEND: WHOLE}, partial=True))
    still = arrivals(GatewayReading({BACKEND: {**WHOLE, Part.RATE: 0.0}}, partial=True))

    assert value(moved) == 7.0
    assert coverage(moved) < 1
    assert reason(still) is Reason.PARTIAL_RESPONSE


@given(st.dictionaries(st.sampled_from([*Part, ""]), st.floats(allow_nan=True, allow_infinity=True)), st.booleans())
def test_nothing_that_a_counter_says_raises_or_is_zero_without_proof(parts: dict[str, float], partial: bool) -> None:
    measurement = arrivals(GatewayReading({BACKEND: parts}, partial=partial))

    if isinstance(measurement, Value):
        assert 0 <= measurement.coverage <= 1
        assert measurement.value > 0 or (measurement.coverage == 1 and not partial)


class Once:
    """A source with one answer; remembers what it was asked."""

    def __init__(self, answer: Vector | Missing) -> None:
        self.answer = answer
        self.asked: list[str] = []

    async def query(self, promql: str) -> Vector | Missing:
        self.asked.append(promql)
        return self.answer


async def test_one_query_asks_for_all_backends() -> None:
    labels = {"backend_namespace": NAMESPACE}
    parts = [
        Sample({**labels, "deployment": name, "firsttoken_part": part}, number, 0.0)
        for name in ("nim", "other")
        for part, number in WHOLE.items()
    ]
    source = Once(Vector(tuple(parts)))

    reading = await gateway.ask(source, COUNTER, replace(SETTINGS, window_seconds=4.5))

    assert len(source.asked) == 1
    assert "[4500ms]" in source.asked[0]
    assert "WINDOW" not in source.asked[0]
    assert {arrivals(reading), gateway.arrivals(reading, (NAMESPACE, "other"), SETTINGS)} == {Value(7.0, 5.0, 1.0)}


async def test_a_source_without_a_gateway_is_not_asked() -> None:
    source = Once(Vector(()))

    assert reason(arrivals(await gateway.ask(source, None, SETTINGS))) is Reason.SOURCE_NOT_CONFIGURED
    assert source.asked == []


async def test_a_query_that_fails_is_the_reason() -> None:
    source = Once(Missing(Reason.SERVER_ERROR, "HTTP 503"))

    assert reason(arrivals(await gateway.ask(source, COUNTER, SETTINGS))) is Reason.SERVER_ERROR


def test_a_value_of_the_selector_cannot_leave_its_quotes() -> None:
    counter = GatewayCounter("m", "namespace", "deployment", {"job": 'a"} or up{x="\\'})

    assert 'job="a\\"} or up{x=\\"\\\\"' in counter.query(60.0, 38.0)


PARTS = [
    ({"backend_namespace": NAMESPACE, "deployment": "nim", "firsttoken_part": part}, str(number))
    for part, number in WHOLE.items()
]


def answering(counter: Any) -> Any:
    """Answers the query of the gateway by `counter` and every other one with an empty vector."""
    nothing = document(vector())

    def answer(request: BaseHTTPRequestHandler) -> None:
        (promql,) = parse_qs(urlsplit(request.path).query)["query"]
        (counter if COUNTER.metric in promql else nothing)(request)

    return answer


async def metrics_without_pods(counter: Any, *, source: str = "default") -> Metrics:
    store = Store()
    store.feed("Deployment", None, deployment(replicas=0))
    store.feed("ReplicaSet", None, replica_set())
    store.feed("InferenceDeployment", None, inference_deployment())
    named = {
        "requestsTotal": COUNTER.metric, "namespaceLabel": "backend_namespace", "nameLabel": "deployment",
        "selector": {"job": "gateway"},
    }  # fmt: skip
    with FaultServer(answering(counter)) as server:
        settings = Settings.model_validate({"prometheus": {source: {"url": server.url, "gateway": named}}})
        measuring = Measuring(settings)
        (metrics,) = (await measuring.metrics(store, EPOCH)).values()
        measuring.close()
    return metrics


async def test_it_wakes_a_deployment_that_has_no_pods() -> None:
    metrics = await metrics_without_pods(document(vector(*PARTS)))

    assert (metrics.health, reason(metrics.arrivals)) == (Reason.MISSING, Reason.NO_READY_PODS)
    assert value(metrics.gateway_arrivals) == 7.0


async def test_its_failure_changes_nothing_else() -> None:
    whole = await metrics_without_pods(document(vector(*PARTS)))
    failed = await metrics_without_pods(body(json.dumps({"status": "error"}).encode(), status=503))

    assert reason(failed.gateway_arrivals) is Reason.SERVER_ERROR
    assert (failed.health, failed.detail, failed.arrivals) == (whole.health, whole.detail, whole.arrivals)


async def test_a_source_that_is_not_configured_has_no_gateway_either() -> None:
    metrics = await metrics_without_pods(document(vector(*PARTS)), source="other")

    assert reason(metrics.gateway_arrivals) is Reason.SOURCE_NOT_CONFIGURED
