"""The event kernel: replicas that batch requests, and time that jumps from one change to the next.

A replica works in blocks: one step with prompts in it, or as many steps of decoding as pass before the next of its
requests is done. Decode steps grow linearly with their context, so a run of them is an arithmetic series; a request
that arrives during it cuts it after the step that is running, which is exact. `simulate`, `replay` and `emulate` all
run on these functions: `fleet` on arrays of records, compiled where numba is installed, `online` on plain objects.

NB: one file on purpose, beyond the size that other modules keep. numba files its compiled code under the file of the
function that is called, and looks at no other file for whether it is stale. So all that the code stands on is here, and
nothing from elsewhere in the project may be called or read: not a constant, nor the fields of a record.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

IN_FLIGHT, CHUNKED, STATIC = 0, 1, 2
RANDOM, ROUND_ROBIN, LEAST_LOADED = 0, 1, 2
NONE = -1


class Coefficients(NamedTuple):
    """The step model in seconds; `further_stages` is the pipeline without its first stage."""

    batch: Floats
    """Time of a step by the number of running sequences, 0 to the batch limit."""
    context: Floats
    """Time for each token of context, likewise."""
    prefill: float
    prefill_squared: float
    further_stages: float


class Rules(NamedTuple):
    """Rules by which a replica packs work, and requests are sent to replicas."""

    batching: int
    max_batch: int
    tokens_per_step: int
    kv_tokens: int
    """Tokens that the KV cache of a replica holds."""
    is_paged: bool
    """KV cache is taken as tokens are made; else a request reserves all it will need when it is admitted."""
    routing: int
    count_from: float
    """Start (seconds) of the window in which busy time, batch and KV use are counted."""
    count_until: float


@dataclass(slots=True, eq=False)
class WorkItem:
    """One request: tokens and seconds, and what became of it. Times that are 0 have not come yet."""

    input: int = 0
    uncached: int = 0
    output: int = 0
    draw: int = 0
    """Random routing sends it to the target of this number, modulo how many there are."""
    pause: float = 0.0
    """Closed loop: how long its client waits before it sends it."""
    arrival: float = 0.0
    replica: int = 0
    admitted: float = 0.0
    first_token: float = 0.0
    finish: float = 0.0
    delay: float = 0.0
    """Delay from the step that makes its tokens until they leave the last pipeline stage."""
    released: float = 0.0
    last_step: int = 0
    """Step of the replica that makes its last token, while it decodes; else 0."""
    made: int = 0
    """Output tokens that it had when it was last preempted."""
    preempted: float = 0.0
    """Time of that preemption."""
    preemptions: int = 0
    queued: int = 0
    """1 where it had to wait for more than the step that ran when it came."""
    next_waiting: int = 0


@dataclass(slots=True, eq=False)
class Replica:
    """One replica. A block is a step, or a run of steps in which no request comes or goes."""

    opens: float = 0.0
    """Time from which on it serves."""
    ends: float = math.inf
    """End of the block; infinite when idle."""
    began: float = 0.0
    steps: int = 0
    """Steps in the block; 0 for one that only wakes the replica."""
    first_step: float = 0.0
    """Seconds of the first step that only decodes, of a block or of a static batch."""
    growth: float = 0.0
    """Growth of each such step over the one before."""
    steps_done: int = 0
    running: int = 0
    """Requests that decode."""
    context: int = 0
    """Their tokens in the KV cache, with those that the next step writes."""
    present: int = 0
    """All requests in the block."""
    reserved: int = 0
    """KV tokens spoken for."""
    outstanding: int = 0
    """Requests that were sent here and still hold a slot or wait for one."""
    head: int = NONE
    """First of the queue."""
    tail: int = NONE
    partial: int = NONE
    """The request whose prompt is cut."""
    partial_done: int = 0
    """Tokens of it that are computed."""
    fresh: int = 0
    """Number of prompts that are complete at the end of the block, or of requests in a static batch."""
    busy: float = 0.0
    batch_seconds: float = 0.0
    preemptions: int = 0
    kv_peak: int = 0
    reserved_peak: int = 0


class Slots(NamedTuple):
    """Requests in each replica: arrays of (replicas, max_batch), of which the first few of a row are in use.

    `keys` and `items` are heaps of the running ones by the step of their last token; `fresh` those whose prompt is
    complete at the end of the block.
    """

    keys: Floats
    items: Integers
    fresh: Integers


class Clients(NamedTuple):
    """A heap of the requests that will be sent at known times (closed loop), empty where arrivals are given."""

    at: Floats
    request: Integers
    waiting: Integers
    """One number: how many are in the heap."""
    sent: Integers
    """One number: how many requests were sent, or are in the heap."""


# -- heaps -------------------------------------------------------------------------------------------------------------
def heap_push(keys: Floats, items: Integers, count: int, key: float, item: int) -> None:
    """Add a pair to a binary heap of `count` pairs (smallest key on top); the caller counts."""
    at = count
    while at > 0:
        parent = (at - 1) >> 1
        if keys[parent] <= key:
            break
        keys[at] = keys[parent]
        items[at] = items[parent]
        at = parent
    keys[at] = key
    items[at] = item


def heap_take(keys: Floats, items: Integers, count: int, at: int) -> int:
    """Take the item at a place (0: the smallest key) of a heap of `count` > `at` pairs; the caller counts."""
    taken = items[at]
    last = count - 1
    key, item = keys[last], items[last]
    while at > 0 and keys[(at - 1) >> 1] > key:
        parent = (at - 1) >> 1
        keys[at] = keys[parent]
        items[at] = items[parent]
        at = parent
    while True:
        child = 2 * at + 1
        if child >= last:
            break
        if child + 1 < last and keys[child + 1] < keys[child]:
            child += 1
        if key <= keys[child]:
            break
        keys[at] = keys[child]
        items[at] = items[child]
        at = child
    keys[at] = key
    items[at] = item
    return int(taken)


# -- the step model ----------------------------------------------------------------------------------------------------
def decode_seconds(step: Coefficients, sequences: int, context: float) -> float:
    """`StepModel.decode_seconds`."""
    seconds: float = step.batch[sequences] + step.context[sequences] * context
    return seconds


def prefill_seconds(step: Coefficients, tokens: int, cached: int) -> float:
    """`StepModel.prefill_seconds`."""
    return step.prefill * tokens + step.prefill_squared * tokens * (tokens + 2.0 * cached)


def series_seconds(first: float, growth: float, steps: int) -> float:
    """Duration of so many decode steps."""
    return steps * (first + growth * (steps - 1) / 2)


def steps_begun(first: float, growth: float, most: int, elapsed: float) -> int:
    """Count the decode steps, of `most`, that begin within `elapsed` seconds (at least 1); requests may join then."""
    # n steps take first*n + growth*n*(n-1)/2; solved for n, then put right where rounding was not exact.
    half = first - growth / 2
    steps = max(1, min(int(2 * elapsed / (half + math.sqrt(half * half + 2 * growth * elapsed))), most))
    while steps < most and series_seconds(first, growth, steps) < elapsed:
        steps += 1
    while steps > 1 and series_seconds(first, growth, steps - 1) >= elapsed:
        steps -= 1
    return steps


def cut(replica: Replica, steps: int) -> None:
    """End a block of decode steps after so many of them."""
    replica.steps = steps
    replica.ends = replica.began + series_seconds(replica.first_step, replica.growth, steps)


def cut_now(replica: Replica, now: float) -> None:
    """End a block of decode steps with the one that runs now."""
    if replica.steps > 1:
        cut(replica, steps_begun(replica.first_step, replica.growth, replica.steps, now - replica.began))


def count_time(rules: Rules, replica: Replica) -> bool:
    """Add the block that ends now to the busy time, and to the time that requests spent in a batch.

    Returns whether the block lies in the window in which that is counted, at least in part.
    """
    if replica.ends <= rules.count_from:
        return False
    seconds = min(replica.ends, rules.count_until) - max(replica.began, rules.count_from)
    if seconds <= 0.0:
        return False
    replica.busy += seconds
    replica.batch_seconds += seconds * replica.present
    return True


# -- in-flight batching ------------------------------------------------------------------------------------------------
def begin_block(
    step: Coefficients, rules: Rules, work: Any, replica: Replica, keys: Floats, items: Integers, fresh: Integers
) -> None:
    """Admit what may be admitted, then plan one step with prompts or the longest run of steps without a change."""
    previous = replica.began if replica.present > 0 else -math.inf
    replica.began = replica.ends
    if rules.is_paged:
        make_room(rules, work, replica, keys, items)
    running = replica.running
    first = decode_seconds(step, running, replica.context)
    if replica.head != NONE or replica.partial != NONE:
        prompts = admit(step, rules, work, replica, fresh, previous)
        replica.present = running + replica.fresh + (1 if replica.partial != NONE else 0)
        if replica.present > running:
            replica.steps = 1
            replica.ends += first + prompts
            return
    replica.present = running
    if running == 0:
        replica.ends = math.inf
        return
    steps = int(keys[0]) - replica.steps_done
    if rules.is_paged:
        steps = min(steps, 1 + (rules.kv_tokens - replica.reserved) // running)
    replica.steps = steps
    replica.first_step = first
    replica.growth = step.context[running] * running
    replica.ends += series_seconds(first, replica.growth, steps)


def admit(step: Coefficients, rules: Rules, work: Any, replica: Replica, fresh: Integers, previous: float) -> float:
    """Put prompts into the next step, first come first served; returns the seconds that they add.

    A whole prompt is always taken where it is the only one. The first that does not fit ends the search. A request that
    was there when the block before began, at `previous`, was passed over.
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
            item.delay = step.further_stages * own
    replica.fresh = count
    return seconds


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
            item.last_step = 0
            item.preempted = replica.ends
            replica.running -= 1
            replica.context -= item.input + item.made
            replica.reserved -= item.input + item.made
        item.preemptions += 1
        replica.preemptions += 1
        item.next_waiting = replica.head
        if replica.head == NONE:
            replica.tail = request
        replica.head = request


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
            item.first_token = replica.ends + item.delay
        item.last_step = replica.steps_done + item.output - made
        heap_push(keys, items, replica.running, item.last_step, request)
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


