"""Health of the data and what comes through of it: cases M5 to M25 of the fault catalog, after the query."""

from __future__ import annotations

import math

import pytest

from firsttoken_operator.domain import Idle, Missing, Reason
from firsttoken_operator.observe.collect import SourceReading, unavailable
from firsttoken_operator.observe.freshness import LivePod, MeasureSettings
from firsttoken_operator.observe.measure import measure
from tests.operator.observe.readings import (
    IDLE,
    LIMIT,
    NAMESPACE,
    SETTINGS,
    coverage,
    failing,
    measured,
    pods,
    reading,
    reason,
    sample,
    value,
)


def test_every_pod_fresh_and_complete_is_present_with_full_coverage() -> None:
    metrics = measured(reading(sample(rate=3), sample(rate=5, waiting=2)))

    assert metrics.health is Reason.PRESENT
    assert (value(metrics.arrivals), coverage(metrics.arrivals)) == (8.0, 1.0)
    assert value(metrics.first_tokens) == 8.0
    assert value(metrics.waiting) == 2.0
    assert value(metrics.running) == 4.0
    assert value(metrics.error_share) == 0.0
    assert value(metrics.kv_percent) == 50.0
    assert metrics.window_seconds == 60.0


def test_a_source_that_is_down_is_missing_with_its_reason() -> None:
    metrics = measured(unavailable(Reason.SOURCE_UNREACHABLE, "connection failed"), pods(3))

    assert metrics.health is Reason.MISSING
    assert metrics.detail == "SourceUnreachable: connection failed"
    for measurement in (metrics.arrivals, metrics.first_tokens, metrics.waiting, metrics.running, metrics.error_share):
        assert reason(measurement) is Reason.SOURCE_UNREACHABLE


def test_an_empty_answer_is_missing_no_series() -> None:
    metrics = measured(SourceReading(), pods(3))

    assert metrics.health is Reason.MISSING
    assert reason(metrics.arrivals) is Reason.NO_SERIES


def test_without_a_ready_pod_nothing_is_known() -> None:
    assert measured(SourceReading(), ()).health is Reason.MISSING
    assert reason(measured(SourceReading(), pods(2, ready_seconds=None)).arrivals) is Reason.NO_READY_PODS


@pytest.mark.parametrize("age", [38.1, 300.0, -600.0, math.nan, math.inf])
def test_samples_that_are_not_current_are_stale_and_not_read(age: float) -> None:
    metrics = measured(reading(sample(age=age), sample(age=age)))

    assert metrics.health is Reason.STALE
    assert reason(metrics.arrivals) is Reason.STALE


def test_samples_of_the_window_without_one_now_are_stale() -> None:
    assert measured(reading(sample(age=None), up={0: None}), pods(1)).health is Reason.STALE


@pytest.mark.parametrize("bad", [None, sample(age=200.0), sample(age=None)])
def test_a_pod_without_current_samples_makes_the_rest_a_lower_bound(bad: object) -> None:
    metrics = measured(reading(sample(), sample(), sample(), bad))  # type: ignore[arg-type]

    assert metrics.health is Reason.PARTIAL
    assert (value(metrics.arrivals), coverage(metrics.arrivals)) == (12.0, 0.75)
    assert "p3" in metrics.detail


@pytest.mark.parametrize("silent", [{"age": None}, {"age": 53.1}, {"samples": 2.0}])
def test_a_pod_whose_scrapes_fail_is_not_believed(silent: dict[str, float | None]) -> None:
    metrics = measured(reading(sample(), sample(**silent), up={1: 0.0}))

    assert metrics.health is Reason.PARTIAL
    assert value(metrics.arrivals) == 4.0


@pytest.mark.parametrize(("age", "up"), [(25.0, 0.0), (53.0, 0.0), (25.0, 1.0), (5.0, 0.0)])
def test_one_scrape_that_failed_is_no_loss_and_is_known(age: float, up: float) -> None:
    metrics = measured(reading(sample(), sample(age=age, samples=3), up={1: up}))

    assert metrics.health is Reason.PRESENT
    assert metrics.overdue
    assert (value(metrics.arrivals), coverage(metrics.arrivals)) == (8.0, 1.0)
    assert not measured(reading(sample(), sample())).overdue


def test_a_window_that_is_not_filled_is_recovering_and_too_low() -> None:
    metrics = measured(reading(sample(samples=2, rate=1), sample(samples=2, rate=1)))

    assert metrics.health is Reason.RECOVERING
    assert (value(metrics.arrivals), coverage(metrics.arrivals)) == (2.0, 0.5)


def test_three_of_four_scrapes_fill_a_window() -> None:
    assert measured(reading(sample(samples=3))).health is Reason.PRESENT


