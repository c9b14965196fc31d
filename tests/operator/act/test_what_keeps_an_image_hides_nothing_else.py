"""Failures of what keeps an image: the server is made all the same, its GPUs are told, and a rollout waits as said."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from firsttoken_operator.act.errors import ClusterError, Conflict, Rejected, Throttled, Unavailable, Withheld
from firsttoken_operator.act.kubernetes import ObjectRef
from firsttoken_operator.act.pods import Rendering
from firsttoken_operator.act.prepull import KEEPER
from firsttoken_operator.act.queue import WriteQueue
from firsttoken_operator.act.render import Renderer, RenderResult
from firsttoken_operator.api.base import API_VERSION
from firsttoken_operator.domain import Reason
from tests.operator.act.fake_cluster import FakeCluster
from tests.operator.act.test_an_image_is_kept_by_pods_that_do_nothing import kept

DEPLOYMENT = ObjectRef("apps/v1", "Deployment", "default", "chat")
DAEMON_SET = ObjectRef(*KEEPER, "default", "chat")


class Applying(FakeCluster):
    """A cluster that stores what is applied; what comes to a DaemonSet is `failures`, one after the other, or hangs."""

    def __init__(self, *failures: ClusterError, hangs: bool = False) -> None:
        resource = {"metadata": {"uid": "r-1", "generation": 1}, "spec": {}}
        super().__init__({ObjectRef(API_VERSION, "InferenceDeployment", "default", "chat"): resource})
        self.failures, self.hangs = list(failures), hangs

    async def apply(self, manifest: dict[str, Any], *, dry_run: bool = False) -> dict[str, Any]:
        ref = ObjectRef.of(manifest)
        await self._begin("apply", ref)
        if ref == DAEMON_SET and self.hangs:
            await asyncio.Event().wait()
        if ref == DAEMON_SET and self.failures:
            raise self.failures.pop(0)
        made = manifest | {"metadata": manifest["metadata"] | {"uid": f"uid-{ref.kind}", "resourceVersion": "1"}}
        if not dry_run:
            self.objects[ref] = made
        return made

    async def delete(self, ref: ObjectRef, *, uid: str) -> None:
        if self.failures:
            raise self.failures.pop(0)
        del self.objects[ref]


def rendered_by(cluster: Applying, **options: Any) -> Renderer:
    return Renderer(cluster, WriteQueue(**options), pre_pulls=True)  # type: ignore[arg-type]


async def told(renderer: Renderer, made: Rendering, **options: Any) -> RenderResult:
    result = await renderer.render(made, 3, **options)
    assert result is not None
    return result


@pytest.mark.parametrize(
    ("failure", "reason"),
    [
        (Rejected("403", 403), Reason.WRITE_DENIED),
        (Conflict("409"), Reason.WRITE_CONFLICT),
        (Unavailable("503"), Reason.WRITE_FAILED),
        (Withheld("stopped"), Reason.WRITE_FAILED),
    ],
)
async def test_the_server_that_was_made_is_told_whatever_fails_then(failure: ClusterError, reason: Reason) -> None:
    cluster = Applying(failure)
    result = await told(rendered_by(cluster), kept())

    assert (result.reason, result.created) == (reason, True)
    assert DEPLOYMENT in cluster.objects


async def test_it_is_told_when_the_time_is_over() -> None:
    result = await told(rendered_by(Applying(hangs=True), deadline_seconds=2.0), kept())

    assert (result.reason, result.created) == (Reason.WRITE_FAILED, True)


async def test_it_is_told_when_all_is_tried_again_after_a_silence() -> None:
    result = await told(rendered_by(Applying(Throttled("429", 0.01))), kept())

    assert (result.reason, result.created) == (Reason.RENDERED, True)


@pytest.mark.parametrize(
    "failure", [Rejected("no DaemonSets", 403), Conflict("no DaemonSets"), Unavailable("no DaemonSets")]
)
async def test_a_rollout_that_waits_is_told_with_the_failure_until_it_is_released(failure: ClusterError) -> None:
    cluster = Applying()
    renderer = rendered_by(cluster)
    await told(renderer, kept())
    changed = kept({"image": "nvcr.io/nim/meta/llama3-8b-instruct:1.0.4"})
    cluster.failures = [failure]
    waits = [await told(renderer, changed, may_roll=False) for _ in range(2)]
    released = await told(renderer, changed)

    for each in waits:
        assert (each.reason, each.created) == (Reason.ROLLOUT_PENDING, False)
        assert "to release it: kubectl" in each.message
        assert each.message.endswith("no DaemonSets")
        assert DAEMON_SET not in each.states, "it is due again"
    assert released.reason is Reason.RENDERED, "the release is not put off"


async def test_a_rollout_that_waits_is_told_where_the_old_image_may_not_be_let_go() -> None:
    cluster = Applying()
    renderer = rendered_by(cluster)
    await told(renderer, kept())
    cluster.failures = [Rejected("no deletion", 403)]
    waits = await told(renderer, kept({"image": "nim:2", "prePull": False}), may_roll=False)

    assert waits.reason is Reason.ROLLOUT_PENDING
    assert waits.message.endswith("no deletion")


async def test_where_its_name_is_taken_the_server_is_made_all_the_same() -> None:
    cluster = Applying()
    cluster.objects[DAEMON_SET] = foreign = {"metadata": {"uid": "foreign", "resourceVersion": "1"}}
    result = await told(rendered_by(cluster), kept())

    assert (result.reason, result.created) == (Reason.WRITE_DENIED, True)
    assert result.message == "DaemonSet chat exists and is not ours; rename this resource"
    assert DEPLOYMENT in cluster.objects
    assert cluster.objects[DAEMON_SET] is foreign
