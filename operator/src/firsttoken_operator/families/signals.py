"""Signals that the operator asks of every metric family, whatever its series are called."""

from __future__ import annotations

from enum import StrEnum


class Signal(StrEnum):
    """One number that a family is asked for; it is by pod. Which of them a family publishes is its own (`signals`)."""

    AGE = "age"
    """Seconds since the newest sample, by Prometheus' own clock."""
    SAMPLES = "samples"
    """Samples inside the rate window."""
    START_AGE = "age at window start"
    """Seconds from now back to the newest sample that was there when the rate window began."""
    STARTED = "started requests"
    """Requests a second that came in, where a runtime counts them then."""
    FIRST_TOKENS = "first tokens"
    """Requests a second that got their first token."""
    TTFT_BUCKETS = "TTFT buckets"
    """Cumulative rate of first tokens by `le`, requests a second."""
    TTFT_SUM = "TTFT sum"
    """Seconds of TTFT a second: divided by the first-token rate, the mean TTFT."""
    ENDED = "ended requests"
    """Requests a second that ended, by `outcome`: `served`, `failed` or `rejected`."""
    WAITING = "waiting requests"
    WAITING_SLOPE = "slope of waiting requests"
    """Requests a second by which the queue grew over the window; negative while it drains."""
    RUNNING = "running requests"
    RUNNING_SLOPE = "slope of running requests"
    KV_USAGE = "KV cache usage"
    """0..1 of the fullest engine."""
    TOKENS = "tokens"
    """Tokens and requests a second, by `TokenPart`, at one moment: a mean is of numbers that belong together."""


class TokenPart(StrEnum):
    """Counters of two means of tokens a request; a mean is over the requests that its own count holds."""

    PROMPT_TOKENS = "prompt tokens"
    PROMPTS = "prompts"
    OUTPUT_TOKENS = "output tokens"
    OUTPUTS = "outputs"


FRESHNESS = (Signal.AGE, Signal.START_AGE, Signal.SAMPLES)
"""Asked of every family: they tell which pods expose it, and whether its samples are current."""

BY_BOUND = frozenset({Signal.TTFT_BUCKETS})
"""Signals with as many numbers a pod as a histogram has bounds."""

SIGNAL, OUTCOME, PART = "signal", "outcome", "part"
"""Labels that tell the elements of an answer apart: the signal, and what its numbers are of."""

SERVED, FAILED, REJECTED = "served", "failed", "rejected"
"""Outcomes of a request that ended; all but the first are failures."""


class Arrivals(StrEnum):
    """Ways to tell what arrived from what a server counts. Each is exact for a queue, and they are never mixed."""

    STARTED = "counted as they come"
    FIRST_TOKENS = "first tokens and the growth of the queue"
    ENDED = "ended requests and the growth of queue and batch"


ARRIVING = {
    Arrivals.STARTED: (Signal.STARTED,),
    Arrivals.FIRST_TOKENS: (Signal.FIRST_TOKENS, Signal.WAITING_SLOPE),
    Arrivals.ENDED: (Signal.ENDED, Signal.WAITING_SLOPE, Signal.RUNNING_SLOPE),
}
"""Signals whose sum each way is."""
