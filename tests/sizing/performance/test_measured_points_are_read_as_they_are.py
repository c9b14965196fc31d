from __future__ import annotations

import math
from dataclasses import replace
from statistics import fmean

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from firsttoken_sizing import (
    Arrivals,
    Basis,
    ConfigurationKey,
    Hardware,
    Infeasible,
    Latency,
    Limit,
    Load,
    Percentile,
    Point,
    Profile,
    SizingRequest,
    Sla,
    Workload,
    size,
)
from firsttoken_sizing.performance.limits import MissingPercentile, meets
from firsttoken_sizing.performance.measured import fill_percentiles, interpolate, matching_points, operating_point
from tests.fixtures.hypothesis_scale import examples
from tests.fixtures.worked_examples import H100, LLAMA_8B_H100_FP8, call_center, call_center_profile

P95_300 = Sla(time_to_first_token=Limit(300, Percentile.P95))


@pytest.mark.parametrize(
    ("ttft", "verdict"),
    [
        (Latency(mean=200, p95=290), True),
        (Latency(mean=200, p95=310), False),
        (Latency(mean=200), None),
        (Latency(mean=310), False),
        (Latency(), None),
        (Latency(mean=200, p99=290), True),
        (Latency(mean=200, p99=310), None),
        (Latency(p90=310), False),
        (Latency(p50=310, p90=290), False),
        (Latency(p50=200, p90=290), None),
    ],
    ids=[
        "known inside",
        "known outside",
        "unknown",
        "ruled out by its mean",
        "nothing known",
        "inside with a higher one",
        "a higher one says nothing",
        "ruled out by a lower one",
        "ruled out by one of two lower ones",
        "lower ones say nothing",
    ],
)
def test_a_missing_percentile_is_never_the_mean(ttft: Latency, verdict: bool | None) -> None:
    assert meets(Point(1, concurrency=1, ttft=ttft), P95_300) is verdict


@pytest.mark.parametrize(
    ("ttft", "verdict"),
    [(Latency(mean=200), True), (Latency(mean=310), False), (Latency(mean=200, p95=310), False), (Latency(), None)],
    ids=["mean inside", "mean outside", "known outside", "nothing known"],
)
def test_a_missing_percentile_is_judged_by_the_mean_where_the_caller_says_so(
    ttft: Latency, verdict: bool | None
) -> None:
    assert meets(Point(1, concurrency=1, ttft=ttft), P95_300, MissingPercentile.JUDGED_BY_MEAN) is verdict


@given(
    samples=st.lists(st.floats(1, 1000), min_size=2, max_size=40),
    known=st.sets(st.sampled_from(list(Percentile))),
    limit=st.floats(1, 1000),
    about=st.sampled_from(list(Percentile)),
)
@settings(max_examples=examples(100))
def test_a_verdict_without_a_percentile_is_that_of_the_whole_distribution(
    samples: list[float], known: set[Percentile], limit: float, about: Percentile
) -> None:
    every = {p: fmean(samples) if p.share is None else nearest_rank(samples, p.share) for p in Percentile}
    # NB: a mean above P90 takes a tail that no latency has; that the mean rules one out stands on that.
    assume(every[Percentile.MEAN] <= every[Percentile.P90])
    sla = Sla(time_to_first_token=Limit(limit, about))

    verdict = meets(Point(1, concurrency=1, ttft=Latency(**{p.key: every[p] for p in known})), sla)

    assert verdict in (None, every[about] <= limit * (1 + 1e-9))
    assert verdict is not None or about not in known


def nearest_rank(samples: list[float], share: float) -> float:
    return sorted(samples)[math.ceil(share * len(samples)) - 1]


def test_what_lies_at_the_limit_but_for_rounding_is_inside() -> None:
    assert meets(Point(1, concurrency=1, ttft=Latency(p95=300 * (1 + 1e-12))), P95_300) is True


def test_a_mean_does_not_rule_out_a_median() -> None:
    sla = Sla(time_to_first_token=Limit(300, Percentile.P50))

    assert meets(Point(1, concurrency=1, ttft=Latency(mean=400)), sla) is None


def test_only_points_known_to_keep_the_sla_are_chosen() -> None:
    points = matching_points([call_center_profile()], LLAMA_8B_H100_FP8, Load.CLOSED_LOOP, 2000, 200)

    chosen = operating_point(points, P95_300)

    assert chosen is not None
    assert chosen.concurrency == 10


def test_a_measured_answer_reports_measured_statistics_only() -> None:
    sizing = size(call_center())

    assert sizing.basis is Basis.MEASURED
    assert sizing.ttft == Latency(mean=220.8, p95=268.0)
    assert sizing.itl == Latency(mean=8.56)
    # The mean of E2E follows from the measured ones; its percentiles do not.
    assert sizing.end_to_end == Latency(mean=pytest.approx(220.8 + 199 * 8.56))


