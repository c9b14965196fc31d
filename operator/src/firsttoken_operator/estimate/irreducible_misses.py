"""Irreducible misses: first tokens that are late on any number of replicas, because their own prefill takes too long.

No replica shortens that. So it is taken off before a capacity is judged, before misses ask for more replicas and before
they forbid to give one back. Two sources, of which the larger counts: what nearly idle replicas showed, and what the
length of live prompts foretells beyond the declared one.

Worked, for idle replicas that serve 1 request/s:

| what is seen there | requests | irreducible |
|---|---|---|
| the first hour: 2 % late | 3600 | 0.44 % |
| a quiet night, seven hours more: 2 % late | 5000 | 1.73 % |
| a bad minute: half are late | 5000 | 1.93 % |
| a busy day: nothing is seen on full replicas | 5000 | 1.93 % |
| the next night, eight hours: none is late | 5000 | 0.26 % |
"""

from __future__ import annotations

from dataclasses import dataclass

from firsttoken_operator.domain import Metrics, Sized, Value
from firsttoken_operator.estimate.config import IrreducibleMissConfig


@dataclass(frozen=True, slots=True)
class IrreducibleMisses:
    """Misses that nearly idle replicas showed."""

    share: float = 0.0
    """First tokens that were late there, 0..1."""
    requests: float = 0.0
    """Requests that it stands on."""


def update(
    state: IrreducibleMisses,
    miss_rate: float,
    requests: float,
    interval_seconds: float,
    config: IrreducibleMissConfig,
) -> IrreducibleMisses:
    """The average after so many requests on nearly idle replicas: over many, over hours, and 0 beforehand."""
    seen = min(state.requests + requests, config.memory_requests)
    weight = min(requests / (seen + config.prior_requests), interval_seconds / config.memory_seconds)
    return IrreducibleMisses(state.share + weight * (miss_rate - state.share), seen)


def miss_rate(
    state: IrreducibleMisses, speed: float, metrics: Metrics, sized: Sized, config: IrreducibleMissConfig
) -> float:
    """Share, 0..1, that more replicas would not lower, of replicas of this speed.

    Only what is beyond the declared length counts: there the sizing says that the SLA can be kept.
    """
    limit, work, prompt = sized.sla.time_to_first_token, sized.table.work, metrics.input_tokens
    if limit is None or work is None or not isinstance(prompt, Value):
        return state.share
    seconds = speed * limit.milliseconds / 1000
    alone = work.share_longer_than(seconds, prompt.value) - work.share_longer_than(seconds, work.input_tokens)
    return max(state.share, min((1 + config.blocked_requests) * alone, config.most_foretold_share))