def finish_next(work: Any, replica: Replica, keys: Floats, items: Integers) -> int:
    """Take the next request that has its last token out of the batch; returns it."""
    request = heap_take(keys, items, replica.running, 0)
    item = work[request]
    replica.running -= 1
    replica.context -= item.input + item.output
    replica.reserved -= item.input + item.output
    replica.outstanding -= 1
    item.released = replica.ends
    item.finish = replica.ends + item.delay
    return request


# -- static batching ---------------------------------------------------------------------------------------------------
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
    replica.first_step, replica.growth = first, growth
    replica.ends = prefilled + series_seconds(first, growth, longest_output - 1)
    for i in range(count):
        item = work[fresh[i]]
        item.admitted = now
        item.first_token = prefilled + step.further_stages * own
        item.finish = item.first_token + series_seconds(first, growth, item.output - 1)


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


# -- requests that are taken back --------------------------------------------------------------------------------------
def unqueue(work: Any, replica: Replica, request: int) -> None:
    """Take a request out of the queue."""
    before, at = NONE, replica.head
    while at != request:
        before = at
        at = work[at].next_waiting
    if before == NONE:
        replica.head = work[request].next_waiting
    else:
        work[before].next_waiting = work[request].next_waiting
    if replica.tail == request:
        replica.tail = before
    replica.outstanding -= 1


