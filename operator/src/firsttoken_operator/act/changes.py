"""Events of a tick: what changed since the status that was written before. Pure.

The previous state is read from the object itself, so a restart neither repeats an Event nor swallows one.
"""

from __future__ import annotations

from firsttoken_operator.act.conditions import timestamp
from firsttoken_operator.act.scale import Write
from firsttoken_operator.act.status import Observed
from firsttoken_operator.api.conditions import Condition, ConditionStatus
from firsttoken_operator.api.status import InferenceDeploymentStatus
from firsttoken_operator.decide import ForeignWrite, metrics_announcement
from firsttoken_operator.domain import ConditionType, Reason

Event = tuple[Reason, str]
"""Reason and message."""

_ANNOUNCED_WHEN_FALSE = (
    *(ConditionType.SIZING_READY, ConditionType.CAPACITY_AVAILABLE, ConditionType.SCALING_ACTIVE),
    ConditionType.SETTINGS_MATCH,
)


def deeds(seen: Observed, foreign: ForeignWrite | None) -> list[Event]:
    """Tell what was done to the replicas, by us or by another writer."""
    found: list[Event] = []
    if foreign is not None:
        found.append((Reason.FOREIGN_WRITE, foreign.announcement))
    if seen.result.write is Write.DONE and seen.decision.changes:
        reason = Reason.SCALED_UP if seen.decision.to_replicas > seen.decision.from_replicas else Reason.SCALED_DOWN
        found.append((reason, f"{seen.decision.announcement}; {timestamp(seen.now)}"))
    return found


def transitions(previous: InferenceDeploymentStatus, current: InferenceDeploymentStatus) -> list[Event]:
    """Tell the conditions that changed in a way that is worth an Event."""
    before = {condition.type: condition for condition in previous.conditions}
    found = (_transition(before.get(condition.type), condition) for condition in current.conditions)
    return [event for event in found if event is not None]


def _transition(before: Condition | None, after: Condition) -> Event | None:
    if after.type == ConditionType.METRICS_HEALTHY.value:
        return _metrics_event(before, after)
    changed = before is None or (before.status, before.reason) != (after.status, after.reason)
    if after.type == ConditionType.ROLLOUT_PENDING.value:
        is_news = before is None or before.status is not after.status or before.message != after.message
        return (Reason(after.reason), after.message) if is_news and after.status is ConditionStatus.TRUE else None
    announced = after.type in {kind.value for kind in _ANNOUNCED_WHEN_FALSE}
    # NB: what waits for its size is in the status; a fleet that is declared at once would write an Event for each.
    is_known = after.reason != Reason.UNKNOWN.value
    if announced and changed and is_known and after.status is ConditionStatus.FALSE:
        return Reason(after.reason), after.message
    return None


def _metrics_event(before: Condition | None, after: Condition) -> Event | None:
    told = _metrics_reason(after)
    if before is None or _metrics_reason(before) is told:
        return None
    if before.reason == Reason.SCALED_TO_ZERO.value and after.reason == Reason.MISSING.value:
        return None  # The first pods after none are starting: what was never measured cannot be lost.
    if after.reason == Reason.SCALED_TO_ZERO.value:
        return None  # Nor is anything measured again where there are no pods.
    return told, metrics_announcement(told, after.reason, after.message)


def _metrics_reason(condition: Condition) -> Reason:
    """Name the Event that a state of MetricsHealthy is announced with when it begins."""
    if condition.status is ConditionStatus.TRUE:
        return Reason.METRICS_RECOVERED
    return Reason.ERRORS_PRESENT if condition.reason == Reason.ERRORS_PRESENT.value else Reason.METRICS_LOST
