"""The traffic that a deployment had, from a Prometheus: a series of rates and mean tokens, fetched day by day.

What is asked and how is in `observe.history`. Needs the packages of the operator.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from firsttoken_lab.replay.series import Series
from firsttoken_operator.families import FAMILIES, TokenPart
from firsttoken_operator.observe.history import PastQueries, ask_range, chunks, pods_of
from firsttoken_operator.observe.session import BoundedSession, RequestFailed
from firsttoken_sizing.errors import InvalidInput

FIELD = "--prometheus"
STEP_SECONDS = 60
_RATE_WINDOW, _TOKEN_WINDOW = "2m", "10m"
_TIMEOUT_SECONDS = 60.0
_BYTE_CAP = 64 * 1024 * 1024


def read_history(
    url: str,
    namespace: str,
    deployment: str,
    since_seconds: float,
    now_seconds: float,
    progress: Callable[[str], None],
) -> Series:
    """The series of the last `since_seconds` before `now_seconds` (seconds since the epoch).

    A minute without data is left out, so the rate is a straight line across it: what was not measured is not zero.
    Raises `InvalidInput` for a source that does not answer, or has nothing.
    """
    matchers = pods_of(namespace, deployment)
    with BoundedSession(byte_cap=_BYTE_CAP) as session:
        source = _Source(session, url)
        for family in FAMILIES:
            rate = PastQueries(family, matchers, _RATE_WINDOW).arrivals
            rates = source.fetch(rate, since_seconds, now_seconds, progress, f"{family.name}: rates")
            if len(rates) > 1:
                lengths = PastQueries(family, matchers, _TOKEN_WINDOW)
                inputs, outputs = (
                    source.fetch(mean, since_seconds, now_seconds, progress, f"{family.name}: {what}") if mean else {}
                    for mean, what in (
                        (lengths.mean(TokenPart.PROMPT_TOKENS, TokenPart.PROMPTS), "input tokens"),
                        (lengths.mean(TokenPart.OUTPUT_TOKENS, TokenPart.OUTPUTS), "output tokens"),
                    )
                )
                known = len(rates) * STEP_SECONDS / since_seconds
                progress(f"{family.name}: {len(rates)} minutes are known, {100 * min(1.0, known):.1f} % of the time")
                return _series(rates, inputs, outputs)
    raise InvalidInput(
        FIELD,
        f"has no requests of {namespace}/{deployment} in that time",
        "check the name of the Deployment, --since, and that its pods are scraped with the labels namespace and pod",
    )


class _Source:
    def __init__(self, session: BoundedSession, url: str) -> None:
        self._session, self._url = session, url

    def fetch(
        self, promql: str, since_seconds: float, now_seconds: float, progress: Callable[[str], None], what: str
    ) -> dict[float, float]:
        """Values by second since the epoch, those that are numbers."""
        values: dict[float, float] = {}
        days = list(chunks(since_seconds, now_seconds, STEP_SECONDS))
        for i, day in enumerate(days, 1):
            progress(f"{what}, {i} of {len(days)}")
            try:
                answer = ask_range(self._session, self._url, promql, day, STEP_SECONDS, _TIMEOUT_SECONDS)
            except RequestFailed as failure:
                fix = "name a Prometheus that answers"
                raise InvalidInput(FIELD, f"{failure.reason}: {failure.detail}", fix) from None
            for series in answer.series:
                values.update(series.values)
        return values


def _series(rates: dict[float, float], inputs: dict[float, float], outputs: dict[float, float]) -> Series:
    at = sorted(rates)
    means = [
        np.array([values.get(second, math.nan) for second in at]) if values else None for values in (inputs, outputs)
    ]
    mean_input, mean_output = (mean if mean is not None and np.isfinite(mean).any() else None for mean in means)
    seconds, rate = np.array(at, float), np.array([rates[second] for second in at])
    return Series(seconds - at[0], rate, mean_input, mean_output, start_epoch_seconds=at[0])
