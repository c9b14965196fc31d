"""Writes that are denied, throttled or never answered for a while: told on the resource, few requests, others go on."""

from __future__ import annotations

from itertools import pairwise

import pytest

from firsttoken_operator.act.backlog import Budget
from tests.faults.actions import Answer, Hang, Reset, refused
from tests.faults.proxy import Action, Entry
from tests.faults.stage import Stage
from tools.cluster import wait_until

pytestmark = pytest.mark.cluster

EVERY = pytest.mark.every_fault
STATUS = "/inferencedeployments/hit/status$"
SCALE = "/deployments/hit/scale$"
BUDGET = Budget()


@pytest.fixture(scope="module", autouse=True)
def resources(stage: Stage) -> None:
    stage.declare("hit", 2)
    stage.declare("other", 2)


def scaling_active(stage: Stage, name: str) -> tuple[str, str]:
    (found,) = [c for c in stage.status(name)["conditions"] if c["type"] == "ScalingActive"]
    return found["status"], found["reason"]


def writes_total(stage: Stage, kind: str, outcome: str) -> float:
    wanted = f'firsttoken_writes_total{{kind="{kind}",outcome="{outcome}"}}'
    lines = stage.process.get("metrics")[1].splitlines()
    return sum(float(line.split()[-1]) for line in lines if line.startswith(wanted))


@pytest.mark.parametrize(
    ("action", "reason"),
    [
        pytest.param(refused(403, "forbidden: quota.example.com"), "WriteDenied", id="denied by a webhook"),
        pytest.param(refused(500, "failed calling webhook"), "WriteFailed", id="a webhook that is down"),
        pytest.param(refused(401, "Unauthorized"), "WriteDenied", id="credentials that expired", marks=EVERY),
        pytest.param(Reset(), "WriteFailed", id="reset", marks=EVERY),
        pytest.param(Answer(200, b"<html>log in</html>"), "WriteFailed", id="a proxy's page", marks=EVERY),
        pytest.param(Hang(), "WriteFailed", id="never answered", marks=EVERY),
    ],
)
def test_replicas_that_cannot_be_written_are_a_condition(stage: Stage, action: Action, reason: str) -> None:
    stage.settle()
    hit, other = stage.replicas("hit") + 1, stage.replicas("other") + 1
    with stage.proxy.injecting(action, method="PATCH", path=SCALE) as fault:
        stage.change("hit", minReplicas=hit)
        wait_until(lambda: scaling_active(stage, "hit") == ("False", reason), 40, "the condition")
        # NB: tried after 1, 2, 4, 8 s at most, or half of that; and ticks are 1 s.
        stage.ticks(8)
        stage.change("other", minReplicas=other)
        stage.until("other", other)

        assert len(fault.entries) <= 7
        assert scaling_active(stage, "hit") == ("False", reason)
        assert scaling_active(stage, "other") == ("True", "Active")
    stage.until("hit", hit, 40)
    wait_until(lambda: scaling_active(stage, "hit") == ("True", "Active"), 30, "the condition")
    stage.assert_alive()


@pytest.mark.parametrize("seconds", [4, pytest.param(30, marks=EVERY)])
def test_a_request_for_silence_is_obeyed_by_everything(stage: Stage, seconds: int) -> None:
    stage.settle()
    hit, other = stage.replicas("hit") + 1, stage.replicas("other") + 1
    before = len(stage.proxy.log)
    throttling = refused(429, "slow down", retry_after_seconds=seconds)
    with stage.proxy.injecting(throttling, method="PATCH", path=SCALE, times=1):
        stage.change("hit", minReplicas=hit)
        stage.change("other", minReplicas=other)
        stage.until("hit", hit, 2 * seconds + 30)
        stage.until("other", other)
    throttled = next(e for e in stage.proxy.since(before) if e.status == 429)

    def sent(entry: Entry) -> bool:
        # Watches are kopf's, which no 429 silences here.
        return entry.began_seconds > throttled.began_seconds and not entry.is_watch

    later = sorted(e.began_seconds - throttled.began_seconds for e in stage.proxy.since(before) if sent(e))
    # What was under way in the same moment had been sent before the answer was read.
    assert not [at for at in later if 0.5 < at < seconds]
    afterwards = [at for at in later if at >= seconds]
    assert afterwards
    most = BUDGET.requests_per_second * 1.0 + BUDGET.burst
    assert max(sum(at <= other < at + 1.0 for other in afterwards) for at in afterwards) <= most, "no burst"
    stage.assert_alive()


@pytest.mark.parametrize(
    "action",
    [
        pytest.param(refused(422, "status.sizing: Invalid value"), id="another schema"),
        pytest.param(refused(403, "forbidden"), id="no rights", marks=EVERY),
        pytest.param(Hang(), id="never answered"),
    ],
)
def test_a_status_that_cannot_be_written_holds_up_nothing(stage: Stage, action: Action) -> None:
    stage.settle()
    hit = stage.replicas("hit") + 1
    with stage.proxy.injecting(action, method="PATCH", path=STATUS) as fault:
        stage.change("hit", minReplicas=hit)
        stage.until("hit", hit)
        outcome = "failed" if isinstance(action, Hang) else "denied"
        wait_until(lambda: writes_total(stage, "status", outcome) >= 2, 40, "two attempts")
        stage.ticks(3)

        assert len(fault.entries) <= 14, "two an attempt at most"
        assert stage.process.get("healthz") == (200, "ok\n")
    wait_until(lambda: stage.status("hit").get("replicas") == hit, 60, "the status in the end")
    assert any(record["to"] == hit for record in stage.status("hit")["decisions"]), "the scaling is told"
    stage.assert_alive()


def test_a_target_in_conflict_without_end_is_left_alone_between_ticks(stage: Stage) -> None:
    stage.settle()
    hit = stage.replicas("hit") + 1
    with stage.proxy.injecting(refused(409, "modified"), method="PATCH", path=SCALE, times=10) as fault:
        stage.change("hit", minReplicas=hit)
        stage.until("hit", hit)
        times = [entry.began_seconds for entry in fault.entries]

    assert len(times) == 10
    assert max(b - a for a, b in pairwise(times)) > 0.3, "three attempts, then the next tick"
    stage.assert_alive()
