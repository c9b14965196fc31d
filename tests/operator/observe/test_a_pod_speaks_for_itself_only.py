"""A pod that says that it is another one is believed by a Prometheus that honors labels, and by no other."""

from __future__ import annotations

import asyncio
import math
import time
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import pytest

from firsttoken_operator.domain import Value
from firsttoken_operator.observe.collect import Collector
from firsttoken_operator.observe.freshness import LivePod, MeasureSettings
from firsttoken_operator.observe.measure import measure
from firsttoken_operator.observe.prometheus import PrometheusSource, SourceConfig
from tests.operator.observe.exporter import NAMESPACE, ExportedPod, Exporter
from tools.cluster import Prometheus, PrometheusOptions

pytestmark = pytest.mark.cluster

SETTINGS = MeasureSettings(window_seconds=2.0, scrape_interval_seconds=0.25)
OWN_RATE, FORGED_RATE = 40.0, 400.0
DEADLINE_SECONDS = 60.0


@dataclass
class LyingPod(ExportedPod):
    """Says of its load that it is another pod's."""

    said: str = ""

    def render(self, seconds: float) -> str:
        forged = f'namespace="{NAMESPACE}",pod="{self.said}",model_name="forged"'
        return super().render(seconds).replace('model_name="m"', forged)


@pytest.mark.parametrize(
    ("honor_labels", "expected"),
    [(False, {"own": OWN_RATE, "liar": FORGED_RATE}), (True, {"own": OWN_RATE + FORGED_RATE, "liar": math.nan})],
    ids=["own words renamed", "own words honored"],
)
async def test_what_a_pod_says_that_it_is_counts_where_the_scrape_configuration_honors_it(
    honor_labels: bool, expected: dict[str, float], control_plane: Path, tmp_path: Path
) -> None:
    """`honor_labels: true` is what docs/security.md warns of: any tenant then scales any other."""
    pods = {"own": ExportedPod("vllm:", OWN_RATE), "liar": LyingPod("vllm:", FORGED_RATE, said="own")}
    options = PrometheusOptions(scrape_interval_seconds=0.25, discovery_interval_seconds=0.2)
    ends, found = time.monotonic() + DEADLINE_SECONDS, dict[str, float]()
    with (
        Exporter(pods) as exporter,
        Prometheus(control_plane / "prometheus", tmp_path, options) as server,
        closing(PrometheusSource(SourceConfig("default", server.url), deadline_seconds=5.0)) as source,
    ):
        server.add_http_sd(exporter.discovery_url("pods"), honor_labels=honor_labels)
        while found != pytest.approx(expected, rel=0.1, nan_ok=True):
            assert time.monotonic() < ends, found
            await asyncio.sleep(0.1)
            found = {name: await first_tokens(source, name) for name in pods}


async def first_tokens(source: PrometheusSource, name: str) -> float:
    """First tokens a second that the operator reads of a pod; NaN where nothing is known of it."""
    times = {"window_seconds": SETTINGS.window_seconds, "recent_seconds": SETTINGS.longest_gap_seconds}
    measured = measure(await Collector(source, **times).read(), [LivePod(NAMESPACE, name, 3600.0)], None, SETTINGS)
    return measured.first_tokens.value if isinstance(measured.first_tokens, Value) else math.nan
