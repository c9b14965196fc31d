"""The scorecard in the status: written once an hour, read back after a restart, and valid whatever it holds."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from firsttoken_operator.act.kubernetes import ObjectRef
from firsttoken_operator.act.scale import ScaleResult, Write
from firsttoken_operator.act.scorecard import Change, Look, Scorecard, Tally, advance
from firsttoken_operator.act.scorecard_status import LEAST_APART, REFRESH, restored, shown
from firsttoken_operator.act.status import Answer, Observed
from firsttoken_operator.api.scorecard import ScorecardStatus
from firsttoken_operator.api.status import DecisionRecord, InferenceDeploymentStatus
from firsttoken_operator.domain import LateShare, Metrics, ResourceSnapshot, TtftInterval
from tests.operator.act.fake_cluster import FakeCluster
from tests.operator.act.objects import decision
from tests.operator.act.writing import Teller
from tests.operator.decide.builders import SIZED, lost, metrics, resource, target

START = datetime(2026, 11, 21, 12, 0, 0, tzinfo=UTC)
TICK = timedelta(seconds=15)
TALLY = Tally(
    hours=1.5, gpu_hours=7.5, saved_gpu_hours=-2.25, requests=1000.0, late_requests=12.0, late_requests_at_most=40.0,
    compared_requests=800.0, error_requests=96.0, flaps=2, late_requests_allowed=10.0, late_requests_charged=12.0,
)  # fmt: skip
CARD = Scorecard(START - timedelta(days=1), {START.date(): TALLY})


def measured(late: float = 0.1) -> Metrics:
    return metrics(20.0, ttft=TtftInterval(60, 100, 100, 1200, LateShare(late, late, late)))


def minutes(card: Scorecard, about: ResourceSnapshot, since: datetime, count: float) -> Scorecard:
    for i in range(round(count * 4) + 1):
        card = advance(card, Look(since + i * TICK, about, decision(about, 5, 5)))
    return card


def document(status: ScorecardStatus | None) -> dict[str, Any]:
    assert status is not None
    return status.model_dump(mode="json", by_alias=True, exclude_none=True)


def test_the_figures_are_those_that_a_platform_engineer_reads() -> None:
    figures = {
        "hours": "1.5", "attainmentPercent": "98.8", "requests": 1000, "lateRequests": 12, "lateRequestsAtMost": 40,
        "lateRequestsAllowed": "10", "lateRequestsCharged": "12", "burnRate": "1.2", "gpuHours": "7.5",
        "gpuHoursSavedVersusPeak": "-2.25", "calibrationErrorPercent": "12", "comparedRequests": 800, "flaps": 2,
    }  # fmt: skip

    assert document(shown(None, CARD, START)) == figures | {
        "errorBudgetRemainingPercent": "-20",
        "since": "2026-11-20T12:00:00Z",
        "lastUpdateTime": "2026-11-21T12:00:00Z",
        "days": [figures | {"date": "2026-11-21"}],
    }


def test_what_is_not_known_is_absent_and_never_zero() -> None:
    blind = minutes(Scorecard(START), resource(target(5), lost()), START, 10)

    assert set(document(shown(None, blind, START))) == {
        "hours", "gpuHours", "gpuHoursSavedVersusPeak", "flaps", "since", "lastUpdateTime", "days",
    }  # fmt: skip


def test_nothing_counted_is_nothing_shown() -> None:
    assert shown(None, Scorecard(START), START) is None
    assert shown(None, None, START) is None


def test_nearly_all_is_not_all() -> None:
    tally = Tally(hours=1, requests=1_000_000, late_requests=30, late_requests_at_most=30)

    assert document(shown(None, replace(CARD, days={START.date(): tally}), START))["attainmentPercent"] == "99.99"


def test_what_is_used_up_is_no_error_budget_that_is_left() -> None:
    tally = Tally(hours=1, requests=1_000_000, late_requests_charged=9_999.9, late_requests_allowed=10_000)

    assert document(shown(None, replace(CARD, days={START.date(): tally}), START))["errorBudgetRemainingPercent"] == "0"


def test_it_is_written_once_an_hour() -> None:
    about, card, status, writes = resource(target(5), measured()), Scorecard(START), None, 0
    for i in range(4 * 60 * 5 + 1):
        card = advance(card, Look(START + i * TICK, about, decision(about, 5, 5)))
        fresh = shown(status, card, START + i * TICK)
        writes += fresh != status
        status = fresh

    # The GPUs at the second tick, the error of the model when the fleet has been settled for a window, then hourly.
    assert writes == 2 + 5
    assert status is not None
    assert status.last_update_time == "2026-11-21T17:00:00Z"


def test_no_two_minutes_of_an_hour_have_the_writes_of_a_fleet() -> None:
    began = START + timedelta(minutes=2)
    status = shown(None, CARD, began)
    uids = [f"5a7c{i:04x}-0000-4000-8000-00000000beef" for i in range(600)]
    minutes = [began + timedelta(minutes=minute) for minute in range(180)]

    def written(uid: str) -> list[int]:
        found, last = [], status
        for minute, at in enumerate(minutes):
            fresh = shown(last, CARD, at, uid)
            if fresh != last:
                found.append(minute)
            last = fresh
        return found

    writes = [written(uid) for uid in uids]
    in_minute = Counter(minute for each in writes for minute in each)

    assert min(in_minute) >= LEAST_APART.total_seconds() / 60
    assert all(60 <= later - earlier <= 61 for each in writes for earlier, later in pairwise(each))
    assert max(in_minute.values()) < len(uids) / 10


def test_a_clock_that_was_set_back_does_not_stop_the_writing() -> None:
    status = shown(None, CARD, START + timedelta(days=300))
    fresh = shown(status, CARD, START)

    assert fresh is not None
    assert fresh.last_update_time == "2026-11-21T12:00:00Z"


def test_a_restart_goes_on_where_the_status_is() -> None:
    """30 minutes, a new process, 30 more: the sums are those of one process that ran for the hour."""
    about = resource(target(5), measured())
    first = minutes(Scorecard(START), about, START, 30)
    status = InferenceDeploymentStatus(scorecard=shown(None, first, START + timedelta(minutes=30)))
    later = START + timedelta(minutes=40)
    second = minutes(restored(status, later), about, later, 30)

    assert second.since == START
    assert second.total.hours == pytest.approx(1.0, abs=1e-3)
    assert second.total.gpu_hours == pytest.approx(5.0, abs=1e-3)
    assert second.total.saved_gpu_hours == pytest.approx(35.0, abs=1e-3)
    assert second.total.requests == pytest.approx(20 * 3600, abs=1)
    assert second.total.attainment == pytest.approx(0.9, abs=1e-4)
    assert second.counted.hours == pytest.approx(0.5)


def test_what_is_restored_is_shown_as_it_was() -> None:
    status = shown(None, CARD, START)
    back = restored(InferenceDeploymentStatus(scorecard=status), START)

    assert shown(None, back, START) == status


@pytest.mark.parametrize(
    "half",
    [
        pytest.param({}, id="from before error budgets"),
        pytest.param({"lateRequestsAllowed": "10"}, id="nothing charged"),
        pytest.param({"lateRequestsCharged": "100"}, id="nothing allowed"),
    ],
)
def test_days_that_do_not_tell_both_sides_of_an_error_budget_are_in_none(half: dict[str, str]) -> None:
    """P95 allows a twentieth; half of that is late since the upgrade, and was a tenth on the day before."""
    days = [{"date": at, "requests": 1000, "lateRequests": 100} | half for at in ("2026-11-21", "2026-11-20")]
    old = InferenceDeploymentStatus.model_validate({"scorecard": {"days": days}})
    card = minutes(restored(old, START), resource(target(5), measured(0.025)), START, 10)
    status = document(shown(old.scorecard, card, START + 2 * REFRESH))

    assert status["lateRequests"] == 2 * 100 + 20 * 600 * 0.025
    assert (status["burnRate"], status["errorBudgetRemainingPercent"]) == ("0.5", "50")
    assert [day.get("burnRate") for day in status["days"]] == ["0.5", None]


def test_the_time_between_two_processes_is_not_billed() -> None:
    about = resource(target(5), measured())
    status = InferenceDeploymentStatus(scorecard=shown(None, minutes(Scorecard(START), about, START, 30), START))
    later = START + timedelta(hours=5)
    back = minutes(restored(status, later), about, later, 0)

    assert back.total.hours == pytest.approx(0.5, abs=1e-3)


def test_a_flap_across_a_restart_is_one() -> None:
    record = DecisionRecord(time="2026-11-21T12:00:00Z", from_replicas=5, to_replicas=9, reason="DemandAboveCapacity")
    card = restored(InferenceDeploymentStatus(decisions=(record,)), START)
    about = resource(target(9), measured())
    down = Look(START + timedelta(minutes=10), about, decision(about, 9, 7), changed=True)

    assert card.last_change == Change(START, up=True)
    assert advance(card, down).total.flaps == 1


@pytest.mark.parametrize(
    "spoiled",
    [
        pytest.param({"since": "yesterday"}, id="no time"),
        pytest.param({"since": "2026-11-21T12:00:00"}, id="a time without a zone"),
        pytest.param({"lastUpdateTime": "soon"}, id="no time of writing"),
        pytest.param({"days": [{"date": "2026-99-99", "gpuHours": "3"}]}, id="a day that does not exist"),
        pytest.param({"days": [{"date": "2026-11-21", "requests": 5, "lateRequests": 50}]}, id="late above all"),
        pytest.param(
            {"days": [{"date": "2026-11-21", "lateRequestsAllowed": "50", "lateRequestsCharged": "9"}]},
            id="allowed without requests",
        ),
    ],
)
def test_a_status_that_was_edited_is_survived(spoiled: dict[str, Any]) -> None:
    written = InferenceDeploymentStatus.model_validate({"scorecard": spoiled})
    about = resource(target(5), measured())
    card = minutes(restored(written, START), about, START, 10)
    attainment = card.total.attainment

    assert attainment is not None
    assert 0 <= attainment <= 1
    assert card.total.gpu_hours == pytest.approx(5 / 6)
    assert shown(written.scorecard, card, START + 2 * REFRESH) is not None


AMOUNT = st.floats(0, 1e15)


@given(
    AMOUNT, AMOUNT, st.none() | st.floats(-1e15, 1e15), AMOUNT, st.floats(0, 1), AMOUNT, st.floats(0, 1e6),
    st.integers(0, 10**12), st.floats(0, 1),
)  # fmt: skip
def test_whatever_was_counted_fits_the_schema(
    hours: float, gpu_hours: float, saved: float | None, requests: float, late: float, compared: float, error: float,
    flaps: int, allowed: float,
) -> None:  # fmt: skip
    judged = (requests, late * requests / 2, late * requests)
    tally = Tally(hours, gpu_hours, saved, *judged, compared, error, flaps, allowed * requests, judged[1])
    card = Scorecard(START, {date(2026, 11, 21 - i): tally for i in range(7)})
    status = shown(None, card, START)
    back = ScorecardStatus.model_validate(document(status))

    assert back == status
    assert len(restored(InferenceDeploymentStatus(scorecard=back), START).days) == 7


async def test_a_new_publisher_takes_up_the_scorecard_of_the_one_before() -> None:
    about = resource(target(5), measured())
    ref = ObjectRef("firsttoken.dev/v1alpha1", "InferenceDeployment", about.namespace, about.name)
    cluster = FakeCluster({ref: {"status": {}}})

    async def run(teller: Teller, since: datetime, ticks: int) -> None:
        for i in range(ticks):
            seen = Observed(about, decision(about, 5, 5), ScaleResult(Write.NONE), Answer(SIZED), since + i * TICK)
            await teller.publish(cluster.objects[ref]["status"], seen, None)

    def scorecard() -> ScorecardStatus:
        written = InferenceDeploymentStatus.model_validate(cluster.objects[ref]["status"]).scorecard
        assert written is not None
        return written

    await run(Teller(cluster), START, 400)
    first = scorecard()
    later = START + timedelta(hours=3)
    second = Teller(cluster)
    await run(second, later, 2)

    assert second.publisher.scorecards[about.uid].since == START
    assert 0.5 <= float(first.hours or 0) <= 1.55, "what the first process wrote last"
    assert scorecard().gpu_hours == first.gpu_hours
    total = second.publisher.scorecards[about.uid].total
    assert total.gpu_hours == pytest.approx(float(first.gpu_hours or 0) + 5 * 15 / 3600)
    assert scorecard().last_update_time == "2026-11-21T15:00:00Z"


async def test_a_resource_that_is_gone_leaves_no_scorecard() -> None:
    about = resource(target(5), measured())
    ref = ObjectRef("firsttoken.dev/v1alpha1", "InferenceDeployment", about.namespace, about.name)
    teller = Teller(FakeCluster({ref: {"status": {}}}))
    await teller.publish_undecided({}, about, START)
    publisher = teller.publisher
    assert set(publisher.scorecards) == {about.uid}
    publisher.forget(set())

    assert publisher.scorecards == {}
