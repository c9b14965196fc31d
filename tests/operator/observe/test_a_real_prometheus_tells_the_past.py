"""Two days of known traffic, put into a real Prometheus: arrivals come back by Deployment, and gaps stay gaps."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from firsttoken_lab.replay.history import read_history
from firsttoken_operator.observe.history_arrivals import PastReader
from firsttoken_operator.observe.prometheus import SourceConfig
from tools.cluster import Prometheus, PrometheusOptions

pytestmark = pytest.mark.cluster

HOUR = 3600
STEP = 600
NAMESPACE = "call-center"
RAG, EMBED, CHAT = (NAMESPACE, "support-rag"), (NAMESPACE, "support-rag-embed"), (NAMESPACE, "chat")
WINDOW = {"since_seconds": 48 * HOUR, "step_seconds": STEP}


class Times:
    """The two days that end now, on whole steps."""

    end = int(time.time()) // STEP * STEP
    begin = end - 48 * HOUR
    noon = end - 24 * HOUR
    """A second pod begins."""
    gap = (end - 30 * HOUR, end - 29 * HOUR)
    """Nothing was scraped."""
    growing = end - 2 * HOUR
    """The queue of the chat grows."""


def lines(prefix: str, pod: str, rate: float, *, since: int = Times.begin, growth: float = 0.0) -> Iterator[str]:
    """Samples of one pod, once a minute; two jobs scrape it."""
    for job in ("pods", "services"):
        labels = f'{{namespace="{NAMESPACE}",pod="{pod}",model_name="m",job="{job}"}}'
        for at in range(since, Times.end + 1, 60):
            if not Times.gap[0] <= at < Times.gap[1]:
                waiting = growth * max(0, at - Times.growing)
                yield f"{prefix}time_to_first_token_seconds_count{labels} {rate * (at - since)} {at}"
                yield f"{prefix}num_requests_waiting{labels} {waiting} {at}"


@pytest.fixture(scope="module")
def prometheus(control_plane: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prometheus]:
    folder = tmp_path_factory.mktemp("prometheus")
    text = [
        *lines("vllm:", "support-rag-5f6d8c9b7-x2k4q", 10.0),
        *lines("vllm:", "support-rag-7b9c6d5f4-zz9vw", 5.0, since=Times.noon),
        *lines("vllm:", "support-rag-embed-66d8c9b7f-abcde", 7.0),
        *lines("", "chat-5f6d8c9b7-kkkkk", 3.0, growth=0.5),
        "# EOF\n",
    ]
    (folder / "past.txt").write_text("\n".join(text))
    subprocess.run(
        [control_plane / "promtool", "tsdb", "create-blocks-from", "openmetrics", "--quiet", folder / "past.txt",
         folder / "prometheus-data"],
        check=True, capture_output=True, timeout=60,
    )  # fmt: skip
    with Prometheus(control_plane / "prometheus", folder, PrometheusOptions()) as server:
        yield server


def past(prometheus: Prometheus, *wanted: tuple[str, str]) -> dict[tuple[str, str], dict[float, float]]:
    reader = PastReader(SourceConfig("default", prometheus.url))
    try:
        found = reader.read(wanted, float(Times.end), **WINDOW)
    finally:
        reader.close()
    return {key: dict(series.points()) for key, series in found.items()}


def test_the_pods_of_a_deployment_are_added_up_and_its_neighbours_are_not(prometheus: Prometheus) -> None:
    found = past(prometheus, RAG, EMBED)

    assert set(found) == {RAG, EMBED}
    assert found[RAG][Times.noon - HOUR] == pytest.approx(10.0, rel=0.01)
    assert found[RAG][Times.end - HOUR] == pytest.approx(15.0, rel=0.01)
    assert found[EMBED][Times.end - HOUR] == pytest.approx(7.0, rel=0.01)


def test_both_families_are_read_and_a_queue_that_grows_is_demand(prometheus: Prometheus) -> None:
    found = past(prometheus, CHAT)[CHAT]

    assert found[Times.growing - HOUR] == pytest.approx(3.0, rel=0.01)
    assert found[Times.growing + HOUR] == pytest.approx(3.5, rel=0.01)


def test_what_was_not_scraped_is_a_gap_and_everything_else_is_there(prometheus: Prometheus) -> None:
    found = past(prometheus, RAG)[RAG]
    inside = [at for at in found if Times.gap[0] + STEP <= at < Times.gap[1]]

    assert inside == []
    assert min(found.values()) > 5.0
    assert list(found) == sorted(found)
    assert len(found) >= 48 * HOUR // STEP - HOUR // STEP - 3


def test_a_deployment_that_never_ran_has_no_past(prometheus: Prometheus) -> None:
    assert past(prometheus, (NAMESPACE, "new"), ("other", "support-rag")) == {}


def test_the_replay_reads_the_same_past_of_one_deployment(prometheus: Prometheus) -> None:
    series = read_history(
        prometheus.url, *RAG, 6 * HOUR, float(Times.end), lambda _: None
    )  # fmt: skip

    assert series.requests_per_second.mean() == pytest.approx(15.0, rel=0.01)
