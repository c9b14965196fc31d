"""The templates, the collection and the health of the data against a real Prometheus that scrapes known pods."""

from __future__ import annotations

import asyncio
import math
import re
import statistics
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path

import pytest

from firsttoken_operator.domain import Metrics, Missing, Reason, Value
from firsttoken_operator.families import FAMILIES, NIM1, SIGNAL, VLLM, MetricFamily, overview_query
from firsttoken_operator.families.promql import without
from firsttoken_operator.observe import gateway
from firsttoken_operator.observe.bounds import seconds_of
from firsttoken_operator.observe.collect import Collector, SourceReading
from firsttoken_operator.observe.freshness import LivePod, MeasureSettings
from firsttoken_operator.observe.gateway import GatewayCounter
from firsttoken_operator.observe.measure import measure
from firsttoken_operator.observe.prometheus import PrometheusSource, SourceConfig
from firsttoken_operator.observe.source import Vector
from firsttoken_sizing.workload import Limit, Percentile
from tests.operator.observe.exporter import (
    BOUNDS,
    INPUT_TOKENS,
    NAMESPACE,
    OUTPUT_TOKENS,
    ExportedGateway,
    ExportedPod,
    Exporter,
    HostilePod,
)
from tools.cluster import Prometheus, PrometheusOptions

pytestmark = pytest.mark.cluster

LIMIT = Limit(200.0, Percentile.P95)
SETTINGS = MeasureSettings(window_seconds=2.0, scrape_interval_seconds=0.25)
DEADLINE_SECONDS = 30.0
"""Prometheus hands a changed list of targets on only every 2.5 to 7.5 s."""

COUNTER = GatewayCounter("gateway_requests_started_total", "backend_namespace", "deployment")
TIMES = {"window_seconds": SETTINGS.window_seconds, "recent_seconds": SETTINGS.longest_gap_seconds}
OVERVIEW = overview_query(FAMILIES, SETTINGS.window_seconds)
EXPORTED = (NIM1, VLLM)
QUERIES = [
    *(promql for family in EXPORTED for promql in family.queries(**TIMES)),
    COUNTER.query(**TIMES),
    OVERVIEW,
]
"""Those of the families that the exporter shows; the others are in test_every_runtime_is_read."""
LABELS = tuple(
    sorted(
        {
            label
            for pattern in (r"(?:by|without) \(([^)]*)\)", r', "(\w+)", "', r"[{,](\w+)!?=")
            for query in QUERIES
            for names in re.findall(pattern, query)
            for label in names.split(", ")
        }
    )
)
"""Every label that a query names or makes."""

LOOKS = 5
NIM = ("nim-0", "nim-1")
RUNNING_OUT = {Reason.MISSING, Reason.STALE, Reason.PARTIAL, Reason.RECOVERING}


@pytest.fixture(scope="module")
def exporter() -> Iterator[Exporter]:
    pods = {
        "nim-0": ExportedPod("", 40.0),
        "nim-1": ExportedPod("", 20.0, waiting_growth_per_second=4.0, failed_per_second=0.5),
        "vllm-new": ExportedPod("vllm:", 40.0, engines=2, kv_metric="kv_cache_usage_perc", failed_per_second=0.2),
        "vllm-old": ExportedPod("vllm:", 30.0),
        "idle": ExportedPod("", 0.0, running=0.0),
        # Every other test is also one of what these two do to it.
        "hostile-nim": HostilePod("", 10.0, labels=LABELS),
        "hostile-vllm": HostilePod("vllm:", 10.0, failed_per_second=1.0, labels=LABELS),
    }
    with Exporter(pods, ExportedGateway({"nim": 12.0, "asleep": 0.0})) as exporter:
        yield exporter


@pytest.fixture(scope="module")
def prometheus(
    control_plane: Path, tmp_path_factory: pytest.TempPathFactory, exporter: Exporter
) -> Iterator[Prometheus]:
    options = PrometheusOptions(scrape_interval_seconds=0.25, discovery_interval_seconds=0.2)
    with Prometheus(control_plane / "prometheus", tmp_path_factory.mktemp("prometheus"), options) as server:
        # Two jobs that scrape the same pods: every series exists twice.
        server.add_http_sd(exporter.discovery_url("pods"), job="pods")
        server.add_http_sd(exporter.discovery_url("services"), job="services")
        yield server


@pytest.fixture
async def source(prometheus: Prometheus) -> AsyncIterator[PrometheusSource]:
    source = PrometheusSource(SourceConfig("default", prometheus.url), deadline_seconds=5.0)
    yield source
    source.close()


async def read(source: PrometheusSource) -> SourceReading:
    return await Collector(source, **TIMES).read()


async def look(source: PrometheusSource, *names: str) -> Metrics:
    live = [LivePod(NAMESPACE, name, 3600.0) for name in names]
    return measure(await read(source), live, LIMIT, SETTINGS)