def shorten(rules: Rules, replica: Replica, item: WorkItem, output: int) -> None:
    """Let a request in the batch have fewer tokens than it asked for; what is reserved for the others is free now."""
    if not rules.is_paged:
        replica.reserved -= item.output - output
    item.output = output


def stop_prompt(rules: Rules, work: Any, replica: Replica, fresh: Integers, request: int) -> None:
    """End a request with the step that computes its prompt, or a part of it."""
    if request == replica.partial:
        fresh[replica.fresh] = request
        replica.fresh += 1
        replica.partial = NONE
        replica.partial_done = 0
    shorten(rules, replica, work[request], work[request].made + 1)


def stop_decoding(
    rules: Rules, work: Any, replica: Replica, keys: Floats, items: Integers, request: int, now: float
) -> None:
    """End the block with the step that runs now, and a request that decodes with it."""
    cut_now(replica, now)
    at = 0
    while items[at] != request:
        at += 1
    heap_take(keys, items, replica.running, at)
    item = work[request]
    last_step = replica.steps_done + replica.steps
    shorten(rules, replica, item, item.output - (item.last_step - last_step))
    item.last_step = last_step
    heap_push(keys, items, replica.running - 1, last_step, request)


# -- a fleet -----------------------------------------------------------------------------------------------------------
def run(
    step: Coefficients,
    rules: Rules,
    work: Any,
    fleet: Any,
    slots: Slots,
    clients: Clients,
    is_closed: bool,
    targets: Integers,
    until: float,
) -> None:
    """Simulate what happens up to `until` (infinite: until every request is answered).

    New requests go to the replicas `targets`; where there are none they are not sent yet. Results are in `work` and
    `fleet`; another call goes on from there.
    """
    while True:
        arrives = math.inf
        if is_closed:
            if clients.waiting[0] > 0:
                arrives = clients.at[0]
        elif clients.sent[0] < work.size and targets.size > 0:
            arrives = work[clients.sent[0]].arrival
        at = 0
        for i in range(1, fleet.size):
            if fleet[i].ends < fleet[at].ends:
                at = i
        replica = fleet[at]
        if min(arrives, replica.ends) > until or (arrives == math.inf and replica.ends == math.inf):
            break
        if arrives <= replica.ends:  # what arrives at the very moment that a step ends is admitted to the next
            if is_closed:
                request = heap_take(clients.at, clients.request, clients.waiting[0], 0)
                clients.waiting[0] -= 1
                work[request].arrival = arrives
            else:
                request = clients.sent[0]
                clients.sent[0] += 1
            arrive(rules, work, fleet, request, targets)
        elif rules.batching == STATIC:
            end_static_batch(rules, work, replica, slots.fresh[at])
            begin_static_batch(step, rules, work, replica, slots.fresh[at])
            if is_closed:
                for i in range(replica.fresh):
                    send_next(work, clients, work[slots.fresh[at, i]].finish)
        else:
            end_block(rules, work, replica, slots.keys[at], slots.items[at], slots.fresh[at])
            while replica.running > 0 and slots.keys[at, 0] <= replica.steps_done:
                request = finish_next(work, replica, slots.keys[at], slots.items[at])
                if is_closed:
                    send_next(work, clients, work[request].finish)
            begin_block(step, rules, work, replica, slots.keys[at], slots.items[at], slots.fresh[at])