@pytest.mark.parametrize("start_age", [None, 6.0, 114.0, math.nan])
def test_a_window_without_a_sample_at_its_start_is_recovering(start_age: float | None) -> None:
    assert measured(reading(sample(start_age=start_age))).health is Reason.RECOVERING


def test_the_worst_finding_is_the_health() -> None:
    base = reading(sample(), sample(samples=2), None)

    assert measured(base).health is Reason.PARTIAL
    assert measured(reading(sample(), sample(samples=2))).health is Reason.RECOVERING
    assert measured(failing(reading(None, None), Reason.THROTTLED)).detail.startswith("Throttled")


@pytest.mark.parametrize(
    ("number", "why"),
    [
        (math.nan, Reason.NOT_A_NUMBER), (math.inf, Reason.OUT_OF_RANGE), (-math.inf, Reason.OUT_OF_RANGE),
        (-1.0, Reason.OUT_OF_RANGE), (1e300, Reason.OUT_OF_RANGE), (9.3e18, Reason.OUT_OF_RANGE),
    ],
)  # fmt: skip
@pytest.mark.parametrize("signal", ["first_tokens", "waiting", "running"])
def test_an_absurd_number_is_unknown_for_its_pod_only(signal: str, number: float, why: Reason) -> None:
    # Both ways to arrivals need a counter; the ended one is taken away so that the other cannot replace it.
    alone = measured(reading(sample(**{signal: number}, served=None, failed=None)))
    beside = measured(reading(sample(served=None, failed=None), sample(**{signal: number}, served=None, failed=None)))

    name = {"first_tokens": "arrivals"}.get(signal, signal)
    assert alone.health is Reason.MISSING
    assert reason(getattr(alone, name)) is why
    assert beside.health is Reason.PARTIAL
    assert why in beside.detail
    assert coverage(getattr(beside, name)) == 0.5


def test_a_series_that_no_pod_has_is_missing_not_zero() -> None:
    metrics = measured(reading(sample(waiting=None), sample(waiting=None)))

    assert metrics.health is Reason.MISSING
    assert reason(metrics.waiting) is Reason.NO_SERIES


def test_a_partial_response_keeps_its_numbers_and_forbids_full_coverage() -> None:
    metrics = measured(failing(reading(sample()), Reason.PARTIAL_RESPONSE))

    assert metrics.health is Reason.PARTIAL
    assert value(metrics.arrivals) == 4.0
    assert coverage(metrics.arrivals) < 1


def test_without_an_overview_the_data_are_partial() -> None:
    metrics = measured(failing(reading(sample()), Reason.SERVER_ERROR, family=""))

    assert metrics.health is Reason.PARTIAL
    assert metrics.detail == "ServerError: detail"
    assert coverage(metrics.arrivals) == 1.0


def test_a_failed_query_of_another_family_does_not_matter() -> None:
    assert measured(failing(reading(sample()), Reason.SERVER_ERROR, family="vLLM")).health is Reason.PRESENT


def test_pods_that_a_failed_query_may_have_hidden_make_the_data_partial() -> None:
    base = failing(reading(sample(), None, up={1: None}), Reason.SERVER_ERROR, family="vLLM")

    assert measured(base, pods(2)).health is Reason.PARTIAL


def test_series_of_pods_outside_the_owner_chain_are_not_counted() -> None:
    base = reading(sample(rate=4), sample(rate=100))

    assert value(measured(base, pods(1)).arrivals) == 4.0


def test_the_same_name_in_another_namespace_is_another_pod() -> None:
    stranger = LivePod("other", "p0", 3600.0)

    assert reason(measured(reading(sample()), (stranger,)).arrivals) is Reason.NO_SERIES


def test_a_young_pod_is_not_required_and_counts_when_it_reports() -> None:
    young = SETTINGS.warm_up_seconds - 1
    silent = measured(reading(sample(), None, up={1: None}), (*pods(1), *pods(1, ready_seconds=young, first=1)))
    reporting = measured(reading(sample(), sample()), (*pods(1), *pods(1, ready_seconds=young, first=1)))

    assert silent.health is Reason.PRESENT
    assert (value(silent.arrivals), coverage(silent.arrivals)) == (4.0, 1.0)
    assert (value(reporting.arrivals), coverage(reporting.arrivals)) == (8.0, 1.0)


def test_a_pod_that_had_its_window_is_required() -> None:
    old = (*pods(1), *pods(1, ready_seconds=SETTINGS.warm_up_seconds, first=1))

    assert measured(reading(sample(), None, up={1: None}), old).health is Reason.PARTIAL


def test_a_fleet_of_young_pods_only_is_partial() -> None:
    metrics = measured(reading(sample(samples=2, rate=1)), pods(1, ready_seconds=30.0))

    assert metrics.health is Reason.PARTIAL
    assert value(metrics.arrivals) == 1.0


