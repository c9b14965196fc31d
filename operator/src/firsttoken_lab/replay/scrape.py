"""What Prometheus would know of the simulated fleet: counters and gauges at scrape times, and rates over a window.

The signals are those of `observe`, computed the same way: arrivals are first tokens plus the slope of the queue, never
the true arrivals; TTFT is known by its buckets. A scrape sees the ready replicas; every sample is late by the lag.
"""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from firsttoken_operator.domain import Idle, Measurement, Metrics, Missing, Reason, TtftInterval, Value
from firsttoken_operator.families import VLLM, Metric
from firsttoken_operator.observe.ttft import MINIMUM_REQUESTS, interval_of
from firsttoken_sizing.simulation.fleet import Fleet
from firsttoken_sizing.simulation.kernel import NONE
from firsttoken_sizing.workload import Limit

TTFT_BOUNDS_SECONDS = VLLM.series(Metric.TTFT).bounds
_BUCKETS = (*TTFT_BOUNDS_SECONDS, math.inf)


@dataclass(frozen=True, slots=True)
class Sample:
    """Sums over the fleet at one scrape; counters since the beginning."""

    at_seconds: float
    first_tokens: int
    input_tokens: int
    """Of the prompts that got their first token."""
    ttft_seconds: float
    ttft_buckets: NDArray[np.int64]
    ended: int
    output_tokens: int
    """Of the requests that ended."""
    waiting: int
    running: int
    kv_percent: float


class Scraper:
    """Scrapes a fleet and answers with the metrics of a rate window."""

    def __init__(self, fleet: Fleet, kv_cache_tokens: int | None, window_seconds: float) -> None:
        """`kv_cache_tokens`: of one replica, None where its use is not known."""
        self._fleet, self._kv_cache_tokens, self._window_seconds = fleet, kv_cache_tokens, window_seconds
        # NB: views of the columns, made once: looking a field of a record array up takes longer than summing it.
        self._replica, requests = (records.view(np.ndarray) for records in (fleet.replicas, fleet.requests))
        self._arrival, self._first_token, self._finish = (requests[n] for n in ("arrival", "first_token", "finish"))
        self._prompt, self._output = requests["input"], requests["output"]
        self._samples: deque[Sample] = deque()
        self._metrics: Metrics | None = None
        self._without_first_token = np.empty(0, np.int64)
        self._running = np.empty(0, np.int64)
        self._sent = 0
        self._first_tokens, self._input_tokens, self._ttft_seconds = 0, 0, 0.0
        self._ended, self._output_tokens = 0, 0
        self._buckets = np.zeros(len(TTFT_BOUNDS_SECONDS) + 1, np.int64)

    @property
    def last(self) -> Sample | None:
        """The newest sample."""
        return self._samples[-1] if self._samples else None

    def scrape(self, now_seconds: float, serving: list[int]) -> None:
        """Sample the replicas `serving`; the fleet stands at `now_seconds`."""
        self._metrics = None
        self._count_first_tokens(now_seconds)
        fleet = self._replica[serving]
        running = int(fleet["running"].sum())
        outstanding = int(fleet["outstanding"].sum())
        kv = 0.0
        if self._kv_cache_tokens and serving:
            kv = 100 * float(fleet["reserved"].max()) / self._kv_cache_tokens
        # Requests whose prompt is in the running step count as running, as engines count them.
        fresh = int(fleet["fresh"].sum() + (fleet["partial"] != NONE).sum())
        waiting = max(0, outstanding - running - fresh)
        self._samples.append(
            Sample(
                at_seconds=now_seconds,
                first_tokens=self._first_tokens,
                input_tokens=self._input_tokens,
                ttft_seconds=self._ttft_seconds,
                ttft_buckets=self._buckets.copy(),
                ended=self._ended,
                output_tokens=self._output_tokens,
                waiting=waiting,
                running=running + fresh,
                kv_percent=kv,
            )
        )
        while self._samples[0].at_seconds < now_seconds - self._window_seconds - 1e-6:
            self._samples.popleft()

    def metrics(self, limit: Limit | None) -> Metrics:
        """What the operator would read now: nothing new until the next scrape."""
        if self._metrics is None:
            self._metrics = self._read(limit)
        return self._metrics

    def _read(self, limit: Limit | None) -> Metrics:
        first, last = (self._samples[0], self._samples[-1]) if self._samples else (None, None)
        if first is None or last is None or last.at_seconds - first.at_seconds < 0.99 * self._window_seconds:
            why = Missing(Reason.NOT_ENOUGH_SAMPLES, "the rate window is not filled yet")
            return Metrics(Reason.RECOVERING, why.detail, why, why, why, why, why, why, None, self._window_seconds)
        seconds = last.at_seconds - first.at_seconds
        served = (last.first_tokens - first.first_tokens) / seconds
        arrivals = max(0.0, served + (last.waiting - first.waiting) / seconds)
        idle = not (served or last.waiting or last.running)
        return Metrics(
            health=Reason.IDLE if idle else Reason.PRESENT,
            detail="replayed",
            arrivals=Idle() if idle else Value(arrivals),
            first_tokens=Idle() if idle else Value(served),
            waiting=Value(float(last.waiting)),
            running=Value(float(last.running)),
            error_share=Idle() if idle else Value(0.0),
            kv_percent=Value(last.kv_percent),
            ttft=_interval(first, last, limit),
            window_seconds=self._window_seconds,
            input_tokens=_mean(last.input_tokens - first.input_tokens, last.first_tokens - first.first_tokens),
            output_tokens=_mean(last.output_tokens - first.output_tokens, last.ended - first.ended),
        )

    def _count_first_tokens(self, now_seconds: float) -> None:
        sent = self._fleet.sent
        pending = np.concatenate((self._without_first_token, np.arange(self._sent, sent)))
        self._sent = sent
        first = self._first_token[pending]
        made = (first > 0) & (first <= now_seconds)
        ttft = first[made] - self._arrival[pending[made]]
        self._without_first_token = pending[~made]
        self._first_tokens += len(ttft)
        self._input_tokens += int(self._prompt[pending[made]].sum())
        self._count_ended(np.concatenate((self._running, pending[made])), now_seconds)
        self._ttft_seconds += float(ttft.sum())
        self._buckets += np.bincount(np.searchsorted(TTFT_BOUNDS_SECONDS, ttft), minlength=len(self._buckets))

    def _count_ended(self, running: NDArray[np.int64], now_seconds: float) -> None:
        finish = self._finish[running]
        done = (finish > 0) & (finish <= now_seconds)
        self._running = running[~done]
        self._ended += int(done.sum())
        self._output_tokens += int(self._output[running[done]].sum())


def _mean(total: int, requests: int) -> Measurement:
    return Value(total / requests) if requests else Missing(Reason.NOT_ENOUGH_SAMPLES, "no request in the window")


def _interval(first: Sample, last: Sample, limit: Limit | None) -> TtftInterval | None:
    requests = last.first_tokens - first.first_tokens
    if requests < MINIMUM_REQUESTS:
        return None
    mean = 1000 * (last.ttft_seconds - first.ttft_seconds) / requests
    return interval_of(_BUCKETS, np.cumsum(last.ttft_buckets - first.ttft_buckets).tolist(), mean, limit)
