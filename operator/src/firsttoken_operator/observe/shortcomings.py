"""Shortcomings: what the metrics of a healthy fleet do not tell, each with the change that mends it.

The data that is there can be trusted. Where the TTFT is not to be had replicas follow arrivals, the queue and the
sizing model alone; every rule against a scale-down that does not need it holds.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterator, Sequence

from firsttoken_operator.domain import Reason, Shortcoming
from firsttoken_operator.families import Symptom, family_called
from firsttoken_operator.observe.bounds import ROUNDING
from firsttoken_operator.observe.collect import PodSample, SourceReading
from firsttoken_operator.observe.freshness import SeenPod
from firsttoken_sizing.workload import Limit


def ttft_advice(sample: PodSample) -> str:
    """The change that makes a server publish its TTFT; empty where there is none, because each of its kind does."""
    family = family_called(sample.family)
    return family.advice.ttft if family else ""


def shortcomings(
    current: Sequence[SeenPod], layout: Sequence[PodSample], reading: SourceReading, limit: Limit | None
) -> Iterator[Shortcoming]:
    """Find what could be told and is not. `layout`: the samples whose TTFT is read; `limit`: on TTFT."""
    first = current[0].sample
    advice = ttft_advice(first)
    if limit is not None and not layout and advice:
        text = f"{first.family} publishes no TTFT, so that replicas follow arrivals, the queue and the sizing model"
        yield Shortcoming(Reason.TTFT_NOT_OBSERVED, f"{text}: {advice}")
    asked = reading.tells_late(limit, (pod.key for pod in current))
    if limit is not None and layout and limit.percentile.share is not None and asked:
        yield from _unresolved(layout[0], limit)
    if twice := sum(Symptom.TWICE in reading.symptoms.get(pod.key, ()) for pod in current):
        text = f"two jobs scrape {twice} of {len(current)} pods, whose numbers are counted once: leave one of them"
        yield Shortcoming(Reason.TWO_JOBS, text)


def _unresolved(sample: PodSample, limit: Limit) -> Iterator[Shortcoming]:
    """Find whether the limit lies inside a bucket, so that a percentile near it is not told from the limit."""
    bounds = sorted(sample.buckets)
    seconds = limit.milliseconds / 1000
    at = bisect_left(bounds, seconds * (1 - ROUNDING))
    if at < len(bounds) and bounds[at] <= seconds * (1 + ROUNDING):
        return
    low, high = (bounds[at - 1] if at else 0.0), (bounds[at] if at < len(bounds) else math.inf)
    text = f"the limit of {limit.milliseconds:g} ms lies between the bounds {1000 * low:g} and {1000 * high:g} ms"
    family = family_called(sample.family)
    advice = family.advice.buckets if family else ""
    unit = family.ttft_unit_seconds if family else 1.0
    change = f": {advice.format(limit=f'{seconds / unit:g}')}" if advice else ""
    yield Shortcoming(Reason.LOW_RESOLUTION, text + change)
