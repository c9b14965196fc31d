"""Arrivals of the last two weeks, of every Deployment that is asked for, with a fixed number of queries a source.

Of each day it is asked first which families there were, and then what arrived at these. The answers are grouped by
Deployment on the server, so that they are as small as the question; what is kept is one number a step. A step that no
pod was measured in is a gap and not a zero. It blocks: call it from a thread of its own.
"""

from __future__ import annotations

import math
import threading
import time
from array import array
from collections.abc import Callable, Collection, Iterator

from firsttoken_operator.domain import Reason
from firsttoken_operator.families import FAMILIES, FAMILY
from firsttoken_operator.families.promql import EVERY_POD, duration
from firsttoken_operator.observe.history import (
    DEPLOYMENT_LABEL,
    PastAnswer,
    PastQueries,
    ask_range,
    chunks,
    presence_query,
)
from firsttoken_operator.observe.prometheus import SourceConfig
from firsttoken_operator.observe.session import RequestFailed

REQUEST_SECONDS = 60.0
"""Most time of one query, from its first byte to its last."""
WATCH_SECONDS = 0.2
"""Interval at which a request under way is looked at."""
READING_SECONDS = 600.0
"""Most time of all queries of one source together."""

DeploymentKey = tuple[str, str]
"""Namespace and name."""


class PastArrivals:
    """Arrival rates of one Deployment at the end of every step, requests a second; NaN where nothing is known."""

    def __init__(self, begin_seconds: float, step_seconds: float, steps: int) -> None:
        self._begin_seconds, self._step_seconds = begin_seconds, step_seconds
        self._rates = array("d", [math.nan]) * steps

    def put(self, at_seconds: float, rate: float) -> None:
        """Take what one metric family reports; of two (a change of runtimes) the larger counts, as they may overlap."""
        index = round((at_seconds - self._begin_seconds) / self._step_seconds)
        if 0 <= index < len(self._rates) and not rate <= self._rates[index]:
            self._rates[index] = rate

    def points(self) -> Iterator[tuple[float, float]]:
        """(seconds since the epoch, requests a second), oldest first, without the gaps."""
        for index, rate in enumerate(self._rates):
            if not math.isnan(rate):
                yield self._begin_seconds + index * self._step_seconds, rate


class PastReader:
    """Reads the past from one source. `close` ends a reading that is under way, from any thread."""

    def __init__(self, config: SourceConfig, clock: Callable[[], float] = time.monotonic) -> None:
        self._config, self._clock = config, clock
        self._closing = threading.Event()
        self._session = config.session()

    def close(self) -> None:
        """Ask nothing more."""
        self._closing.set()
        self._session.abort()
        self._session.close()

    def read(
        self, wanted: Collection[DeploymentKey], now_seconds: float, *, since_seconds: float, step_seconds: float
    ) -> dict[DeploymentKey, PastArrivals]:
        """Read the arrivals of the wanted Deployments before `now_seconds` (since the epoch); without those unknown.

        It goes back `since_seconds`; `step_seconds` is how finely, and also what each rate is over.
        Raises `RequestFailed` where not all of it was answered: a part of the past is not the past.
        """
        ends = self._clock() + READING_SECONDS
        spans = list(chunks(since_seconds, now_seconds, step_seconds))
        begin, steps = spans[0][0], round((spans[-1][1] - spans[0][0]) / step_seconds) + 1
        found: dict[DeploymentKey, PastArrivals] = {}
        for span in spans:
            there = self._ask(presence_query(FAMILIES), span, step_seconds, ends).series
            names = {series.labels.get(FAMILY) for series in there}
            for family in FAMILIES:
                if family.name not in names:
                    continue
                promql = PastQueries(family, EVERY_POD, duration(step_seconds), by_deployment=True).arrivals
                for series in self._ask(promql, span, step_seconds, ends).series:
                    key = (series.labels.get("namespace", ""), series.labels.get(DEPLOYMENT_LABEL, ""))
                    if key in wanted:
                        past = found.setdefault(key, PastArrivals(begin, step_seconds, steps))
                        for at, rate in series.values.items():
                            past.put(at, rate)
        return found

    def _ask(self, promql: str, span: tuple[float, float], step_seconds: float, ends: float) -> PastAnswer:
        """Ask for one span, unless the reading `ends` (on the clock) or was ended before."""
        if self._closing.is_set() or self._clock() >= ends:
            raise RequestFailed(Reason.SOURCE_UNREACHABLE, f"not answered within {READING_SECONDS:g} s")
        done = threading.Event()
        watchdog = threading.Thread(target=self._watch, args=(done,), name="history-watchdog", daemon=True)
        watchdog.start()
        try:
            answer = ask_range(self._session, self._config.url, promql, span, step_seconds, REQUEST_SECONDS)
        finally:
            done.set()
        if answer.warnings:
            raise RequestFailed(Reason.PARTIAL_RESPONSE, "; ".join(answer.warnings))
        return answer

    def _watch(self, done: threading.Event) -> None:
        """End the request under way once it is late or not wanted any more.

        The time-out of a session is between two bytes: a server that trickles would hold it for ever.
        """
        ends = self._clock() + REQUEST_SECONDS
        while not done.wait(WATCH_SECONDS):
            if self._closing.is_set() or self._clock() >= ends:
                # NB: again and again, because a request that is only about to begin takes no notice.
                self._session.abort()
