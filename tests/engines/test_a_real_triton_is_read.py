"""A real Triton, a real Prometheus and the operator's queries: what is read is what the clients sent."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from firsttoken_operator.domain import Idle, Metrics, Outcome, Reason
from firsttoken_operator.observe.prometheus import PrometheusSource
from tests.engines.client import Client
from tests.engines.scraping import counted, scraping
from tests.operator.decide.builders import POLICY, Fleet
from tests.operator.observe.looking import SETTINGS, look, value
from tools.cluster import Prometheus, wait_until
from tools.engines import Triton, missing

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.skipif(bool(missing()), reason=f"no Triton on this machine: {missing()}"),
]

MODELS = Path(__file__).parent
CLIENTS = 50
RATE = 8.0


@pytest.fixture(scope="module")
def streaming(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Triton]:
    with Triton(MODELS / "streaming", tmp_path_factory.mktemp("streaming")) as server:
        yield server


@pytest.fixture(scope="module")
def ensemble(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Triton]:
    with Triton(MODELS / "ensemble", tmp_path_factory.mktemp("ensemble")) as server:
        yield server


@pytest.fixture(scope="module")
def prometheus(
    control_plane: Path, tmp_path_factory: pytest.TempPathFactory, streaming: Triton, ensemble: Triton
) -> Iterator[Prometheus]:
    with scraping(
        control_plane, tmp_path_factory.mktemp("prometheus"), streaming=streaming, ensemble=ensemble
    ) as running:
        yield running


@pytest.fixture
def chat(streaming: Triton) -> Client:
    return Client(f"{streaming.url}/v2/models/chat/generate_stream")


async def test_nothing_was_sent_yet_and_that_is_proven(source: PrometheusSource) -> None:
    metrics = await look(source, "streaming", wanted=Reason.IDLE)

    assert isinstance(metrics.arrivals, Idle)
    assert metrics.family == "Triton"


async def test_every_request_is_counted_once_and_those_that_fail_as_failed(
    source: PrometheusSource, prometheus: Prometheus, chat: Client
) -> None:
    await look(source, "streaming")
    served, failed = (f'nv_inference_request_{end}{{pod="streaming"}}' for end in ("success", "failure"))
    before = counted(prometheus, served), counted(prometheus, failed)
    for prompt in ["hello"] * 12 + ["fail"] * 3:
        chat.send(text_input=prompt, max_tokens=2)

    assert (chat.served, chat.failed) == (12, 3)
    wait_until(
        lambda: (counted(prometheus, served), counted(prometheus, failed)) == (before[0] + 12, before[1] + 3),
        20,
        "the counters that the clients' requests make",
    )


async def test_steady_traffic_is_read_as_it_was_sent(source: PrometheusSource, chat: Client) -> None:
    def check(metrics: Metrics) -> None:
        # NB: what was sent while the window was scraped; its edges are a scrape apart.
        assert value(metrics.arrivals) == pytest.approx(chat.sent_per_second(SETTINGS.window_seconds), rel=0.15)
        assert value(metrics.arrivals) == pytest.approx(RATE, rel=0.25)

    with chat.at_a_rate(RATE, text_input="hello", max_tokens=2):
        metrics = await look(source, "streaming", wanted=Reason.PRESENT, check=check)

    assert chat.failed == 0
    assert value(metrics.error_share) == 0
    assert value(metrics.running) is None
    assert metrics.may_lower


async def test_this_triton_tells_no_ttft_and_what_would_make_it(source: PrometheusSource) -> None:
    metrics = await look(source, "streaming")

    assert metrics.ttft is None
    problem = metrics.lacks(Reason.TTFT_NOT_OBSERVED)
    assert problem is not None
    assert "--metrics-config=histogram_latencies=true" in problem.text


async def test_an_overloaded_server_asks_for_more(source: PrometheusSource, chat: Client) -> None:
    def check(metrics: Metrics) -> None:
        # One is answered; another may be on its way from or to its client.
        assert value(metrics.waiting) == pytest.approx(CLIENTS - 1, abs=2)

    policy = replace(POLICY, min_replicas=1)
    with chat.with_clients(CLIENTS, text_input="hello", max_tokens=10):
        metrics = await look(source, "streaming", wanted=Reason.PRESENT, check=check)

    decision = Fleet(replicas=1, policy=policy).tick(metrics)
    assert decision.outcome is Outcome.UP
    assert decision.reason in (Reason.BACKLOG, Reason.DEMAND_ABOVE_CAPACITY)
    assert decision.recommended is not None
    assert decision.recommended > 1
    assert chat.failed == 0


async def test_a_server_that_is_killed_is_no_server_without_requests(
    source: PrometheusSource, streaming: Triton, chat: Client
) -> None:
    seen: list[Metrics] = []
    with chat.with_clients(4, text_input="hello", max_tokens=2):
        await look(source, "streaming", wanted=Reason.PRESENT)
        streaming.kill()
        try:
            lost = await look(source, "streaming", wanted=Reason.MISSING, check=seen.append)
        finally:
            streaming.start()
        fleet = Fleet(replicas=4)
        held = fleet.tick(lost)

    assert (held.outcome, held.to_replicas) == (Outcome.HELD, 4)
    assert not any(isinstance(metrics.arrivals, Idle) or metrics.health is Reason.IDLE for metrics in seen)
    back = await look(source, "streaming", wanted=Reason.IDLE)
    assert back.family == "Triton"


async def test_each_step_of_an_ensemble_counts_the_request_and_one_of_them_is_read(
    source: PrometheusSource, prometheus: Prometheus, ensemble: Triton
) -> None:
    client = Client(f"{ensemble.url}/v2/models/chain/generate")

    def check(metrics: Metrics) -> None:
        # The one slot of the last step takes 0.1 s.
        assert value(metrics.arrivals) == pytest.approx(10.0, rel=0.25)
        assert value(metrics.waiting) == pytest.approx(5, abs=1)

    with client.with_clients(6, text=5):
        named = await look(source, "ensemble", wanted=Reason.PRESENT, check=check, model="chain")
        unnamed = await look(source, "ensemble", wanted=Reason.SEVERAL_MODELS)

    assert (named.may_lower, unnamed.may_raise, unnamed.may_lower) == (True, True, False)
    assert client.failed == 0
    wait_until(
        lambda: (
            {
                element["metric"]["model"]: float(element["value"][1])
                for element in prometheus.query('nv_inference_request_success{pod="ensemble"}')
            }
            == dict.fromkeys(("answer", "chain", "tokenize"), client.served)
        ),
        20,
        "the counters of all three models",
    )
