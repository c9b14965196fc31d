"""The rig itself: what is not injected passes unchanged, and each fault arrives at the client as itself."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
import requests

from tests.faults.actions import (
    Answer,
    Delay,
    Drip,
    Hang,
    Kill,
    Reordered,
    Reset,
    Rewrite,
    Snapshot,
    Truncate,
    WatchError,
    WatchEvents,
    dropped,
    refused,
    repeated,
)
from tests.faults.proxy import Action, FaultProxy


class Server:
    """Counts what it is asked, and streams three events to a watch."""

    def __init__(self) -> None:
        server = self
        self.asked: list[tuple[str, str, bytes]] = []
        self.headers: dict[str, str] = {}

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length", "0")))
                server.asked.append((self.command, self.path, body))
                server.headers = dict(self.headers)
                self.send_response(200)
                self.send_header("X-Server", "real")
                if "watch=" in self.path:
                    self.send_header("Transfer-Encoding", "chunked")
                    self.end_headers()
                    for number in range(3):
                        line = json.dumps({"type": "MODIFIED", "object": {"number": number}}).encode() + b"\n"
                        self.wfile.write(b"%x\r\n%s\r\n" % (len(line), line))
                    self.wfile.write(b"0\r\n\r\n")
                    return
                answer = f"answer {len(server.asked)}".encode()
                self.send_header("Content-Length", str(len(answer)))
                self.end_headers()
                self.wfile.write(answer)

            do_PATCH = do_GET

            def log_message(self, *_: object) -> None:
                pass

        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.http.daemon_threads = True
        self.http.block_on_close = False
        threading.Thread(target=self.http.serve_forever, args=(0.05,), daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.http.server_port}"


@pytest.fixture(scope="module")
def served() -> Iterator[tuple[Server, FaultProxy]]:
    server = Server()
    with FaultProxy(server.url) as proxy:
        yield server, proxy
    server.http.shutdown()
    server.http.server_close()


@pytest.fixture
def server(served: tuple[Server, FaultProxy]) -> Server:
    return served[0]


@pytest.fixture
def proxy(served: tuple[Server, FaultProxy]) -> FaultProxy:
    return served[1]


def ask(proxy: FaultProxy, path: str = "/x", method: str = "GET", **options: Any) -> requests.Response:
    with requests.Session() as session:
        session.trust_env = False
        return session.request(method, proxy.url + path, timeout=options.pop("timeout", 5), **options)


def numbers(answer: requests.Response) -> list[int]:
    return [json.loads(line)["object"]["number"] for line in answer.text.splitlines()]


def test_a_request_passes_whole_and_is_logged(server: Server, proxy: FaultProxy) -> None:
    before = len(proxy.log)
    answer = ask(proxy, "/a%2Fb?q=x%26y", "PATCH", data=b"body", headers={"Authorization": "Bearer t", "Accept": "x/y"})

    assert (answer.status_code, answer.headers["X-Server"]) == (200, "real")
    assert server.asked[-1] == ("PATCH", "/a%2Fb?q=x%26y", b"body")
    assert (server.headers["Authorization"], server.headers["Accept"]) == ("Bearer t", "x/y")
    (entry,) = proxy.since(before)
    assert (entry.number, entry.method, entry.status, entry.body) == (before + 1, "PATCH", 200, b"body")
    assert entry.is_write
    assert entry.forwarded
    assert not entry.is_watch
    assert entry.fault is None


def test_a_fault_meets_the_requests_it_is_for(proxy: FaultProxy) -> None:
    with proxy.injecting(Answer(418), method="PATCH", path="/scale$", after=1, times=2) as fault:
        codes = [ask(proxy, "/d/scale", "PATCH").status_code for _ in range(4)]
        others = [ask(proxy, "/d/scale").status_code, ask(proxy, "/scale/d", "PATCH").status_code]

    assert codes == [200, 418, 418, 200]
    assert others == [200, 200]
    assert [entry.forwarded for entry in fault.entries] == [False, False]


def test_a_fault_that_met_nothing_fails_the_test(proxy: FaultProxy) -> None:
    with pytest.raises(AssertionError, match="changed no answer"), proxy.injecting(Answer(500), path="/other"):
        ask(proxy)


@pytest.mark.parametrize(
    "action",
    [Snapshot(), WatchEvents(lambda event: [event]), Rewrite(lambda body: body)],
    ids=lambda each: type(each).__name__,
)
def test_a_fault_that_changed_nothing_fails_the_test(proxy: FaultProxy, action: Action) -> None:
    with pytest.raises(AssertionError, match="1 were met"), proxy.injecting(action):
        assert ask(proxy, "/x?watch=true").text.count("MODIFIED") == 3


def test_a_refusal_says_when_to_come_back(proxy: FaultProxy) -> None:
    with proxy.injecting(refused(429, "slow down", retry_after_seconds=7)):
        answer = ask(proxy)

    assert (answer.status_code, answer.headers["Retry-After"], answer.json()["code"]) == (429, "7", 429)


@pytest.mark.parametrize(("forwarding", "reached"), [(False, 0), (True, 1)])
def test_a_reset_comes_before_or_after_the_server_had_it(
    server: Server, proxy: FaultProxy, forwarding: bool, reached: int
) -> None:
    before = len(server.asked)
    with proxy.injecting(Reset(forwarding=forwarding)), pytest.raises(requests.ConnectionError):
        ask(proxy)

    assert len(server.asked) == before + reached


@pytest.mark.parametrize("forwarding", [False, True])
def test_a_kill_happens_once_before_or_after_the_write(server: Server, proxy: FaultProxy, forwarding: bool) -> None:
    killed: list[int] = []
    action = Kill(lambda: killed.append(len(server.asked)), forwarding=forwarding)
    before = len(server.asked)
    with proxy.injecting(action, method="PATCH"), pytest.raises(requests.ConnectionError):
        ask(proxy, method="PATCH")

    assert action.done.wait(1)
    assert killed == [before + forwarding]


def test_a_hang_ends_at_the_client_s_deadline(server: Server, proxy: FaultProxy) -> None:
    before = len(server.asked)
    with proxy.injecting(Hang()), pytest.raises(requests.Timeout):
        ask(proxy, timeout=0.3)

    assert len(server.asked) == before


def test_a_delay_and_a_drip_take_their_time(proxy: FaultProxy) -> None:
    def seconds(action: Action) -> float:
        began = time.monotonic()
        with proxy.injecting(action):
            assert ask(proxy).text.startswith("answer")
        return time.monotonic() - began

    assert seconds(Delay(0.3)) >= 0.3
    assert seconds(Drip(bytes_per_second=40)) >= 0.2


def test_a_truncated_answer_is_an_error(proxy: FaultProxy) -> None:
    with proxy.injecting(Truncate(3)), pytest.raises(requests.RequestException):
        ask(proxy)


def test_an_answer_is_rewritten(proxy: FaultProxy) -> None:
    with proxy.injecting(Rewrite(lambda body: body.upper() + b"!" * 100_000)):
        assert ask(proxy).text.startswith("ANSWER")


@pytest.mark.parametrize(
    ("change", "seen"), [(dropped, []), (repeated, [0, 0, 0, 1, 1, 1, 2, 2, 2]), (Reordered(), [1, 0])]
)
def test_watch_events_are_lost_repeated_or_out_of_order(proxy: FaultProxy, change: Any, seen: list[int]) -> None:
    with proxy.injecting(WatchEvents(change), watch=True):
        assert numbers(ask(proxy, "/x?watch=true")) == seen


def test_a_watch_ends_with_an_error_event(proxy: FaultProxy) -> None:
    with proxy.injecting(WatchError(410), watch=True):
        event = json.loads(ask(proxy, "/x?watch=true").text)

    assert (event["type"], event["object"]["code"]) == ("ERROR", 410)


def test_a_snapshot_is_as_old_as_its_first_answer(proxy: FaultProxy) -> None:
    with proxy.injecting(Snapshot()):
        answers = {ask(proxy).text for _ in range(3)}

    assert len(answers) == 1
    assert ask(proxy).text not in answers


def test_a_server_that_is_gone_resets_the_client() -> None:
    with FaultProxy("http://127.0.0.1:1") as proxy, pytest.raises(requests.ConnectionError):
        ask(proxy)
