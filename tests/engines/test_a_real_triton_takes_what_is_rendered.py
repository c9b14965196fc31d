"""A real Triton is started with the flags that are rendered, and answers at the paths that the pod is probed at."""

from __future__ import annotations

import urllib.request
from pathlib import Path

import pytest

from firsttoken_operator.runtimes import triton
from tests.operator.runtimes.replicas import served
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


def test_it_starts_and_answers_its_probes(tmp_path: Path) -> None:
    container = triton.CONTAINER
    rendered = container.start(served(container)).arguments
    flags = [flag for flag in rendered if flag.partition("=")[0] not in OF_THE_TEST]

    assert len(rendered) - len(flags) == len(OF_THE_TEST)
    assert "--metrics-config=histogram_latencies=true" in rendered
    with Triton(Path(__file__).parent / "streaming", tmp_path, flags) as server:
        for path in (container.ready_path, container.live_path):
            assert status(server.url + path) == 200
        assert status(f"http://{server.metrics_address}{container.metrics_path}") == 200
