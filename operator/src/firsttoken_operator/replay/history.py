"""The traffic that a deployment had, from a Prometheus: a series of rates and mean tokens, fetched day by day.

Arrivals are what the operator takes for them: first tokens plus the growth of the queue. Pods are found by name (those
of a Deployment begin with its name), because the ones of last week are in no cluster any more. Needs the packages of
the operator.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from firsttoken_operator.observe.prometheus import DEFAULT_BYTE_CAP
from firsttoken_operator.observe.session import BoundedSession, RequestFailed
from firsttoken_operator.replay.series import Series
from firsttoken_sizing.errors import InvalidInput

FIELD = "--prometheus"
STEP_SECONDS = 60
_DAY_SECONDS = 86400
_TIMEOUT_SECONDS = 60.0
_PREFIXES = {"vLLM": "vllm:", "NIM 1.x": ""}
"""Metric families: their names differ by this only."""
_ENGINES = "namespace, pod, engine, model_name"


@dataclass(frozen=True, slots=True)
class Deployment:
    """Whose traffic: the Deployment that the resource scales."""

    namespace: str
    name: str

    @property
    def matchers(self) -> str:
        """Label matchers of its pods."""
        name = self.name.replace(".", "[.]")
        return f'namespace="{self.namespace}",pod=~"{name}-[a-z0-9-]+"'


@dataclass(frozen=True, slots=True)
class _Queries:
    """What is asked, in PromQL. Duplicate scrapes of one engine are folded, as the operator does."""

    prefix: str
    matchers: str

    @property
    def rate(self) -> str:
        waiting = f"deriv({self.prefix}num_requests_waiting{{{self.matchers}}}[2m])"
        return f"clamp_min({self._rate('time_to_first_token_seconds_count', '2m')} + {_sum(waiting)}, 0)"

    @property
    def input_tokens(self) -> str:
        return self._mean("request_prompt_tokens")

    @property
    def output_tokens(self) -> str:
        return self._mean("request_generation_tokens")

    def _mean(self, histogram: str) -> str:
        return f"{self._rate(f'{histogram}_sum', '10m')} / {self._rate(f'{histogram}_count', '10m')}"

    def _rate(self, metric: str, window: str) -> str:
        return _sum(f"rate({self.prefix}{metric}{{{self.matchers}}}[{window}])")


def read_history(
    url: str,
    deployment: Deployment,
    since_seconds: float,
    now_seconds: float,
    progress: Callable[[str], None],
) -> Series:
    """The series of the last `since_seconds` before `now_seconds` (seconds since the epoch).

    A minute without data is left out, so the rate is a straight line across it: what was not measured is not zero.
    Raises `InvalidInput` for a source that does not answer, or has nothing.
    """
    with BoundedSession(byte_cap=DEFAULT_BYTE_CAP) as session:
        source = _Source(session, url.rstrip("/"))
        for family, prefix in _PREFIXES.items():
            queries = _Queries(prefix, deployment.matchers)
            rates = source.fetch(queries.rate, since_seconds, now_seconds, progress, f"{family}: rates")
            if len(rates) > 1:
                inputs, outputs = (
                    source.fetch(query, since_seconds, now_seconds, progress, f"{family}: {what}")
                    for query, what in (
                        (queries.input_tokens, "input tokens"),
                        (queries.output_tokens, "output tokens"),
                    )
                )
                known = len(rates) * STEP_SECONDS / since_seconds
                progress(f"{family}: {len(rates)} minutes are known, {100 * min(1.0, known):.1f} % of the time")
                return _series(rates, inputs, outputs)
    raise InvalidInput(
        FIELD,
        f"has no requests of {deployment.namespace}/{deployment.name} in that time",
        "check the name of the Deployment, --since, and that its pods are scraped with the labels namespace and pod",
    )


class _Source:
    def __init__(self, session: BoundedSession, url: str) -> None:
        self._session, self._url = session, url

    def fetch(
        self, promql: str, since_seconds: float, now_seconds: float, progress: Callable[[str], None], what: str
    ) -> dict[int, float]:
        """Values by second since the epoch, those that are numbers."""
        values: dict[int, float] = {}
        days = list(_chunks(since_seconds, now_seconds))
        for i, (begin, end) in enumerate(days, 1):
            progress(f"{what}, {i} of {len(days)}")
            values.update(self._ask(promql, begin, end))
        return values

    def _ask(self, promql: str, begin: int, end: int) -> dict[int, float]:
        parameters = {"query": promql, "start": str(begin), "end": str(end), "step": str(STEP_SECONDS)}
        try:
            document = self._session.request(
                "GET", f"{self._url}/api/v1/query_range", params=parameters, timeout=_TIMEOUT_SECONDS
            ).json()
        except RequestFailed as failure:
            raise InvalidInput(FIELD, f"{failure.reason}: {failure.detail}", "name a Prometheus that answers") from None
        try:
            return dict(_values(document))
        except (KeyError, TypeError, ValueError, IndexError):
            raise InvalidInput(FIELD, "the answer is not a range of one series", "name a Prometheus") from None


def _chunks(since_seconds: float, now_seconds: float) -> Iterator[tuple[int, int]]:
    """Begin and end of every day, on whole minutes, both included."""
    end = int(now_seconds) // STEP_SECONDS * STEP_SECONDS
    begin = end - math.ceil(since_seconds / STEP_SECONDS) * STEP_SECONDS
    for start in range(begin, end, _DAY_SECONDS):
        yield start, min(start + _DAY_SECONDS - STEP_SECONDS, end)


def _values(document: Any) -> Iterator[tuple[int, float]]:
    if document["status"] != "success" or document["data"]["resultType"] != "matrix":
        raise ValueError("not a matrix")
    for series in document["data"]["result"]:
        for at, text in series["values"]:
            value = float(text)
            if math.isfinite(value) and value >= 0:
                yield int(at), value


def _series(rates: dict[int, float], inputs: dict[int, float], outputs: dict[int, float]) -> Series:
    at = sorted(rates)
    means = [
        np.array([values.get(second, math.nan) for second in at]) if values else None for values in (inputs, outputs)
    ]
    known = [mean if mean is not None and np.isfinite(mean).any() else None for mean in means]
    return Series(np.array(at, float) - at[0], np.array([rates[second] for second in at]), *known)


def _sum(inner: str) -> str:
    return f"sum(max by ({_ENGINES}) ({inner}))"
