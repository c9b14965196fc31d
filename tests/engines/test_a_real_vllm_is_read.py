"""A real vLLM, a real Prometheus and the operator's queries: what is read is what the clients sent."""

from __future__ import annotations

import json
import math
import urllib.request
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from firsttoken_operator.domain import Idle, Metrics, Outcome, Reason
from firsttoken_operator.families import VLLM, Metric
from firsttoken_operator.observe.prometheus import PrometheusSource
from tests.aiperf.environment import aiperf
from tests.engines.client import Client, shown
from tests.engines.measured import assert_sized_by, imported
from tests.engines.scraping import counted, scraping
from tests.fixtures.moving import recorded, series
from tests.operator.decide.builders import POLICY, SIZED, Fleet, table
from tests.operator.observe.looking import SETTINGS, look, value
from tools.cluster import Prometheus, wait_until
from tools.engines.vllm import MODEL, Vllm

pytestmark = [pytest.mark.cluster, pytest.mark.engines, pytest.mark.timeout(1800)]

POD = "vllm"
SLOTS, CLIENTS = 1, 50
QUEUED, TOO_MANY = 55, 120
"""Requests that may wait; what comes beyond is turned away."""
RATE = 2.0
WINDOW = replace(SETTINGS, window_seconds=16.0)
"""A window of this rate holds more requests than a percentile needs."""
PROMPT_TOKENS, OUTPUT_TOKENS = 20, 8
REQUEST = {
    "model": MODEL, "prompt": " ".join(f"w{number}" for number in range(PROMPT_TOKENS)), "max_tokens": OUTPUT_TOKENS,
    "stream": True, "ignore_eos": True,
}  # fmt: skip
REQUESTS = 4
"""So long that what AIPerf does between two of them is no part of it."""
LONG = REQUEST | {"max_tokens": 24}
MEASURED = {
    "--model": MODEL, "--endpoint-type": "completions", "--isl": 50, "--osl": 400, "--extra-inputs": "ignore_eos:true",
    "--concurrency": 1, "--request-count": REQUESTS, "--warmup-request-count": 1, "--num-dataset-entries": REQUESTS,
}  # fmt: skip


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Vllm]:
    with Vllm(
        tmp_path_factory.mktemp("vllm"), slots=SLOTS, flags=(f"--max-num-queued-reqs={QUEUED}", "--shutdown-timeout=45")
    ) as running:
        yield running


@pytest.fixture(scope="module")
def prometheus(control_plane: Path, tmp_path_factory: pytest.TempPathFactory, server: Vllm) -> Iterator[Prometheus]:
    with scraping(control_plane, tmp_path_factory.mktemp("prometheus"), vllm=server) as running:
        yield running


@pytest.fixture
def completions(server: Vllm) -> Client:
    return Client(f"{server.url}/v1/completions")


def under_way(server: Vllm) -> float:
    return sum(shown(f"{server.url}/metrics", f"vllm:num_requests_{state}") for state in ("running", "waiting"))


async def test_nothing_was_sent_yet_and_that_is_proven(source: PrometheusSource) -> None:
    metrics = await look(source, POD, wanted=Reason.IDLE)

    assert isinstance(metrics.arrivals, Idle)
    assert metrics.family == "vLLM"


def test_the_recorded_page_is_of_this_server(server: Vllm) -> None:
    with urllib.request.urlopen(f"{server.url}/metrics", timeout=30) as answer:
        page = series(answer.read().decode())
    told = series(recorded("vllm"))
    # Those that begin with the first request, or with its end, are there once it has come.
    assert {name: labels for name, labels in told.items() if name in page and labels != page[name]} == {}
    assert set(told) - set(page) == set()


async def test_every_request_and_every_token_is_counted_once(
    source: PrometheusSource, prometheus: Prometheus, completions: Client
) -> None:
    await look(source, POD)
    names = (
        "request_success_total",
        "time_to_first_token_seconds_count",
        "prompt_tokens_total",
        "generation_tokens_total",
    )
    told = [f'vllm:{name}{{pod="{POD}"}}' for name in names]
    before = [counted(prometheus, name) for name in told]
    for _ in range(6):
        completions.send(**REQUEST)
    wanted = [6, 6, 6 * PROMPT_TOKENS, 6 * OUTPUT_TOKENS]

    def gained() -> list[float]:
        return [counted(prometheus, name) - was for name, was in zip(told, before, strict=True)]

    assert (completions.served, completions.failed) == (6, 0)
    wait_until(lambda: gained() == wanted, 60, "the counters that the clients' requests make")


def bound_after(milliseconds: float) -> float:
    """The next bound of vLLM's histogram of TTFT."""
    (bounds,) = (series.bounds for series in VLLM.page if series.metric is Metric.TTFT)
    return next(1000 * bound for bound in bounds if 1000 * bound > 1.001 * milliseconds)


