"""In-flight batching: requests join and leave at every step, with whole prompts or prompts in chunks.

A replica works in blocks: one step with prompts in it, or as many steps of decoding as pass before the next of its
requests is done. Whoever comes meanwhile cuts the block (`kernel.arrive`).
"""

from __future__ import annotations

import math
from typing import Any

from firsttoken_sizing.simulation.compiled import compiled
from firsttoken_sizing.simulation.heap import heap_push, heap_take
from firsttoken_sizing.simulation.state import CHUNKED, IN_FLIGHT, NONE, Coefficients, Floats, Integers, Replica, Rules
from firsttoken_sizing.simulation.timing import count_time, decode_seconds, prefill_seconds, series_seconds


@compiled
def begin_block(
    step: Coefficients, rules: Rules, work: Any, replica: Replica, keys: Floats, items: Integers, fresh: Integers
) -> None:
    """Admit what may be admitted, then plan one step with prompts or the longest run of steps without a change."""
    previous = replica.began if replica.present > 0 else -math.inf
    replica.began = replica.ends
    if rules.is_paged:
        make_room(rules, work, replica, keys, items)
    prompts = admit(step, rules, work, replica, fresh, previous)
    running = replica.running
    replica.present = running + replica.fresh + (1 if replica.partial != NONE else 0)
    if replica.present == 0:
        replica.ends = math.inf
        return
    first = decode_seconds(step, running, replica.context)
    if replica.present > running:
        replica.steps = 1
        replica.ends += first + prompts
        return
    steps = int(keys[0]) - replica.steps_done
    if rules.is_paged:
        steps = min(steps, 1 + (rules.kv_tokens - replica.reserved) // running)
    replica.steps = steps
    replica.first_step = first
    replica.growth = step.context[running] * running
    replica.ends += series_seconds(first, replica.growth, steps)


@compiled
def admit(step: Coefficients, rules: Rules, work: Any, replica: Replica, fresh: Integers, previous: float) -> float:
    """Put prompts into the next step, first come first served; returns the seconds that they add.

    A whole prompt is always taken where it is the only one. The first that does not fit ends the search. Who was there
    when the block before began, at `previous`, was passed over.
    """
    left = rules.tokens_per_step - (replica.running if rules.batching == CHUNKED else 0)
    seconds = 0.0
    count = 0
    while left > 0 and replica.running + count < rules.max_batch:
        request = replica.partial
        if request == NONE:
            request = replica.head
            if request == NONE:
                break
            item = work[request]
            tokens = item.input + (item.made + 1 if rules.is_paged else item.output)
            if replica.reserved + tokens > rules.kv_tokens:
                break
            if rules.batching == IN_FLIGHT and count > 0 and item.uncached + item.made > left:
                break
            replica.head = item.next_waiting
            replica.reserved += tokens
            if item.preemptions == 0:
                item.admitted = replica.began
                if item.arrival <= previous:
                    item.queued = 1
        item = work[request]
        done = replica.partial_done
        rest = item.uncached + item.made - done
        taken = min(rest, left) if rules.batching == CHUNKED else rest
        own = prefill_seconds(step, taken, item.input - item.uncached + done)
        seconds += own
        left -= taken
        if taken < rest:
            replica.partial = request
            replica.partial_done = done + taken
        else:
            replica.partial = NONE
            replica.partial_done = 0
            fresh[count] = request
            count += 1
            # Until the request is done this holds how much later than the step its tokens leave the last stage.
            item.finish = step.further_stages * own
    replica.fresh = count
    return seconds


@compiled
def make_room(rules: Rules, work: Any, replica: Replica, keys: Floats, items: Integers) -> None:
    """Preempt the youngest requests until every other one has room for its next token.

    Their cache is dropped; they go back to the head of the queue and compute their prompt and the tokens made so far
    again. One request alone always fits, which was checked before the run.
    """
    while replica.reserved > rules.kv_tokens:
        request = replica.partial
        if request != NONE:
            item = work[request]
            replica.reserved -= item.input + item.made + 1
            replica.partial = NONE
            replica.partial_done = 0
        else:
            youngest = 0
            for i in range(1, replica.running):
                later = work[items[i]].admitted - work[items[youngest]].admitted
                if later > 0 or (later == 0 and items[i] > items[youngest]):
                    youngest = i
            left = int(keys[youngest]) - replica.steps_done
            request = heap_take(keys, items, replica.running, youngest)
            item = work[request]
            item.made = item.output - left
            replica.running -= 1
            replica.context -= item.input + item.made
            replica.reserved -= item.input + item.made
        item.preemptions += 1
        item.next_waiting = replica.head
        if replica.head == NONE:
            replica.tail = request
        replica.head = request


@compiled
def end_block(rules: Rules, work: Any, replica: Replica, keys: Floats, items: Integers, fresh: Integers) -> None:
    """Account for the block that ends now; prompts that are complete have their first token and start to decode."""
    counts = count_time(rules, replica)
    steps, running = replica.steps, replica.running
    replica.steps_done += steps
    reserved = replica.reserved
    if rules.is_paged:
        reserved += (steps - 1) * running
        replica.reserved += steps * running
    # The tokens that the last step made are written to the cache by the next one.
    held = replica.context + (steps - 1) * running
    replica.context += steps * running
    for i in range(replica.fresh):
        request = fresh[i]
        item = work[request]
        made = item.made + 1
        if made == 1:
            item.first_token = replica.ends + item.finish
        heap_push(keys, items, replica.running, replica.steps_done + item.output - made, request)
        replica.running += 1
        replica.context += item.input + made
        held += item.input + made - 1
    replica.fresh = 0
    if replica.partial != NONE:
        item = work[replica.partial]
        held += item.input - item.uncached + replica.partial_done
    if counts:
        replica.kv_peak = max(replica.kv_peak, held)
        replica.reserved_peak = max(replica.reserved_peak, reserved)


@compiled
def finish_next(work: Any, replica: Replica, keys: Floats, items: Integers) -> int:
    """Take the next request that has its last token out of the batch; returns it."""
    request = heap_take(keys, items, replica.running, 0)
    item = work[request]
    replica.running -= 1
    replica.context -= item.input + item.output
    replica.reserved -= item.input + item.output
    replica.outstanding -= 1
    item.released = replica.ends
    item.finish += replica.ends
    return request
