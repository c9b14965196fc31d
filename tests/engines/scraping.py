"""A real Prometheus that scrapes real servers as the pods of these names."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.operator.observe.exporter import NAMESPACE
from tools.cluster import Prometheus, PrometheusOptions
from tools.engines.server import Server


@contextmanager
def scraping(control_plane: Path, folder: Path, **pods: Server) -> Iterator[Prometheus]:
    """Scrape each server every half second."""
    options = PrometheusOptions(scrape_interval_seconds=0.5, discovery_interval_seconds=0.2)
    with Prometheus(control_plane / "prometheus", folder, options) as running:
        for pod, server in pods.items():
            running.add_target(server.metrics_address, job=pod, labels={"namespace": NAMESPACE, "pod": pod})
        yield running


def counted(prometheus: Prometheus, series: str) -> float:
    """The newest value of a counter, over all its labels."""
    return sum(float(element["value"][1]) for element in prometheus.query(series))
