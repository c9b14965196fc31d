"""Faults M1 to M9 of the fault catalog: every one ends in time, with its own reason, and never as a number."""

from __future__ import annotations

import asyncio
import base64
import gzip
import json
import os
import socket
import threading
import time
from collections.abc import AsyncIterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest

from firsttoken_operator.domain import Missing, Reason
from firsttoken_operator.observe.prometheus import PrometheusSource, SourceConfig, query_deadline_seconds
from firsttoken_operator.observe.source import Sample, Vector
from tests.operator.observe.fault_server import Answer, FaultServer, black_hole, body, document, dripping, vector

DEADLINE_SECONDS = 1.0
BYTE_CAP = 100_000
CONTENT = vector(({"pod": "a"}, "1.5"))


class Asker:
    """Makes sources that are closed at the end of the test."""

    def __init__(self) -> None:
        self.sources: list[PrometheusSource] = []

    def source(self, url: str, *, deadline_seconds: float = DEADLINE_SECONDS, **config: Any) -> PrometheusSource:
        source = PrometheusSource(
            SourceConfig("default", url, byte_cap=BYTE_CAP, **config), deadline_seconds=deadline_seconds
        )
        self.sources.append(source)
        return source


@pytest.fixture
async def asker() -> AsyncIterator[Asker]:
    asker = Asker()
    yield asker
    for source in asker.sources:
        source.close()


STATUS = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
DRIPPING_HEADERS = dripping(STATUS, b"X-A: b\r\n")
DRIPPING_BODY = dripping(STATUS + b"Content-Length: 9999\r\n\r\n", b" ")
CUT_OFF = dripping(STATUS + b"Content-Length: 9999\r\nConnection: close\r\n\r\n", b"{", drops=1)

FAULTS: dict[str, tuple[Answer, Reason]] = {
    "an answer that never begins": (black_hole, Reason.SOURCE_UNREACHABLE),
    "headers that drip": (DRIPPING_HEADERS, Reason.SOURCE_UNREACHABLE),
    "a body that drips": (DRIPPING_BODY, Reason.SOURCE_UNREACHABLE),
    "a connection that closes in the middle": (CUT_OFF, Reason.SOURCE_UNREACHABLE),
    "HTTP 301": (body(b"", status=301, Location="http://192.0.2.1/"), Reason.SOURCE_MISCONFIGURED),
    "HTTP 302": (body(b"", status=302, Location="http://192.0.2.1/"), Reason.SOURCE_MISCONFIGURED),
    "HTTP 400": (body(b"{}", status=400), Reason.BAD_RESPONSE),
    "HTTP 401": (body(b"", status=401), Reason.UNAUTHORIZED),
    "HTTP 403": (body(b"", status=403), Reason.UNAUTHORIZED),
    "HTTP 404": (body(b"", status=404), Reason.SOURCE_MISCONFIGURED),
    "HTTP 422": (body(b"{}", status=422), Reason.BAD_RESPONSE),
    "HTTP 429": (body(b"", status=429), Reason.THROTTLED),
    "HTTP 500": (body(b"", status=500), Reason.SERVER_ERROR),
    "HTTP 503": (body(b"", status=503), Reason.SERVER_ERROR),
    "more bytes than the cap": (body(b" " * (BYTE_CAP + 1)), Reason.BAD_RESPONSE),
    "a compressed answer": (
        body(gzip.compress(b" " * 10_000_000), Content_Encoding="gzip"), Reason.BAD_RESPONSE,
    ),
    "a login page": (body(b"<html>Please log in</html>"), Reason.BAD_RESPONSE),
    "truncated JSON": (body(json.dumps(CONTENT).encode()[:-7]), Reason.BAD_RESPONSE),
    "JSON that is too deep": (body(b"[" * 50_000), Reason.BAD_RESPONSE),
    "an empty body": (body(b""), Reason.BAD_RESPONSE),
    "a list": (document([]), Reason.BAD_RESPONSE),
    "null": (document(None), Reason.BAD_RESPONSE),
    "status error": (document({"status": "error", "errorType": "execution"}), Reason.BAD_RESPONSE),
    "a matrix": (document({"status": "success", "data": {"resultType": "matrix", "result": []}}), Reason.BAD_RESPONSE),
    "a scalar": (
        document({"status": "success", "data": {"resultType": "scalar", "result": [1, "2"]}}), Reason.BAD_RESPONSE,
    ),
    "no data": (document({"status": "success"}), Reason.BAD_RESPONSE),
    "no result": (document({"status": "success", "data": {"resultType": "vector"}}), Reason.BAD_RESPONSE),
    "a value that is a number": (
        document({"status": "success", "data": {"resultType": "vector", "result": [{"metric": {}, "value": [1, 2]}]}}),
        Reason.BAD_RESPONSE,
    ),
    "a value that is a word": (document(vector(({}, "many"))), Reason.BAD_RESPONSE),
    "an element without labels": (
        document({"status": "success", "data": {"resultType": "vector", "result": [{"value": [1, "2"]}]}}),
        Reason.BAD_RESPONSE,
    ),
    "a label that is no string": (
        document(
            {"status": "success", "data": {"resultType": "vector", "result": [{"metric": {"a": 1}, "value": [1, "2"]}]}}
        ),
        Reason.BAD_RESPONSE,
    ),
}  # fmt: skip


