"""Preconditions that scale and status writes rely on, as the real API server keeps them."""

from __future__ import annotations

import pytest

from firsttoken_operator.act import objects
from firsttoken_operator.act.errors import Conflict, NotFound, Rejected, Unavailable, Withheld
from firsttoken_operator.act.kubernetes import KubernetesCluster, ObjectRef
from firsttoken_operator.act.queue import WriteQueue
from firsttoken_operator.act.scale import ScaleWriter, Write
from tests.operator.act.objects import NAMESPACE, decision, infd, scale_to, seen, workload
from tools.cluster import Cluster

pytestmark = pytest.mark.cluster


async def test_a_stale_resource_version_or_another_uid_is_a_conflict(api: KubernetesCluster) -> None:
    ref = ObjectRef.of(await api.create(workload(2, "stale")))
    old = await api.read_scale(ref)
    assert (await scale_to(api, ref, 3)).replicas == 3

    with pytest.raises(Conflict):
        await api.patch_scale(ref, 4, uid=old.uid, resource_version=old.resource_version)
    with pytest.raises(Conflict):
        await api.patch_scale(ref, 4, uid="another", resource_version=(await api.read_scale(ref)).resource_version)
    assert (await api.read_scale(ref)).replicas == 3


async def test_an_object_that_took_the_place_of_the_one_that_was_read_is_not_rendered_over(
    api: KubernetesCluster,
) -> None:
    manifest = workload(2, "replaced")
    live = await api.apply(manifest)
    ref, uid = ObjectRef.of(live), live["metadata"]["uid"]
    another = {"metadata": manifest["metadata"] | {"uid": "another"}, "spec": manifest["spec"] | {"replicas": 7}}

    with pytest.raises(Rejected):
        await api.apply(manifest | another)
    with pytest.raises(Conflict):
        await api.apply(manifest | another | {"metadata": another["metadata"] | {"name": "gone"}})
    with pytest.raises(Conflict):
        await api.hold_replicas(ref, 7, uid="another")
    assert (await api.read_scale(ref)).replicas == 2
    await api.hold_replicas(ref, 2, uid=uid)
    await api.apply(manifest | {"metadata": manifest["metadata"] | {"uid": uid}})


async def test_a_write_is_refused_here_where_another_operator_may_lead_and_ends_before_it_does(
    api: KubernetesCluster,
) -> None:
    left = [0.0]
    guarded = KubernetesCluster(api._client, write_seconds=lambda: left[0])
    ref = ObjectRef.of(await api.create(workload(2, "guarded")))
    now = await guarded.read_scale(ref)

    for write in (
        guarded.patch_scale(ref, 5, uid=now.uid, resource_version=now.resource_version),
        guarded.replace_status(ref, {}, uid=now.uid), guarded.apply(workload(5, "guarded")),
        guarded.hold_replicas(ref, 5, uid=now.uid), guarded.create(workload(5, "unmade")), guarded.patch(ref, {}),
    ):  # fmt: skip
        with pytest.raises(Withheld):
            await write
    left[0] = 0.0001
    with pytest.raises(Unavailable):
        await guarded.patch(ref, {"metadata": {"labels": {"late": "yes"}}})
    assert (await guarded.read_scale(ref)).replicas == 2
    left[0] = 5.0
    assert (await guarded.patch(ref, {"metadata": {"labels": {"in": "time"}}}))["metadata"]["labels"]["in"] == "time"


async def test_zero_replicas_read_as_zero(api: KubernetesCluster) -> None:
    ref = ObjectRef.of(await api.create(workload(0, "zero")))

    assert (await api.read_scale(ref)).replicas == 0


