"""Miss rate: the share of first tokens beyond the TTFT limit, in one window and over the stabilization window.

Worked, over a stabilization window of 300 s:

| what is seen | smoothed |
|---|---|
| the first minute: fewer than 50 requests in a window | unknown |
| an hour with 0.4 % late | 0.40 % |
| a bad minute with 10 % late | 2.14 % |
| five minutes with 0.4 % again | 1.04 % |
| a quiet night, an hour of it: too few requests | 0.00 % |
"""

from __future__ import annotations

from firsttoken_operator.domain import TtftInterval
from firsttoken_operator.estimate.config import MissRateConfig
from firsttoken_operator.estimate.smoothing import weight_of


def measured(ttft: TtftInterval | None, config: MissRateConfig) -> float | None:
    """SLO violations as a share of the window's first tokens; None where it says nothing reliable about them.

    Where the limit lies in the bucket of most requests the histogram cannot tell: then only what is certain counts.
    """
    if ttft is None or ttft.late is None or ttft.requests < config.least_requests:
        return None
    return ttft.late.estimate if ttft.late.high <= config.most_uncertain_share else ttft.late.low


def update(
    state: float | None, window: float | None, interval_seconds: float, stabilization_seconds: float
) -> float | None:
    """The miss rate over the stabilization window after one more rate window; None: none was measured yet."""
    if state is None:
        return window
    # Of too few requests nothing is known: what was seen before them fades.
    return state + weight_of(interval_seconds, stabilization_seconds) * ((window or 0.0) - state)
