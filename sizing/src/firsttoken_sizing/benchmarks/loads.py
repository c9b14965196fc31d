"""Loads that a Profile can hold, why others are refused, and what remains of a run that sent everything at once.

A closed loop keeps a number of requests in flight; Poisson arrivals are independent at a rate. Latencies under any
other load (evenly spaced, bursty, capped) answer another question than the two that a sizing asks.
"""

from __future__ import annotations

from firsttoken_sizing.profile import Latency, Point

NONE_SUCCEEDED = "no request succeeded"
ALL_AT_ONCE = "sent all requests at once"
WITHOUT_BATCH = (
    f"{ALL_AT_ONCE} and does not say the time per output token, so neither a latency nor the batch that the throughput "
    "was reached with is known; measure streaming and with a concurrency"
)
BACKLOG_REMARK = (
    f"{ALL_AT_ONCE}: throughput and time per output token are kept, TTFT and end-to-end latency are left out, because "
    "they are mostly the wait in the benchmark's own backlog; the concurrency is that of the requests being decoded"
)


def neither(how: str, remedy: str) -> str:
    """The reason that refuses a load which is neither of the two that a profile holds."""
    return f"sent {how}, which is neither a closed loop nor Poisson; {remedy}"


def capped(rate: float, cap: float, remedy: str) -> str:
    """The reason that refuses Poisson arrivals whose cap of requests in flight held some of them back."""
    return neither(f"at {rate:g} requests/s with at most {cap:g} in flight, which was reached", remedy)


def backlog_point(requests_per_second: float, itl: Latency, output_tokens: float) -> Point | None:
    """Point of a run that sent all its requests at once, as far as a sizing can use it, or None where it says nothing.

    Its TTFT and end-to-end latency are those of a queue that no service has, so they are dropped. Its concurrency is
    what decoded at a time: Little's law over the decode time of a request, ITL x (output tokens - 1).
    """
    if itl.mean is None or output_tokens <= 1:
        return None
    decoding = requests_per_second * itl.mean * (output_tokens - 1) / 1000
    return Point(requests_per_second=requests_per_second, concurrency=decoding, itl=itl)