async def test_a_foreign_write_between_read_and_patch_survives(cluster: Cluster, api: KubernetesCluster) -> None:
    live_resource = await api.create(infd("foreign", targetRef={"name": "foreign"}))
    live_target = await api.create(workload(2, "foreign"))
    snapshot = seen(live_resource, live_target)

    class Rival(KubernetesCluster):
        """Scales by hand after the operator has read and before it writes."""

        async def patch_scale(self, *args: object, **kwargs: object) -> object:  # type: ignore[override]
            cluster.kubectl("scale", "deployment/foreign", "--replicas=1")
            return await super().patch_scale(*args, **kwargs)  # type: ignore[arg-type]

    result = await ScaleWriter(Rival(api._client), WriteQueue()).execute(decision(snapshot, 2, 5), snapshot)

    assert result.write is Write.REDECIDE
    assert (await api.read_scale(ObjectRef.of(live_target))).replicas == 1


async def test_a_decision_is_written_through_the_scale_subresource(api: KubernetesCluster) -> None:
    live_resource = await api.create(infd("scaled", targetRef={"name": "scaled"}))
    live_target = await api.create(workload(2, "scaled"))
    snapshot = seen(live_resource, live_target)
    result = await ScaleWriter(api, WriteQueue()).execute(decision(snapshot, 2, 4), snapshot)
    fields = (await api.read(ObjectRef.of(live_target)))["metadata"]["managedFields"]
    ours = [entry for entry in fields if entry["manager"] == "firsttoken-scale"]

    assert (result.write, result.replicas) == (Write.DONE, 4)
    assert [(e["subresource"], e["fieldsV1"]) for e in ours] == [("scale", {"f:spec": {"f:replicas": {}}})]


async def test_a_resource_that_was_recreated_does_not_get_the_old_status(api: KubernetesCluster) -> None:
    live = await api.create(infd("recreated"))
    ref = ObjectRef.of(live)
    written = await api.replace_status(ref, {"replicas": 3}, uid=live["metadata"]["uid"])
    assert written["status"]["replicas"] == 3

    with pytest.raises(Rejected) as refused:
        await api.replace_status(ref, {"replicas": 9}, uid="the uid of the one before")
    assert refused.value.status == 422
    assert (await api.read(ref))["status"]["replicas"] == 3


async def test_a_status_outside_the_schema_is_rejected(api: KubernetesCluster) -> None:
    live = await api.create(infd("bad-status"))
    with pytest.raises(Rejected):
        await api.replace_status(ObjectRef.of(live), {"replicas": "many"}, uid=live["metadata"]["uid"])


async def test_errors_come_as_their_kind(api: KubernetesCluster) -> None:
    await api.create(workload(1, "twice"))
    with pytest.raises(Conflict):
        await api.create(workload(1, "twice"))
    with pytest.raises(NotFound):
        await api.read(ObjectRef("apps/v1", "Deployment", NAMESPACE, "nowhere"))
    with pytest.raises(Rejected):
        await api.create(infd("bad", hardware={"gpus": []}))


async def test_a_server_that_does_not_answer_is_unavailable(api: KubernetesCluster) -> None:
    impatient = KubernetesCluster(api._client, timeout_seconds=0.0001)
    with pytest.raises(Unavailable):
        await impatient.read(ObjectRef("apps/v1", "Deployment", NAMESPACE, "any"))


async def test_kinds_are_discovered(api: KubernetesCluster) -> None:
    assert await api.serves("v1", "Pod")
    assert await api.serves("apps/v1", "Deployment")
    assert await api.serves("firsttoken.dev/v1alpha1", "GPUPool")
    assert not await api.serves("monitoring.coreos.com/v1", "PodMonitor")


async def test_uids_are_listed_in_pages(api: KubernetesCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(objects, "PAGE", 1)
    listed = await api.uids("/apis/firsttoken.dev/v1alpha1/inferencedeployments", "")
    named = [ObjectRef("firsttoken.dev/v1alpha1", "InferenceDeployment", NAMESPACE, n) for n in ("scaled", "recreated")]

    assert {(await api.read(ref))["metadata"]["uid"] for ref in named} <= listed