async def until(observe: Callable[[], Awaitable[Metrics]], *wanted: Reason) -> list[Reason]:
    """Look until the health is one of `wanted`; every health that was seen on the way."""
    seen: list[Reason] = []
    ends = time.monotonic() + DEADLINE_SECONDS
    while not seen or seen[-1] not in wanted:
        assert time.monotonic() < ends, f"not {wanted} within {DEADLINE_SECONDS} s: {seen[-5:]}"
        metrics = await observe()
        seen.append(metrics.health)
        await asyncio.sleep(0.05)
    return seen


@pytest.mark.parametrize("query", [query for query in QUERIES if "backend" not in query])
async def test_a_namespace_that_is_left_out_takes_nothing_from_the_others(query: str, source: PrometheusSource) -> None:
    await until(lambda: look(source, "nim-0"), Reason.PRESENT)
    await until(lambda: look(source, "vllm-new"), Reason.PRESENT)
    whole = await source.query(query)
    others = await source.query(without(query, ["", "loud"]))
    left_out = await source.query(without(query, ["loud", NAMESPACE]))

    assert isinstance(whole, Vector)
    assert isinstance(others, Vector)
    assert {str(sample.labels) for sample in others.samples} == {str(sample.labels) for sample in whole.samples}
    assert isinstance(left_out, Vector)
    assert NAMESPACE not in {sample.labels["namespace"] for sample in left_out.samples}


@pytest.mark.parametrize("family", EXPORTED, ids=lambda family: family.name)
async def test_every_template_is_answered_with_values_and_without_warnings(
    family: MetricFamily, source: PrometheusSource
) -> None:
    await until(lambda: look(source, "nim-0"), Reason.PRESENT)
    await until(lambda: look(source, "vllm-new"), Reason.PRESENT)
    said = set[str]()
    for promql in family.queries(**TIMES):
        answer = await source.query(promql)

        assert isinstance(answer, Vector), answer
        assert not answer.warnings
        said |= {sample.labels[SIGNAL] for sample in answer.samples}

    assert said == set(family.signals)


def test_the_hostile_pods_use_every_label_of_the_queries() -> None:
    assert {SIGNAL, "outcome", "part", gateway.PART, "le", "engine", "finished_reason", "reason", "pod"} <= set(LABELS)


async def test_rates_of_pods_that_are_scraped_twice_are_counted_once(source: PrometheusSource) -> None:
    await until(lambda: look(source, *NIM), Reason.PRESENT)
    up = await source.query('count by (namespace, pod) (up{pod!=""})')

    metrics = await look(source, *NIM)

    assert isinstance(up, Vector)
    assert {sample.value for sample in up.samples} == {2.0}, "both jobs scrape every pod"
    assert isinstance(metrics.arrivals, Value)
    # 60 first tokens, a failure every other second, and a queue that grows by 4 each second.
    assert metrics.arrivals.value == pytest.approx(64.5, rel=0.05)
    assert isinstance(metrics.first_tokens, Value)
    assert metrics.first_tokens.value == pytest.approx(60.0, rel=0.05)
    assert isinstance(metrics.error_share, Value)
    assert metrics.error_share.value == pytest.approx(0.5 / 60.5, rel=0.05)
    assert isinstance(metrics.running, Value)
    assert metrics.running.value == 6.0
    assert metrics.arrivals.age_seconds < 1.0


async def test_ttft_at_290_ms_is_read_as_its_bucket_and_its_exact_mean(source: PrometheusSource) -> None:
    await until(lambda: look(source, *NIM), Reason.PRESENT)

    ttft = (await look(source, *NIM)).ttft

    assert ttft is not None
    assert (ttft.low_milliseconds, ttft.high_milliseconds) == (250.0, 500.0)
    assert ttft.mean_milliseconds == pytest.approx(290.0, rel=0.02)
    assert ttft.requests == pytest.approx(120.0, rel=0.1)


async def test_the_bounds_around_the_limit_alone_are_read(source: PrometheusSource) -> None:
    await until(lambda: look(source, *NIM), Reason.PRESENT)
    layouts = await source.query(NIM1.layout(TIMES["window_seconds"]))

    reading = await Collector(source, **TIMES).read(seconds_of([LIMIT]))

    assert isinstance(layouts, Vector)
    counts = {sample.labels["le"]: sample.value for sample in layouts.samples}
    assert set(counts) == set(BOUNDS), "the hostile pods have bounds that are no numbers, and none that holds all"
    assert len(set(counts.values())) == 1
    assert set(reading.pods[NAMESPACE, "nim-0"].buckets) == {0.001, 0.1, 0.25, 0.5, math.inf}
    ttft = measure(reading, [LivePod(NAMESPACE, name, 3600.0) for name in NIM], LIMIT, SETTINGS).ttft
    assert ttft is not None
    assert (ttft.low_milliseconds, ttft.high_milliseconds) == (250.0, 500.0)


