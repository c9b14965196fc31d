"""An HTTP server on a free loopback port that answers queries in one chosen wrong (or right) way."""

from __future__ import annotations

import contextlib
import json
import threading
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

Answer = Callable[[BaseHTTPRequestHandler], None]


class FaultServer:
    """`answer` may be exchanged at any time; `requests` are the paths and headers that arrived."""

    def __init__(self, answer: Answer) -> None:
        self.answer = answer
        self.requests: list[tuple[str, dict[str, str]]] = []
        self.stopping = threading.Event()
        owner = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                owner.requests.append((self.path, {key.lower(): value for key, value in self.headers.items()}))
                with contextlib.suppress(OSError):
                    owner.answer(self)

            def do_POST(self) -> None:
                asked = self.rfile.read(int(self.headers["Content-Length"]))
                self.path += f"?{asked.decode()}"
                self.do_GET()

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._server.block_on_close = False
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> FaultServer:
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stopping.set()
        self._server.shutdown()
        self._server.server_close()


def body(content: bytes, *, status: int = 200, **headers: str) -> Answer:
    def answer(request: BaseHTTPRequestHandler) -> None:
        request.send_response(status)
        request.send_header("Content-Length", str(len(content)))
        for name, value in headers.items():
            request.send_header(name.replace("_", "-"), value)
        request.end_headers()
        request.wfile.write(content)

    return answer


def document(value: object) -> Answer:
    return body(json.dumps(value).encode())


def vector(*samples: tuple[dict[str, str], str], **extra: object) -> dict[str, object]:
    result = [{"metric": labels, "value": [1_700_000_000.5, value]} for labels, value in samples]
    return {"status": "success", "data": {"resultType": "vector", "result": result}, **extra}


def black_hole(request: BaseHTTPRequestHandler) -> None:
    time.sleep(5)


def dripping(start: bytes, drop: bytes, *, drops: int = 500, pause_seconds: float = 0.02) -> Answer:
    """Sends raw bytes slowly: no single read is late, the whole answer is."""

    def answer(request: BaseHTTPRequestHandler) -> None:
        request.wfile.write(start)
        for _ in range(drops):
            request.wfile.write(drop)
            request.wfile.flush()
            time.sleep(pause_seconds)

    return answer
