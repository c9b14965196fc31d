"""Writes that the API server denies for an hour: a condition and a counter, few attempts, few words."""

from __future__ import annotations

import logging
from collections.abc import Callable
from copy import deepcopy
from typing import Any

import pytest

from firsttoken_operator.act.errors import Rejected, Unavailable
from firsttoken_operator.act.kubernetes import ObjectRef
from firsttoken_operator.observe.store import Store
from tests.operator.act.fake_cluster import FakeCluster
from tests.operator.act.test_a_rendered_pod_is_restricted import MINIMAL
from tests.operator.observe.bodies import NAMESPACE, deployment, inference_deployment
from tests.operator.run.looped import looped
from tests.operator.run.sizings import settled

RESOURCE = ObjectRef("firsttoken.dev/v1alpha1", "InferenceDeployment", NAMESPACE, "rag")
TARGET = ObjectRef("apps/v1", "Deployment", NAMESPACE, "nim")
RENDERED = ObjectRef("apps/v1", "Deployment", NAMESPACE, "rag")
TICK_SECONDS = 15.0
HOUR = 240


class Denied:
    """A resource that wants two replicas more, and an API server that does not let one kind of call through."""

    def __init__(self, call: str, error: Callable[[int], Exception]) -> None:
        self.store, self.now, self.attempts, self.closed = Store(), 1000.0, 0, True
        document, workload = inference_deployment(scaling={"minReplicas": 5}), deployment(replicas=3)
        self.cluster = FakeCluster({RESOURCE: document, TARGET: workload})
        self.loop, self.parts = looped(self.cluster, self.store, clock=lambda: self.now, renders=True)
        self.watch()

        def before(name: str, ref: ObjectRef) -> None:
            if name == call and self.closed:
                self.attempts += 1
                raise error(self.attempts)

        self.cluster.before = before

    def watch(self) -> None:
        self.store.feed("InferenceDeployment", "MODIFIED", deepcopy(self.cluster.objects[RESOURCE]))
        for ref in {TARGET, RENDERED} & self.cluster.objects.keys():
            self.store.feed("Deployment", "MODIFIED", deepcopy(self.cluster.objects[ref]))

    async def ticks(self, count: int) -> None:
        await settled(self.parts.sizer, self.store)
        for _ in range(count):
            await self.loop.tick(self.now)
            await self.parts.writes.settle()
            self.now += TICK_SECONDS
            self.watch()

    def condition(self, kind: str) -> tuple[str, str, str]:
        status: dict[str, Any] = self.cluster.objects[RESOURCE].get("status", {})
        (found,) = [c for c in status["conditions"] if c["type"] == kind]
        return found["status"], found["reason"], found["message"]

    def events(self, reason: str) -> int:
        return sum(ref.kind == "Event" and body["reason"] == reason for ref, body in self.cluster.objects.items())

    def replicas(self) -> int:
        return int(self.cluster.objects[TARGET]["spec"]["replicas"])

    def counted(self, kind: str, outcome: str) -> float:
        wanted = f'firsttoken_writes_total{{kind="{kind}",outcome="{outcome}"}}'
        lines = self.parts.metrics.render().decode().splitlines()
        return next(float(line.split()[-1]) for line in lines if line.startswith(wanted))


def webhook(attempt: int) -> Exception:
    return Rejected(f"PATCH: 403 denied by quota.example.com (request {attempt:08x})", 403)


@pytest.mark.slow
async def test_a_scale_write_that_is_denied_for_an_hour(caplog: pytest.LogCaptureFixture) -> None:
    denied = Denied("patch_scale", webhook)
    with caplog.at_level(logging.WARNING):
        await denied.ticks(HOUR)
    state, reason, message = denied.condition("ScalingActive")

    assert (state, reason) == ("False", "WriteDenied")
    assert "3 -> 5 replicas" in message
    assert "denied by quota.example.com" in message
    assert 20 <= denied.attempts <= 60, "every one or two minutes in the end"
    assert denied.counted("scale", "denied") == denied.attempts
    assert denied.events("WriteDenied") == 1
    assert len([r for r in caplog.records if "scale" in r.message]) == denied.attempts

    denied.closed = False
    await denied.ticks(9)
    assert (denied.replicas(), denied.condition("ScalingActive")[:2]) == (5, ("True", "Active"))


