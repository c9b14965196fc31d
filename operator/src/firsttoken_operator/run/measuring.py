"""Live metrics of every resource at one tick: each source is asked once, then every resource reads its own pods."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import replace
from functools import partial

from firsttoken_operator.api.convert import limit_of
from firsttoken_operator.domain import Metrics, Missing, Reason
from firsttoken_operator.observe import arriving, gateway
from firsttoken_operator.observe.arriving import Arriving
from firsttoken_operator.observe.bounds import seconds_of
from firsttoken_operator.observe.collect import Collector, SourceReading, unavailable
from firsttoken_operator.observe.freshness import MeasureSettings
from firsttoken_operator.observe.measure import measure, nothing
from firsttoken_operator.observe.prometheus import PrometheusSource, SourceConfig, query_deadline_seconds
from firsttoken_operator.observe.store import Store
from firsttoken_operator.observe.targets import workload_of
from firsttoken_operator.run.reading import NoReading, SourceReader, read_all
from firsttoken_operator.run.settings import Settings
from firsttoken_sizing.workload import Limit

logger = logging.getLogger(__name__)

_MEBIBYTE = 1024 * 1024

Reading = tuple[SourceReading, gateway.GatewayReading]
"""Answers of the pods and the gateway of one source at one tick."""


def source_configs(settings: Settings) -> dict[str, SourceConfig]:
    """Make the configuration by which each source is reached, by its name."""
    return {
        name: SourceConfig(
            name=name,
            url=source.url,
            bearer_token_file=source.bearer_token_file,
            basic_auth=(source.basic_auth.username, source.basic_auth.password_file) if source.basic_auth else None,
            certificate_authority_file=source.certificate_authority_file,
            client_certificate=source.client_certificate,
            headers=source.headers,
            byte_cap=source.response_limit_mebibytes * _MEBIBYTE,
        )
        for name, source in settings.prometheus.items()
    }


class Measuring:
    """All metric sources of the process."""

    def __init__(self, settings: Settings) -> None:
        timing = settings.timing
        self._settings = MeasureSettings(
            window_seconds=timing.rate_window_seconds,
            scrape_interval_seconds=timing.scrape_interval_seconds,
        )
        self._configs = source_configs(settings)
        self._counters = {name: source.gateway_counter for name, source in settings.prometheus.items()}
        self._sources = {
            name: PrometheusSource(config, deadline_seconds=query_deadline_seconds(timing.tick_seconds))
            for name, config in self._configs.items()
        }
        self._collectors = {
            name: Collector(
                source,
                window_seconds=self._settings.window_seconds,
                recent_seconds=self._settings.longest_gap_seconds,
            )
            for name, source in self._sources.items()
        }
        self._ttft_seconds: Mapping[str, frozenset[float]] = {}
        """Times to the first token that are asked of each source, by its name."""
        self._answering: set[str] = set()
        """Sources that said something at the last tick: no other one is asked between two of them."""
        self._readers = {
            name: SourceReader(partial(self._read, name), _is_answer, time.monotonic) for name in self._sources
        }

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the sources."""
        return tuple(self._sources)

    def outcomes(self) -> dict[tuple[str, str], int]:
        """Queries so far by source and outcome."""
        return {(name, outcome): n for name, source in self._sources.items() for outcome, n in source.outcomes.items()}

    def close(self) -> None:
        """Abandon what is under way."""
        for reader in self._readers.values():
            reader.close()
        for source in self._sources.values():
            source.close()

    async def metrics(self, store: Store, wall_seconds: float) -> Mapping[str, Metrics]:
        """Live metrics by uid of the resource, of those whose target exists. Never raises for a failing source."""
        self._ttft_seconds = _judged(store)
        readings = await read_all(self._readers)
        self._answering = {name for name, found in readings.items() if not isinstance(found, NoReading)}
        measured: dict[str, Metrics] = {}
        for stored in store.resources.values():
            if stored.parsed is None:
                continue
            spec = stored.parsed.spec
            scaled = workload_of(store, stored.parsed)
            if scaled is None:
                continue
            name = spec.metrics.source
            found = readings.get(name, NoReading.MISSING)
            pods, gateway_reading = self._unread(name) if isinstance(found, NoReading) else found
            try:
                measured[stored.uid] = replace(
                    measure(
                        pods,
                        store.live_pods(scaled.uid, wall_seconds),
                        limit_of(spec.sla.time_to_first_token),
                        self._settings,
                        spec.metrics.model_name or "",
                    ),
                    gateway_arrivals=gateway.arrivals(gateway_reading, (stored.namespace, scaled.name), self._settings),
                    awaited=found is NoReading.AWAITED,
                )
            except Exception:
                # What one tenant's pods expose must not keep all the others from being decided.
                logger.exception("measuring %s/%s failed", stored.namespace, stored.name)
                unreadable = Missing(Reason.BAD_RESPONSE, "the metrics of its pods cannot be read")
                measured[stored.uid] = nothing(unreadable, self._settings.window_seconds)
        return measured

    async def _read(self, name: str) -> Reading:
        asked = gateway.ask(self._sources[name], self._counters[name], self._settings)
        return await asyncio.gather(self._collectors[name].read(self._ttft_seconds.get(name, frozenset())), asked)

    async def arriving(self, name: str) -> Arriving:
        """Ask one source what arrives now, if it answered last; of any other nothing does."""
        if name not in self._answering:
            return Arriving()
        counter, window = self._counters[name], self._settings.window_seconds
        return await arriving.ask(self._sources[name], self._collectors[name].present, counter, window)

    def _unread(self, name: str) -> Reading:
        """Stand in for a source that was not asked, or has not answered."""
        if name in self._readers:
            # NB: without for how long: another text at every outage would be another Event.
            why = Missing(Reason.SOURCE_UNREACHABLE, f"{self._configs[name].about}: no answer in time")
        else:
            text = f"no Prometheus is called {name!r}; the administrator names them in the chart"
            why = Missing(Reason.SOURCE_NOT_CONFIGURED, text)
        return unavailable(why.reason, why.detail), gateway.GatewayReading(failure=why)


def _judged(store: Store) -> Mapping[str, frozenset[float]]:
    """Times to the first token around which buckets are needed, by the source of the resources that judge them."""
    limits = defaultdict[str, set[Limit | None]](set)
    for stored in store.resources.values():
        if stored.parsed is not None:
            limits[stored.parsed.spec.metrics.source].add(limit_of(stored.parsed.spec.sla.time_to_first_token))
    return {source: seconds_of(found) for source, found in limits.items()}


def _is_answer(reading: Reading) -> bool:
    """Tell whether any query reached the source."""
    pods, _ = reading
    unreachable = [failure.reason is Reason.SOURCE_UNREACHABLE for failure in pods.failures]
    return bool(pods.up or pods.pods) or not unreachable or not all(unreachable)
