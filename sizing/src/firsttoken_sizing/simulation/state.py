"""What the event loop reads and writes, in forms that compiled code knows: named tuples and arrays of records.

`Coefficients` and `Rules` are constant during a run. One record of `WorkItem` stands for each request, one of `Replica`
for each replica; the classes say what their fields are and make the types of those arrays. Requests are numbered in the
order in which they are sent, and NONE is no request.
"""

from __future__ import annotations

from typing import Any, NamedTuple, get_type_hints

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
    """Of a step, by the number of running sequences, 0 to the batch limit."""
    context: Floats
    """For each token of context, likewise."""
    prefill: float
    prefill_squared: float
    further_stages: float


class Rules(NamedTuple):
    """How a replica packs work, and how requests are sent to replicas."""

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


class WorkItem:
    """One request: tokens and seconds, and what became of it."""

    input: int
    uncached: int
    output: int
    draw: int
    """Random routing sends it to the target of this number, modulo how many there are."""
    pause: float
    """Closed loop: how long its client waits before it sends it."""
    arrival: float
    replica: int
    admitted: float
    first_token: float
    finish: float
    released: float
    made: int
    """Output tokens that it had when it was last preempted."""
    preemptions: int
    queued: int
    """1 where it had to wait for more than the step that ran when it came."""
    next_waiting: int


class Replica:
    """One replica. A block is a step, or a run of steps in which nobody comes or goes."""

    opens: float
    """From when on it serves."""
    ends: float
    """Of the block; infinite when idle."""
    began: float
    steps: int
    """In the block; 0 for one that only wakes the replica."""
    first_step: float
    """Seconds of the first step of a block that only decodes."""
    growth: float
    """By how much each step of it takes longer than the one before."""
    steps_done: int
    running: int
    """Requests that decode."""
    context: int
    """Their tokens in the KV cache, with those that the next step writes."""
    present: int
    """All requests in the block."""
    reserved: int
    """KV tokens spoken for."""
    outstanding: int
    """Requests that were sent here and still hold a slot or wait for one."""
    head: int
    """First of the queue."""
    tail: int
    partial: int
    """The request whose prompt is cut."""
    partial_done: int
    """Tokens of it that are computed."""
    fresh: int
    """How many prompts are complete at the end of the block."""
    busy: float
    batch_seconds: float
    kv_peak: int
    reserved_peak: int


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


def records(kind: type, count: int) -> Any:
    """An array of records with the fields of `WorkItem` or `Replica`, all zero."""
    fields = [(name, "f8" if hint is float else "i8") for name, hint in get_type_hints(kind).items()]
    return np.zeros(count, dtype=fields).view(np.recarray)


def new_fleet(replicas: int, max_batch: int) -> tuple[Any, Slots]:
    """Idle replicas with empty slots."""
    fleet = records(Replica, replicas)
    fleet.ends = np.inf
    fleet.head = fleet.tail = fleet.partial = NONE
    shape = (replicas, max_batch)
    return fleet, Slots(np.zeros(shape), np.zeros(shape, np.int64), np.zeros(shape, np.int64))


def new_clients(pause_s: Floats, concurrency: int) -> Clients:
    """The clients of a closed loop, each about to send its first request; 0 where arrivals are given."""
    clients = min(concurrency, len(pause_s))
    first = np.argsort(pause_s[:clients], kind="stable")  # a sorted array is a heap
    count = np.array([clients], np.int64)
    return Clients(pause_s[first].astype(np.float64), first.astype(np.int64), count, count.copy())
