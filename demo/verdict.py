"""The verdict: seven criteria on the record of a run, each a number against a bound. Pure."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise

from demo.record import Record
from demo.scenario import Expectation, Scenario

FIRST_SCALE_UP_TICKS = 2
ENOUGH_REPLICAS_TICKS = 6
ENOUGH_SHARE = 0.95
"""Of the size for the burst: a filtered rate and measured lengths may ask for a replica or two less than declared."""
REPLICA_SECONDS_SHARE = 0.75
ATTAINMENT_PERCENT = 95.0
LATENESS_SECONDS = 0.5


@dataclass(frozen=True, slots=True)
class Criterion:
    """One thing that had to hold, and what was measured."""

    name: str
    passed: bool
    measured: str
    required: str


def judge(scenario: Scenario, expected: Expectation, record: Record) -> list[Criterion]:
    """All criteria of a finished run; the run passed if every one did."""
    return [
        _first_scale_up(scenario, record),
        _enough_replicas(scenario, expected, record),
        _scale_down(scenario, record),
        _replica_seconds(expected, record),
        _bounds(expected, record),
        _attainment(record),
        _lateness(record),
    ]


def cannot_pass(scenario: Scenario, record: Record, now_seconds: float) -> bool:
    """Whether the run has failed already: the burst is older than its first scale-up may be, and none came."""
    deadline = scenario.burst.at_seconds + FIRST_SCALE_UP_TICKS * scenario.tick_wall_seconds
    return now_seconds > deadline + scenario.tick_wall_seconds and not _first_scale_up(scenario, record).passed


def _first_scale_up(scenario: Scenario, record: Record) -> Criterion:
    burst, allowed = scenario.burst.at_seconds, FIRST_SCALE_UP_TICKS * scenario.tick_wall_seconds
    before = record.replicas_at(burst)
    after = next((e.seconds - burst for e in record.events if e.seconds > burst and e.replicas > before), None)
    return Criterion(
        "first scale-up after the burst",
        after is not None and after <= allowed,
        "none" if after is None else f"{after:.1f} s",
        f"within {FIRST_SCALE_UP_TICKS} ticks, {allowed:.1f} s",
    )


def _enough_replicas(scenario: Scenario, expected: Expectation, record: Record) -> Criterion:
    burst = scenario.burst.at_seconds
    allowed = scenario.scaled(scenario.cold_start_seconds + ENOUGH_REPLICAS_TICKS * scenario.tick_seconds)
    needed = math.floor(ENOUGH_SHARE * expected.replicas_for_burst)
    after = next((e.seconds - burst for e in record.events if e.seconds > burst and e.ready >= needed), None)
    return Criterion(
        f"{needed} ready replicas, {ENOUGH_SHARE:.0%} of what the burst is sized for",
        after is not None and after <= allowed,
        "never" if after is None else f"after {after:.1f} s",
        f"within cold start + {ENOUGH_REPLICAS_TICKS} ticks, {allowed:.1f} s",
    )


def _scale_down(scenario: Scenario, record: Record) -> Criterion:
    burst = scenario.burst.at_seconds
    late = [e for e in record.events if e.seconds > burst]
    down = next((b.seconds for a, b in pairwise(late) if b.replicas < a.replicas), None)
    return Criterion(
        "scale-down after the burst",
        down is not None,
        "none" if down is None else f"at {down:.0f} s",
        f"before the end, {scenario.duration_seconds:.0f} s",
    )


def _replica_seconds(expected: Expectation, record: Record) -> Criterion:
    static = expected.replicas_for_peak * record.seconds
    share = record.replica_seconds() / static if static else 1.0
    return Criterion(
        f"replica-seconds against {expected.replicas_for_peak} static replicas",
        share <= REPLICA_SECONDS_SHARE,
        f"{share:.1%}",
        f"at most {REPLICA_SECONDS_SHARE:.0%}",
    )


def _bounds(expected: Expectation, record: Record) -> Criterion:
    sizes = [e.replicas for e in record.events]
    return Criterion(
        "every watch event inside the bounds",
        bool(sizes) and expected.min_replicas <= min(sizes) and max(sizes) <= expected.replica_limit,
        f"{min(sizes)} to {max(sizes)}" if sizes else "no event",
        f"{expected.min_replicas} to {expected.replica_limit}",
    )


def _attainment(record: Record) -> Criterion:
    attained = record.attainment_percent
    return Criterion(
        f"requests inside the SLA, of {record.requests}",
        attained is not None and attained >= ATTAINMENT_PERCENT,
        "unknown" if attained is None else f"{attained:.2f} %",
        f"at least {ATTAINMENT_PERCENT:.0f} %",
    )


def _lateness(record: Record) -> Criterion:
    late = record.lateness_p99_seconds
    return Criterion(
        "p99 lateness of the emulated fleet",
        late is not None and late <= LATENESS_SECONDS,
        "unknown" if late is None else f"{late:.3f} s",
        f"at most {LATENESS_SECONDS} s",
    )
