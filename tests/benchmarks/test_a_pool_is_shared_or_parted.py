"""The benchmark of shared pools, on a fleet that is played in seconds."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import pool
from firsttoken_lab.replay.series import Series
from firsttoken_lab.replay.setting import Setting, setting_of
from firsttoken_lab.replay.together import Sharer
from firsttoken_operator.api.documents import load_documents
from pools.arms import ALONE, QUOTAS, SHARED, Arm, PoolOutcome, outcome_of, rented_outcome, shares
from pools.fleet import Fleet, WeekTooShort, cut, fleet_of
from tests.lab.replay.worlds import traffic

ROOT = Path(__file__).resolve().parents[2]
TRACES = ROOT.parent / "shared" / "traces"
EXAMPLE = ROOT / "examples/call-center.yaml"


@pytest.fixture(scope="module")
def setting() -> Setting:
    documents = load_documents(EXAMPLE)
    setting = setting_of(documents.deployments[0], documents.pools, documents.benchmarks)
    assert isinstance(setting, Setting)
    return setting


@pytest.fixture(scope="module")
def fleet(setting: Setting) -> Fleet:
    """Two deployments, of which only one becomes busy."""
    loads = {"busy": [(200.0, 30.0), (500.0, 260.0)], "quiet": [(700.0, 30.0)]}
    sharers = [
        Sharer(
            name, name, setting.sized, setting.policy, traffic(load), setting.stage(90, 60.0, 0.0, 1), initial=5,
        )
        for name, load in loads.items()
    ]  # fmt: skip
    return Fleet(tuple(sharers), 400 / 3600, setting.sized.configuration.gpus_per_replica, warm_up_seconds=300.0)


@pytest.mark.slow
def test_a_pool_that_is_shared_serves_more_in_time_than_parts_of_the_same_size(fleet: Fleet) -> None:
    alone, shared, quotas = (outcome_of(fleet, arm) for arm in (Arm(ALONE, 100), Arm(SHARED, 18), Arm(QUOTAS, 18)))

    assert shared.gpus == quotas.gpus
    assert shared.worst_percent > quotas.worst_percent
    assert alone.attainment_percent >= shared.attainment_percent > quotas.attainment_percent
    assert shared.paid_gpu_hours == quotas.paid_gpu_hours == shared.gpus * fleet.hours
    assert quotas.used_gpu_hours < shared.used_gpu_hours < shared.paid_gpu_hours


@pytest.mark.slow
def test_replicas_kept_warm_for_all_cost_less_than_as_many_for_each(fleet: Fleet) -> None:
    each, together = (rented_outcome(fleet, 120.0, warm=2, together=how) for how in (False, True))

    assert together.paid_gpu_hours < each.paid_gpu_hours
    assert together.gpus < each.gpus


@pytest.mark.skipif(not TRACES.is_dir(), reason="needs the traces of ../shared/traces")
def test_deployments_begin_at_hours_of_their_own_on_the_day_that_is_asked_for() -> None:
    first = fleet_of(TRACES, deployments=2, hours=0.1, hours_apart=12.0, seed=1)
    later = fleet_of(TRACES, deployments=1, hours=0.1, hours_apart=12.0, seed=1, day=2)
    (on_first, _), (on_second,) = first.sharers, later.sharers

    assert [s.uid for s in first.sharers] == ["conv-week-1", "m-large-2"]
    assert len(on_first.requests) != len(on_second.requests)
    assert 0 < first.requests < sum(len(s.requests) for s in first.sharers), "the warm-up is played, and not counted"
    assert first.peak_gpus == sum(first.peak_replicas) * first.gpus_per_replica
    with pytest.raises(WeekTooShort, match="--hours"):
        fleet_of(TRACES, deployments=1, hours=0.1, hours_apart=12.0, seed=1, day=9)


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
    for wrong in (["--traces", "nowhere"], ["--percent", "120"], ["--day", "0"], ["--warm", "-1"], ["--scale", "0"]):
        with pytest.raises(SystemExit):
            pool.arguments(wrong)
    assert "nowhere does not exist" in capsys.readouterr().err


def test_an_outcome_counts_those_that_attain_less_than_asked() -> None:
    outcome = PoolOutcome("alone", 64, 128.0, 100.0, 99.5, (99.5, 98.0))

    assert (outcome.below(99.0), outcome.below(97.0), outcome.worst_percent) == (1, 0, 98.0)