async def test_steady_traffic_is_read_as_it_was_sent_and_ttft_is_the_clients(
    source: PrometheusSource, completions: Client
) -> None:
    def check(metrics: Metrics) -> None:
        sent_per_second = completions.sent_per_second(WINDOW.window_seconds)
        assert value(metrics.arrivals) == pytest.approx(sent_per_second, rel=0.15)
        assert metrics.ttft is not None
        times = sorted(1000 * seconds for seconds in completions.first_seconds[-round(metrics.ttft.requests) :])
        # The client's time has the way there and back as well; the server's is in a bucket between two bounds.
        mean, client_p95 = sum(times) / len(times), times[math.ceil(0.95 * len(times)) - 1]
        assert 0.5 * mean <= metrics.ttft.mean_milliseconds <= 1.1 * mean
        assert metrics.ttft.high_milliseconds is not None
        assert metrics.ttft.low_milliseconds <= client_p95 <= bound_after(metrics.ttft.high_milliseconds)
        assert value(metrics.input_tokens) == pytest.approx(PROMPT_TOKENS)
        assert value(metrics.output_tokens) == pytest.approx(OUTPUT_TOKENS)

    with completions.at_a_rate(RATE, **REQUEST):
        metrics = await look(source, POD, wanted=Reason.PRESENT, check=check, settings=WINDOW)

    assert completions.failed == 0
    assert value(metrics.error_share) == 0
    assert metrics.may_lower


async def test_an_overloaded_server_asks_for_more(source: PrometheusSource, completions: Client) -> None:
    def check(metrics: Metrics) -> None:
        assert value(metrics.running) == SLOTS
        # Others may be on their way from or to their client.
        assert value(metrics.waiting) == pytest.approx(CLIENTS - SLOTS, abs=3)

    with completions.with_clients(CLIENTS, **LONG):
        metrics = await look(source, POD, wanted=Reason.PRESENT, check=check)

    assert (value(metrics.kv_percent) or 0) > 0
    # This server can do no more than it does: its table is saturated there.
    sized = replace(SIZED, table=table((value(metrics.arrivals) or 0) / 2))
    decision = Fleet(replicas=1, policy=replace(POLICY, min_replicas=1), sized=sized).tick(metrics)
    assert decision.outcome is Outcome.UP
    assert decision.reason in (Reason.BACKLOG, Reason.DEMAND_ABOVE_CAPACITY)
    assert decision.recommended is not None
    assert decision.recommended > 1
    assert completions.failed == 0


async def test_a_request_that_is_turned_away_is_a_failure(
    source: PrometheusSource, server: Vllm, completions: Client
) -> None:
    page, name = f"{server.url}/metrics", "vllm:admission_rejections_total"
    before = shown(page, name)
    with completions.all_at_once(TOO_MANY, **LONG):
        metrics = await look(source, POD, wanted=Reason.ERRORS_PRESENT, settings=WINDOW)

    assert (value(metrics.error_share) or 0) > 0
    assert not metrics.may_lower
    assert 0 < completions.failed <= TOO_MANY - QUEUED
    assert completions.served == TOO_MANY - completions.failed
    assert shown(page, name) - before == completions.failed


def test_what_aiperf_measures_of_it_is_imported_and_sized(
    server: Vllm, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    name = "vllm:request_success_total"
    before = shown(f"{server.url}/metrics", name)
    # Its own tokenizer would count other tokens than the server's words.
    report = aiperf().profile(tmp_path, MEASURED | {"--url": server.url}, 600, "--use-server-token-count")
    measured = json.loads(report.read_text())
    profile = imported(report, "vLLM", "0.32")
    (point,) = profile["spec"]["points"]

    assert shown(f"{server.url}/metrics", name) - before == REQUESTS + 1
    assert measured["is_complete"]
    assert profile["spec"]["outputTokens"] == 400
    assert point["ttftMilliseconds"]["mean"] == pytest.approx(measured["time_to_first_token"]["avg"], abs=1)
    assert_sized_by(profile, "vLLM", tmp_path, capsys)


async def test_a_server_that_is_killed_is_no_server_without_requests(
    source: PrometheusSource, server: Vllm, completions: Client
) -> None:
    seen: list[Metrics] = []
    with completions.with_clients(2, **REQUEST):
        await look(source, POD, wanted=Reason.PRESENT)
        server.kill()
        lost = await look(source, POD, wanted=Reason.MISSING, check=seen.append)

    held = Fleet(replicas=4).tick(lost)
    assert (held.outcome, held.to_replicas) == (Outcome.HELD, 4)
    assert not any(isinstance(metrics.arrivals, Idle) or metrics.health is Reason.IDLE for metrics in seen)


def test_it_ends_the_answers_that_are_under_way_when_it_is_asked_to_stop(server: Vllm, completions: Client) -> None:
    server.kill()  # the test before may have, or not
    server.start()

    # One slot: the others wait in vLLM's queue when it is asked.
    with completions.all_at_once(3, **REQUEST | {"max_tokens": 150}):
        wait_until(lambda: under_way(server) == 3, 60, "all requests at the server")
        server.drain(120)

    assert (completions.served, completions.failed) == (3, 0)
