"""The condition RolloutPending and its Event: once for each revision, also over a restart; none for a target."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

from firsttoken_operator.act.changes import transitions
from firsttoken_operator.act.conditions import conditions
from firsttoken_operator.api.conditions import Condition
from firsttoken_operator.api.status import InferenceDeploymentStatus
from firsttoken_operator.decide import Memory, decide
from firsttoken_operator.domain import (
    Claims,
    Decision,
    FleetSnapshot,
    Reason,
    ResourceSnapshot,
    RolloutPolicy,
    RolloutTerms,
)
from firsttoken_operator.runtimes.settings import SizedSettings, Started, StartSettings
from tests.operator.decide.builders import SIZED, metrics, resource, target

NOW = datetime(2026, 11, 23, 9, tzinfo=UTC)
LATER = NOW + timedelta(hours=1)
RENDERED = replace(
    resource(target(4), metrics(20.0), claims=Claims("a", is_rendered=True)),
    rollout=RolloutTerms(RolloutPolicy.MANUAL),
)
WAITS = replace(RENDERED, pending_rollout="until it is released; revision bcdf differs in spec.containers[0].image")


def decision(about: ResourceSnapshot) -> Decision:
    (made,), _ = decide(FleetSnapshot(0.0, 15.0, (about,)), Memory())
    return made


def shown(
    about: ResourceSnapshot, before: tuple[Condition, ...] = (), now: datetime = NOW
) -> tuple[InferenceDeploymentStatus, list[Condition]]:
    """The conditions as they are written, and the one of the rollout."""
    written = conditions(before, about, decision(about), None, now)
    return InferenceDeploymentStatus(conditions=written), [c for c in written if c.type == "RolloutPending"]


def events(before: InferenceDeploymentStatus, after: InferenceDeploymentStatus) -> list[str]:
    return [message for reason, message in transitions(before, after) if reason is Reason.ROLLOUT_PENDING]


def test_an_event_tells_of_each_revision_once() -> None:
    quiet, _ = shown(replace(RENDERED, pending_rollout=""))
    first, (told,) = shown(WAITS, quiet.conditions)
    second, _ = shown(WAITS, first.conditions, LATER)
    other, _ = shown(
        replace(WAITS, pending_rollout="until it is released; revision ghjk differs in spec"), second.conditions, LATER
    )

    assert events(quiet, first) == [told.message]
    assert events(first, second) == []
    assert [message.partition("revision ")[2] for message in events(second, other)] == ["ghjk differs in spec"]


def test_after_a_restart_the_condition_stays_until_it_is_known() -> None:
    first, (told,) = shown(WAITS)
    unknown, (kept,) = shown(RENDERED, first.conditions, LATER)
    again, (same,) = shown(WAITS, unknown.conditions, LATER)

    assert kept == told == same
    assert events(first, unknown) == events(unknown, again) == []


def test_the_conditions_keep_their_order_where_one_is_as_it_was() -> None:
    """Pods' settings are read at once, before the renderer looked at what waits."""
    settings = SizedSettings(StartSettings(max_batch=256), StartSettings())
    pods = target(4, started=Started(StartSettings(max_batch=256)))
    waits = replace(WAITS, target=pods, sized=replace(SIZED, settings=settings))
    first, _ = shown(waits)
    unknown, _ = shown(replace(waits, pending_rollout=None), first.conditions, LATER)

    assert [told.type for told in first.conditions[-2:]] == ["RolloutPending", "SettingsMatch"]
    assert unknown == first


def test_what_is_released_waits_no_more() -> None:
    first, _ = shown(WAITS)
    done, (after,) = shown(replace(RENDERED, pending_rollout=""), first.conditions, LATER)

    assert (after.status, after.reason) == ("False", "Rendered")
    assert events(first, done) == []


def test_a_target_that_is_not_rendered_has_no_such_condition() -> None:
    first, _ = shown(WAITS)
    _, none = shown(replace(RENDERED, claims=Claims("a")), first.conditions, LATER)

    assert none == []
