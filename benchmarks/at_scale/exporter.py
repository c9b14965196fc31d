"""Exporter of what both autoscalers read, a process of its own: `python -m at_scale.exporter PORT`.

Ours reads the series that vLLM publishes of every pod, KEDA one gauge of every workload: `workload_load`, its load as a
multiple of what nearly fills its pods. What is posted changes it: workloads, pods, a factor of the load, noise.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import chain
from typing import Any

import numpy as np

from at_scale.traffic import Traffic
from firsttoken_operator.families.family import Metric
from firsttoken_operator.families.vllm import PROMPT_TOKENS, REQUEST_OUTPUT, TTFT, VLLM

EARLY_SECONDS, USUAL_SECONDS = 0.1, 0.25
EARLY_SHARE, USUAL_SHARE = 0.3, 0.97
"""Shares of the first tokens that come by then; all come by the next bound. Every limit of the rig is above it."""
MEAN_TTFT_SECONDS = 0.15
SECONDS_OF_A_REQUEST = 1.92
KV_USAGE = 0.3
LOAD_FIGURE = "workload_load"
_FINISHED = VLLM.series(Metric.FINISHED)
_BOUNDS = VLLM.series(Metric.TTFT).bounds


def _share_by(bound: float) -> float:
    if bound < EARLY_SECONDS:
        return 0.0
    if bound < USUAL_SECONDS:
        return EARLY_SHARE
    return USUAL_SHARE if bound == USUAL_SECONDS else 1.0


def _columns() -> list[tuple[str, str, float]]:
    """Series of a pod: its name, labels of its own, and what a served request adds to it (0: a gauge)."""
    buckets = [(f"{TTFT}_bucket", f'le="{bound}",', _share_by(bound)) for bound in _BOUNDS]
    return [
        *buckets,
        (f"{TTFT}_bucket", 'le="+Inf",', 1.0),
        (f"{TTFT}_sum", "", MEAN_TTFT_SECONDS),
        (f"{TTFT}_count", "", 1.0),
        (_FINISHED.name, f'{_FINISHED.label}="stop",', 1.0),
        (_FINISHED.name, f'{_FINISHED.label}="error",', 0.0),
        (PROMPT_TOKENS, "", 1.0),
        (f"{REQUEST_OUTPUT}_sum", "", 1.0),
        (f"{REQUEST_OUTPUT}_count", "", 1.0),
        (VLLM.series(Metric.RUNNING).name, "", 0.0),
        (VLLM.series(Metric.WAITING).name, "", 0.0),
        (VLLM.series(Metric.KV_USAGE).name, "", 0.0),
        ("up", "", 0.0),
    ]


COLUMNS = _columns()
GAUGES = 4
"""Columns at the end that do not grow."""
_NAMES = [name for name, _, _ in COLUMNS]
_PROMPTS, _OUTPUTS = _NAMES.index(PROMPT_TOKENS), _NAMES.index(f"{REQUEST_OUTPUT}_sum")
"""Columns that grow by the tokens of a request."""


class Page:
    """Text of all series, and the state behind it."""

    def __init__(self) -> None:
        self._traffic = Traffic((), time.monotonic())
        self._workloads: list[dict[str, Any]] = []
        self._pods: set[tuple[str, str]] = set()
        self._lines: list[str] = []
        self._growth = np.zeros((0, len(COLUMNS) - GAUGES))
        """Growth of each column by a request, a row a pod."""
        self.scrapes: list[float] = []
        """Times at which it was read, of the machine's monotonic clock."""

    def take(self, said: dict[str, Any]) -> list[float]:
        """Change what is said; for a change of the load the instant of each workload's own."""
        now = time.monotonic()
        if "workloads" in said:
            self._workloads = said["workloads"]
            self._traffic = Traffic([each["rate"] * each["pods"] for each in self._workloads], now)
        if "pods" in said:
            self._add([(namespace, name, number) for namespace, name, number in said["pods"]], now)
        if "noisy" in said:
            self._traffic.is_noisy = said["noisy"]
        return self._traffic.change(said["factor"], now, said["spread"]) if "factor" in said else []

    def text(self, *, pods: bool) -> str:
        """The page: of every pod, or of every workload."""
        self.scrapes.append(time.monotonic())
        self._traffic.advance(self.scrapes[-1])
        if not pods:
            loads = zip(self._workloads, self._traffic.loads().tolist(), strict=True)
            return "".join(
                f'{LOAD_FIGURE}{{namespace="{of["namespace"]}",deployment="{of["name"]}"}} {load * of["pods"]}\n'
                for of, load in loads
            )
        served = np.floor(self._traffic.served)
        grown = np.floor(served[:, None] * self._growth)
        running = np.round(self._traffic.pod_rates() * SECONDS_OF_A_REQUEST, 2)
        ones = np.ones(len(served))
        gauges = np.column_stack([running, 0 * ones, KV_USAGE * ones, ones])
        values = map("%.12g\n".__mod__, np.concatenate([grown, gauges], axis=1).ravel().tolist())
        return "".join(chain.from_iterable(zip(self._lines, values, strict=True)))

    def _add(self, pods: list[tuple[str, str, int]], now: float) -> None:
        new = [pod for pod in dict.fromkeys(pods) if pod[:2] not in self._pods]
        self._pods.update(pod[:2] for pod in new)
        for namespace, name, _ in new:
            place = f'namespace="{namespace}",pod="{name}"'
            own = f'engine="0",model_name="model",{place}'
            self._lines += [f"{name}{{{labels}{place if name == 'up' else own}}} " for name, labels, _ in COLUMNS]
        growth = np.tile([growth for _, _, growth in COLUMNS[:-GAUGES]], (len(new), 1))
        for row, (_, _, number) in zip(growth, new, strict=True):
            row[_PROMPTS], row[_OUTPUTS] = self._workloads[number]["tokens"]
        self._growth = np.concatenate([self._growth, growth])
        self._traffic.add_pods([number for _, _, number in new], now)


def serve(port: int) -> None:
    """Serve until the process ends."""
    page, lock = Page(), threading.Lock()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            with lock:
                answer = json.dumps(page.scrapes) if self.path == "/scrapes" else page.text(pods=self.path != "/loads")
            self._answer(answer, "text/plain; version=0.0.4")

        def do_POST(self) -> None:
            said = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            with lock:
                answer = json.dumps(page.take(said))
            self._answer(answer, "application/json")

        def log_message(self, *_: object) -> None:
            """Say nothing of each request."""

        def _answer(self, text: str, kind: str) -> None:
            body = text.encode()
            self.send_response(200)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

    ThreadingHTTPServer(("127.0.0.1", port), Handler).serve_forever()


if __name__ == "__main__":
    serve(int(sys.argv[1]))
