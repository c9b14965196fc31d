"""Own GPUs against rented ones that follow the load, and against an API that is paid by the token."""

from __future__ import annotations

from dataclasses import replace

import pytest

from firsttoken_sizing import Cost, Pricing, SizingRequest, Workload, size
from tests.fixtures.worked_examples import DGX_H100, H100, call_center

RENTED = Pricing(gpu_hour=3.0, input_per_million_tokens=0.05, output_per_million_tokens=0.25)
HOURS, SECONDS = 8760, 8760 * 3600


def priced(pricing: Pricing, request: SizingRequest | None = None) -> Cost:
    cost = size(replace(request or call_center(), pricing={H100: pricing})).cost
    assert cost is not None
    return cost


def test_rented_gpus_that_follow_the_load_cost_what_the_average_needs() -> None:
    cost = priced(RENTED)

    assert cost.per_year == pytest.approx(39 * 3.0 * HOURS)
    assert cost.per_year_autoscaled == pytest.approx(6 * 3.0 * HOURS)
    assert (cost.gpu_hours_per_day, cost.gpu_hours_per_day_autoscaled) == (39 * 24, 6 * 24)
    assert cost.per_thousand_requests_autoscaled == pytest.approx(6 * 3.0 * HOURS / (28.54 * SECONDS) * 1000)
    assert any("always stood at the declared average" in sentence for sentence in cost.assumptions)


def test_bought_servers_save_gpu_hours_and_no_money() -> None:
    cost = priced(DGX_H100)

    assert cost.per_year_autoscaled is None
    assert cost.gpu_hours_per_day_autoscaled == 6 * 24
    assert any("cost the same when they are idle" in sentence for sentence in cost.assumptions)


def test_the_api_is_broken_even_where_its_bill_is_that_of_the_fleet() -> None:
    cost = priced(RENTED)
    a_request = 2000 * 0.05e-6 + 200 * 0.25e-6

    assert cost.api_per_thousand_requests == pytest.approx(1000 * a_request)
    assert cost.api_per_million_tokens == pytest.approx(a_request / 2200 * 1e6)
    assert cost.api_per_year_at_average == pytest.approx(a_request * 28.54 * SECONDS)
    assert cost.break_even_requests_per_second is not None
    assert cost.break_even_requests_per_second * a_request * SECONDS == pytest.approx(cost.per_year)
    assert cost.break_even_percent_of_peak == pytest.approx(cost.break_even_requests_per_second / 200 * 100)


def test_tokens_are_counted_at_the_peak_and_at_the_average() -> None:
    cost = priced(RENTED)

    assert cost.per_million_tokens_at_peak == pytest.approx(39 * 3.0 / 3600 / (200 * 2200) * 1e6)
    assert cost.per_million_tokens_at_average == pytest.approx(39 * 3.0 / 3600 / (28.54 * 2200) * 1e6)


def test_what_was_not_declared_is_not_made_up() -> None:
    workload = Workload(input_tokens=2000, output_tokens=200, peak_requests_per_second=200)
    cost = priced(Pricing(gpu_hour=3.0), replace(call_center(), workload=workload))

    assert cost.per_thousand_requests_at_average is None
    assert cost.per_year_autoscaled is None
    assert cost.api_per_thousand_requests is None
    assert cost.break_even_requests_per_second is None
    assert size(replace(call_center(), pricing={H100: Pricing()})).cost is None


def test_an_average_above_the_peak_does_not_cost_more_than_the_fleet() -> None:
    cost = priced(RENTED, call_center(peak=5))

    assert cost.per_year is not None
    assert cost.per_year_autoscaled == cost.per_year
