"""A whole tick of a second process over the same API server: the status that the first one wrote is not forgotten."""

from __future__ import annotations

import time
from typing import Any

import pytest

from firsttoken_operator.act.kubernetes import ObjectRef
from firsttoken_operator.observe.store import Store
from firsttoken_operator.run.loop import Loop, Parts
from firsttoken_operator.run.settings import Settings
from firsttoken_operator.run.sizer import Sizer
from tests.operator.act.fake_cluster import FakeCluster
from tests.operator.observe.bodies import NAMESPACE, deployment, inference_deployment
from tests.operator.run.looped import looped
from tests.operator.run.sizings import settled

REF = ObjectRef("firsttoken.dev/v1alpha1", "InferenceDeployment", NAMESPACE, "rag")


async def tick_of_a_new_process(status: dict[str, Any]) -> dict[str, Any]:
    """The status after the first tick of a process that finds this one."""
    cluster = FakeCluster({REF: {"status": status}})
    sizer = Sizer()
    loop, parts = process_that_finds(status, cluster, Settings(), sizer)
    await settled(sizer, parts.store)
    await loop.tick(time.monotonic())
    await parts.writes.settle()
    sizer.close()
    found: dict[str, Any] = cluster.objects[REF]["status"]
    return found


def process_that_finds(
    status: dict[str, Any], cluster: FakeCluster, settings: Settings, sizer: Sizer | None = None
) -> tuple[Loop, Parts]:
    """A new process whose watches have shown one resource with this status, and its target."""
    store = Store()
    store.feed("InferenceDeployment", None, inference_deployment("rag") | {"status": status})
    store.feed("Deployment", None, deployment("nim"))
    return looped(cluster, store, settings, sizer=sizer)


@pytest.mark.slow
async def test_what_was_learned_survives_the_restart_and_goes_with_the_sizing() -> None:
    first = await tick_of_a_new_process({})
    learned = first | {"calibration": {"state": "Learned", "serviceFactorPercent": 81}}
    resized = learned | {"sizing": first["sizing"] | {"requestsPerSecondPerReplica": "0.123"}}

    assert first["calibration"]["serviceFactorPercent"] == 100
    assert (await tick_of_a_new_process(learned))["calibration"]["serviceFactorPercent"] == 81
    assert (await tick_of_a_new_process(resized))["calibration"]["serviceFactorPercent"] == 100
