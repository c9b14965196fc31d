from __future__ import annotations

import pytest

from firsttoken_lab.emulate.truth import Lateness, RequestRecord, Truth
from firsttoken_sizing.workload import Limit, Percentile, Sla


def a_truth(sla, *requests):
    """Each request is (ttft, e2e) in seconds for 11 output tokens; one arrives every second."""
    truth = Truth(sla)
    for number, times in enumerate(requests):
        record = RequestRecord(float(number), 100, 11)
        truth.arrived(record)
        if times is None:
            truth.lost(record, "pod gone")
        else:
            truth.first_token(record, number + times[0])
            truth.finished(record, number + times[1])
    return truth


def limit(milliseconds, percentile=Percentile.P95):
    return Limit(milliseconds, percentile)


@pytest.mark.parametrize(
    ("sla", "percent"),
    [
        (Sla(time_to_first_token=limit(300)), 75.0),
        (Sla(time_to_first_token=limit(100)), 25.0),
        (Sla(inter_token_latency=limit(100)), 50.0),
        (Sla(end_to_end=limit(1000)), 50.0),
        (Sla(time_to_first_token=limit(150), end_to_end=limit(1100)), 25.0),
        (Sla(time_to_first_token=limit(1, Percentile.MEAN)), 75.0),
    ],
    ids=["ttft", "tight ttft", "itl", "e2e", "two limits", "a mean does not judge single requests"],
)
def test_attainment_is_the_share_inside_every_percentile_limit_and_a_failure_is_outside(sla, percent):
    truth = a_truth(sla, (0.1, 1.0), (0.2, 0.9), (0.3, 2.0), None)
    assert truth.attainment_percent == percent
    assert (truth.ended, truth.failed, truth.in_flight) == (4, 1, 0)


def test_nothing_ended_is_unknown_and_not_a_perfect_score():
    assert a_truth(Sla()).attainment_percent is None


def test_recent_figures_forget_what_is_older_than_the_window():
    truth = a_truth(Sla(), *[(5.0, 6.0)] * 10, *[(0.1, 0.2)] * 10)
    stats = truth.stats(now_seconds=20.0, elapsed_seconds=20.0)

    assert stats["arrivedRequestsPerSecond"] == 1.0
    assert stats["ttftP95Milliseconds"] == pytest.approx(5000)
    assert truth.stats(25.0, 25.0)["ttftP95Milliseconds"] == pytest.approx(100)
    assert truth.stats(99.0, 99.0)["ttftP95Milliseconds"] is None


def test_lateness_above_half_a_second_is_not_acceptable():
    lateness = Lateness()
    lateness.add(10.0, [9.9] * 990)
    assert lateness.acceptable
    lateness.add(10.0, [9.0] * 20)
    assert lateness.percentile(99) == pytest.approx(1.0)
    assert not lateness.acceptable