@pytest.mark.parametrize("fault", FAULTS)
async def test_a_fault_has_its_own_reason_within_the_deadline(fault: str, asker: Asker) -> None:
    answer, reason = FAULTS[fault]
    with FaultServer(answer) as server:
        began = time.monotonic()

        result = await asker.source(server.url).query("up")

        assert isinstance(result, Missing)
        assert result.reason is reason
        assert time.monotonic() - began < 3 * DEADLINE_SECONDS, "and not four times it"
        assert len(server.requests) == 1, "one attempt, and a redirect is not followed"


async def test_a_refused_connection_is_unreachable(asker: Asker) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port = unused.getsockname()[1]

    result = await asker.source(f"http://127.0.0.1:{port}").query("up")

    assert isinstance(result, Missing)
    assert result.reason is Reason.SOURCE_UNREACHABLE


async def test_a_server_that_does_not_speak_tls_is_misconfigured(asker: Asker) -> None:
    with FaultServer(document(CONTENT)) as server:
        result = await asker.source(server.url.replace("http:", "https:")).query("up")

    assert isinstance(result, Missing)
    assert result.reason is Reason.SOURCE_MISCONFIGURED


async def test_an_answer_keeps_labels_values_time_and_nothing_else(asker: Asker) -> None:
    values = ("1.5", "NaN", "+Inf", "-Inf", "-3", "1e300")
    with FaultServer(document(vector(*(({"pod": value}, value) for value in values)))) as server:
        result = await asker.source(server.url).query("up")

    assert isinstance(result, Vector)
    assert [sample.labels["pod"] for sample in result.samples] == list(values)
    assert [str(sample.value) for sample in result.samples] == ["1.5", "nan", "inf", "-inf", "-3.0", "1e+300"]
    assert {sample.timestamp for sample in result.samples} == {1_700_000_000.5}


async def test_an_empty_vector_is_an_answer_without_samples(asker: Asker) -> None:
    with FaultServer(document(vector())) as server:
        assert await asker.source(server.url).query("up") == Vector(())


async def test_warnings_of_a_partial_response_are_kept(asker: Asker) -> None:
    partial = vector(({}, "1"), warnings=["store 2 is gone"], infos=["name does not end in _total"])
    with FaultServer(document(partial)) as server:
        result = await asker.source(server.url).query("up")

    said = f'source "default" ({server.url}): store 2 is gone'
    assert result == Vector((Sample({}, 1.0, 1_700_000_000.5),), warnings=(said,))


@pytest.mark.parametrize("fault", [black_hole, DRIPPING_HEADERS, DRIPPING_BODY])
async def test_a_late_answer_is_dropped_and_its_thread_is_free_again(fault: Answer, asker: Asker) -> None:
    with FaultServer(fault) as server:
        source = asker.source(server.url, deadline_seconds=1.0)
        late = await asyncio.gather(*(source.query("up") for _ in range(8)))
        server.answer = document(CONTENT)

        after = await source.query("up")

    assert {answer.reason for answer in late if isinstance(answer, Missing)} == {Reason.SOURCE_UNREACHABLE}
    assert isinstance(after, Vector)
    assert source.outcomes == {"SourceUnreachable": 8, "ok": 1}


async def test_waiting_for_a_free_connection_counts_against_the_deadline(asker: Asker) -> None:
    with FaultServer(black_hole) as server:
        source = asker.source(server.url, deadline_seconds=0.3)
        began = time.monotonic()

        await asyncio.gather(*(source.query("up") for _ in range(80)))

        assert time.monotonic() - began < 3.0, "as long as 80 queries, eight at a time, of 0.3 s each"


async def test_a_hanging_source_does_not_slow_another_one(asker: Asker) -> None:
    with FaultServer(black_hole) as hanging, FaultServer(document(CONTENT)) as healthy:
        slow, quick = asker.source(hanging.url, deadline_seconds=20.0), asker.source(healthy.url, deadline_seconds=20.0)
        tasks = [asyncio.create_task(slow.query("up")) for _ in range(12)]

        answers = await asyncio.gather(*(quick.query("up") for _ in range(20)))

        assert not any(task.done() for task in tasks), "the other one still hangs"
        assert all(isinstance(answer, Vector) for answer in answers)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def test_retry_after_is_obeyed_without_asking_again(asker: Asker) -> None:
    with FaultServer(body(b"", status=429, Retry_After="30")) as server:
        source = asker.source(server.url)
        await source.query("up")

        result = await source.query("up")

    assert isinstance(result, Missing)
    assert result.reason is Reason.THROTTLED
    assert len(server.requests) == 1


