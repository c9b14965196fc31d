"""Pods with steady traffic for a real Prometheus: service discovery at `/targets/<job>`, metrics by pod.

Counters are a function of the time since the exporter began, so that rates are known exactly and never drift.
"""

from __future__ import annotations

import contextlib
import json
import threading
import time
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

NAMESPACE = "call-center"
GATEWAY = "gateway-0"
TTFT_SECONDS = 0.29
INPUT_TOKENS, OUTPUT_TOKENS = 700, 90
BOUNDS = ("0.001", "0.1", "0.25", "0.5", "1.0", "10.0", "+Inf")


@dataclass
class ExportedPod:
    """Pod and what it exposes. Two `engines` share the load; `kv_metric` is the name of the KV gauge."""

    prefix: str
    requests_per_second: float
    waiting_growth_per_second: float = 0.0
    failed_per_second: float = 0.0
    engines: int = 1
    kv_metric: str = "gpu_cache_usage_perc"
    running: float = 3.0
    answers: bool = True
    refusals: int = 0
    """Number of the next scrapes that fail, each after `refusal_seconds`."""
    refusal_seconds: float = 0.0

    def render(self, seconds: float) -> str:
        lines: list[str] = []
        for engine in range(self.engines):
            labels = 'model_name="m"' + (f',engine="{engine}"' if self.prefix else "")
            served = self.requests_per_second * seconds / self.engines
            failed = self.failed_per_second * seconds / self.engines
            p, ttft = self.prefix, f"{self.prefix}time_to_first_token_seconds"
            for bound in BOUNDS:
                inside = served if float(bound) >= TTFT_SECONDS else 0.0
                lines.append(f'{ttft}_bucket{{{labels},le="{bound}"}} {inside}')
            lines += [
                f"{ttft}_count{{{labels}}} {served}",
                f"{ttft}_sum{{{labels}}} {served * TTFT_SECONDS}",
                f"{p}prompt_tokens_total{{{labels}}} {served * INPUT_TOKENS}",
                f"{p}request_prompt_tokens_sum{{{labels}}} {served * INPUT_TOKENS}",
                f"{p}request_prompt_tokens_count{{{labels}}} {served}",
                f"{p}request_generation_tokens_sum{{{labels}}} {served * OUTPUT_TOKENS}",
                f"{p}request_generation_tokens_count{{{labels}}} {served}",
                f"{p}num_requests_waiting{{{labels}}} {self.waiting_growth_per_second * seconds / self.engines}",
                f"{p}num_requests_running{{{labels}}} {self.running / self.engines}",
                f"{p}{self.kv_metric}{{{labels}}} {0.5 + 0.25 * engine}",
            ]
            if self.prefix:
                lines += [
                    f'{p}request_success_total{{{labels},finished_reason="stop"}} {served / 2}',
                    f'{p}request_success_total{{{labels},finished_reason="length"}} {served / 2}',
                    f'{p}request_success_total{{{labels},finished_reason="error"}} {failed}',
                ]
            else:
                lines += [
                    f"request_success_total{{{labels}}} {served}",
                    f"request_failure_total{{{labels}}} {failed}",
                ]
        return "\n".join(lines) + "\n"


@dataclass
class HostilePod(ExportedPod):
    """Exposes everything once more for each of `labels` and each of two values of it, as any tenant may."""

    labels: tuple[str, ...] = ()

    def render(self, seconds: float) -> str:
        lines = [f'{self.prefix}time_to_first_token_seconds_bucket{{le="{"A" * 1_200_000}"}} 1']
        for line in super().render(seconds).splitlines():
            name, _, rest = line.partition("{")
            lines += [line, *(f"{name}{{{more},{rest}" for more in self._more(rest))]
        return "\n".join(lines) + "\n"

    def _more(self, there: str) -> list[str]:
        return [f'{label}="{value}"' for label in self.labels for value in ("1", "2") if f"{label}=" not in there]


@dataclass
class ExportedGateway:
    """A gateway that counts the requests for each backend; `code` is a label that has to be added up."""

    requests_per_second: dict[str, float]
    answers: bool = True
    refusals: int = 0
    refusal_seconds: float = 0.0

    def render(self, seconds: float) -> str:
        return "".join(
            f'gateway_requests_started_total{{backend_namespace="{NAMESPACE}",deployment="{name}",code="{code}"}} '
            f"{rate * seconds / 2}\n"
            for name, rate in self.requests_per_second.items()
            for code in ("200", "500")
        )


@dataclass
class Exporter:
    """Serves all pods from one port; use as a context manager."""

    pods: dict[str, ExportedPod]
    gateway: ExportedGateway = field(default_factory=lambda: ExportedGateway({}))
    began: float = field(default_factory=time.monotonic)

    def __enter__(self) -> Exporter:
        exporter = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                kind, _, name = self.path.lstrip("/").partition("/")
                content = exporter.targets(name) if kind == "targets" else exporter.metrics(name)
                self.send_response(503 if content is None else 200)
                self.send_header("Content-Type", "application/json" if kind == "targets" else "text/plain")
                self.send_header("Content-Length", str(len(content or b"")))
                self.end_headers()
                # One that was late is not waited for.
                with contextlib.suppress(BrokenPipeError):
                    self.wfile.write(content or b"")

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._server.block_on_close = False
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    def discovery_url(self, job: str) -> str:
        return f"http://127.0.0.1:{self._server.server_port}/targets/{job}"

    def targets(self, job: str) -> bytes:
        address = f"127.0.0.1:{self._server.server_port}"
        shared = {"namespace": NAMESPACE, "monitor": job}
        targets = [
            {"targets": [address], "labels": {**shared, "pod": name, "__metrics_path__": f"/pods/{name}"}}
            for name in self.pods
        ]
        labels = {"namespace": "gateways", "pod": GATEWAY, "__metrics_path__": f"/pods/{GATEWAY}"}
        targets.append({"targets": [address], "labels": labels})
        return json.dumps(targets).encode()

    def metrics(self, name: str) -> bytes | None:
        pod = self.gateway if name == GATEWAY else self.pods[name]
        if pod.refusals:
            pod.refusals -= 1
            time.sleep(pod.refusal_seconds)
            return None
        return pod.render(time.monotonic() - self.began).encode() if pod.answers else None
