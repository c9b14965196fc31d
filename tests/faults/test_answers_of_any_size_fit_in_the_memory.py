"""The operator as a process, whose Prometheus answers everything with 64 MiB: its memory stays below the limit."""

from __future__ import annotations

from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest
import yaml

from tests.faults.stage import MEBIBYTE, memory_limit_bytes, staged
from tests.operator.observe.fault_server import FaultServer
from tools.cluster import wait_until

pytestmark = [pytest.mark.cluster, pytest.mark.every_fault]

ANSWER_BYTES = 64 * MEBIBYTE
NAMESPACES = 20
PODS = 40
"""Pods of a piece: the next one has others."""


def pieces() -> Iterator[bytes]:
    """A vector of buckets, in which no namespace has more than another."""
    yield b'{"status":"success","data":{"resultType":"vector","result":[{"metric":{},"value":[1.5,"1"]}'
    sent = piece = 0
    while sent < ANSWER_BYTES:
        whole = b"".join(
            b',{"metric":{"le":"%d","namespace":"tenant-%d","pod":"model-7f9c6d5b8-%d"},"value":[1763856000.5,"0.25"]}'
            % (bound, namespace, PODS * piece + pod)
            for namespace in range(NAMESPACES)
            for pod in range(PODS)
            for bound in range(25)
        )
        sent, piece = sent + len(whole), piece + 1
        yield whole
    yield b"]}}"


ANSWER: list[bytes] = []


def flood(request: BaseHTTPRequestHandler) -> None:
    request.send_response(200)
    request.send_header("Content-Length", str(sum(map(len, ANSWER))))
    request.end_headers()
    for piece in ANSWER:
        request.wfile.write(piece)


def test_the_memory_stays_below_the_charts_limit(control_plane: Path, tmp_path: Path) -> None:
    ANSWER[:] = pieces()
    assert sum(map(len, ANSWER)) >= ANSWER_BYTES
    with FaultServer(flood) as server:
        config = tmp_path / "config.yaml"
        config.write_text(yaml.safe_dump({"prometheus": {"default": {"url": server.url}}, "tickSeconds": 15}))
        with staged(tmp_path, "--config", str(config), "--tick-seconds", "15") as stage:
            stage.declare("calm", 2)
            asked = len(server.requests)
            wait_until(lambda: len(server.requests) >= asked + 30, 300, "30 more queries")
            stage.ticks(2)

            assert stage.peak_bytes() < memory_limit_bytes()
            stage.assert_alive()