def arrive(rules: Rules, work: Any, fleet: Any, request: int, targets: Integers) -> None:
    """Route a request to one of the replicas `targets`."""
    item = work[request]
    at = targets[(item.draw if rules.routing == RANDOM else request) % targets.size]
    if rules.routing == LEAST_LOADED:
        # Ties go round, so that light traffic does not all land on the first replica.
        for i in range(1, targets.size):
            other = targets[(request + i) % targets.size]
            if fleet[other].outstanding < fleet[at].outstanding:
                at = other
    item.replica = at
    enqueue(rules, work, fleet[at], request)


def enqueue(rules: Rules, work: Any, replica: Replica, request: int) -> None:
    """Queue a request at a replica; wake it or cut the block that runs there."""
    item = work[request]
    item.next_waiting = NONE
    replica.outstanding += 1
    is_first = replica.head == NONE
    if is_first:
        replica.head = request
    else:
        work[replica.tail].next_waiting = request
    replica.tail = request
    if replica.ends == math.inf:
        # One that came before there was a replica to send it to is sent when the first one is ready.
        replica.ends = max(item.arrival, replica.opens)
        replica.began = replica.ends
        replica.steps = 0
        replica.present = 0
    elif rules.batching == STATIC:
        item.queued = 1
    elif replica.steps > 1:
        elapsed = max(item.arrival, replica.opens) - replica.began
        steps = steps_begun(replica.first_step, replica.growth, replica.steps, elapsed)
        if is_first and replica.running < rules.max_batch:
            cut(replica, steps)
        elif steps < replica.steps:
            item.queued = 1


def send_next(work: Any, clients: Clients, answered: float) -> None:
    """Closed loop: a client that was answered sends the next request after its pause."""
    if clients.sent[0] < work.size:
        request = clients.sent[0]
        clients.sent[0] += 1
        heap_push(clients.at, clients.request, clients.waiting[0], answered + work[request].pause, request)
        clients.waiting[0] += 1
