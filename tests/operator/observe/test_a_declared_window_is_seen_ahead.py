"""A declared window reaches the decision early enough for its pods to be ready when it opens."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from firsttoken_operator.domain import (
    UNKNOWN_TIME_TO_READY_SECONDS,
    FleetSnapshot,
    Reason,
    ResourceSnapshot,
    ScalingMode,
    Unsized,
    lead_seconds,
    ready_seconds,
)
from firsttoken_operator.observe.snapshot import build_snapshot
from firsttoken_operator.observe.store import Store
from firsttoken_operator.run.settings import Settings
from tests.operator.observe.bodies import EPOCH, deployment, inference_deployment, pod, replica_set

# EPOCH is 2025-06-15T15:06:40 UTC, a Sunday: the window opens 3,200 s later.
WINDOW = {"days": ["Sun"], "start": "16:00", "end": "18:00", "peakRequestsPerSecond": "300"}
OPENS = 3200.0
TICK_SECONDS = 15.0


def fleet(*objects: tuple[str, Any], seconds: float, time_scale: float = 1.0, **window: Any) -> FleetSnapshot:
    body = inference_deployment()
    body["spec"]["traffic"]["schedule"] = [WINDOW | window]
    store = Store()
    for kind, seen in (
        ("InferenceDeployment", body), ("Deployment", deployment()), ("ReplicaSet", replica_set()), *objects,
    ):  # fmt: skip
        store.feed(kind, None, seen)
    timing = replace(Settings(time_scale=time_scale).timing, tick_seconds=TICK_SECONDS)
    return build_snapshot(store, {}, {}, timing, now_seconds=5.0, wall_seconds=EPOCH + seconds)


def only(*objects: tuple[str, Any], seconds: float, **options: Any) -> ResourceSnapshot:
    (resource,) = fleet(*objects, seconds=seconds, **options).resources
    return resource


STARTS = [("Pod", pod(f"ready-{took}", ready=took)) for took in range(100, 200, 10)]
"""Ten pods of which nine were Ready within 180 s."""


@pytest.mark.parametrize(
    ("objects", "lead"),
    [
        pytest.param([], 300.0, id="five minutes where no pod was seen to start"),
        pytest.param(STARTS, 180.0, id="what nine of ten of its own pods took"),
    ],
)
def test_a_window_is_seen_the_time_to_ready_and_one_tick_ahead(objects: list[tuple[str, Any]], lead: float) -> None:
    earliest = OPENS - lead - TICK_SECONDS

    before, at_that_time = (only(*objects, seconds=earliest + late) for late in (-1.0, 0.0))

    assert before.scheduled_requests_per_second is None
    assert at_that_time.scheduled_requests_per_second == 300.0


def test_a_window_is_seen_until_it_closes() -> None:
    inside, after = (only(seconds=OPENS + 7200 + late).scheduled_requests_per_second for late in (-1.0, 0.0))

    assert (inside, after) == (300.0, None)


def test_the_time_to_ready_of_its_own_pods_is_in_the_snapshot() -> None:
    assert only(seconds=0.0).time_to_ready_seconds == UNKNOWN_TIME_TO_READY_SECONDS
    assert only(*STARTS, seconds=300.0).time_to_ready_seconds == 180.0


def test_only_the_start_that_was_not_measured_is_divided_by_the_time_scale() -> None:
    assert lead_seconds(ready_seconds(None, time_scale=10.0), 1.5) == 31.5
    assert lead_seconds(ready_seconds(60.0, time_scale=10.0), 1.5) == 61.5


def test_the_wall_clock_is_in_the_snapshot() -> None:
    assert fleet(seconds=7.0).epoch_seconds == EPOCH + 7.0


def test_an_unknown_time_zone_makes_the_resource_invalid_and_names_the_field() -> None:
    resource = only(seconds=0.0, timeZone="Europe/Berlni")

    assert resource.policy.mode is ScalingMode.PAUSED
    assert isinstance(resource.sized, Unsized)
    assert resource.sized.reason is Reason.INVALID_SPEC
    assert resource.sized.message == (
        "spec.traffic.schedule[0].timeZone: Europe/Berlni is not a known time zone; did you mean Europe/Berlin?"
    )