@pytest.mark.parametrize(("samples", "arrivals"), [(2.0, 3.0), (4.0, 6.0), (8.0, 3.0)])
def test_the_rate_of_a_young_pod_is_scaled_to_the_time_that_it_covers(samples: float, arrivals: float) -> None:
    # Prometheus divides the increase of 4 scrapes by a window of 8; with 2 there is too little to scale by.
    settings = MeasureSettings(window_seconds=40.0, scrape_interval_seconds=5.0)
    base = reading(sample(samples=samples, rate=3.0, age=1.0))

    assert value(measure(base, pods(1, ready_seconds=20.0), LIMIT, settings).arrivals) == arrivals


def test_the_rate_of_an_old_pod_with_gaps_is_not_scaled() -> None:
    settings = MeasureSettings(window_seconds=40.0, scrape_interval_seconds=5.0)

    metrics = measure(reading(sample(samples=4.0, rate=3.0, age=1.0)), pods(1), LIMIT, settings)

    assert (metrics.health, value(metrics.arrivals)) == (Reason.RECOVERING, 3.0)


def test_a_terminating_pod_still_counts_and_is_not_required() -> None:
    leaving = LivePod(NAMESPACE, "p1", 3600.0, terminating=True)

    with_it = measured(reading(sample(), sample(rate=2)), (*pods(1), leaving))
    without = measured(reading(sample(), None, up={1: None}), (*pods(1), leaving))

    assert value(with_it.arrivals) == 6.0
    assert (without.health, value(without.arrivals)) == (Reason.PRESENT, 4.0)


def test_no_traffic_is_idle_when_every_ready_pod_proves_it() -> None:
    metrics = measured(reading(sample(**IDLE), sample(**IDLE)))

    assert metrics.health is Reason.IDLE
    assert metrics.arrivals == metrics.first_tokens == metrics.error_share == Idle()
    assert value(metrics.waiting) == value(metrics.running) == 0.0


IDLE_SPOILERS = {
    "one is down": reading(sample(**IDLE), sample(**IDLE), up={1: 0.0}),
    "one is not known to be up": reading(sample(**IDLE), sample(**IDLE), up={1: None}),
    "one is silent": reading(sample(**IDLE), None),
    "one has a short window": reading(sample(**IDLE), sample(**IDLE, samples=2)),
    "one has no counters": reading(sample(**IDLE), sample(**IDLE, first_tokens=None, served=None, failed=None)),
    "a request runs": reading(sample(**IDLE), sample(rate=0, running=1)),
    "a request waits": reading(sample(**IDLE), sample(**IDLE, waiting=1)),
    "a request ended": reading(sample(**IDLE), sample(**IDLE, served=0.1)),
    "a counter is NaN": reading(sample(**IDLE), sample(**IDLE, first_tokens=math.nan)),
}


@pytest.mark.parametrize("spoiler", IDLE_SPOILERS)
def test_idle_is_not_claimed_when(spoiler: str) -> None:
    metrics = measured(IDLE_SPOILERS[spoiler], pods(2))

    assert metrics.health is not Reason.IDLE
    assert not isinstance(metrics.arrivals, Idle)


def test_counters_that_never_appeared_are_unknown_arrivals() -> None:
    metrics = measured(reading(sample(**IDLE, first_tokens=None, served=None, failed=None)))

    assert isinstance(metrics.arrivals, Missing)
    assert metrics.health is Reason.MISSING


@pytest.mark.parametrize(("failed", "health"), [(0.05, Reason.PRESENT), (0.06, Reason.ERRORS_PRESENT)])
def test_more_than_one_percent_of_failed_requests_is_no_healthy_data(failed: float, health: Reason) -> None:
    metrics = measured(reading(sample(rate=4.94, failed=failed), sample(rate=4.94, served=5 - failed - 4.94)))

    assert metrics.health is health


def test_failing_requests_keep_every_number_and_say_their_share() -> None:
    metrics = measured(reading(sample(rate=4, served=3.0, failed=1.0)))

    assert (metrics.health, metrics.detail) == (Reason.ERRORS_PRESENT, "25.0 % of the requests fail")
    assert (value(metrics.arrivals), coverage(metrics.arrivals)) == (5.0, 1.0)


def test_what_is_wrong_with_the_data_is_worse_than_failing_requests() -> None:
    failing_pod = sample(rate=4, served=3.0, failed=1.0)

    assert measured(reading(failing_pod, None)).health is Reason.PARTIAL


def test_an_unknown_share_of_failures_is_not_called_errors() -> None:
    metrics = measured(reading(sample(served=None, failed=None)))

    assert isinstance(metrics.error_share, Missing)
    assert metrics.health is Reason.PRESENT
