from __future__ import annotations

from dataclasses import replace

import pytest

from firsttoken_sizing import Basis, Latency, Limit, Load, Percentile, Point, Sla, size
from firsttoken_sizing.performance.limits import meets
from firsttoken_sizing.performance.measured import fill_percentiles, interpolate, matching_points, operating_point
from tests.fixtures.worked_examples import LLAMA_8B_H100_FP8, call_center, call_center_profile

P95_300 = Sla(time_to_first_token=Limit(300, Percentile.P95))


@pytest.mark.parametrize(
    ("ttft", "verdict"),
    [
        (Latency(mean=200, p95=290), True),
        (Latency(mean=200, p95=310), False),
        (Latency(mean=200), None),
        (Latency(mean=310), False),
        (Latency(), None),
    ],
    ids=["known inside", "known outside", "unknown", "ruled out by its mean", "nothing known"],
)
def test_a_missing_percentile_is_never_the_mean(ttft: Latency, verdict: bool | None) -> None:
    assert meets(Point(1, concurrency=1, ttft=ttft), P95_300) is verdict


def test_a_mean_does_not_rule_out_a_median() -> None:
    sla = Sla(time_to_first_token=Limit(300, Percentile.P50))

    assert meets(Point(1, concurrency=1, ttft=Latency(mean=400)), sla) is None


def test_only_points_known_to_keep_the_sla_are_chosen() -> None:
    points = matching_points([call_center_profile()], LLAMA_8B_H100_FP8, Load.CLOSED_LOOP, 2000, 200)

    chosen = operating_point(points, P95_300)

    assert chosen is not None
    assert chosen.concurrency == 10


def test_a_faster_point_without_the_percentile_makes_the_answer_fitted() -> None:
    # P95 is known at concurrency 2 only; 5 and 10 are faster and may keep the SLA.
    sizing = size(call_center(profile=call_center_profile({2: 62.2})))

    assert sizing.basis is Basis.FITTED
    assert sizing.configuration is not None
    assert sizing.error_band_percent > 1


def test_other_lengths_do_not_match() -> None:
    profile = call_center_profile()

    assert matching_points([profile], LLAMA_8B_H100_FP8, Load.CLOSED_LOOP, 2010, 200)
    assert not matching_points([profile], LLAMA_8B_H100_FP8, Load.CLOSED_LOOP, 2200, 200)
    assert not matching_points([profile], LLAMA_8B_H100_FP8, Load.POISSON, 2000, 200)


def test_a_load_measured_twice_is_averaged_and_overload_left_out() -> None:
    profile = call_center_profile()
    twice = Point(5.3, concurrency=10, ttft=Latency(mean=230), itl=Latency(mean=8.6))
    overload = Point(1.0, concurrency=200, ttft=Latency(mean=9), itl=Latency(mean=9), end_to_end=Latency(mean=1000))

    points = matching_points(
        [replace(profile, points=(*profile.points, twice, overload))], LLAMA_8B_H100_FP8, Load.CLOSED_LOOP, 2000, 200
    )

    at_10 = next(p for p in points if p.concurrency == 10)
    assert at_10.requests_per_second == pytest.approx((5.1954 + 5.3) / 2)
    assert at_10.ttft.p95 == 268
    assert 200 not in [p.concurrency for p in points]


def test_filled_percentiles_stay_in_order_and_means_stay_as_measured() -> None:
    points = matching_points([call_center_profile()], LLAMA_8B_H100_FP8, Load.CLOSED_LOOP, 2000, 200)

    filled = fill_percentiles(points, lambda _: None)

    for before, after in zip(points, filled, strict=True):
        assert after.ttft.mean == before.ttft.mean
        assert after.ttft.p95 == pytest.approx((before.ttft.mean or 0) * 268 / 220.8)
        assert after.ttft.p99 is None
        assert after.itl.p95 is None


def test_interpolation_is_exact_on_the_points() -> None:
    points = matching_points([call_center_profile()], LLAMA_8B_H100_FP8, Load.CLOSED_LOOP, 2000, 200)

    dense = interpolate(points)

    assert set(points) <= set(dense)
    between = [p for p in dense if p.concurrency is not None and 10 < p.concurrency < 25]
    assert all(5.1954 < p.requests_per_second < 8.8434 for p in between)
