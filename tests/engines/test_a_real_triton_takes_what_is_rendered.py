"""A real Triton is started with the flags that are rendered, answers where its pod is probed, and drains."""

from __future__ import annotations

import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from firsttoken_operator.runtimes import triton
from tests.engines.client import Client
from tests.operator.runtimes.replicas import served
from tools.cluster import wait_until
from tools.engines import Triton, missing

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.skipif(bool(missing()), reason=f"no Triton on this machine: {missing()}"),
]

OF_THE_TEST = ("--model-repository", "--http-port", "--metrics-port", "--metrics-config")
"""Flags that the test gives itself: its own models and ports, and what is the same."""


def status(address: str) -> int:
    with urllib.request.urlopen(address, timeout=10) as answer:
        return int(answer.status)


CONTAINER = triton.CONTAINER
RENDERED = CONTAINER.start(served(CONTAINER)).arguments


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Triton]:
    flags = [flag for flag in RENDERED if flag.partition("=")[0] not in OF_THE_TEST]
    assert len(RENDERED) - len(flags) == len(OF_THE_TEST)
    with Triton(Path(__file__).parent / "streaming", tmp_path_factory.mktemp("triton"), flags) as running:
        yield running


def test_it_starts_and_answers_its_probes(server: Triton) -> None:
    assert "--metrics-config=histogram_latencies=true" in RENDERED
    for path in (CONTAINER.ready_path, CONTAINER.live_path):
        assert status(server.url + path) == 200
    assert status(f"http://{server.metrics_address}{CONTAINER.metrics_path}") == 200


def test_it_ends_the_answers_that_are_under_way_when_it_is_asked_to_stop(server: Triton) -> None:
    client = Client(f"{server.url}/v2/models/chat/generate_stream")

    # One slot: the second waits in Triton's queue when it is asked.
    with client.all_at_once(2, text_input="hello", max_tokens=50):
        wait_until(lambda: bool(client.first_seconds), 60, "the first answer begins")
        assert server.drain(60) == 0

    assert (client.served, client.failed) == (2, 0)
