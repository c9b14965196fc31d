"""Every metric family, by a page as its server writes it, scraped by a real Prometheus and read as the operator does.

What has to come out stands in `tests/fixtures/pages`: a counter's number is its rate.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from firsttoken_operator.domain import Metrics, Reason, Value
from firsttoken_operator.families import FAMILIES, Arrivals, TokenPart
from firsttoken_operator.observe import arriving, gateway
from firsttoken_operator.observe.gateway import GatewayCounter
from firsttoken_operator.observe.history import PastQueries
from firsttoken_operator.observe.prometheus import PrometheusSource, SourceConfig
from firsttoken_operator.observe.source import Vector
from tests.fixtures.moving import at, recorded
from tests.operator.decide.builders import Fleet
from tests.operator.observe.exporter import NAMESPACE, ExportedPod, Exporter
from tests.operator.observe.looking import DEADLINE_SECONDS, SETTINGS, arrive, look, value
from tools.cluster import Prometheus, PrometheusOptions

pytestmark = pytest.mark.cluster

PICKER = GatewayCounter("inference_objective_request_total", "namespace", "deployment")
NOT_DECOUPLED = "nv_inference_first_response_histogram_ms"


@dataclass
class PagePod(ExportedPod):
    """A pod that shows a recorded page."""

    page: str = ""

    def render(self, seconds: float) -> str:
        return at(self.page, seconds)


@dataclass(frozen=True)
class Expected:
    """Numbers of a page. `running`, `kv_percent`, `tokens`: None where its server does not tell."""

    family: str
    arrivals: float
    first_tokens: float
    waiting: float
    running: float | None
    failed_share: float
    ttft_milliseconds: tuple[float, float]
    kv_percent: float | None = None
    tokens: tuple[float, float] | None = (700.0, 90.0)


RUNTIMES = {
    "vllm": Expected("vLLM", 20.1, 20, 2, 6, 0.1 / 20.1, (250, 500), 40),
    "nim-1": Expected("NIM 1.x", 20.1, 20, 2, 6, 0.1 / 20.1, (250, 500), 40),
    "sglang": Expected("SGLang", 20, 20, 2, 6, 0.0, (200, 400), 40),
    "trtllm-serve": Expected("trtllm-serve", 20.1, 20, 2, 6, 0.1 / 20.1, (250, 500), 40),
    # 22 come in each second, of which 20 get an answer.
    "dynamo-frontend": Expected("Dynamo frontend", 22, 20, 2, 8, 0.005, (220, 470)),
    # What a client broke off arrived, too, and did not fail.
    "triton": Expected("Triton", 41.2, 40, 3, None, 0.2 / 41.2, (100, 500), tokens=None),
    # Two wait for an instance of Triton's, five in the engine; the ensemble counts the same requests.
    "triton-tensorrt-llm": Expected("Triton TensorRT-LLM", 30, 30, 7, 24, 0.0, (250, 300), 40),
    # 25 are handed to the engine each second, of which 20 have got their first token.
    "triton-vllm": Expected("Triton vLLM", 25, 20, 0, None, 0.0, (250, 500)),
}


def without(page: str, name: str) -> str:
    """A page without one metric."""
    return "\n".join(line for line in page.splitlines() if name not in line) + "\n"


def in_time(page: str) -> str:
    """A page with a bound at the limit, below which all first tokens are: one that replicas are given back on."""
    return page.replace('le="0.5"', 'le="0.3"')


@pytest.fixture(scope="module")
def exporter() -> Iterator[Exporter]:
    pages = {
        **{name: recorded(name) for name in RUNTIMES},
        "not-decoupled": without(recorded("triton"), NOT_DECOUPLED),
        "ensemble": recorded("triton-ensemble"),
        "llmapi": recorded("triton"),
        "renamed": recorded("triton").replace('model="', 'model="next-'),
        "in-time": in_time(recorded("vllm")),
        "two-servers": in_time(recorded("vllm") + recorded("nim-1")),
        "unheard-of": "# TYPE my_requests_total counter\nmy_requests_total 20\n",
        "federation": recorded("vllm").replace('engine="0"', f'engine="0",namespace="{NAMESPACE}",pod="behind-it"'),
        "picker": recorded("epp").replace("_total{", '_total{deployment="llama",'),
        "changing": in_time(recorded("nim-1")),
    }
    with Exporter({name: PagePod("", 0.0, page=page) for name, page in pages.items()}) as exporter:
        yield exporter


@contextmanager
def scraped(control_plane: Path, folder: Path, exporter: Exporter, *jobs: str) -> Iterator[Prometheus]:
    options = PrometheusOptions(scrape_interval_seconds=0.5, discovery_interval_seconds=0.2)
    folder.mkdir()
    with Prometheus(control_plane / "prometheus", folder, options) as server:
        for job in jobs:
            server.add_http_sd(exporter.discovery_url(job), job=job)
        yield server


@pytest.fixture(scope="module")
def prometheus(
    control_plane: Path, tmp_path_factory: pytest.TempPathFactory, exporter: Exporter
) -> Iterator[Prometheus]:
    with scraped(control_plane, tmp_path_factory.mktemp("one") / "data", exporter, "pods") as server:
        yield server


@pytest.fixture
async def source(prometheus: Prometheus) -> AsyncIterator[PrometheusSource]:
    source = PrometheusSource(SourceConfig("default", prometheus.url), deadline_seconds=5.0)
    yield source
    source.close()


def test_every_family_has_a_page() -> None:
    assert {expected.family for expected in RUNTIMES.values()} == {family.name for family in FAMILIES}


@pytest.mark.parametrize(("page", "expected"), RUNTIMES.items(), ids=RUNTIMES)
async def test_a_runtime_is_read_as_its_page_says(source: PrometheusSource, page: str, expected: Expected) -> None:
    def check(metrics: Metrics) -> None:
        assert metrics.family == expected.family
        assert value(metrics.arrivals) == pytest.approx(expected.arrivals, rel=0.05)
        assert value(metrics.first_tokens) == pytest.approx(expected.first_tokens, rel=0.05)
        assert (value(metrics.waiting), value(metrics.running)) == (expected.waiting, expected.running)
        assert value(metrics.error_share) == pytest.approx(expected.failed_share, rel=0.05)
        assert value(metrics.kv_percent) == expected.kv_percent
        lengths = value(metrics.input_tokens), value(metrics.output_tokens)
        assert lengths == (pytest.approx(expected.tokens, rel=1e-6) if expected.tokens else (None, None))
        assert metrics.ttft is not None
        assert (metrics.ttft.low_milliseconds, metrics.ttft.high_milliseconds) == expected.ttft_milliseconds
        assert metrics.ttft.mean_milliseconds == pytest.approx(290.0, rel=0.02)

    await look(source, page, wanted=Reason.PRESENT, check=check)


@pytest.mark.parametrize(("page", "expected"), RUNTIMES.items(), ids=RUNTIMES)
async def test_between_two_ticks_one_query_tells_what_arrives(
    source: PrometheusSource, page: str, expected: Expected
) -> None:
    family = next(family for family in FAMILIES if family.name == expected.family)
    # Requests that fail have no first token.
    arrivals = expected.first_tokens if family.arrivals is Arrivals.FIRST_TOKENS else expected.arrivals
    ends = time.monotonic() + DEADLINE_SECONDS
    while True:
        found = await arriving.ask(source, FAMILIES, PICKER, SETTINGS.window_seconds)
        if found.of([(NAMESPACE, page)], ("", "")) == pytest.approx(arrivals, rel=0.05):
            break
        assert time.monotonic() < ends, found
        await asyncio.sleep(0.1)


@pytest.mark.parametrize(("page", "expected"), RUNTIMES.items(), ids=RUNTIMES)
async def test_the_past_of_a_runtime_is_read_alike(source: PrometheusSource, page: str, expected: Expected) -> None:
    family = next(family for family in FAMILIES if family.name == expected.family)
    past, ends = PastQueries(family, f'pod="{page}"', "4s"), time.monotonic() + DEADLINE_SECONDS
    # Requests that fail have no first token.
    arrivals = expected.first_tokens if family.arrivals is Arrivals.FIRST_TOKENS else expected.arrivals
    wanted = {past.arrivals: arrivals}
    if expected.tokens is not None:
        wanted[past.mean(TokenPart.PROMPT_TOKENS, TokenPart.PROMPTS)] = expected.tokens[0]
        wanted[past.mean(TokenPart.OUTPUT_TOKENS, TokenPart.OUTPUTS)] = expected.tokens[1]
    for query, number in wanted.items():
        while True:
            answer = await source.query(query)
            assert isinstance(answer, Vector), (query, answer)
            if [sample.value for sample in answer.samples] == [pytest.approx(number, rel=0.05)]:
                break
            assert time.monotonic() < ends, (query, answer)
            await asyncio.sleep(0.1)


async def test_the_past_adds_up_what_pods_call_by_two_names(source: PrometheusSource) -> None:
    """A rollout gave the model another name: what either was sent arrived at the Deployment."""
    (triton,) = (family for family in FAMILIES if family.name == "Triton")
    past, ends = PastQueries(triton, 'pod=~"triton|renamed"', "4s"), time.monotonic() + DEADLINE_SECONDS
    found: list[float] = []
    while found != [pytest.approx(2 * RUNTIMES["triton"].arrivals, rel=0.05)]:
        assert time.monotonic() < ends, found
        await asyncio.sleep(0.1)
        answer = await source.query(past.arrivals)
        assert isinstance(answer, Vector), answer
        found = [sample.value for sample in answer.samples]


@pytest.mark.parametrize("page", ["vllm", "nim-1", "triton", "sglang", "dynamo-frontend", "trtllm-serve"])
async def test_a_limit_between_two_bounds_is_named_with_what_moves_them(source: PrometheusSource, page: str) -> None:
    metrics = await look(source, page, wanted=Reason.PRESENT)

    problem = metrics.lacks(Reason.LOW_RESOLUTION)
    assert problem is not None
    assert problem.text.startswith("the limit of 300 ms lies between the bounds ")
    advice = next(family.advice.buckets for family in FAMILIES if family.name == metrics.family)
    assert advice.split("{limit}")[0] in problem.text


async def test_a_limit_on_a_bound_is_no_problem(source: PrometheusSource) -> None:
    assert (await look(source, "triton-tensorrt-llm", wanted=Reason.PRESENT)).shortcomings == ()


async def test_triton_without_the_histogram_says_how_to_turn_it_on(source: PrometheusSource) -> None:
    metrics = await look(source, "not-decoupled", wanted=Reason.PRESENT, check=arrive(41.2))

    assert metrics.ttft is None
    assert value(metrics.first_tokens) is None
    (problem,) = metrics.shortcomings
    assert problem.reason is Reason.TTFT_NOT_OBSERVED
    assert "--metrics-config=histogram_latencies=true" in problem.text
    assert metrics.may_lower, "the sizing model alone is enough to scale by"


async def test_some_pods_with_a_histogram_and_some_without_lower_nothing(source: PrometheusSource) -> None:
    metrics = await look(source, "triton", "not-decoupled", wanted=Reason.TTFT_NOT_OBSERVED, check=arrive(82.4))

    assert (metrics.health, metrics.may_lower) == (Reason.PARTIAL, False)


async def test_an_ensemble_without_a_name_is_read_as_its_busiest_model_and_lowers_nothing(
    source: PrometheusSource,
) -> None:
    # Each request passes three models.
    metrics = await look(source, "ensemble", wanted=Reason.SEVERAL_MODELS, check=arrive(20.0))

    assert (metrics.health, metrics.may_raise, metrics.may_lower) == (Reason.PARTIAL, True, False)
    assert "answer, chain, tokenize" in metrics.detail
    assert "spec.metrics.modelName" in metrics.detail


async def test_an_ensemble_that_is_named_is_read_with_what_waits_in_its_steps(source: PrometheusSource) -> None:
    metrics = await look(source, "ensemble", wanted=Reason.PRESENT, check=arrive(20.0), model="chain")

    assert value(metrics.waiting) == 5.0


async def test_a_model_that_is_not_there_is_missing(source: PrometheusSource) -> None:
    await look(source, "ensemble", wanted=Reason.PRESENT, model="chain")

    metrics = await look(source, "ensemble", wanted=Reason.NO_SERIES, model="chan")

    assert (metrics.health, metrics.may_raise) == (Reason.MISSING, False)
    assert "answer, chain, tokenize" in metrics.detail


def assert_lowers_nothing(metrics: Metrics) -> None:
    """Decide for an hour on far more replicas than these requests need."""
    decisions = Fleet(replicas=40).run(metrics, seconds=3600)
    assert {decision.to_replicas for decision in decisions} == {40}
    assert {decision.metrics_health for decision in decisions} == {metrics.health}


def assert_lowers(metrics: Metrics) -> None:
    """Decide as long on as many: without this, what lowers nothing may do so for another reason."""
    assert Fleet(replicas=40).run(metrics, seconds=3600)[-1].to_replicas < 40


@pytest.mark.parametrize("page", ["triton-tensorrt-llm", "in-time"])
async def test_what_is_read_well_does_lower(source: PrometheusSource, page: str) -> None:
    # A bucket ends at the limit of 300 ms, which none of the other pages has.
    assert_lowers(await look(source, page, wanted=Reason.PRESENT))


async def test_two_families_on_one_pod_lower_nothing(source: PrometheusSource) -> None:
    # The requests are those of the first.
    metrics = await look(source, "two-servers", wanted=Reason.TWO_FAMILIES, check=arrive(20.1))

    assert (metrics.health, metrics.may_raise, metrics.may_lower) == (Reason.PARTIAL, True, False)
    assert "vLLM and NIM 1.x" in metrics.detail
    assert metrics.detail.endswith("scrape the port of the server alone, or drop the series of the other")
    assert_lowers_nothing(metrics)


async def test_a_family_that_changes_in_a_rollout_lowers_nothing_until_all_pods_have_it(
    source: PrometheusSource, exporter: Exporter
) -> None:
    before = await look(source, "changing", "in-time", wanted=Reason.FAMILY_CHANGING)
    pod = exporter.pods["changing"]
    assert isinstance(pod, PagePod)
    old, pod.page = pod.page, in_time(recorded("vllm"))
    try:
        after = await look(source, "changing", "in-time", wanted=Reason.PRESENT)
    finally:
        pod.page = old

    assert (before.family, before.may_lower) == ("1 NIM 1.x, 1 vLLM", False)
    assert before.detail.endswith("until all of them publish the same: let the rollout end, or undo it")
    assert_lowers_nothing(before)
    assert (after.family, after.may_lower) == ("vLLM", True)
    assert_lowers(after)


async def test_a_runtime_that_is_not_known_says_what_is(source: PrometheusSource) -> None:
    metrics = await look(source, "unheard-of", wanted=Reason.UNKNOWN_RUNTIME)

    assert (metrics.health, metrics.may_raise) == (Reason.MISSING, False)
    for family in FAMILIES:
        assert family.name in metrics.detail
    assert "/prometheus/metrics" in metrics.detail
    assert_lowers_nothing(metrics)


async def test_series_behind_a_federation_are_told_from_series_that_are_not_there(source: PrometheusSource) -> None:
    metrics = await look(source, "behind-it", wanted=Reason.EXPORTED_LABELS)

    assert metrics.health is Reason.MISSING
    assert "exported_pod" in metrics.detail


async def test_pods_that_are_scraped_too_slowly_are_told_from_new_ones(source: PrometheusSource) -> None:
    # Scrapes come every 0.5 s, and every 0.2 s one is expected.
    impatient = replace(SETTINGS, scrape_interval_seconds=0.2)

    metrics = await look(source, "vllm", wanted=Reason.SCRAPE_TOO_SLOW, settings=impatient)

    assert (metrics.health, metrics.may_lower) == (Reason.RECOVERING, False)
    assert "scrapeIntervalSeconds" in metrics.detail


async def test_two_jobs_for_one_pod_are_named_and_counted_once(
    control_plane: Path, tmp_path: Path, exporter: Exporter
) -> None:
    with scraped(control_plane, tmp_path / "data", exporter, "pods", "services") as server:
        source = PrometheusSource(SourceConfig("default", server.url), deadline_seconds=5.0)
        try:
            metrics = await look(source, "triton-tensorrt-llm", wanted=Reason.PRESENT, check=arrive(30.0))
        finally:
            source.close()

    (problem,) = metrics.shortcomings
    assert problem.reason is Reason.TWO_JOBS
    assert problem.text == "two jobs scrape 1 of 1 pods, whose numbers are counted once: leave one of them"


async def test_series_without_a_pod_are_a_label_that_is_missing(
    control_plane: Path, tmp_path: Path, exporter: Exporter
) -> None:
    page = PagePod("", 0.0, page=recorded("vllm"))
    with (
        Exporter({"": page}) as unlabeled,
        scraped(control_plane, tmp_path / "data", unlabeled, "pods") as server,
    ):
        source = PrometheusSource(SourceConfig("default", server.url), deadline_seconds=5.0)
        try:
            metrics = await look(source, "vllm-7d9f-x2x4z", wanted=Reason.LABEL_MISMATCH)
        finally:
            source.close()

    assert metrics.health is Reason.MISSING
    assert "__meta_kubernetes_pod_name" in metrics.detail


async def test_the_endpoint_picker_of_a_gateway_tells_what_arrives(source: PrometheusSource) -> None:
    ends = time.monotonic() + DEADLINE_SECONDS
    while True:
        told = gateway.arrivals(await gateway.ask(source, PICKER, SETTINGS), (NAMESPACE, "llama"), SETTINGS)
        if isinstance(told, Value) and (told.value, told.coverage) == (pytest.approx(21.0, rel=0.05), 1.0):
            break
        assert time.monotonic() < ends, told
        await asyncio.sleep(0.1)
