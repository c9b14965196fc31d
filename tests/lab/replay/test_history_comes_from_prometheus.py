from __future__ import annotations

import json
import re
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from firsttoken_lab.replay.history import read_history
from firsttoken_lab.replay.series import Series
from firsttoken_operator.cli import main
from firsttoken_sizing.errors import InvalidInput
from tests.operator.observe.fault_server import FaultServer, body

DAY = 86400
NOW = 10 * DAY + 30.0
WHOSE = ("call-center", "support-rag")
EXAMPLE = Path(__file__).resolve().parents[3] / "examples/call-center.yaml"


class Past:
    """A Prometheus with a family of metrics: 5 requests/s of 1000 and 100 tokens, but nothing from `gap` on for 1 h."""

    def __init__(self, prefix: str, gap: int | None = None) -> None:
        self.prefix, self.gap = prefix, gap
        self.asked: list[dict[str, str]] = []

    def __call__(self, request: BaseHTTPRequestHandler) -> None:
        asked = {name: values[0] for name, values in parse_qs(urlsplit(request.path).query).items()}
        self.asked.append(asked)
        query = asked["query"]
        known = re.search(rf"\({self.prefix}(num_requests|time_to_first|request)_", query)
        value = "1000" if "prompt" in query else "100" if "generation" in query else "5"
        at = range(int(asked["start"]), int(asked["end"]) + 1, int(asked["step"]))
        values = [[t, value] for t in at if self.gap is None or not self.gap <= t < self.gap + 3600]
        result: list[Any] = [{"metric": {}, "values": values}] if known else []
        document = {"status": "success", "data": {"resultType": "matrix", "result": result}}
        body(json.dumps(document).encode())(request)


@pytest.fixture
def server() -> Iterator[FaultServer]:
    with FaultServer(Past("vllm:")) as server:
        yield server


def history(server: FaultServer, days: float = 2) -> Series:
    return read_history(server.url, *WHOSE, days * DAY, NOW, lambda _: None)


@pytest.mark.parametrize("prefix", ["vllm:", ""], ids=["vLLM", "NIM 1.x"])
def test_rates_and_mean_tokens_are_fetched_day_by_day(server: FaultServer, prefix: str) -> None:
    past = server.answer = Past(prefix)
    series = history(server)

    assert series.at_seconds[0] == 0
    assert series.at_seconds[-1] == 2 * DAY - 60
    assert set(series.requests_per_second) == {5.0}
    assert series.mean_input_tokens is not None
    assert series.mean_output_tokens is not None
    assert (series.mean_input_tokens[0], series.mean_output_tokens[0]) == (1000, 100)
    of_family = [asked for asked in past.asked if f"({prefix}num_requests_waiting" in asked["query"]]
    assert [(int(asked["start"]), int(asked["end"])) for asked in of_family] == [
        (8 * DAY, 9 * DAY - 60),
        (9 * DAY, 10 * DAY - 60),
    ]
    assert all('namespace="call-center",pod=~"support-rag(-[a-z0-9]+){1,2}"' in asked["query"] for asked in past.asked)


def test_what_was_not_measured_is_left_out_and_not_zero(server: FaultServer) -> None:
    server.answer = Past("vllm:", gap=9 * DAY)
    series = history(server)

    assert len(series.at_seconds) == 2 * 1440 - 60
    assert series.requests_per_second.min() == 5


def test_no_metrics_are_an_error_that_says_what_to_check(server: FaultServer) -> None:
    server.answer = Past("other:")

    with pytest.raises(InvalidInput, match=r"has no requests of call-center/support-rag in that time; check the name"):
        history(server)


@pytest.mark.parametrize(
    ("status", "content", "words"),
    [
        (401, b"", "Unauthorized: HTTP 401"),
        (302, b"", "redirects are not followed"),
        (200, b"<html>", "the answer is not JSON"),
        (200, b"[]", "the answer is not a range"),
        (200, b'{"status": "success", "data": {"resultType": "vector", "result": []}}', "is not a range"),
    ],
)
def test_a_faulty_source_is_one_line(server: FaultServer, status: int, content: bytes, words: str) -> None:
    server.answer = body(content, status=status)

    with pytest.raises(InvalidInput) as refused:
        history(server)
    assert words in str(refused.value)


@pytest.mark.slow
def test_the_command_replays_what_prometheus_knows(server: FaultServer, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["replay", "-f", str(EXAMPLE), "--prometheus", server.url, "--since", "1h"]
    assert main([*arguments, "--policy", "static-peak", "--rate-scale", "0.1", "-o", "json"]) == 0
    answer = capsys.readouterr()

    (static,) = json.loads(answer.out)
    assert static["trace"] == "prometheus 1h"
    assert static["requests"] == pytest.approx(1800, rel=0.1)
    assert "minutes are known" in answer.err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (
            ["--trace", "x.csv", "--prometheus", "http://x"],
            "--trace: is one of two ways to say which traffic; give --trace or --prometheus",
        ),
        (["--trace", "x.csv", "--since", "7d"], "--since: has no meaning without --prometheus"),
        (["--since", "7d"], "--since: has no meaning without --prometheus"),
        (["--prometheus", "http://x", "--since", "1y"], "--since: '1y' is no duration"),
        (["--prometheus", "http://x", "--since", "91d"], "--since: '91d' is no duration"),
    ],
)
def test_which_traffic_has_to_be_clear(capsys: pytest.CaptureFixture[str], arguments: list[str], words: str) -> None:
    assert main(["replay", "-f", str(EXAMPLE), *arguments]) == 2
    assert words in capsys.readouterr().err
