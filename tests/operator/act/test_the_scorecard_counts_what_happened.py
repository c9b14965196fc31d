"""The scorecard's sums: each request once, each GPU as long as it was held, nothing for what was not seen."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from firsttoken_operator.act.scorecard import NOTHING, Look, Scorecard, Tally, advance
from firsttoken_operator.api.scorecard import KEPT_DAYS
from firsttoken_operator.domain import (
    Decision,
    Hindrances,
    LateShare,
    Metrics,
    Reason,
    ResourceSnapshot,
    TargetMissing,
    TtftInterval,
    Unsized,
)
from firsttoken_sizing.workload import Limit, Percentile, Sla
from tests.operator.act.objects import decision
from tests.operator.decide.builders import SIZED, lost, metrics, resource, target

START = datetime(2026, 11, 21, 12, 0, 0, tzinfo=UTC)
WINDOW_SECONDS = 60.0
TICK = timedelta(seconds=15)
MEAN_SLA = Sla(time_to_first_token=Limit(300, Percentile.MEAN))


def ttft(late: float | LateShare | None, requests: float = 1200, mean_milliseconds: float = 100) -> TtftInterval:
    share = LateShare(late, late, late) if isinstance(late, float) else late
    return TtftInterval(60, 100, mean_milliseconds, requests, share)


def look(
    about: ResourceSnapshot, at: datetime = START, to: int | None = None, changed: bool = False, **changes: object
) -> Look:
    size = about.target.replicas if not isinstance(about.target, TargetMissing) else 5
    return Look(at, about, decision(about, size, size if to is None else to, **changes), changed)


def with_metrics(mtr: Metrics) -> ResourceSnapshot:
    return resource(target(5), mtr)


def play(looks: Iterable[Look]) -> Scorecard:
    card = Scorecard(since=START)
    for one in looks:
        card = advance(card, one)
    return card


def watched(about: ResourceSnapshot, minutes: float, **changes: object) -> Tally:
    """Tally of so many minutes of the same sight."""
    ticks = round(minutes * 4) + 1
    return play(look(about, START + i * TICK, **changes) for i in range(ticks)).total  # type: ignore[arg-type]


def test_a_request_counts_once_although_windows_overlap() -> None:
    """20 requests a second for ten minutes; each window of 60 s is looked at four times."""
    seen = watched(with_metrics(metrics(20.0, ttft=ttft(0.1))), minutes=10)

    assert seen.requests == pytest.approx(20 * 600)
    assert seen.attainment == pytest.approx(0.9)


def test_the_error_budget_is_what_the_percentile_allows_of_the_requests_that_were_judged() -> None:
    """P95 allows a twentieth: with a tenth late the budget burns twice as fast as it may."""
    seen = watched(with_metrics(metrics(20.0, ttft=ttft(0.1))), minutes=10)

    assert seen.late_requests_allowed == pytest.approx(20 * 600 * 0.05)
    assert seen.burn_rate == pytest.approx(2)


def test_a_limit_on_the_mean_has_no_error_budget() -> None:
    about = resource(target(5), metrics(20.0, ttft=ttft(0.1)), sized=replace(SIZED, sla=MEAN_SLA))
    seen = watched(about, minutes=10)

    assert seen.requests == pytest.approx(20 * 600)
    assert seen.burn_rate is None


def test_what_is_late_by_a_mean_burns_no_error_budget_of_the_percentile_before() -> None:
    """A twentieth is allowed and a tenth late for ten minutes; then all windows are wholly late by their mean."""
    before, late = with_metrics(metrics(20.0, ttft=ttft(0.1))), metrics(20.0, ttft=ttft(0.1, mean_milliseconds=400))
    after = resource(target(5), late, sized=replace(SIZED, sla=MEAN_SLA))
    seen = play(look(before if i <= 40 else after, START + i * TICK) for i in range(81)).total

    assert seen.late_requests == pytest.approx(20 * 600 * 1.1)
    assert seen.late_requests_charged == pytest.approx(20 * 600 * 0.1)
    assert seen.burn_rate == pytest.approx(2)


def test_busy_windows_weigh_more_than_quiet_ones() -> None:
    busy = with_metrics(metrics(15.0, ttft=ttft(0.2, 900)))
    quiet = with_metrics(metrics(1.7, ttft=ttft(0.0, 100)))
    looks = [look(busy if i % 2 else quiet, START + i * TICK) for i in range(41)]

    assert play(looks).total.attainment == pytest.approx(1 - 0.2 * 0.9)


def test_where_the_limit_lies_inside_a_bucket_the_doubt_is_kept() -> None:
    seen = watched(with_metrics(metrics(20.0, ttft=ttft(LateShare(0.01, 0.04, 0.3)))), minutes=5)

    assert seen.attainment == pytest.approx(0.96)
    assert seen.late_requests_at_most == pytest.approx(0.3 * seen.requests)


@pytest.mark.parametrize(("means", "attainment"), [((100, 299, 300), 1.0), ((100, 301), 0.5), ((400,), 0.0)])
def test_a_limit_on_the_mean_is_kept_or_missed_by_whole_windows(means: tuple[float, ...], attainment: float) -> None:
    sized = replace(SIZED, sla=MEAN_SLA)
    sights = [resource(target(5), metrics(20.0, ttft=ttft(None, 1200, mean)), sized=sized) for mean in means]
    looks = [look(sights[i % len(sights)], START + i * TICK) for i in range(12 * len(sights) + 1)]

    assert play(looks).total.attainment == pytest.approx(attainment)


@pytest.mark.parametrize(
    "unseen",
    [
        pytest.param(lost(), id="metrics are lost"),
        pytest.param(metrics(20.0, ttft=None), id="too few requests for a percentile"),
        pytest.param(metrics(20.0, ttft=ttft(None)), id="the share is not known"),
        pytest.param(metrics(20.0, ttft=ttft(0.5), health=Reason.RECOVERING), id="the window is not filled yet"),
    ],
)
def test_without_a_measurement_gpus_are_billed_and_nothing_is_judged(unseen: Metrics) -> None:
    seen = watched(with_metrics(unseen), minutes=60)

    assert seen.gpu_hours == pytest.approx(5.0)
    assert (seen.requests, seen.attainment) == (0, None)


def test_without_a_limit_on_ttft_nothing_is_judged() -> None:
    sized = replace(SIZED, sla=Sla(end_to_end=Limit(15000, Percentile.P95)))
    seen = watched(resource(target(5), metrics(20.0, ttft=ttft(0.1)), sized=sized), minutes=5)

    assert seen.attainment is None


def test_every_pod_that_holds_a_gpu_is_billed() -> None:
    """3 ready, 3 starting of which one found no node and one is gated, 1 stuck, 2 terminating: 7 pods of 2 GPUs."""
    gated = Hindrances(gated=1)
    tgt = target(7, ready=3, starting=3, unschedulable=1, stuck=1, terminating=2, gpus_per_replica=2, hindrances=gated)
    seen = watched(resource(tgt, metrics(20.0)), minutes=60)

    assert seen.gpu_hours == pytest.approx(14.0)
    assert seen.saved_gpu_hours == pytest.approx(40 * 2 - 14.0)


def test_more_than_the_declared_peak_is_a_negative_saving() -> None:
    assert watched(resource(target(50), metrics(20.0)), minutes=60).saved_gpu_hours == pytest.approx(-10.0)


def test_without_a_size_there_is_no_saving_and_still_a_bill() -> None:
    about = resource(target(5), metrics(20.0), sized=Unsized(Reason.UNKNOWN_MODEL, "unknown model"))
    seen = watched(about, minutes=60)

    assert (seen.gpu_hours, seen.saved_gpu_hours) == (pytest.approx(5.0), None)


def test_a_target_that_is_not_there_is_no_time_without_gpus() -> None:
    about = resource(TargetMissing(Reason.TARGET_NOT_FOUND, "not there"), lost())

    assert watched(about, minutes=60) == NOTHING


def test_a_decision_that_failed_is_billed() -> None:
    about = with_metrics(metrics(20.0, ttft=ttft(0.1)))
    seen = play(Look(START + i * TICK, about, None) for i in range(241)).total

    assert seen.gpu_hours == pytest.approx(5.0)
    assert seen.calibration_error is None


@pytest.mark.parametrize("pause", [timedelta(hours=3), timedelta(days=1), -timedelta(hours=3)])
def test_a_pause_is_not_billed_as_one_tick(pause: timedelta) -> None:
    about = with_metrics(metrics(20.0, ttft=ttft(0.1)))
    card = play([look(about, START), look(about, START + pause)])
    after = advance(card, look(about, START + pause + TICK))

    assert card.counted.hours <= WINDOW_SECONDS / 3600
    assert card.counted.requests <= 1200
    assert after.counted.hours - card.counted.hours == pytest.approx(15 / 3600)


def test_the_error_of_the_model_is_that_of_the_mean() -> None:
    """At 4 requests/s a replica the table says 106.8 ms on average; 133.5 ms are observed."""
    predicted = SIZED.table.at(4.0).ttft.mean
    assert predicted is not None
    seen = watched(with_metrics(metrics(20.0, ttft=ttft(0.0, mean_milliseconds=1.25 * predicted))), minutes=10)

    assert seen.calibration_error == pytest.approx(0.2)
    assert seen.compared_requests == pytest.approx(20 * (600 - WINDOW_SECONDS), rel=0.06)


@pytest.mark.parametrize(
    "about",
    [
        pytest.param(resource(target(5, ready=4, starting=1), metrics(20.0, ttft=ttft(0.0))), id="a pod is starting"),
        pytest.param(resource(target(5, terminating=1), metrics(20.0, ttft=ttft(0.0))), id="a pod is ending"),
        pytest.param(resource(target(5, rollout=True), metrics(20.0, ttft=ttft(0.0))), id="a rollout"),
        pytest.param(with_metrics(metrics(20.0, ttft=ttft(0.0), health=Reason.PARTIAL)), id="some pods are not seen"),
        pytest.param(with_metrics(metrics(20.0, ttft=None)), id="no TTFT"),
    ],
)
def test_model_and_measurement_are_compared_only_where_they_are_about_the_same(about: ResourceSnapshot) -> None:
    assert watched(about, minutes=10).calibration_error is None


def test_a_fleet_above_saturation_is_not_compared() -> None:
    """Figures of the table there are a lower bound and no prediction."""
    about = resource(target(1), metrics(20.0, ttft=ttft(1.0, mean_milliseconds=9000)))

    assert watched(about, minutes=10).calibration_error is None


def test_a_fleet_that_is_about_to_change_is_not_compared() -> None:
    about = with_metrics(metrics(20.0, ttft=ttft(0.0)))

    assert watched(about, minutes=10, to=6).calibration_error is None


def test_a_new_size_is_compared_after_a_whole_window_of_it() -> None:
    small, large = (resource(target(n), metrics(20.0, ttft=ttft(0.0))) for n in (5, 6))
    looks = [look(small, START + i * TICK) for i in range(9)] + [look(large, START + i * TICK) for i in range(9, 13)]
    before = play(looks[:9]).total.compared_requests

    assert before > 0
    assert play(looks).total.compared_requests == before


def changes(*steps: tuple[float, int, int]) -> int:
    """Flaps of these changes: minute, from, to."""
    return play(
        look(resource(target(a), metrics(20.0)), START + timedelta(minutes=minute), to=b, changed=True)
        for minute, a, b in steps
    ).total.flaps


@pytest.mark.parametrize(
    ("steps", "flaps"),
    [
        pytest.param([(0, 5, 9), (5, 9, 7)], 1, id="up, then down"),
        pytest.param([(0, 9, 7), (15, 7, 9)], 1, id="down, then up after exactly 15 minutes"),
        pytest.param([(0, 9, 7), (15.1, 7, 9)], 0, id="after more"),
        pytest.param([(0, 5, 7), (1, 7, 9), (2, 9, 12)], 0, id="up and up"),
        pytest.param([(0, 5, 7), (14, 7, 9), (28, 9, 8)], 1, id="the last change counts"),
        pytest.param([(0, 5, 7), (5, 7, 5), (10, 5, 7), (15, 7, 5)], 3, id="to and fro"),
    ],
)
def test_a_change_of_direction_within_15_minutes_is_a_flap(steps: list[tuple[float, int, int]], flaps: int) -> None:
    assert changes(*steps) == flaps


def test_a_change_that_was_not_made_is_no_flap() -> None:
    up = look(resource(target(5), metrics(20.0)), START, to=9, changed=True)
    refused = look(resource(target(9), metrics(20.0)), START + TICK, to=7)

    assert play([up, refused]).total.flaps == 0


def test_a_sliding_week_is_kept() -> None:
    about = with_metrics(metrics(20.0, ttft=ttft(0.1)))
    hours = timedelta(hours=1)
    card = play(look(about, START + i * hours + j * TICK) for i in range(24 * 20) for j in range(2))
    last = START + (24 * 20 - 1) * hours

    assert list(card.days) == [last.date() - timedelta(days=i) for i in range(KEPT_DAYS)]
    assert card.since == datetime(*(last - timedelta(days=6)).timetuple()[:3], tzinfo=UTC)
    assert card.counted.gpu_hours > 2 * card.total.gpu_hours


def test_an_operator_that_was_away_for_two_weeks_begins_anew() -> None:
    about, later = with_metrics(metrics(20.0, ttft=ttft(0.1))), START + timedelta(days=14)
    card = play([look(about), look(about, START + TICK), look(about, later), look(about, later + TICK)])

    assert list(card.days) == [later.date()]
    assert card.since == later.replace(hour=0)


@given(
    st.lists(
        st.tuples(
            st.integers(-200_000, 2_000_000),
            st.integers(0, 60),
            st.floats(0, 1),
            st.floats(0, 1e12),
            st.floats(0, 1e12),
            st.sampled_from([Reason.PRESENT, Reason.IDLE, Reason.PARTIAL, Reason.STALE, Reason.ERRORS_PRESENT]),
            st.integers(1, 60),
        ),
        max_size=30,
    )
)
def test_whatever_a_clock_and_metrics_do_the_figures_make_sense(
    steps: list[tuple[int, int, float, float, float, Reason, int]],
) -> None:
    card = Scorecard(since=START)
    for seconds, replicas, late, requests, mean, health, to in steps:
        mtr = metrics(20.0, ttft=ttft(LateShare(late / 2, late, 1.0), requests, mean), health=health)
        about = resource(target(replicas), mtr)
        made: Decision = decision(about, replicas, to)
        before = card.counted
        card = advance(card, Look(START + timedelta(seconds=seconds), about, made, changed=True))
        total, added = card.total, card.counted.hours - before.hours

        assert -1e-9 <= added <= WINDOW_SECONDS / 3600 + 1e-9
        assert len(card.days) <= KEPT_DAYS
        assert total.attainment is None or -1e-9 <= total.attainment <= 1 + 1e-9
        assert total.late_requests <= total.late_requests_at_most * (1 + 1e-9)
        assert card.counted.flaps <= len(steps)
        assert total.calibration_error is None or total.calibration_error >= 0
