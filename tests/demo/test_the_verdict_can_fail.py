"""A verdict that cannot fail proves nothing: every criterion is broken once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from demo.live import render_table
from demo.page import write_page
from demo.record import RealReplica, Record, ReplicaEvent, Sample
from demo.scenario import BUSY_HOUR as SCENARIO
from demo.scenario import Expectation, Phase, ramp
from demo.verdict import cannot_pass, judge
from demo.watching import complaints

EXPECTED = Expectation(replicas_for_peak=16, replica_limit=24, min_replicas=4, ttft_sla_milliseconds=300)


def samples(ttft_milliseconds: float) -> list[Sample]:
    return [Sample(float(t), 80.0, 7, 5, 5, ttft_milliseconds, 99.0, 0.05, "Steady") for t in range(0, 285, 10)]


def good() -> Record:
    """A run as it should be: 4 replicas, 17 when the load is at its peak, back to 5."""
    events = [
        ReplicaEvent(-3.0, 4, 4),
        ReplicaEvent(20.0, 5, 4),
        ReplicaEvent(38.0, 5, 5),
        ReplicaEvent(70.5, 8, 5),
        ReplicaEvent(90.0, 11, 8),
        ReplicaEvent(130.0, 17, 11),
        ReplicaEvent(149.0, 17, 17),
        ReplicaEvent(232.0, 11, 11),
        ReplicaEvent(255.0, 5, 5),
    ]
    return Record(events=events, samples=samples(100.0), requests=31_000, missed=558, seconds=285)


def frozen() -> Record:
    return Record([ReplicaEvent(-3.0, 4, 4)], samples(60_000.0), requests=31_000, missed=18_600, seconds=285)


def failed(record: Record, beside: Record) -> list[str]:
    return [c.name for c in judge(SCENARIO, EXPECTED, record, beside) if not c.passed]


def test_a_good_run_passes() -> None:
    assert failed(good(), frozen()) == []


def late_up(r: Record, _: Record) -> None:
    r.events[3] = replace(r.events[3], seconds=76.1)


def too_few(r: Record, _: Record) -> None:
    r.events[6] = replace(r.events[6], ready=14)


def too_late(r: Record, _: Record) -> None:
    r.events[6] = replace(r.events[6], seconds=193.1)


def never_down(r: Record, _: Record) -> None:
    del r.events[7:]


def always_large(r: Record, _: Record) -> None:
    r.events[0] = replace(r.events[0], replicas=17)
    never_down(r, r)


def above_headroom(r: Record, _: Record) -> None:
    r.events.insert(6, ReplicaEvent(140, 25, 12))


def below_minimum(r: Record, _: Record) -> None:
    r.events.append(ReplicaEvent(290, 3, 3))


def slow_requests(r: Record, _: Record) -> None:
    r.missed = 1_551


def unknown_attainment(r: Record, _: Record) -> None:
    r.requests = r.missed = 0


def not_needed(_: Record, frozen: Record) -> None:
    frozen.missed = 1_550


def frozen_unknown(_: Record, frozen: Record) -> None:
    frozen.requests = frozen.missed = 0


def slow_emulation(r: Record, _: Record) -> None:
    r.samples[-1] = replace(r.samples[-1], lateness_p99_seconds=0.6)


def slow_emulation_beside(_: Record, frozen: Record) -> None:
    slow_emulation(frozen, frozen)


def not_measured(r: Record, _: Record) -> None:
    r.samples.clear()


@pytest.mark.parametrize(
    ("breakage", "criterion"),
    [
        (late_up, "first scale-up"),
        (too_few, "ready replicas"),
        (too_late, "ready replicas"),
        (never_down, "scale-down"),
        (always_large, "replica-seconds"),
        (above_headroom, "bounds"),
        (below_minimum, "bounds"),
        (slow_requests, "inside the SLA"),
        (unknown_attainment, "inside the SLA"),
        (not_needed, "without scaling"),
        (frozen_unknown, "without scaling"),
        (slow_emulation, "lateness"),
        (slow_emulation_beside, "lateness"),
        (not_measured, "lateness"),
    ],
)
def test_each_criterion_fails_a_run_that_breaks_it(breakage: Callable[[Record, Record], None], criterion: str) -> None:
    record, beside = good(), frozen()
    breakage(record, beside)

    assert any(criterion in name for name in failed(record, beside))


def a_real_one() -> RealReplica:
    return RealReplica(name="Triton", requests=1_990, missed=80, sent=2_000, answered=2_000, counted=2_000)


def a_real_one_of_its_own_pace() -> RealReplica:
    """A vLLM of which most first tokens took 90 ms."""
    ttft = [90.0] * 15 + [2_000.0] * 5
    return RealReplica(
        name="vLLM", is_paced=False, requests=20, missed=20, sent=21, answered=20, counted=20,
        ttft_milliseconds=ttft, ttft_bucket_milliseconds=(80.0, 100.0),
    )  # fmt: skip


def test_a_real_replica_of_its_own_pace_is_held_to_what_it_says_itself() -> None:
    record = good()
    record.real = a_real_one_of_its_own_pace()

    assert failed(record, frozen()) == []


def test_replica_seconds_of_one_of_its_own_pace_are_not_judged() -> None:
    record = good()
    record.events[:] = [ReplicaEvent(-3.0, 13, 13)]  # of 16: 81 %, and 75 without one

    assert any("replica-seconds" in name for name in failed(record, frozen()))
    record.real = a_real_one_of_its_own_pace()
    assert not any("replica-seconds" in name for name in failed(record, frozen()))


@pytest.mark.parametrize(
    ("change", "criterion"),
    [
        ({"ttft_bucket_milliseconds": (100.0, 250.0)}, "median TTFT of the real vLLM"),
        ({"ttft_milliseconds": [250.0]}, "median TTFT of the real vLLM"),
        ({"ttft_milliseconds": []}, "median TTFT of the real vLLM"),
        ({"ttft_bucket_milliseconds": None}, "median TTFT of the real vLLM"),
        ({"counted": 19}, "that the real vLLM counted"),
    ],
)
def test_each_criterion_of_one_of_its_own_pace_fails_a_run_that_breaks_it(
    change: dict[str, object], criterion: str
) -> None:
    record = good()
    record.real = replace(a_real_one_of_its_own_pace(), **change)  # type: ignore[arg-type]

    (name,) = failed(record, frozen())
    assert criterion in name


def test_a_real_replica_is_judged_by_what_it_was_sent() -> None:
    record = good()
    record.real = a_real_one()

    assert failed(record, frozen()) == []
    assert len(judge(SCENARIO, EXPECTED, record, frozen())) == len(judge(SCENARIO, EXPECTED, good(), frozen())) + 2


@pytest.mark.parametrize(
    ("change", "criterion"),
    [
        ({"missed": 200}, "to the real Triton inside the SLA"),
        ({"requests": 0, "missed": 0}, "to the real Triton inside the SLA"),
        ({"counted": 1_999}, "that the real Triton counted"),
        ({"counted": 2_001}, "that the real Triton counted"),
        ({"counted": None}, "that the real Triton counted"),
        ({"sent": 0, "answered": 0, "counted": 0}, "that the real Triton counted"),
    ],
)
def test_each_criterion_of_a_real_replica_fails_a_run_that_breaks_it(
    change: dict[str, int | None], criterion: str
) -> None:
    record = good()
    record.real = replace(a_real_one(), **change)  # type: ignore[arg-type]

    (name,) = failed(record, frozen())
    assert criterion in name


def test_requests_of_the_real_replica_are_judged_with_all_and_on_their_own() -> None:
    record = Record(seconds=300.0, real=RealReplica(name="Triton"))
    late, in_time = ({"ok": True, "ttft_seconds": ttft, "arrival_seconds": 1.0} for ttft in (0.4, 0.1))

    record.add_truth([late, in_time, late | {"real": True}, in_time | {"real": True}, in_time | {"real": True}], 300.0)

    assert (record.requests, record.missed) == (5, 2)
    assert record.real == RealReplica(
        name="Triton", requests=3, missed=1, sent=3, answered=3, ttft_milliseconds=[400.0, 100.0, 100.0]
    )


def test_replica_seconds_count_from_the_moment_a_replica_is_asked_for() -> None:
    record = Record(events=[ReplicaEvent(-1, 10, 10), ReplicaEvent(100, 20, 10)], seconds=300)

    assert record.replica_seconds() == 10 * 100 + 20 * 200


def test_a_run_without_any_scale_up_is_given_up_soon_after_the_rise() -> None:
    still = Record(events=[ReplicaEvent(0, 4, 4)], seconds=0)

    assert not cannot_pass(SCENARIO, still, 77.4)
    assert cannot_pass(SCENARIO, still, 77.6)
    assert not cannot_pass(SCENARIO, good(), 77.6)


def test_a_run_that_failed_says_what_holds_the_operator_up() -> None:
    well = {"type": "Ready", "status": "True", "reason": "Ready", "message": "sized"}
    ill = {"type": "MetricsHealthy", "status": "False", "reason": "Partial", "message": "SeveralModels: of a, b"}
    limited = {"type": "ScalingLimited", "status": "True", "reason": "Quota", "message": "no GPUs"}
    free = {"type": "ScalingLimited", "status": "False", "reason": "WithinLimits", "message": "no limit is in force"}

    assert complaints({"conditions": [well, free]}) == []
    assert complaints({"conditions": [well, ill, limited]}) == [
        "MetricsHealthy is False: Partial: SeveralModels: of a, b",
        "ScalingLimited is True: Quota: no GPUs",
    ]
    assert complaints({}) == ["the operator has written no condition"]


@pytest.mark.parametrize(
    ("request_", "judged", "missed"),
    [
        ({"ok": True, "ttft_seconds": 0.3, "arrival_seconds": 1.0}, 1, 0),
        ({"ok": True, "ttft_seconds": 0.301, "arrival_seconds": 1.0}, 1, 1),
        ({"ok": False, "ttft_seconds": 0.1, "arrival_seconds": 1.0}, 1, 1),
        ({"ok": None, "ttft_seconds": 0.1, "arrival_seconds": 299.0}, 1, 0),
        ({"ok": None, "ttft_seconds": None, "arrival_seconds": 299.8}, 0, 0),
        ({"ok": None, "ttft_seconds": None, "arrival_seconds": 299.0}, 1, 1),
    ],
)
def test_a_request_is_judged_by_its_wait_also_where_that_has_not_ended(
    request_: dict[str, object], judged: int, missed: int
) -> None:
    record = Record(seconds=300.0)

    record.add_truth([request_], 300.0)

    assert (record.requests, record.missed) == (judged, missed)


def test_a_ramp_ends_at_its_last_rate() -> None:
    assert ramp(60, 70, 60, 80) == (Phase(65, 70), Phase(70, 80))


def test_the_page_stands_alone_and_shows_both_runs(tmp_path: Path) -> None:
    page = tmp_path / "demo.html"
    write_page(page, SCENARIO, EXPECTED, good(), frozen(), judge(SCENARIO, EXPECTED, good(), frozen()))
    text = page.read_text()

    assert "firsttoken demo: <span class=passed>passed" in text
    assert "98.20 %" in text
    assert "<h2>Scaled by firsttoken</h2>" in text
    assert "<h2>Frozen at 4 replicas</h2>" in text
    assert "<td>18,600</td>" in text
    assert "<script src=" not in text
    assert page.stat().st_size < 1.5e6
    assert text.count('"dragmode":false') == 2, "a finger scrolls the page"
    assert "width=device-width" in text
    assert "Triton" not in text


def test_the_ttft_of_a_real_replica_is_in_the_picture_and_in_the_table(tmp_path: Path) -> None:
    record, page = good(), tmp_path / "demo.html"
    record.real = a_real_one()
    record.samples = [replace(sample, real_ttft_p95_milliseconds=123.0) for sample in record.samples]
    write_page(page, SCENARIO, EXPECTED, record, frozen(), judge(SCENARIO, EXPECTED, record, frozen()))
    table = Console(record=True, width=250)
    table.print(render_table(SCENARIO, EXPECTED, record, frozen()))

    assert page.read_text().count('"name":"TTFT P95 of the real Triton"') == 1
    assert "2,000 requests went to it" in page.read_text()
    assert "Triton: TTFT P95" in (shown := table.export_text())
    assert "123 ms" in shown


def test_the_page_says_what_one_of_its_own_pace_says_of_itself(tmp_path: Path) -> None:
    record, page = good(), tmp_path / "demo.html"
    record.real = a_real_one_of_its_own_pace()
    write_page(page, SCENARIO, EXPECTED, record, frozen(), judge(SCENARIO, EXPECTED, record, frozen()))

    assert '"name":"TTFT P95 of the real vLLM"' in page.read_text()
    assert "is 90 ms by the clock of its client, and 80 to 100 ms by its own histogram" in page.read_text()
