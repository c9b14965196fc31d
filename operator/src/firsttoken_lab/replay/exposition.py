"""Counters and gauges of the engine in every pod, from the records of the event kernel; compiled where numba is there.

NB: numba looks at this file only for whether its compiled code is stale: nothing from elsewhere in the project may be
called or read by the functions here, not a constant either.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

FIRST_TOKENS, TTFT_SECONDS, PROMPT_TOKENS, ENDED, OUTPUT_TOKENS, BUCKETS = 0, 1, 2, 3, 4, 5
"""Rows of the counters; from the last one on, first tokens up to each bound of TTFT. Columns are the fleet's slots."""
WAITING, RUNNING, KV_USAGE, GAUGES = 0, 1, 2, 3
"""Rows of the gauges, and how many there are."""


def count(
    work: Any, opens: Floats, bounds: Floats, pending: Integers, running: Integers, counters: Floats, now: float
) -> tuple[Integers, Integers]:
    """Count first tokens of the requests `pending` and ends of those `running`; return those that still are.

    `opens`: when the present pod of each slot became ready. What an earlier one did there is not counted.
    """
    waiting, left = np.empty_like(pending), 0
    serving, kept = np.empty(len(pending) + len(running), np.int64), len(running)
    serving[:kept] = running
    for request in pending:
        item = work[request]
        if not 0 < item.first_token <= now:
            waiting[left] = request
            left += 1
            continue
        serving[kept] = request
        kept += 1
        slot = item.replica
        if item.first_token >= opens[slot]:
            ttft = item.first_token - item.arrival
            counters[FIRST_TOKENS, slot] += 1
            counters[TTFT_SECONDS, slot] += ttft
            counters[PROMPT_TOKENS, slot] += item.input
            for bucket in range(len(bounds)):
                counters[BUCKETS + bucket, slot] += ttft <= bounds[bucket]
    still = 0
    for request in serving[:kept]:
        item = work[request]
        if not 0 < item.finish <= now:
            serving[still] = request
            still += 1
        elif item.finish >= opens[item.replica]:
            counters[ENDED, item.replica] += 1
            counters[OUTPUT_TOKENS, item.replica] += item.output
    return waiting[:left], serving[:still]


def show(fleet: Any, kv_cache_tokens: float) -> Floats:
    """Gauges of every slot. Requests whose prompt is in the running step count as running, as engines count them."""
    gauges = np.zeros((GAUGES, len(fleet)))
    for slot in range(len(fleet)):
        replica = fleet[slot]
        running = replica.running + replica.fresh + (replica.partial >= 0)
        gauges[RUNNING, slot] = running
        gauges[WAITING, slot] = max(0, replica.outstanding - running)
        gauges[KV_USAGE, slot] = replica.reserved / kv_cache_tokens
    return gauges
