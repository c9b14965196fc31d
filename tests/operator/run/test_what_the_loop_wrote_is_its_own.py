"""Several ticks of a loop: the replicas that it wrote come back from the watch, and are no other writer's."""

from __future__ import annotations

import time

import pytest

from firsttoken_operator.act.kubernetes import ObjectRef
from firsttoken_operator.domain import Reason
from firsttoken_operator.run.settings import Settings
from tests.operator.act.fake_cluster import FakeCluster
from tests.operator.observe.bodies import NAMESPACE, deployment, inference_deployment
from tests.operator.run.sizings import settled
from tests.operator.run.test_a_new_loop_goes_on_where_the_last_one_ended import REF, process_that_finds

TARGET = ObjectRef("apps/v1", "Deployment", NAMESPACE, "nim")


@pytest.mark.parametrize("lost", ["", "patch_scale"], ids=["answered", "answer lost"])
async def test_a_write_that_the_watch_shows_later_is_no_foreign_one(lost: str) -> None:
    cluster = FakeCluster({TARGET: deployment("nim")})
    loop, parts = process_that_finds({}, cluster, Settings())
    store = parts.store
    decisions = []
    for generation, minimum in enumerate((3, 4, 6), start=1):
        wanted = inference_deployment("rag", scaling={"minReplicas": minimum}, generation=generation)
        cluster.objects[REF] = wanted | {"status": {}}
        store.feed("InferenceDeployment", "MODIFIED", cluster.objects[REF])
        await settled(parts.sizer, store)
        cluster.lose_answer_of = lost
        for _ in range(2):
            decisions += await loop.tick(time.monotonic())
        store.feed("Deployment", "MODIFIED", cluster.objects[TARGET])
    decisions += await loop.tick(time.monotonic())
    parts.sizer.close()

    assert cluster.objects[TARGET]["spec"]["replicas"] == 6
    assert Reason.CONFLICT not in {decision.reason for decision in decisions}
    events = [body["reason"] for ref, body in cluster.objects.items() if ref.kind == "Event"]
    assert "ForeignWrite" not in events