def test_the_curve_of_a_measured_answer_has_what_was_filled_in() -> None:
    table = size(call_center()).table

    assert table is not None
    assert table.at(5.1954).itl.p95 is not None
    assert table.at(8.8434).ttft.p95 is not None


def test_a_faster_point_without_the_percentile_makes_the_answer_fitted() -> None:
    # P95 is known at concurrency 2 only; 5 and 10 are faster and may keep the SLA.
    sizing = size(call_center(profile=call_center_profile({2: 62.2})))

    assert sizing.basis is Basis.FITTED
    assert sizing.configuration is not None
    assert sizing.error_band_percent > 1
    assert sizing.ttft.p95 is not None


def test_a_percentile_between_two_that_were_measured_is_interpolated() -> None:
    # P95 is known at 5 (inside) and 25 (outside): at 10 it lies between.
    sizing = size(call_center(profile=call_center_profile({5: 152.0, 25: 600.0})))

    assert sizing.concurrency_per_replica == 10
    assert sizing.basis is Basis.INTERPOLATED
    assert sizing.error_band_percent > 1
    assert sizing.ttft.mean == 220.8
    low, high = sorted((220.8 * 152.0 / 124.9, 220.8 * 600.0 / 489.5))
    assert sizing.ttft.p95 is not None
    assert low <= sizing.ttft.p95 <= high


def test_a_fill_with_hardly_any_fit_behind_it_has_a_wide_band() -> None:
    # GPT-43B has no shipped fit, and two concurrencies say little.
    points = (
        Point(0.5, concurrency=1, ttft=Latency(mean=900, p95=1000), itl=Latency(mean=2)),
        Point(0.9, concurrency=2, ttft=Latency(mean=1000), itl=Latency(mean=2.2)),
    )
    sizing = size(gpt_43b(points, Limit(3000, Percentile.P95)))

    assert sizing.basis is Basis.FITTED
    assert sizing.error_band_percent > 20


def backlog(requests_per_second: float = 13.9) -> Point:
    """A run that sent everything at once, as imports give it: throughput and ITL, no TTFT and no E2E."""
    return Point(requests_per_second, concurrency=260, itl=Latency(mean=94.0))


def with_backlog(profile: Profile) -> Profile:
    return replace(profile, points=(*profile.points, backlog()))


@pytest.mark.parametrize(
    "ttft_p95", [None, {5: 152.0, 25: 600.0}, {2: 62.2}], ids=["Measured", "Interpolated", "Fitted"]
)
def test_a_throughput_without_ttft_changes_no_basis(ttft_p95: dict[int, float] | None) -> None:
    plain = size(call_center(profile=call_center_profile(ttft_p95)))
    more = size(call_center(profile=with_backlog(call_center_profile(ttft_p95))))

    assert (more.basis, more.replicas) == (plain.basis, plain.replicas)
    assert more.binding_constraint == plain.binding_constraint
    assert more.ttft.mean == plain.ttft.mean


def test_a_throughput_without_ttft_hides_no_impossible_limit() -> None:
    request = call_center(ttft_milliseconds=20, profile=with_backlog(call_center_profile({1: 40.0})))

    sizing = size(replace(request, hardware=Hardware(gpus=(H100,), tensor_parallel=1)))

    assert not sizing.feasible
    assert sizing.cause is Infeasible.SINGLE_REQUEST_TTFT


def test_no_ttft_is_claimed_at_a_throughput_that_was_measured_without_one() -> None:
    table = size(call_center(profile=with_backlog(call_center_profile()))).table

    assert table is not None
    assert table.saturation_requests_per_second == 13.9
    assert table.at(13.85).saturated


def test_a_throughput_without_ttft_alone_is_no_measured_answer() -> None:
    sizing = size(gpt_43b((Point(0.9, concurrency=8, itl=Latency(mean=20)),), Limit(3000, Percentile.P95)))

    assert sizing.basis in (Basis.FITTED, Basis.EXTRAPOLATED)


def gpt_43b(points: tuple[Point, ...], limit: Limit) -> SizingRequest:
    """A model that nothing is shipped for."""
    key = ConfigurationKey("nvidia/nemo-gpt-43b", H100, "BF16", tensor_parallel=2)
    return SizingRequest(
        model=key.model,
        precision="BF16",
        workload=Workload(input_tokens=3500, output_tokens=500, peak_requests_per_second=31),
        sla=Sla(time_to_first_token=limit),
        hardware=Hardware(gpus=(H100,)),
        arrivals=Arrivals.CLOSED_LOOP,
        profiles=(Profile("gpt-43b", key, 3500, 500, Load.CLOSED_LOOP, points),),
    )


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
