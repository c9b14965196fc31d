"""`spec.runtime.rolloutPolicy`: pods are replaced at once, in proven silence, or when their revision is released."""

from __future__ import annotations

from dataclasses import replace

import pytest

from firsttoken_operator.decide import Memory, decide, judge, may_roll
from firsttoken_operator.domain import (
    Claims,
    ConditionType,
    FleetSnapshot,
    Judgement,
    Metrics,
    Reason,
    ResourceSnapshot,
    RolloutPolicy,
    RolloutTerms,
    TargetMissing,
)
from tests.operator.decide.builders import idle, lost, metrics, resource, target

RENDERED = Claims("a", is_rendered=True)
BUSY = metrics(20.0)


def declared(policy: RolloutPolicy, seen: Metrics = BUSY, *, released: str = "", replicas: int = 4) -> ResourceSnapshot:
    about = resource(target(replicas), seen, claims=RENDERED)
    return replace(about, rollout=RolloutTerms(policy, released))


@pytest.mark.parametrize("seen", [BUSY, idle(), lost()])
def test_immediately_is_at_once_whatever_is_served(seen: Metrics) -> None:
    assert may_roll(declared(RolloutPolicy.IMMEDIATE, seen), "bcdf")


@pytest.mark.parametrize(
    ("seen", "replicas", "released"),
    [
        pytest.param(BUSY, 4, False, id="busy"),
        pytest.param(idle(), 4, True, id="idle"),
        pytest.param(lost(), 4, False, id="metrics lost"),
        pytest.param(replace(idle(), awaited=True), 4, False, id="not answered yet"),
        pytest.param(lost(), 0, True, id="no pods"),
    ],
)
def test_idle_is_proven_silence_and_never_missing_metrics(seen: Metrics, replicas: int, released: bool) -> None:
    assert may_roll(declared(RolloutPolicy.WHEN_IDLE, seen, replicas=replicas), "bcdf") is released


@pytest.mark.parametrize("policy", [RolloutPolicy.WHEN_IDLE, RolloutPolicy.MANUAL])
def test_the_named_revision_is_released_and_no_later_one(policy: RolloutPolicy) -> None:
    about = declared(policy, released="bcdf")

    assert may_roll(about, "bcdf")
    assert not may_roll(about, "ghjk")


def test_by_hand_waits_in_silence_too() -> None:
    assert not may_roll(declared(RolloutPolicy.MANUAL, idle()), "bcdf")


def test_nothing_is_idle_that_is_not_there() -> None:
    about = replace(declared(RolloutPolicy.WHEN_IDLE), target=TargetMissing(Reason.TARGET_NOT_FOUND, ""))

    assert not may_roll(about, "bcdf")


def said(about: ResourceSnapshot) -> dict[ConditionType, Judgement]:
    (decision,), _ = decide(FleetSnapshot(0.0, 15.0, (about,)), Memory())
    return {judgement.kind: judgement for judgement in judge(about, decision)}


def test_what_waits_says_for_what_and_the_deployment_stays_ready() -> None:
    until = "until no request is served; revision bcdf differs in spec"
    about = replace(declared(RolloutPolicy.WHEN_IDLE), pending_rollout=until)
    found = said(about)[ConditionType.ROLLOUT_PENDING]

    assert (found.holds, found.reason) == (True, Reason.ROLLOUT_PENDING)
    assert found.message == f"WhenIdle: the pods stay as they are {until}"
    assert said(about)[ConditionType.READY].holds


def test_without_a_change_nothing_waits() -> None:
    found = said(replace(declared(RolloutPolicy.MANUAL), pending_rollout=""))[ConditionType.ROLLOUT_PENDING]

    assert (found.holds, found.reason) == (False, Reason.RENDERED)


def test_what_is_not_known_or_not_rendered_is_not_said() -> None:
    assert ConditionType.ROLLOUT_PENDING not in said(declared(RolloutPolicy.MANUAL))