async def test_a_wish_to_wait_outlives_another_failure_at_the_same_time(asker: Asker) -> None:
    throttled, failing = threading.Event(), body(b"", status=500)

    def answer(request: BaseHTTPRequestHandler) -> None:
        if "throttled" in request.path:
            body(b"", status=429, Retry_After="30")(request)
            throttled.set()
        else:
            throttled.wait(5)
            time.sleep(0.1)
            failing(request)

    with FaultServer(answer) as server:
        source = asker.source(server.url)
        await asyncio.gather(source.query("other"), source.query("throttled"))

        result = await source.query("up")

    assert isinstance(result, Missing)
    assert result.reason is Reason.THROTTLED


async def test_a_message_names_the_source_and_its_url_and_no_credentials(asker: Asker, tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("secret-in-file")
    with FaultServer(body(b"secret-in-body", status=500)) as server:
        url = server.url.replace("http://", "http://user:secret-in-url@") + "/prom?token=secret-in-query#secret"
        source = asker.source(url, bearer_token_file=token)
        answered = await source.query("up")
    refused = await source.query("up")
    late = await asker.source(url, deadline_seconds=1e-9).query("up")

    about = f'source "default" ({server.url}/prom): '
    for result in (answered, refused, late):
        assert isinstance(result, Missing)
        assert result.detail.startswith(about)
        assert "secret" not in result.detail
    assert isinstance(refused, Missing)
    assert refused.detail == about + "connection refused"
    assert "secret" not in repr(SourceConfig("default", url))


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("http://no-such-host.invalid:9090", "no-such-host.invalid:9090): "),
        ("http://127.0.0.1:1/" + "p" * 5000, "connection refused"),
        ("http://127.0.0.1:1/\x1b[31mred\nline", "connection refused"),
    ],
    ids=["no such host", "a long path", "control characters"],
)
async def test_a_message_is_one_short_line(url: str, says: str, asker: Asker) -> None:
    result = await asker.source(url).query("up")

    assert isinstance(result, Missing)
    assert says in result.detail
    assert len(result.detail) < 400
    assert "connection failed" not in result.detail
    assert "\n" not in result.detail


async def test_the_bearer_token_is_read_anew_for_every_query(asker: Asker, tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("first\n")
    with FaultServer(document(CONTENT)) as server:
        source = asker.source(server.url, bearer_token_file=token)
        await source.query("up")
        token.write_text("second")
        await source.query("up")
        token.unlink()
        result = await source.query("up")

    assert [headers["authorization"] for _, headers in server.requests] == ["Bearer first", "Bearer second"]
    assert isinstance(result, Missing)
    assert result.reason is Reason.UNAUTHORIZED


async def test_a_user_a_tenant_and_what_else_a_source_asks_for_are_sent(asker: Asker, tmp_path: Path) -> None:
    password = tmp_path / "password"
    password.write_text("open sesame\n".replace(" ", "-"))
    with FaultServer(document(CONTENT)) as server:
        source = asker.source(server.url, basic_auth=("reader", password), headers={"X-Scope-OrgID": "team-a|team-b"})
        await source.query("up")
        password.unlink()
        result = await source.query("up")

    ((_, headers),) = server.requests
    assert headers["authorization"] == "Basic " + base64.b64encode(b"reader:open-sesame").decode()
    assert headers["x-scope-orgid"] == "team-a|team-b"
    assert isinstance(result, Missing)
    assert result.reason is Reason.UNAUTHORIZED
    assert "password file: No such file" in result.detail


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"", "it is empty"),
        (b"\x00\xff\xfe", "it is no token"),
        (b"secret\r\nX-Other: header", "it is no token"),
        ("sécret".encode(), "it is no token"),
        (b"secret" * 10_000, "it is too long"),
        ("a folder", "it is no file"),
        ("a pipe", "it is no file"),
    ],
    ids=str,
)
async def test_a_bad_token_file_costs_its_own_source_only(
    content: bytes | str, why: str, asker: Asker, tmp_path: Path
) -> None:
    token = tmp_path / "token"
    if isinstance(content, bytes):
        token.write_bytes(content)
    else:
        (os.mkdir if content == "a folder" else os.mkfifo)(token)
    with FaultServer(document(CONTENT)) as server:
        result = await asker.source(server.url, bearer_token_file=token).query("up")
        other = await asker.source(server.url).query("up")

    assert isinstance(result, Missing)
    assert result.reason is Reason.UNAUTHORIZED
    assert result.detail.endswith(f"bearer token file: {why}")
    assert isinstance(other, Vector)
    assert [headers.get("authorization") for _, headers in server.requests] == [None]


async def test_proxies_of_the_environment_are_not_used(asker: Asker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    monkeypatch.setenv("no_proxy", "")
    with FaultServer(document(CONTENT)) as server:
        assert isinstance(await asker.source(server.url).query("up"), Vector)


@pytest.mark.parametrize(("tick_seconds", "deadline_seconds"), [(15.0, 7.5), (60.0, 10.0), (1.5, 0.75)])
def test_the_deadline_is_half_a_tick_and_at_most_ten_seconds(tick_seconds: float, deadline_seconds: float) -> None:
    assert query_deadline_seconds(tick_seconds) == deadline_seconds
