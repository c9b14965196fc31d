"""The benchmark of shared pools, on a fleet that is played in seconds."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import pool
from firsttoken_lab.replay.series import Series
from pools.arms import ALONE, QUOTAS, SHARED, Arm, PoolOutcome, outcome_of, rented_outcome, shares
from pools.fleet import Fleet, WeekTooShort, cut, fleet_of

TRACES = Path(__file__).resolve().parents[2].parent / "shared" / "traces"


@pytest.fixture(scope="module")
def fleet() -> Fleet:
    if not TRACES.is_dir():
        pytest.skip("needs the traces of ../shared/traces")
    return fleet_of(TRACES, deployments=5, hours=1.5, hours_apart=12.0, seed=1, rate_scale=2.0)


@pytest.mark.slow
def test_a_pool_that_is_shared_serves_more_in_time_than_parts_of_the_same_size(fleet: Fleet) -> None:
    alone, shared, quotas = (outcome_of(fleet, arm) for arm in (Arm(ALONE, 100), Arm(SHARED, 45), Arm(QUOTAS, 45)))

    assert shared.gpus == quotas.gpus < alone.gpus
    assert shared.worst_percent > quotas.worst_percent
    assert shared.attainment_percent > quotas.attainment_percent
    assert shared.below(fleet.asked_percent) <= quotas.below(fleet.asked_percent)


@pytest.mark.slow
def test_one_replica_kept_warm_for_all_costs_less_than_one_for_each(fleet: Fleet) -> None:
    each, together = (rented_outcome(fleet, 120.0, warm=1, together=how) for how in (False, True))

    assert together.gpu_hours < each.gpu_hours
    assert together.gpus < each.gpus


def test_parts_are_whole_and_add_up() -> None:
    assert shares([10, 5, 5], 10) == [5, 3, 2]
    assert shares([100, 1, 1], 10) == [8, 1, 1]
    assert shares([1, 1, 1], 2) == [1, 1, 1]


def test_a_cut_of_a_series_begins_and_ends_on_its_lines() -> None:
    series = Series(np.array([0.0, 100.0, 200.0]), np.array([0.0, 10.0, 0.0]))
    found = cut(series, 50.0, 150.0)

    assert found.at_seconds.tolist() == [0.0, 50.0, 100.0]
    assert found.requests_per_second.tolist() == [5.0, 10.0, 5.0]
    with pytest.raises(WeekTooShort, match="--hours"):
        cut(series, 50.0, 250.0)


def test_arguments_are_checked(capsys: pytest.CaptureFixture[str]) -> None:
    for wrong in (["--traces", "nowhere"], ["--percent", "120"], ["--warm", "-1"], ["--scale", "0"]):
        with pytest.raises(SystemExit):
            pool.arguments(wrong)
    assert "nowhere does not exist" in capsys.readouterr().err


def test_an_outcome_counts_those_that_attain_less_than_asked() -> None:
    outcome = PoolOutcome("alone", 64, 100.0, 99.5, (99.5, 98.0))

    assert (outcome.below(99.0), outcome.below(97.0), outcome.worst_percent) == (1, 0, 98.0)
