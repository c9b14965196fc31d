"""Samples: the closed-loop points that a step model may be fitted to, as the fit reads them.

Leaves out what says little about the steps of an engine: windows that are shorter than their own queue, and points that
waited for memory, whose running batch is not known.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from firsttoken_sizing.parameters import PARAMETERS
from firsttoken_sizing.profile import Load, Point, Profile

_LARGEST_STEP_TOKENS = 65536


@dataclass(frozen=True, slots=True)
class Sample:
    """One usable closed-loop point with the lengths of its profile."""

    input_tokens: float
    output_tokens: float
    concurrency: float
    point: Point

    @property
    def round_seconds(self) -> float:
        """Duration of one round of `concurrency` requests."""
        return self.concurrency / self.point.requests_per_second

    @property
    def context_tokens(self) -> float:
        """Mean context of a running sequence."""
        return self.input_tokens + self.output_tokens / 2


def usable_samples(profiles: Iterable[Profile]) -> tuple[Sample, ...]:
    """Closed-loop points whose running batch equals their concurrency: no overload window, no queue for KV memory.

    A queue shows as a TTFT longer than all that a step can prefill: `queue_ratio` x the prefill of min(c, largest
    step) prompts.
    """
    samples: list[Sample] = []
    for profile in profiles:
        if profile.load is not Load.CLOSED_LOOP:
            continue
        alone = [p.ttft.mean for p in profile.points if p.concurrency == 1 and p.ttft.mean is not None]
        largest_step = _LARGEST_STEP_TOKENS / profile.input_tokens
        most = math.inf if profile.settings.max_batch is None else profile.settings.max_batch
        for point in profile.points:
            if point.concurrency is None or point.concurrency > most or point.requests_per_second <= 0:
                continue
            if point.completed(profile.output_tokens).is_overload:
                continue
            prompts = max(1.0, min(point.concurrency, largest_step))
            limit = PARAMETERS.fit.queue_ratio * prompts * min(alone) if alone else None
            if limit is not None and point.ttft.mean is not None and point.ttft.mean > limit:
                continue
            samples.append(Sample(profile.input_tokens, profile.output_tokens, point.concurrency, point))
    return tuple(samples)
