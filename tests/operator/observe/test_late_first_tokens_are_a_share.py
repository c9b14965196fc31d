"""The share of first tokens above the SLA's limit: certain, possible, and a guess between the two."""

from __future__ import annotations

import math
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from firsttoken_operator.domain import LateShare
from firsttoken_operator.observe import ttft
from firsttoken_operator.observe.config import DEFAULT
from firsttoken_sizing.workload import Limit, Percentile
from tests.operator.observe.readings import measured, reading, sample

late_share = partial(ttft.late_share, config=DEFAULT.first_token)
BOUNDS = (0.1, 0.25, 0.5, math.inf)
NUMBERS = st.one_of(st.floats(allow_nan=True, allow_infinity=True), st.floats(0, 1e6), st.sampled_from([0.0, 1.0]))


def test_a_limit_on_a_bound_has_an_exact_share() -> None:
    assert late_share(BOUNDS, (60, 90, 99, 100), 0.25) == LateShare(0.1, 0.1, 0.1)


@pytest.mark.parametrize("milliseconds", [100, 250, 300, 700])
def test_milliseconds_become_the_bound_that_they_are(milliseconds: int) -> None:
    share = late_share((milliseconds / 1000, math.inf), (3, 4), milliseconds / 1000)

    assert share == LateShare(0.25, 0.25, 0.25)


def test_the_bucket_of_the_limit_may_be_late_and_what_is_above_it_is() -> None:
    share = late_share(BOUNDS, (60, 90, 99, 100), 0.3)

    assert share is not None
    assert (share.low, share.high) == (pytest.approx(0.01), pytest.approx(0.1))


def test_inside_a_bucket_the_survival_function_falls_exponentially() -> None:
    share = late_share(BOUNDS, (60, 90, 99, 100), 0.375)

    assert share is not None
    assert share.estimate == pytest.approx(math.sqrt(0.1 * 0.01)), "half way: the geometric mean"


@pytest.mark.parametrize("mean_seconds", [0.05, 0.2])
@pytest.mark.parametrize("limit_seconds", [0.13, 0.3, 0.45])
def test_the_estimate_is_exact_for_delays_that_are_exponential(mean_seconds: float, limit_seconds: float) -> None:
    cumulative = [1e6 * (1 - math.exp(-bound / mean_seconds)) for bound in BOUNDS]

    share = late_share(BOUNDS, cumulative, limit_seconds)

    assert share is not None
    assert share.estimate == pytest.approx(math.exp(-limit_seconds / mean_seconds), rel=1e-3)


def test_above_an_empty_bucket_stands_half_a_request() -> None:
    share = late_share(BOUNDS, (9e5, 9e5, 1e6, 1e6), 0.375)

    assert share is not None
    assert share.low == 0
    assert share.estimate == pytest.approx(math.sqrt(0.1 * 0.5e-6))


def test_or_a_hundredth_of_the_few_that_are_in_it() -> None:
    """Half a request for none above one that is in the bucket would call two thirds of it late, window after window."""
    share = late_share(BOUNDS, (90, 90, 100, 100), 0.375)

    assert share is not None
    assert share.estimate == pytest.approx(math.sqrt(0.1 * 0.001))


def test_no_request_above_the_lower_bound_is_late_for_certain() -> None:
    assert late_share(BOUNDS, (40, 100, 100, 100), 0.3) == LateShare(0.0, 0.0, 0.0)


def test_rounding_alone_is_no_request() -> None:
    tenths = [0.1 * 3, 0.3, 0.3, 0.3]

    assert late_share(BOUNDS, tenths, 0.3) == LateShare(0.0, 0.0, 0.0)


def test_below_the_first_bound_every_request_may_be_late() -> None:
    share = late_share(BOUNDS, (50, 100, 100, 100), 0.05)

    assert share is not None
    assert (share.low, share.high) == (0.5, 1.0)
    assert share.estimate == pytest.approx(math.sqrt(0.5))


def test_above_the_last_bound_there_is_no_bucket_and_all_of_it_counts() -> None:
    late = late_share(BOUNDS, (60, 90, 98, 100), 0.7)

    assert late is not None
    assert (late.low, late.estimate, late.high) == (0.0, pytest.approx(0.02), pytest.approx(0.02))


@pytest.mark.parametrize(
    ("bounds", "cumulative", "limit"),
    [
        ((), (), 0.2), ((0.5, 1.0), (1, 2), 0.2), ((0.5, math.inf), (1, 2, 3), 0.2), ((0.5, math.inf), (2, 1), 0.2),
        ((math.inf,), (0,), 0.2), ((0.5, math.inf), (math.nan, 2), 0.2), ((0.5, math.inf), (-1, 2), 0.2),
        ((1.0, 0.5, math.inf), (1, 2, 3), 0.2), ((0.5, math.inf), (1, math.inf), 0.2), ((0.5, math.inf), (1, 2), 0.0),
        ((0.5, math.inf), (1, 2), math.nan), ((0.5, math.inf), (1, 2), math.inf),
    ],
)  # fmt: skip
def test_what_is_no_histogram_or_no_limit_has_no_share(
    bounds: tuple[float, ...], cumulative: tuple[float, ...], limit: float
) -> None:
    assert late_share(bounds, cumulative, limit) is None


@given(st.lists(NUMBERS, max_size=6), st.lists(NUMBERS, max_size=6), NUMBERS)
def test_it_is_total(bounds: list[float], cumulative: list[float], limit: float) -> None:
    share = late_share(bounds, cumulative, limit)

    assert share is None or 0 <= share.low <= share.estimate <= share.high <= 1


@given(
    st.sets(st.floats(1e-3, 1e3), min_size=1, max_size=8),
    st.lists(st.floats(0, 1e6), min_size=9, max_size=9),
    st.floats(1e-4, 1e4),
    st.floats(1, 10),
)
def test_of_a_histogram_there_is_always_a_share_and_a_higher_limit_has_no_larger_one(
    finite: set[float], counts: list[float], limit: float, times: float
) -> None:
    bounds = [*sorted(finite), math.inf]
    cumulative = [1 + sum(counts[: index + 1]) for index in range(len(bounds))]

    low, high = late_share(bounds, cumulative, limit), late_share(bounds, cumulative, limit * times)

    assert low is not None
    assert high is not None
    assert 0 <= low.low <= low.estimate <= low.high <= 1
    assert high.low <= low.low
    assert high.estimate <= low.estimate + 1e-9
    assert high.high <= low.high


def test_the_limit_of_the_sla_is_the_one_that_is_judged() -> None:
    ttft = measured(reading(sample(rate=3), sample(rate=1, bounds=BOUNDS)), limit=Limit(100, Percentile.P95)).ttft

    assert ttft is not None
    assert ttft.late == LateShare(1.0, 1.0, 1.0), "all of them took 200 ms"


@pytest.mark.parametrize("limit", [None, Limit(100, Percentile.MEAN)])
def test_without_a_limit_on_a_percentile_nothing_is_late(limit: Limit | None) -> None:
    ttft = measured(reading(sample()), limit=limit).ttft

    assert ttft is not None
    assert ttft.late is None


def test_half_a_request_is_of_the_requests_of_the_whole_window() -> None:
    ttft = measured(reading(sample(rate=4)), limit=Limit(175, Percentile.P95)).ttft

    assert ttft is not None
    assert ttft.late is not None
    # 240 requests in 60 s, all of them between 100 and 250 ms.
    assert ttft.late.estimate == pytest.approx(math.sqrt(0.5 / 240))
