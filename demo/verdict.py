"""The verdict: eight criteria on the records of a run, and two of a real replica, each against a bound. Pure."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise

from demo.record import RealReplica, Record
from demo.scenario import Expectation, Scenario

FIRST_SCALE_UP_TICKS = 14
"""Ticks after the load began to rise. A step of it is one that chance makes too: it takes some to be told from that."""
ENOUGH_REPLICAS_TICKS = 2
"""Ticks after the load is at its peak: what it takes was ordered while it rose."""
ENOUGH_SHARE = 0.95
"""Share of the size for the peak: a filtered rate and measured lengths may ask for a replica or two less."""
REPLICA_SECONDS_SHARE = 0.8
ATTAINMENT_PERCENT = 95.0
"""The SLA of the example is a P95."""
LATENESS_SECONDS = 0.5
REAL_ATTAINMENT_PERCENT = 90.0
"""A real server has the load of every other replica, and shares two cores with the rest of the demo."""
HTTP_MILLISECONDS = 100.0
"""Time that the way to a real server and back may take on two cores that are shared with the rest of the demo."""


@dataclass(frozen=True, slots=True)
class Criterion:
    """One thing that had to hold, and what was measured."""

    name: str
    passed: bool
    measured: str
    required: str


def judge(scenario: Scenario, expected: Expectation, scaled: Record, frozen: Record) -> list[Criterion]:
    """All criteria of a finished run; the run passed if every one did.

    `frozen`: the same traffic to as many replicas as there were at the start.
    """
    return [
        _first_scale_up(scenario, scaled),
        _enough_replicas(scenario, expected, scaled),
        _scale_down(scenario, scaled),
        _replica_seconds(expected, scaled),
        _bounds(expected, scaled),
        _attainment(scaled),
        _breaks(frozen),
        _lateness(scaled, frozen),
        *(_real(scaled.real) if scaled.real is not None else ()),
    ]


def cannot_pass(scenario: Scenario, scaled: Record, now_seconds: float) -> bool:
    """Tell whether the run has failed already: the first scale-up is overdue by a tick."""
    deadline = scenario.rise.at_seconds + FIRST_SCALE_UP_TICKS * scenario.tick_wall_seconds
    return now_seconds > deadline + scenario.tick_wall_seconds and not _first_scale_up(scenario, scaled).passed


def _first_scale_up(scenario: Scenario, record: Record) -> Criterion:
    rise, allowed = scenario.rise.at_seconds, FIRST_SCALE_UP_TICKS * scenario.tick_wall_seconds
    before = record.replicas_at(rise)
    after = next((e.seconds - rise for e in record.events if e.seconds > rise and e.replicas > before), None)
    return Criterion(
        "first scale-up after the load began to rise",
        after is not None and after <= allowed,
        "none" if after is None else f"{after:.1f} s",
        f"within {FIRST_SCALE_UP_TICKS} ticks, {allowed:.1f} s",
    )


def _enough_replicas(scenario: Scenario, expected: Expectation, record: Record) -> Criterion:
    peak, allowed = scenario.peak.at_seconds, ENOUGH_REPLICAS_TICKS * scenario.tick_wall_seconds
    needed = math.floor(ENOUGH_SHARE * expected.replicas_for_peak)
    after = next((e.seconds - peak for e in record.events if e.ready >= needed), None)
    return Criterion(
        f"{needed} ready replicas, {ENOUGH_SHARE:.0%} of what the peak is sized for",
        after is not None and after <= allowed,
        "never" if after is None else f"{abs(after):.1f} s {'before' if after < 0 else 'after'} it",
        f"at most {ENOUGH_REPLICAS_TICKS} ticks, {allowed:.1f} s, after the load is at its peak",
    )


def _scale_down(scenario: Scenario, record: Record) -> Criterion:
    late = [e for e in record.events if e.seconds > scenario.peak.at_seconds]
    down = next((b.seconds for a, b in pairwise(late) if b.replicas < a.replicas), None)
    return Criterion(
        "scale-down after the peak",
        down is not None,
        "none" if down is None else f"at {down:.0f} s",
        f"before the end, {scenario.duration_seconds:.0f} s",
    )


def _replica_seconds(expected: Expectation, record: Record) -> Criterion:
    static = expected.replicas_for_peak * record.seconds
    # NB: a replica that is real and not as fast is a canary, and carries next to nothing.
    canary = record.real is not None and not record.real.is_paced
    share = (record.replica_seconds() - canary * record.seconds) / static if static else 1.0
    counted = "replica-seconds without the canary" if canary else "replica-seconds"
    return Criterion(
        f"{counted} against {expected.replicas_for_peak} static replicas",
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
        f"requests inside the SLA, of {record.requests:,}",
        attained is not None and attained >= ATTAINMENT_PERCENT,
        "unknown" if attained is None else f"{attained:.2f} %",
        f"at least {ATTAINMENT_PERCENT:.0f} %",
    )


def _breaks(frozen: Record) -> Criterion:
    attained = frozen.attainment_percent
    return Criterion(
        f"the same without scaling, of {frozen.requests:,}: the traffic needs it",
        attained is not None and attained < ATTAINMENT_PERCENT,
        "unknown" if attained is None else f"{attained:.2f} %",
        f"below {ATTAINMENT_PERCENT:.0f} %",
    )


def _lateness(*records: Record) -> Criterion:
    known = [r.lateness_p99_seconds for r in records if r.lateness_p99_seconds is not None]
    late = max(known) if len(known) == len(records) else None
    return Criterion(
        "p99 lateness of the emulated fleets",
        late is not None and late <= LATENESS_SECONDS,
        "unknown" if late is None else f"{late:.3f} s",
        f"at most {LATENESS_SECONDS} s",
    )


def _real(replica: RealReplica) -> tuple[Criterion, Criterion]:
    counted = replica.counted
    return (
        _attained(replica) if replica.is_paced else _told(replica),
        Criterion(
            f"requests that the real {replica.name} counted",
            counted is not None and 0 < replica.answered <= counted <= replica.sent,
            "unknown" if counted is None else f"{counted:,}",
            f"all {replica.answered:,} that it answered, of {replica.sent:,} that it was sent",
        ),
    )


def _attained(replica: RealReplica) -> Criterion:
    attained = replica.attainment_percent
    return Criterion(
        f"requests to the real {replica.name} inside the SLA, of {replica.requests:,}",
        attained is not None and attained >= REAL_ATTAINMENT_PERCENT,
        "unknown" if attained is None else f"{attained:.2f} %",
        f"at least {REAL_ATTAINMENT_PERCENT:.0f} %",
    )


def _told(replica: RealReplica) -> Criterion:
    """Compare what a server says of its TTFT with the clock of its client, which has the way there and back in it."""
    bucket, client = replica.ttft_bucket_milliseconds, replica.median_ttft_milliseconds
    low, high = bucket if bucket is not None else (math.nan, math.nan)
    return Criterion(
        f"median TTFT of the real {replica.name}, by the clock of its client",
        client is not None and low <= client <= high + HTTP_MILLISECONDS,
        "unknown" if client is None else f"{client:,.0f} ms",
        "known to it"
        if bucket is None
        else f"{low:g} to {high:g} ms as it says itself, and {HTTP_MILLISECONDS:g} for HTTP",
    )
