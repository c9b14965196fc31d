"""The condition SettingsMatch and its Event: once for each difference, and as it was while pods are replaced."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

from firsttoken_operator.act.changes import transitions
from firsttoken_operator.act.conditions import conditions
from firsttoken_operator.api.conditions import Condition, ConditionStatus
from firsttoken_operator.api.status import InferenceDeploymentStatus
from firsttoken_operator.decide import Memory, decide
from firsttoken_operator.domain import FleetSnapshot, Reason, ResourceSnapshot
from firsttoken_operator.runtimes.settings import SizedSettings, Started, StartSettings
from tests.operator.decide.builders import SIZED, metrics, resource, target

NOW = datetime(2026, 11, 23, 9, tzinfo=UTC)
LATER = NOW + timedelta(hours=1)


def fleet(batch: int | None, *, rollout: bool = False, sized: int = 256) -> ResourceSnapshot:
    """Pods that are started with a batch; None: what they are started with cannot be read."""
    start = None if batch is None else Started(StartSettings(max_batch=batch))
    settings = SizedSettings(StartSettings(max_batch=sized), StartSettings())
    return resource(target(4, started=start, rollout=rollout), metrics(20.0), sized=replace(SIZED, settings=settings))


def shown(
    about: ResourceSnapshot, before: tuple[Condition, ...] = (), now: datetime = NOW
) -> tuple[InferenceDeploymentStatus, list[Condition]]:
    """The conditions as they are written, and the one of the settings."""
    (made,), _ = decide(FleetSnapshot(0.0, 15.0, (about,)), Memory())
    written = conditions(before, about, made, None, now)
    return InferenceDeploymentStatus(conditions=written), [c for c in written if c.type == "SettingsMatch"]


def events(before: InferenceDeploymentStatus, after: InferenceDeploymentStatus) -> list[str]:
    return [message for reason, message in transitions(before, after) if reason is Reason.SETTINGS_DIFFER]


def test_an_event_tells_of_a_difference_once() -> None:
    well, (match,) = shown(fleet(256))
    first, (told,) = shown(fleet(64), well.conditions)
    second, (same,) = shown(fleet(64), first.conditions, LATER)

    assert (match.status, match.reason) == (ConditionStatus.TRUE, "SettingsMatch")
    assert (told.status, told.reason) == (ConditionStatus.FALSE, "SettingsDiffer")
    assert events(well, first) == [told.message]
    assert same == told
    assert events(first, second) == []


def test_another_value_is_news_although_the_words_are_the_same() -> None:
    first, _ = shown(fleet(64))
    second, (told,) = shown(fleet(128), first.conditions, LATER)

    assert "started with 128" in told.message
    assert events(first, second) == []


def test_while_pods_are_replaced_it_stays_as_it_was() -> None:
    first, (told,) = shown(fleet(64))
    between, (kept,) = shown(fleet(256, rollout=True), first.conditions, LATER)
    after, (match,) = shown(fleet(256), between.conditions, LATER)

    assert kept == told
    assert (match.status, match.last_transition_time) == (ConditionStatus.TRUE, "2026-11-23T10:00:00Z")
    assert events(first, between) == events(between, after) == []


def test_what_cannot_be_read_any_more_says_nothing() -> None:
    first, _ = shown(fleet(64))

    assert shown(fleet(None), first.conditions)[1] == []
    assert shown(fleet(None, rollout=True))[1] == []
