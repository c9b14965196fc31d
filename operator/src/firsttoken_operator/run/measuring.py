"""Live metrics of every resource at one tick: each source is asked once, then every resource reads its own pods."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from firsttoken_operator.domain import Metrics, Reason
from firsttoken_operator.observe.collect import SourceReading, collect, unavailable
from firsttoken_operator.observe.freshness import MeasureSettings
from firsttoken_operator.observe.measure import measure
from firsttoken_operator.observe.prometheus import PrometheusSource, SourceConfig, query_deadline_seconds
from firsttoken_operator.observe.store import Store
from firsttoken_operator.observe.targets import target_name
from firsttoken_operator.run.settings import Settings
from firsttoken_sizing.workload import Percentile

_MEBIBYTE = 1024 * 1024


class Measuring:
    """All metric sources of the process."""

    def __init__(self, settings: Settings) -> None:
        timing = settings.timing
        self._settings = MeasureSettings(
            window_seconds=timing.rate_window_seconds,
            scrape_interval_seconds=timing.scrape_interval_seconds,
        )
        self._sources = {
            name: PrometheusSource(
                SourceConfig(
                    name=name,
                    url=source.url,
                    bearer_token_file=source.bearer_token_file,
                    certificate_authority_file=source.certificate_authority_file,
                    byte_cap=source.response_limit_mebibytes * _MEBIBYTE,
                ),
                deadline_seconds=query_deadline_seconds(timing.tick_seconds),
            )
            for name, source in settings.prometheus.items()
        }

    def outcomes(self) -> dict[tuple[str, str], int]:
        """Queries so far by source and outcome."""
        return {(name, outcome): n for name, source in self._sources.items() for outcome, n in source.outcomes.items()}

    def close(self) -> None:
        """Abandon what is under way."""
        for source in self._sources.values():
            source.close()

    async def metrics(self, store: Store, wall_seconds: float) -> Mapping[str, Metrics]:
        """Live metrics by uid of the resource, of those whose target exists. Never raises for a failing source."""
        readings = await self._read()
        measured: dict[str, Metrics] = {}
        for stored in store.resources.values():
            if stored.parsed is None:
                continue
            spec = stored.parsed.spec
            deployment = store.deployment(stored.namespace, target_name(stored.parsed))
            if deployment is None:
                continue
            source = spec.metrics.source
            reading = readings.get(source)
            if reading is None:
                text = f"no Prometheus is called {source!r}; the administrator names them in the chart"
                reading = unavailable(Reason.SOURCE_NOT_CONFIGURED, text)
            limit = spec.sla.time_to_first_token
            measured[stored.uid] = measure(
                reading,
                store.live_pods(deployment.uid, wall_seconds),
                limit.percentile if limit else Percentile.P95,
                self._settings,
            )
        return measured

    async def _read(self) -> dict[str, SourceReading]:
        readings = await asyncio.gather(
            *(collect(source, window_seconds=self._settings.window_seconds) for source in self._sources.values())
        )
        return dict(zip(self._sources, readings, strict=True))
