"""Memory of a resource's model: thousands of them are kept."""

from __future__ import annotations

from firsttoken_operator.api.conditions import Condition, ConditionStatus
from firsttoken_operator.api.status import InferenceDeploymentStatus, TimingStatus


def test_objects_with_the_same_fields_share_their_names() -> None:
    first, second = (TimingStatus.model_validate({"timeToReadyP50Seconds": seconds}) for seconds in (30, 60))

    assert first.__pydantic_fields_set__ is second.__pydantic_fields_set__
    assert first.model_fields_set == {"time_to_ready_p50_seconds"}


def test_a_copy_with_more_fields_changes_no_other_object() -> None:
    first, second = (InferenceDeploymentStatus(replicas=replicas) for replicas in (3, 4))
    changed = first.model_copy(update={"ready_replicas": 2})

    assert changed.model_fields_set == {"replicas", "ready_replicas"}
    assert first.model_fields_set == second.model_fields_set == {"replicas"}


def test_what_an_object_was_given_is_still_told_from_defaults() -> None:
    condition = Condition(
        type="Ready", status=ConditionStatus.TRUE, reason="AsSized", last_transition_time="2026-11-21T12:00:00Z"
    )
    assert "message" not in condition.model_dump(exclude_unset=True)