@pytest.mark.parametrize("runs", [True, False], ids=["another one runs", "none runs"])
async def test_a_deployment_that_is_denied(runs: bool) -> None:
    denied = Denied("apply", webhook)
    document, workload = denied.cluster.objects[RESOURCE], denied.cluster.objects[TARGET]
    document["spec"]["runtime"] = dict(MINIMAL)
    del document["spec"]["targetRef"], denied.cluster.objects[TARGET]
    if runs:
        workload["metadata"] |= {"name": "rag", "ownerReferences": [{"uid": document["metadata"]["uid"]}]}
        denied.cluster.objects[RENDERED] = workload
    denied.watch()
    await denied.ticks(8)
    state, reason, message = denied.condition("Ready")

    assert (state, reason) == ("False", "WriteDenied")
    assert "denied by quota.example.com" in message
    assert denied.condition("ScalingActive")[:2] == (("True", "Active") if runs else ("False", "WriteDenied"))
    assert denied.events("WriteDenied") == 1
    assert 2 <= denied.attempts <= 7, "tried ever later"

    denied.closed = False
    denied.now += 120.0
    await denied.ticks(2)
    assert denied.condition("Ready")[1] != "WriteDenied"


async def test_a_scale_write_that_fails_once_is_told_and_forgotten() -> None:
    denied = Denied("patch_scale", lambda attempt: Unavailable("PATCH: 500 failed calling webhook"))
    await denied.ticks(1)
    assert denied.condition("ScalingActive")[:2] == ("False", "WriteFailed")

    denied.closed = False
    await denied.ticks(2)
    assert (denied.replicas(), denied.condition("ScalingActive")[:2]) == (5, ("True", "Active"))


@pytest.mark.slow
async def test_a_status_that_is_denied_for_an_hour_stays_to_be_written(caplog: pytest.LogCaptureFixture) -> None:
    denied = Denied("replace_status", lambda attempt: Rejected(f"PATCH: 403 forbidden ({attempt})", 403))
    with caplog.at_level(logging.WARNING):
        await denied.ticks(HOUR)

    assert denied.replicas() == 5, "decisions go on"
    assert 20 <= denied.attempts <= 60
    # The last one may still be under way.
    assert denied.counted("status", "denied") in (denied.attempts, denied.attempts - 1)
    assert len(caplog.records) == denied.counted("status", "denied")
    assert denied.events("ScaledUp") == 1

    denied.closed = False
    denied.now += 120.0
    await denied.ticks(1)
    decisions = denied.cluster.objects[RESOURCE]["status"]["decisions"]
    assert [(entry["from"], entry["to"]) for entry in decisions] == [(3, 5)], "the scaling of an hour ago is told"


class Strict(FakeCluster):
    """An API server whose schema refuses a field of the status."""

    strict = True

    async def replace_status(self, ref: ObjectRef, status: dict[str, Any], *, uid: str) -> dict[str, Any]:
        if self.strict and "sizing" in status:
            raise Rejected("PATCH: 422 status.sizing.basis: Unsupported value", 422)
        return await super().replace_status(ref, status, uid=uid)


async def test_a_status_that_the_schema_refuses_says_so_in_its_conditions() -> None:
    denied = Denied("", webhook)
    denied.cluster.__class__ = Strict
    await denied.ticks(HOUR)
    state, reason, message = denied.condition("Ready")

    assert (state, reason) == ("False", "WriteDenied")
    assert "422 status.sizing.basis" in message
    assert denied.condition("ScalingActive")[:2] == ("True", "Active")
    assert denied.replicas() == 5
    assert denied.cluster.calls.count(("replace_status", "InferenceDeployment")) <= 3, "told once"

    denied.cluster.strict = False  # type: ignore[attr-defined]
    denied.now += 120.0
    await denied.ticks(1)
    assert denied.condition("Ready")[1] != "WriteDenied"
    assert denied.cluster.objects[RESOURCE]["status"]["decisions"][0]["to"] == 5


@pytest.mark.slow
async def test_events_that_are_denied_are_not_repeated() -> None:
    denied = Denied("create", webhook)
    await denied.ticks(HOUR)

    assert denied.attempts <= 10
    assert denied.counted("event", "denied") == denied.attempts
    assert denied.condition("ScalingActive")[:2] == ("True", "Active")
