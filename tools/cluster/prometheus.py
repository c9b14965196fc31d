"""A real Prometheus on 127.0.0.1 that finds its targets over HTTP and can be stopped, emptied and started again.

Its port stays the same for life, so that what queries it sees an outage and not a new server. What it scrapes is the
caller's: it starts with no job.
"""

from __future__ import annotations

import json
import shutil
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

import yaml

from tools.cluster.ports import lease_port
from tools.cluster.process import Component
from tools.cluster.waiting import answers, wait_until

START_SECONDS = 15.0


@dataclass(frozen=True, slots=True)
class PrometheusOptions:
    """Times of one Prometheus, in seconds; fractions are allowed down to a millisecond.

    `discovery_interval_seconds` is the refresh of HTTP service discovery, and also the longest that the scraper holds
    back a change. `lookback_seconds` is how old a sample may be and still answer an instant query.

    NB: however short the refresh, Prometheus hands a changed list on only every 2.5 to 7.5 s: its throttle is a
    constant. A list should name a pod from the moment it has an address, as the Kubernetes discovery does, not from
    the moment it is ready.
    """

    scrape_interval_seconds: float = 1.0
    discovery_interval_seconds: float = 2.0
    lookback_seconds: float = 300.0


class Prometheus:
    """A server with its port, data and jobs: `start` it and `close` it at the end, or use it as a block."""

    def __init__(self, binary: Path, folder: Path, options: PrometheusOptions) -> None:
        self._binary, self._folder, self._options = binary, folder, options
        self._lease = lease_port()
        self._config = folder / "prometheus.yaml"
        self._data = folder / "prometheus-data"
        self._jobs: dict[str, dict[str, Any]] = {}
        self._scraping = True
        self._component: Component | None = None

    def __enter__(self) -> Prometheus:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def url(self) -> str:
        """Address of the server; the same after every restart."""
        return f"http://127.0.0.1:{self._lease.port}"

    @property
    def running(self) -> bool:
        """True while the server is up."""
        return self._component is not None and self._component.running

    @property
    def pid(self) -> int | None:
        """Process of the server; None while it is stopped."""
        return self._component.pid if self._component is not None else None

    def start(self) -> None:
        """Start the server and wait until it answers queries; its earlier data, if any, is still there."""
        self._write_config()
        component = Component("prometheus", self._arguments(), self._folder / "prometheus.log")
        self._component = component

        def ready() -> bool:
            component.require_running()
            return answers(f"{self.url}/-/ready")

        wait_until(ready, START_SECONDS, "Prometheus ready", poll_seconds=0.05)

    def begin_stop(self) -> None:
        """Ask the server to end without waiting."""
        if self._component is not None:
            self._component.begin_stop()

    def stop(self) -> None:
        """Stop the server; its port stays reserved and refuses connections."""
        if self._component is not None:
            self._component.stop()
            self._component = None

    def restart(self, *, empty: bool = False) -> None:
        """Stop and start; `empty` throws the stored samples away in between."""
        self.stop()
        if empty:
            shutil.rmtree(self._data, ignore_errors=True)
        self.start()

    def close(self) -> None:
        """Stop for good and give the port back."""
        self.stop()
        self._lease.release()

    def add_http_sd(self, url: str, *, job: str = "fleet", honor_labels: bool = False) -> None:
        """Scrape the targets that `url` lists (Prometheus HTTP service discovery), under the job name `job`.

        `honor_labels`: what a target says of a label counts more than what discovery says.
        """
        refresh = _duration(self._options.discovery_interval_seconds)
        self._jobs[job] = {
            "honor_labels": honor_labels,
            "http_sd_configs": [{"url": url, "refresh_interval": refresh}],
        }
        self._reload()

    def add_target(
        self,
        address: str,
        *,
        job: str,
        labels: Mapping[str, str] = MappingProxyType({}),
        path: str = "/metrics",
        honor_labels: bool = False,
    ) -> None:
        """Scrape one address (host and port) as the job `job`; its series get these labels.

        `honor_labels`: what the target says of a label counts more.
        """
        static = [{"targets": [address], "labels": dict(labels)}]
        self._jobs[job] = {"honor_labels": honor_labels, "metrics_path": path, "static_configs": static}
        self._reload()

    def pause_scraping(self) -> None:
        """Scrape nothing while queries are still answered, with what was collected before."""
        self._scraping = False
        self._reload()

    def resume_scraping(self) -> None:
        """Undo `pause_scraping`."""
        self._scraping = True
        self._reload()

    def query(self, expression: str) -> list[dict[str, Any]]:
        """The result of an instant query: `[{"metric": {...}, "value": [time, "1"]}, ...]`."""
        address = f"{self.url}/api/v1/query?{urllib.parse.urlencode({'query': expression})}"
        with urllib.request.urlopen(address, timeout=10) as response:
            result: list[dict[str, Any]] = json.load(response)["data"]["result"]
        return result

    def _arguments(self) -> list[str | Path]:
        return [
            self._binary,
            f"--config.file={self._config}",
            f"--storage.tsdb.path={self._data}",
            f"--web.listen-address=127.0.0.1:{self._lease.port}",
            "--web.enable-lifecycle",
            f"--query.lookback-delta={_duration(self._options.lookback_seconds)}",
            f"--scrape.discovery-reload-interval={_duration(self._options.discovery_interval_seconds)}",
            "--log.level=warn",
        ]

    def _write_config(self) -> None:
        interval = _duration(self._options.scrape_interval_seconds)
        jobs = [{"job_name": job} | where for job, where in self._jobs.items()]
        config = {
            "global": {"scrape_interval": interval, "scrape_timeout": interval, "evaluation_interval": interval},
            "scrape_configs": jobs if self._scraping else [],
        }
        self._config.write_text(yaml.safe_dump(config))

    def _reload(self) -> None:
        self._write_config()
        if self.running:
            request = urllib.request.Request(f"{self.url}/-/reload", method="POST")
            urllib.request.urlopen(request, timeout=10).close()


def _duration(seconds: float) -> str:
    """Prometheus knows no fractions of a unit."""
    return f"{round(seconds * 1000)}ms"
