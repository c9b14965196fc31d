"""The event loop: requests that come and replicas that batch; time jumps from one change to the next.

Decode steps grow linearly with their context, so a run of them is an arithmetic series; a request that arrives during
it cuts it after the step that is running, which is exact.

NB: numba keys its cache on disk by the file of the function that is called. After a change in `heap`, `timing`,
`in_flight_batches` or `static_batches` touch this file, or the old code runs (the test that compares with plain Python
fails then). An installation writes all of them anew.
"""

from __future__ import annotations

import math
from typing import Any

from firsttoken_sizing.simulation.compiled import compiled
from firsttoken_sizing.simulation.heap import heap_push, heap_take
from firsttoken_sizing.simulation.in_flight_batches import begin_block, end_block, finish_next
from firsttoken_sizing.simulation.state import (
    LEAST_LOADED,
    NONE,
    RANDOM,
    STATIC,
    Clients,
    Coefficients,
    Integers,
    Rules,
    Slots,
)
from firsttoken_sizing.simulation.static_batches import begin_static_batch, end_static_batch
from firsttoken_sizing.simulation.timing import series_seconds, steps_begun


@compiled
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
        if arrives <= replica.ends:  # who arrives at the very moment that a step ends is admitted to the next
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


@compiled
def arrive(rules: Rules, work: Any, fleet: Any, request: int, targets: Integers) -> None:
    """Route a request and queue it; wake its replica or cut the block that runs there."""
    item = work[request]
    at = targets[(item.draw if rules.routing == RANDOM else request) % targets.size]
    if rules.routing == LEAST_LOADED:
        # Ties go round, so that light traffic does not all land on the first replica.
        for i in range(1, targets.size):
            other = targets[(request + i) % targets.size]
            if fleet[other].outstanding < fleet[at].outstanding:
                at = other
    replica = fleet[at]
    item.replica = at
    item.next_waiting = NONE
    replica.outstanding += 1
    nobody_waits = replica.head == NONE
    if nobody_waits:
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
        steps = steps_begun(replica, max(item.arrival, replica.opens))
        if nobody_waits and replica.running < rules.max_batch:
            replica.steps = steps
            replica.ends = replica.began + series_seconds(replica.first_step, replica.growth, steps)
        elif steps < replica.steps:
            item.queued = 1


@compiled
def send_next(work: Any, clients: Clients, answered: float) -> None:
    """Closed loop: a client that was answered sends the next request after its pause."""
    if clients.sent[0] < work.size:
        request = clients.sent[0]
        clients.sent[0] += 1
        heap_push(clients.at, clients.request, clients.waiting[0], answered + work[request].pause, request)
        clients.waiting[0] += 1
