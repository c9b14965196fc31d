"""Truth about every request, as only an emulator can know it.

The operator never sees this: it is what a run is judged by. Attainment is the share of requests inside every limit
that was declared with a percentile; one on the mean judges no single one. A failed request is outside every limit.
"""

from __future__ import annotations

import json
from array import array
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from firsttoken_sizing.workload import Percentile, Sla


@dataclass(slots=True)
class RequestRecord:
    """One request from its arrival at the gateway. Latencies are seconds from then on; None: it never got there."""

    arrival_seconds: float
    input_tokens: int
    output_tokens: int
    pod: str = ""
    ttft_seconds: float | None = None
    e2e_seconds: float | None = None
    ok: bool | None = None
    """None while it is in flight."""
    error: str = ""
    real: bool = False
    """True: a real server answered it."""

    @property
    def itl_seconds(self) -> float | None:
        """Mean time between two tokens; None for one token or a request that did not finish."""
        if self.ttft_seconds is None or self.e2e_seconds is None or self.output_tokens < 2:
            return None
        return (self.e2e_seconds - self.ttft_seconds) / (self.output_tokens - 1)

    def as_json(self, origin_seconds: float) -> dict[str, Any]:
        """One line of the export; the arrival counts from `origin_seconds`."""
        return {
            "arrival_seconds": round(self.arrival_seconds - origin_seconds, 6),
            "pod": self.pod,
            "ttft_seconds": None if self.ttft_seconds is None else round(self.ttft_seconds, 6),
            "e2e_seconds": None if self.e2e_seconds is None else round(self.e2e_seconds, 6),
            "input_tokens": self.input_tokens,
            "output_tokens": self.output_tokens,
            "ok": self.ok,
            "error": self.error,
            **({"real": True} if self.real else {}),
        }


_LATENCIES = ("ttft_seconds", "itl_seconds", "e2e_seconds")
"""Latencies of a record, in the order of the limits."""


class Truth:
    """Every request of a run and the running score."""

    def __init__(self, sla: Sla, recent_seconds: float = 10.0) -> None:
        """Judge by `sla`; "recent" figures look back `recent_seconds`."""
        self.records: list[RequestRecord] = []
        self.recent_seconds = recent_seconds
        self.ended = 0
        self.failed = 0
        self.attained = 0
        limits = zip((sla.time_to_first_token, sla.inter_token_latency, sla.end_to_end), _LATENCIES, strict=True)
        self._limits = [
            (limit.milliseconds, latency)
            for limit, latency in limits
            if limit is not None and limit.percentile is not Percentile.MEAN
        ]
        self._recent_ttft: deque[tuple[float, float]] = deque()
        self._recent_arrivals: deque[float] = deque()

    def arrived(self, record: RequestRecord) -> None:
        """Book a request that the gateway took."""
        self.records.append(record)
        self._recent_arrivals.append(record.arrival_seconds)

    def first_token(self, record: RequestRecord, at_seconds: float) -> None:
        """Book the first token."""
        record.ttft_seconds = at_seconds - record.arrival_seconds
        self._recent_ttft.append((at_seconds, record.ttft_seconds))

    def finished(self, record: RequestRecord, at_seconds: float) -> None:
        """Book the last token and judge the request."""
        record.e2e_seconds = at_seconds - record.arrival_seconds
        record.ok = True
        self.ended += 1
        # A record has no inter-token latency where there was a single token.
        self.attained += all(1000 * (getattr(record, name) or 0.0) <= most for most, name in self._limits)

    def lost(self, record: RequestRecord, error: str) -> None:
        """Book a failure."""
        record.ok = False
        record.error = error
        self.ended += 1
        self.failed += 1

    @property
    def in_flight(self) -> int:
        """Requests that arrived and have not ended, those at the gateway included."""
        return len(self.records) - self.ended

    @property
    def attainment_percent(self) -> float | None:
        """Share of the ended requests inside every percentile limit; None before the first one ended."""
        return 100.0 * self.attained / self.ended if self.ended else None

    def stats(self, now_seconds: float, elapsed_seconds: float) -> dict[str, Any]:
        """The score so far and the recent past, for a live table; the traffic began `elapsed_seconds` ago."""
        since = now_seconds - self.recent_seconds
        while self._recent_ttft and self._recent_ttft[0][0] < since:
            self._recent_ttft.popleft()
        while self._recent_arrivals and self._recent_arrivals[0] < since:
            self._recent_arrivals.popleft()
        window = min(self.recent_seconds, elapsed_seconds)
        ttft = np.array([value for _, value in self._recent_ttft])
        return {
            "arrived": len(self.records),
            "ended": self.ended,
            "failed": self.failed,
            "inFlight": self.in_flight,
            "attainmentPercent": self.attainment_percent,
            "recentSeconds": self.recent_seconds,
            "arrivedRequestsPerSecond": len(self._recent_arrivals) / window if window > 0 else 0.0,
            "ttftP95Milliseconds": float(np.percentile(ttft, 95)) * 1000 if ttft.size else None,
            "ttftMeanMilliseconds": float(ttft.mean()) * 1000 if ttft.size else None,
        }

    def lines(self, origin_seconds: float) -> Iterator[str]:
        """The export, one JSON object a line, in order of arrival."""
        for record in self.records:
            yield json.dumps(record.as_json(origin_seconds)) + "\n"


class Lateness:
    """Lateness of the emulation against its own virtual time; above the limit its metrics cannot be trusted."""

    LIMIT_SECONDS = 0.5

    def __init__(self) -> None:
        self._seconds = array("d")

    def add(self, processed_seconds: float, event_seconds: list[float]) -> None:
        """Book events that were processed at `processed_seconds`."""
        self._seconds.extend(processed_seconds - event for event in event_seconds)

    def percentile(self, percent: float) -> float:
        """Seconds; 0 when nothing happened."""
        return float(np.percentile(np.frombuffer(self._seconds), percent)) if self._seconds else 0.0

    @property
    def acceptable(self) -> bool:
        """True where p99 is inside the limit."""
        return self.percentile(99) <= self.LIMIT_SECONDS
