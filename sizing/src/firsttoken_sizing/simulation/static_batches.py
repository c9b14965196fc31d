"""Static batching: a batch is formed of those who wait, padded to its longest, and runs until all of it is done."""

from __future__ import annotations

import math
from typing import Any

from firsttoken_sizing.simulation.compiled import compiled
from firsttoken_sizing.simulation.state import NONE, Coefficients, Integers, Replica, Rules
from firsttoken_sizing.simulation.timing import count_time, decode_seconds, prefill_seconds, series_seconds


@compiled
def begin_static_batch(step: Coefficients, rules: Rules, work: Any, replica: Replica, fresh: Integers) -> None:
    """Form a batch of those that wait and plan it to its end: all are padded to the longest prompt and output.

    Tokens are streamed, so a request has its last token before its slot is free.
    """
    now = replica.began = replica.ends
    count = longest_input = longest_uncached = longest_output = 0
    while replica.head != NONE and count < rules.max_batch:
        item = work[replica.head]
        padded_input, padded_output = max(longest_input, item.input), max(longest_output, item.output)
        if (count + 1) * (padded_input + padded_output) > rules.kv_tokens:
            break
        longest_input, longest_output = padded_input, padded_output
        longest_uncached = max(longest_uncached, item.uncached)
        fresh[count] = replica.head
        replica.head = item.next_waiting
        count += 1
    replica.fresh = count
    replica.present = count
    replica.steps = 1
    if count == 0:
        replica.ends = math.inf
        return
    replica.reserved = count * (longest_input + longest_output)
    own = prefill_seconds(step, longest_uncached, longest_input - longest_uncached)
    prefilled = now + decode_seconds(step, 0, 0) + count * own
    first = decode_seconds(step, count, count * (longest_input + 1.0))
    growth = step.context[count] * count
    replica.ends = prefilled + series_seconds(first, growth, longest_output - 1)
    for i in range(count):
        item = work[fresh[i]]
        item.admitted = now
        item.first_token = prefilled + step.further_stages * own
        item.finish = item.first_token + series_seconds(first, growth, item.output - 1)


@compiled
def end_static_batch(rules: Rules, work: Any, replica: Replica, fresh: Integers) -> None:
    """Free the slots of the batch that ends now."""
    if count_time(rules, replica):
        replica.reserved_peak = max(replica.reserved_peak, replica.reserved)
        replica.kv_peak = replica.reserved_peak
    for i in range(replica.fresh):
        work[fresh[i]].released = replica.ends
    replica.outstanding -= replica.fresh
    replica.fresh = 0
    replica.reserved = 0
