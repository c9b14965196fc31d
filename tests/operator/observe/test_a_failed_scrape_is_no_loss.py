"""A real Prometheus whose scrapes of a pod fail one by one, as they do where an engine is busy: nothing is lost by it.

A scrape that fails ends all series of its pod at once (staleness), whatever the lookback is.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import pytest

from firsttoken_operator.domain import Metrics, Reason, Value
from firsttoken_operator.observe import gateway
from firsttoken_operator.observe.collect import Collector
from firsttoken_operator.observe.freshness import LivePod, MeasureSettings
from firsttoken_operator.observe.gateway import GatewayCounter
from firsttoken_operator.observe.measure import measure
from firsttoken_operator.observe.prometheus import PrometheusSource, SourceConfig
from tests.operator.observe.exporter import NAMESPACE, ExportedGateway, ExportedPod, Exporter
from tools.cluster import Prometheus, PrometheusOptions

pytestmark = pytest.mark.cluster

SCRAPE_SECONDS = 2.0
"""Half of one is what a busy machine may add to a gap."""
SETTINGS = MeasureSettings(window_seconds=9 * SCRAPE_SECONDS, scrape_interval_seconds=SCRAPE_SECONDS)
TIMES = {"window_seconds": SETTINGS.window_seconds, "recent_seconds": SETTINGS.longest_gap_seconds}
COUNTER = GatewayCounter("gateway_requests_started_total", "backend_namespace", "deployment")
FLEETS = {"vllm": ("vllm-0", "vllm-1"), "nim": ("nim-0", "nim-1")}
"""One for each family: pods of two families are no fleet that is trusted."""
PREFIXES = {"vllm": "vllm:", "nim": ""}


@pytest.fixture(scope="module")
def exporter() -> Iterator[Exporter]:
    pods = {name: ExportedPod(PREFIXES[fleet], 20.0) for fleet, names in FLEETS.items() for name in names}
    with Exporter(pods, ExportedGateway({"nim": 12.0})) as made:
        yield made


@pytest.fixture(scope="module")
def prometheus(
    control_plane: Path, tmp_path_factory: pytest.TempPathFactory, exporter: Exporter
) -> Iterator[Prometheus]:
    options = PrometheusOptions(scrape_interval_seconds=SCRAPE_SECONDS, discovery_interval_seconds=0.2)
    with Prometheus(control_plane / "prometheus", tmp_path_factory.mktemp("prometheus"), options) as server:
        server.add_http_sd(exporter.discovery_url("pods"), job="pods")
        yield server


@pytest.fixture
async def source(prometheus: Prometheus) -> AsyncIterator[PrometheusSource]:
    source = PrometheusSource(SourceConfig("default", prometheus.url), deadline_seconds=5.0)
    for fleet in FLEETS:
        await until(source, fleet, lambda look: look.health is Reason.PRESENT and not look.overdue, 40)
    yield source
    source.close()


async def look(source: PrometheusSource, fleet: str) -> Metrics:
    reading = await Collector(source, **TIMES).read()
    return measure(reading, [LivePod(NAMESPACE, name, 3600.0) for name in FLEETS[fleet]], None, SETTINGS)


async def until(
    source: PrometheusSource, fleet: str, wanted: Callable[[Metrics], bool], seconds: float
) -> list[Metrics]:
    """All looks up to the first that is wanted."""
    looks: list[Metrics] = []
    ends = time.monotonic() + seconds
    while not looks or not wanted(looks[-1]):
        assert time.monotonic() < ends, [(seen.health, seen.detail, seen.overdue) for seen in looks[-5:]]
        looks.append(await look(source, fleet))
        await asyncio.sleep(0.1)
    return looks


async def through_a_window(source: PrometheusSource, fleet: str) -> list[Metrics]:
    """Looks from a scrape that fails until its gap has left the window."""
    looks = await until(source, fleet, lambda look: look.overdue, 10)
    ends = time.monotonic() + SETTINGS.window_seconds + 3 * SCRAPE_SECONDS
    while time.monotonic() < ends:
        looks.append(await look(source, fleet))
        await asyncio.sleep(0.1)
    return looks


@pytest.mark.parametrize(
    ("fleet", "scrapes", "seconds"),
    [
        pytest.param("vllm", 1, 0.0, id="one"),
        pytest.param("nim", 1, 0.0, id="one of the other family"),
        pytest.param("vllm", 1, 1.2 * SCRAPE_SECONDS, id="one is later than the timeout"),
    ],
)
async def test_of_a_pod_whose_scrapes_fail_nothing_is_lost(
    source: PrometheusSource, exporter: Exporter, fleet: str, scrapes: int, seconds: float
) -> None:
    pod = exporter.pods[FLEETS[fleet][0]]
    pod.refusal_seconds, pod.refusals = seconds, scrapes
    looks = await through_a_window(source, fleet)

    assert {seen.health for seen in looks} == {Reason.PRESENT}, {seen.detail for seen in looks}
    assert all(isinstance(seen.arrivals, Value) for seen in looks)
    assert {seen.running.value for seen in looks if isinstance(seen.running, Value)} == {6.0}
    assert not looks[-1].overdue


async def test_a_pod_that_is_silent_is_lost_after_its_third_scrape_that_failed(
    source: PrometheusSource, exporter: Exporter
) -> None:
    began = time.monotonic()
    exporter.pods["nim-0"].answers = False
    try:
        looks = await until(source, "nim", lambda seen: seen.health is not Reason.PRESENT, 10)
    finally:
        exporter.pods["nim-0"].answers = True
    after_seconds = time.monotonic() - began

    assert looks[-1].health is Reason.PARTIAL
    assert "nim-0" in looks[-1].detail
    assert after_seconds >= 2 * SCRAPE_SECONDS


async def test_a_gateways_counter_outlives_a_scrape_that_failed(source: PrometheusSource, exporter: Exporter) -> None:
    exporter.gateway.refusals = 1
    ends, answers = time.monotonic() + 3 * SCRAPE_SECONDS, []
    while time.monotonic() < ends:
        reading = await gateway.ask(source, COUNTER, SETTINGS)
        answers.append(gateway.arrivals(reading, (NAMESPACE, "nim"), SETTINGS))

    assert exporter.gateway.refusals == 0
    assert max(answer.age_seconds for answer in answers if isinstance(answer, Value)) > SCRAPE_SECONDS
    odd = [answer for answer in answers if not isinstance(answer, Value) or not 6 < answer.value < 13]
    assert not odd
