"""Several ticks of a loop: the replicas that it wrote come back from the watch, and are no other writer's."""

from __future__ import annotations

import itertools

import pytest

from firsttoken_operator.act.kubernetes import ObjectRef
from firsttoken_operator.domain import Reason
from firsttoken_operator.observe.store import Store
from tests.operator.act.fake_cluster import FakeCluster
from tests.operator.observe.bodies import NAMESPACE, deployment, inference_deployment
from tests.operator.run.looped import looped
from tests.operator.run.sizings import settled

RESOURCE = ObjectRef("firsttoken.dev/v1alpha1", "InferenceDeployment", NAMESPACE, "rag")
TARGET = ObjectRef("apps/v1", "Deployment", NAMESPACE, "nim")


@pytest.mark.parametrize("ticks", [1, 2])
@pytest.mark.parametrize("lost", ["", "patch_scale"], ids=["answered", "answer lost"])
async def test_a_write_that_the_watch_shows_later_is_no_foreign_one(lost: str, ticks: int) -> None:
    cluster, store, seconds = FakeCluster({TARGET: deployment("nim")}), Store(), itertools.count(0, 15)
    now = 0.0
    loop, parts = looped(cluster, store, clock=lambda: now)
    decisions = []
    for generation, minimum in enumerate((3, 4, 6), start=1):
        cluster.objects[RESOURCE] = inference_deployment(
            "rag", scaling={"minReplicas": minimum}, generation=generation
        ) | {"status": {}}
        store.feed("InferenceDeployment", "MODIFIED", cluster.objects[RESOURCE])
        await settled(parts.sizer, store)
        cluster.lose_answer_of = lost
        for _ in range(ticks):
            now = float(next(seconds))
            decisions += await loop.tick(now)
        store.feed("Deployment", "MODIFIED", cluster.objects[TARGET])
    now = float(next(seconds))
    decisions += await loop.tick(now)
    parts.sizer.close()

    assert cluster.objects[TARGET]["spec"]["replicas"] == 6
    assert Reason.CONFLICT not in {decision.reason for decision in decisions}
    events = [body["reason"] for ref, body in cluster.objects.items() if ref.kind == "Event"]
    assert "ForeignWrite" not in events