async def test_engines_of_a_vllm_pod_are_added_and_both_kv_names_are_read(source: PrometheusSource) -> None:
    await until(lambda: look(source, "vllm-new", "vllm-old"), Reason.PRESENT)

    new, old = await look(source, "vllm-new"), await look(source, "vllm-old")

    assert isinstance(new.first_tokens, Value)
    assert new.first_tokens.value == pytest.approx(40.0, rel=0.05)
    assert isinstance(new.error_share, Value)
    assert new.error_share.value == pytest.approx(0.2 / 40.2, rel=0.05)
    assert isinstance(new.kv_percent, Value)
    assert new.kv_percent.value == 75.0, "the fuller of two engines"
    assert isinstance(old.kv_percent, Value)
    assert old.kv_percent.value == 50.0


@pytest.mark.parametrize("pod", ["nim-0", "vllm-new"])
async def test_mean_tokens_are_those_of_the_requests(source: PrometheusSource, pod: str) -> None:
    await until(lambda: look(source, pod), Reason.PRESENT)

    metrics = await look(source, pod)

    assert isinstance(metrics.input_tokens, Value)
    assert isinstance(metrics.output_tokens, Value)
    # NB: numerator and denominator are of one query and of the same scrapes: there is nothing to round.
    assert metrics.input_tokens.value == pytest.approx(INPUT_TOKENS, rel=1e-6)
    assert metrics.output_tokens.value == pytest.approx(OUTPUT_TOKENS, rel=1e-6)


async def test_a_gateways_requests_are_counted_once_and_zero_is_proven(source: PrometheusSource) -> None:
    await until(lambda: look(source, *NIM), Reason.PRESENT)

    reading = await gateway.ask(source, COUNTER, SETTINGS)
    busy, asleep, unknown = (
        gateway.arrivals(reading, (NAMESPACE, name), SETTINGS) for name in ("nim", "asleep", "unknown")
    )

    assert isinstance(busy, Value)
    assert busy.value == pytest.approx(12.0, rel=0.05), "two jobs scrape it"
    assert busy.coverage == 1.0
    assert isinstance(asleep, Value)
    assert (asleep.value, asleep.coverage) == (0.0, 1.0)
    assert isinstance(unknown, Missing)
    assert unknown.reason is Reason.NO_SERIES


async def test_the_family_is_what_a_pod_exposes(source: PrometheusSource) -> None:
    await until(lambda: look(source, "vllm-new"), Reason.PRESENT)
    await until(lambda: look(source, "nim-0"), Reason.PRESENT)

    pods = (await read(source)).pods

    assert {name: pods[NAMESPACE, name].family for name in ("nim-0", "vllm-new", "vllm-old")} == {
        "nim-0": "NIM 1.x", "vllm-new": "vLLM", "vllm-old": "vLLM",
    }  # fmt: skip


async def test_counters_that_do_not_move_on_a_pod_that_is_up_are_idle(source: PrometheusSource) -> None:
    await until(lambda: look(source, "idle"), Reason.IDLE)


async def test_a_pod_that_stops_answering_makes_the_data_partial(source: PrometheusSource, exporter: Exporter) -> None:
    await until(lambda: look(source, *NIM), Reason.PRESENT)
    exporter.pods["nim-1"].answers = False
    try:
        await until(lambda: look(source, *NIM), Reason.PARTIAL)
        arrivals = []
        for _ in range(LOOKS):
            arrivals.append((await look(source, *NIM)).arrivals)
            await asyncio.sleep(SETTINGS.window_seconds / 3)
    finally:
        exporter.pods["nim-1"].answers = True

    assert all(isinstance(a, Value) and a.coverage == 0.5 for a in arrivals)
    # NB: of several looks, because a scrape that comes late on a busy machine bends the rate of one window.
    middle = statistics.median(a.value for a in arrivals if isinstance(a, Value))
    assert middle == pytest.approx(40.0, rel=0.05)
    await until(lambda: look(source, *NIM), Reason.PRESENT)


async def test_scraping_that_stops_while_prometheus_answers_is_noticed(
    source: PrometheusSource, prometheus: Prometheus
) -> None:
    await until(lambda: look(source, *NIM), Reason.PRESENT)
    prometheus.pause_scraping()
    try:
        await until(lambda: look(source, *NIM), Reason.MISSING, Reason.STALE)
        up = await source.query(OVERVIEW)
    finally:
        prometheus.resume_scraping()

    assert isinstance(up, Vector), "Prometheus itself answers"
    seen = await until(lambda: look(source, *NIM), Reason.PRESENT)
    assert set(seen[:-1]) <= RUNNING_OUT


async def test_a_prometheus_restarted_empty_recovers_over_a_whole_window(
    source: PrometheusSource, prometheus: Prometheus
) -> None:
    await until(lambda: look(source, *NIM), Reason.PRESENT)
    prometheus.stop()
    down = await look(source, *NIM)
    prometheus.restart(empty=True)

    seen = await until(lambda: look(source, *NIM), Reason.PRESENT)

    assert down.health is Reason.MISSING
    assert down.detail.startswith("SourceUnreachable")
    assert Reason.RECOVERING in seen
    assert set(seen[:-1]) <= RUNNING_OUT
