"""The load of a simulation: how requests come, for how long, and which part of it is measured."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from enum import StrEnum

import numpy as np

from firsttoken_sizing.errors import InvalidInput
from firsttoken_sizing.performance.closed_loop import throughput
from firsttoken_sizing.request import Sizing
from firsttoken_sizing.simulation.fleet import Settings
from firsttoken_sizing.simulation.outcome import Outcome, simulate
from firsttoken_sizing.simulation.requests import (
    Requests,
    bursty_arrivals,
    client_pauses,
    drawn_requests,
    poisson_arrivals,
)
from firsttoken_sizing.simulation.subject import Subject
from firsttoken_sizing.workload import Arrivals

MOST_REQUESTS = 50_000_000
"""Requests of one simulation at most: about 16 GB of memory."""
_WARM_UP_SHARE = 0.1
_CLOSED_LOOP_MARGIN = 1.3


class Process(StrEnum):
    """Arrivals of requests."""

    POISSON = "Poisson"
    BURSTY = "Bursty"
    CLOSED = "ClosedLoop"


@dataclass(frozen=True, slots=True)
class FleetLoad:
    """A load on the whole fleet, for `seconds`, of which the first tenth is not measured: the fleet starts empty.

    `rate` (requests a second) is for open arrivals, `concurrency` for the closed loop; `gap_variation` is the
    coefficient of variation of the gaps between bursty arrivals.
    """

    process: Process
    seconds: float
    rate: float = 0.0
    concurrency: int = 0
    gap_variation: float = 2.0
    seed: int = 1

    @property
    def window(self) -> tuple[float, float]:
        """Window that is measured: start and end in seconds."""
        return _WARM_UP_SHARE * self.seconds, self.seconds

    def __str__(self) -> str:
        if self.process is Process.CLOSED:
            return f"closed loop, {self.concurrency} requests outstanding"
        kind = "Poisson arrivals"
        if self.process is Process.BURSTY:
            kind = f"bursty arrivals (gaps vary by {self.gap_variation:g} of their mean)"
        return f"{kind} at {self.rate:g} requests/s"


def load_of_size(
    sizing: Sizing,
    process: Process | None,
    *,
    rate: float | None = None,
    concurrency: int | None = None,
    seconds: float,
    gap_variation: float | None = None,
    seed: int = 1,
) -> FleetLoad:
    """The load that was asked for; what was not said is as sized. Raises `InvalidInput` where no size says it."""
    if process is None and concurrency is None and rate is None:
        process = Process.CLOSED if sizing.arrivals is Arrivals.CLOSED_LOOP else Process.POISSON
    elif process is None:
        process = Process.POISSON if concurrency is None else Process.CLOSED
    if process is Process.CLOSED:
        sized = round(sizing.replicas * sizing.concurrency_per_replica)
        outstanding = sized if concurrency is None else concurrency
        if outstanding < 1:
            raise InvalidInput("--concurrency", "is missing, and no size says how many", "give --concurrency")
        return FleetLoad(process, seconds, concurrency=outstanding, seed=seed)
    arriving = sizing.peak_requests_per_second if rate is None else rate
    if not arriving > 0:
        raise InvalidInput("--rate", "is missing, and the deployment declares no peak", "give --rate")
    return FleetLoad(
        process, seconds, rate=arriving, gap_variation=2.0 if gap_variation is None else gap_variation, seed=seed
    )


def simulate_load(subject: Subject, settings: Settings, load: FleetLoad) -> tuple[Outcome, Settings]:
    """Simulate a load; busy time, batch and KV use count in its window, as the settings that come back say.

    Raises `InvalidInput` where it would be more than `MOST_REQUESTS`, or none at all in the window.
    """
    start, end = load.window
    settings = replace(settings, count_from_s=start, count_until_s=end, seed=load.seed)
    if load.process is Process.CLOSED:
        outcome = _closed_loop(subject, settings, load)
    else:
        outcome = _open(subject, settings, load)
    if not outcome.between(start, end).any():
        raise _nothing(load)
    return outcome, settings


def _nothing(load: FleetLoad) -> InvalidInput:
    start, end = load.window
    return InvalidInput("--seconds", f"no request comes between {start:g} and {end:g} s", "simulate longer")


def _open(subject: Subject, settings: Settings, load: FleetLoad) -> Outcome:
    expected = load.rate * load.seconds
    # Six standard deviations more than expected, so that they hardly ever end too early.
    spread = max(1.0, load.gap_variation if load.process is Process.BURSTY else 1.0)
    count = _checked(expected + 6 * spread * math.sqrt(expected) + 10)
    rng = np.random.default_rng(load.seed)
    if load.process is Process.BURSTY:
        arrival = bursty_arrivals(load.rate, count, load.gap_variation, rng)
    else:
        arrival = poisson_arrivals(load.rate, count, rng)
    arrival = arrival[arrival < load.seconds]
    if not len(arrival):
        raise _nothing(load)
    return simulate(subject.step, _fitting(drawn_requests(subject.lengths, arrival, rng), settings), settings)


def _closed_loop(subject: Subject, settings: Settings, load: FleetLoad) -> Outcome:
    """The loop is as long as the window if its requests are; there are more of them until they are."""
    per_replica = max(1.0, load.concurrency / settings.replicas)
    rate = settings.replicas * throughput(subject.step, subject.lengths, per_replica)
    wanted = _CLOSED_LOOP_MARGIN * rate * load.seconds + 2 * load.concurrency
    while True:
        count = _checked(wanted)
        rng = np.random.default_rng(load.seed)
        requests = drawn_requests(subject.lengths, client_pauses(count, rng), rng, load.concurrency)
        outcome = simulate(subject.step, _fitting(requests, settings), settings)
        if outcome.arrival_s.max() >= load.seconds:
            return outcome
        wanted *= 2


def _fitting(requests: Requests, settings: Settings) -> Requests:
    """The requests, none of which is longer than the KV cache of a replica."""
    longest = int((requests.input_tokens + requests.output_tokens).max())
    if settings.kv_cache_tokens is not None and longest > settings.kv_cache_tokens:
        raise InvalidInput(
            "traffic.inputTokens/outputTokens",
            f"the longest request drawn has {longest} tokens, and the KV cache of a replica holds"
            f" {settings.kv_cache_tokens}",
            "declare shorter ones, or use more GPUs a replica (hardware.tensorParallel)",
        )
    return requests


def _checked(count: float) -> int:
    if count > MOST_REQUESTS:
        raise InvalidInput(
            "--seconds", f"{count:.3g} requests are more than {MOST_REQUESTS:,} at once", "simulate a shorter time"
        )
    return math.ceil(count)
