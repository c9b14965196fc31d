"""The first replicas of a new deployment: by what is declared, inside the bounds, and never none."""

from __future__ import annotations

from dataclasses import replace

import pytest

from firsttoken_operator.decide import declared_bounds, initial_replicas
from tests.operator.decide.builders import POLICY, SIZED

CAPACITY = SIZED.table.capacity_requests_per_second


@pytest.mark.parametrize(
    ("on_prem", "average", "expected"),
    [
        pytest.param(False, 6, 6, id="cloud with an average starts for the average"),
        pytest.param(False, None, 40, id="cloud without an average starts for the peak"),
        pytest.param(True, 6, 40, id="on-prem starts for the peak"),
        pytest.param(False, 1, 2, id="never below the minimum"),
    ],
)
def test_the_first_replicas_follow_the_bounds_table(on_prem: bool, average: int | None, expected: int) -> None:
    sized = replace(SIZED, replicas_for_declared_average=average)

    assert initial_replicas(POLICY, sized, on_prem=on_prem) == expected


def test_the_first_replicas_are_clamped_to_the_maximum() -> None:
    assert initial_replicas(replace(POLICY, max_replicas=10), SIZED, on_prem=True) == 10


def test_a_window_that_is_open_raises_them_beyond_the_declared_peak() -> None:
    assert initial_replicas(POLICY, SIZED, 90 * CAPACITY, on_prem=False) == 90


def test_a_window_for_less_than_the_average_lowers_nothing() -> None:
    assert initial_replicas(POLICY, SIZED, 1 * CAPACITY, on_prem=False) == 6


@pytest.mark.parametrize("average", [0, 6])
def test_nothing_starts_at_zero(average: int) -> None:
    may_scale_to_zero = replace(POLICY, min_replicas=0)
    sized = replace(SIZED, replicas_for_declared_average=average)

    assert initial_replicas(may_scale_to_zero, sized, on_prem=False) == max(1, average)


@pytest.mark.parametrize(
    ("share", "on_prem", "expected"),
    [
        pytest.param(1.0, True, 40, id="a narrow band changes nothing"),
        pytest.param(0.6, True, 67, id="on-prem those for the peak at the careful end"),
        pytest.param(0.6, False, 10, id="in the cloud those for the average at the careful end"),
    ],
)
def test_a_deployment_with_a_wide_error_band_starts_at_its_careful_end(
    share: float, on_prem: bool, expected: int
) -> None:
    wide = replace(SIZED, most_replicas_for_declared_peak=67, careful_share=share)

    assert initial_replicas(POLICY, wide, on_prem=on_prem) == expected
    assert declared_bounds(POLICY, wide).upper >= expected


def test_the_careful_end_gives_way_to_the_users_maximum() -> None:
    wide = replace(SIZED, most_replicas_for_declared_peak=67, careful_share=0.6)

    assert initial_replicas(replace(POLICY, max_replicas=50), wide, on_prem=True) == 50


def test_a_band_that_says_less_than_the_answer_never_starts_with_fewer() -> None:
    wide = replace(SIZED, most_replicas_for_declared_peak=0, careful_share=0.6)

    assert initial_replicas(POLICY, wide, on_prem=True) == SIZED.replicas_for_declared_peak
