"""Offline: no caller waits, a job of so many requests must be done by a deadline. How fast, and on how many replicas.

A replica works on a full batch until no request is left to fill it, then on the rest. Short jobs are mostly that last
batch, which a replica more does not shorten; so the size follows from the time that a share of the job takes, not from
a rate. Requests are split evenly over the replicas beforehand.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from dataclasses import dataclass

from firsttoken_sizing.errors import InvalidInput
from firsttoken_sizing.performance.batch_service import longest_multiple
from firsttoken_sizing.performance.closed_loop import round_seconds
from firsttoken_sizing.performance.lengths import Lengths
from firsttoken_sizing.step.model import StepModel
from firsttoken_sizing.workload import OfflineJob

_SECONDS_PER_HOUR = 3600
_SEARCHED_BATCHES = 64


@dataclass(frozen=True, slots=True)
class Throughput:
    """Throughput that one replica sustains with its batch kept full."""

    batch: int
    """Running requests at which the throughput is largest."""
    requests_per_second: float


@dataclass(frozen=True, slots=True)
class OfflinePlan:
    """Plan by which a job is done in time."""

    replicas: int
    finish_seconds: float
    """Time when the last request is done; at most the deadline."""
    gpu_hours: float
    """Hours of all GPUs until then."""


def full_throughput(step: StepModel, lengths: Lengths) -> Throughput:
    """The largest throughput of one replica up to the batch limit.

    Throughput rises with the batch as a rule: all that is searched for is a mixture of experts or a fit in which it
    does not.
    """
    batch = max(_batches(step.max_batch), key=lambda b: b / round_seconds(step, lengths, b))
    return Throughput(batch, batch / round_seconds(step, lengths, batch))


def finish_seconds(step: StepModel, lengths: Lengths, requests: int) -> float:
    """Time at which one replica is done with `requests` (>= 1) that are all there at the beginning.

    Requests of equal length run in rounds of a full batch and one of what is left: `floor(n/B) * S(B) + S(n mod B)`.
    Where lengths are spread, slots are refilled one by one and the rounds blur, at the same throughput; the last batch
    then waits for its longest answer, which runs nearly alone: `(longest - mean)` more steps of a batch of one.
    """
    best = full_throughput(step, lengths)
    full, rest = divmod(requests, best.batch)
    seconds = full * round_seconds(step, lengths, best.batch)
    if rest:
        seconds += round_seconds(step, lengths, rest)
    longest = lengths.output_tokens * longest_multiple(lengths.output_spread, min(requests, best.batch))
    beyond = longest - lengths.output_tokens
    return seconds + beyond * float(step.decode_seconds(1.0, lengths.input_tokens + longest)) if beyond > 0 else seconds


def plan(step: StepModel, lengths: Lengths, job: OfflineJob, gpus_per_replica: int) -> OfflinePlan | None:
    """Fewest replicas that finish the job before its deadline; None where not even one request is done in time.

    Raises `InvalidInput` for a job without requests or time.
    """
    if job.requests < 1:
        raise InvalidInput("traffic.offline.requests", f"{job.requests} is below 1", "say how many requests there are")
    if not (math.isfinite(job.deadline_hours) and job.deadline_hours > 0):
        raise InvalidInput("traffic.offline.deadlineHours", f"{job.deadline_hours:g} is no time", "use more than 0")
    deadline = job.deadline_hours * _SECONDS_PER_HOUR

    def seconds_for(requests: int) -> float:
        return finish_seconds(step, lengths, requests)

    # More requests never take less time.
    most = bisect_right(range(1, job.requests + 1), deadline, key=seconds_for)
    if most == 0:
        return None
    replicas = math.ceil(job.requests / most)
    seconds = seconds_for(math.ceil(job.requests / replicas))
    return OfflinePlan(replicas, seconds, replicas * gpus_per_replica * seconds / _SECONDS_PER_HOUR)


def _batches(largest: int) -> list[int]:
    """Batches from 1 to the largest, evenly in their logarithm."""
    ratio = largest ** (1 / (_SEARCHED_BATCHES - 1))
    return sorted({round(ratio**i) for i in range(_SEARCHED_BATCHES)} | {largest})
