"""A verdict that cannot fail proves nothing: every criterion is broken once."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from demo.page import write_page
from demo.record import Record, ReplicaEvent, Sample
from demo.scenario import Expectation, Scenario
from demo.verdict import cannot_pass, judge

SCENARIO = Scenario()
EXPECTED = Expectation(
    replicas_for_peak=39, replicas_for_burst=39, replica_limit=59, min_replicas=4, ttft_sla_milliseconds=300
)


def good() -> Record:
    """A run as it should be: 17 replicas, a burst to 41, back to 20."""
    events = [
        ReplicaEvent(-3.0, 16, 16),
        ReplicaEvent(20.0, 17, 16),
        ReplicaEvent(38.0, 17, 17),
        ReplicaEvent(121.5, 30, 17),
        ReplicaEvent(124.0, 41, 17),
        ReplicaEvent(143.0, 41, 41),
        ReplicaEvent(215.0, 31, 31),
        ReplicaEvent(230.0, 20, 20),
    ]
    samples = [Sample(float(t), 80.0, 16, 16, 16, 100.0, 99.0, 0.05, "Steady") for t in range(0, 300, 10)]
    return Record(events=events, samples=samples, attainment_percent=98.2, requests=31_000, seconds=300)


def failed(record: Record) -> list[str]:
    return [c.name for c in judge(SCENARIO, EXPECTED, record) if not c.passed]


def test_a_good_run_passes() -> None:
    assert failed(good()) == []


def late_up(r: Record) -> None:
    r.events[3] = replace(r.events[3], replicas=17)
    r.events[4] = replace(r.events[4], seconds=123.1)


def too_few(r: Record) -> None:
    r.events[5] = replace(r.events[5], ready=36)


def too_late(r: Record) -> None:
    r.events[5] = replace(r.events[5], seconds=147.2)


def never_down(r: Record) -> None:
    del r.events[6:]


def above_headroom(r: Record) -> None:
    r.events.insert(5, ReplicaEvent(130, 60, 17))
    r.events[6] = replace(r.events[6], replicas=60)


def below_minimum(r: Record) -> None:
    r.events.append(ReplicaEvent(290, 3, 3))


def slow_requests(r: Record) -> None:
    r.attainment_percent = 94.9


def unknown_attainment(r: Record) -> None:
    r.attainment_percent = None


def slow_emulation(r: Record) -> None:
    r.samples[-1] = replace(r.samples[-1], lateness_p99_seconds=0.6)


def not_measured(r: Record) -> None:
    r.samples.clear()


@pytest.mark.parametrize(
    ("breakage", "criterion"),
    [
        (late_up, "first scale-up"),
        (too_few, "ready replicas"),
        (too_late, "ready replicas"),
        (never_down, "scale-down"),
        (never_down, "replica-seconds"),
        (above_headroom, "bounds"),
        (below_minimum, "bounds"),
        (slow_requests, "inside the SLA"),
        (unknown_attainment, "inside the SLA"),
        (slow_emulation, "lateness"),
        (not_measured, "lateness"),
    ],
)
def test_each_criterion_fails_a_run_that_breaks_it(breakage: object, criterion: str) -> None:
    record = good()
    breakage(record)  # type: ignore[operator]

    assert any(criterion in name for name in failed(record))


def test_replica_seconds_count_from_the_moment_a_replica_is_asked_for() -> None:
    record = Record(events=[ReplicaEvent(-1, 10, 10), ReplicaEvent(100, 20, 10)], seconds=300)

    assert record.replica_seconds() == 10 * 100 + 20 * 200


def test_a_run_without_any_scale_up_is_given_up_soon_after_the_burst() -> None:
    frozen = Record(events=[ReplicaEvent(0, 16, 16)], seconds=0)

    assert not cannot_pass(SCENARIO, frozen, 122.9)
    assert cannot_pass(SCENARIO, frozen, 125.0)
    assert not cannot_pass(SCENARIO, good(), 125.0)


def test_the_page_stands_alone_and_holds_the_verdict(tmp_path: Path) -> None:
    page = tmp_path / "demo.html"
    write_page(page, SCENARIO, EXPECTED, good(), judge(SCENARIO, EXPECTED, good()))
    text = page.read_text()

    assert "firsttoken demo: passed" in text
    assert "98.20 %" in text
    assert "<script src=" not in text
