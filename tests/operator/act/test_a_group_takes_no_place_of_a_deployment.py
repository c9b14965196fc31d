"""A LeaderWorkerSet on a real API server with its real definition: made once, scaled, and never beside a Deployment."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from firsttoken_operator.act.kubernetes import KubernetesCluster, ObjectRef
from firsttoken_operator.act.pods import Rendering
from firsttoken_operator.act.queue import WriteQueue
from firsttoken_operator.act.render import Renderer
from firsttoken_operator.api.inference_deployment import InferenceDeployment
from firsttoken_operator.domain import Reason
from tests.operator.act.objects import NAMESPACE, infd, scale_to
from tests.operator.act.test_a_replica_over_servers_is_a_group import VLLM, key
from tools.cluster import Cluster
from tools.cluster.definitions import LEADER_WORKER_SET, definition_of

pytestmark = pytest.mark.cluster

NUMBERS = itertools.count()
GROUPS, PODS = ("leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet"), ("apps/v1", "Deployment")


@pytest.fixture(scope="module", autouse=True)
def defined(cluster: Cluster) -> None:
    cluster.kubectl("apply", "--server-side", "-f", definition_of(LEADER_WORKER_SET))
    cluster.wait_until_established()


@pytest.fixture
def renderer(api: KubernetesCluster) -> Renderer:
    return Renderer(api, WriteQueue(), spans_servers=True)


async def declared(api: KubernetesCluster) -> dict[str, Any]:
    document = infd(f"group-{next(NUMBERS)}", runtime=VLLM)
    del document["spec"]["targetRef"]
    return await api.create(document)


def rendering(live: dict[str, Any], tensor: int, pipeline: int) -> Rendering:
    resource = InferenceDeployment.model_validate(live)
    return Rendering(resource, key(tensor, pipeline), {}, {}, 15, spans_servers=True)


def ref(live: dict[str, Any], kind: tuple[str, str]) -> ObjectRef:
    return ObjectRef(*kind, NAMESPACE, live["metadata"]["name"])


async def test_its_replicas_are_sent_once_and_stay_as_they_are_scaled(
    api: KubernetesCluster, renderer: Renderer
) -> None:
    live = await declared(api)
    made = await renderer.render(rendering(live, 8, 2), 3)
    assert made is not None
    assert (made.reason, made.created) == (Reason.RENDERED, True), made.message
    assert (await api.read_scale(ref(live, GROUPS))).replicas == 3

    await scale_to(api, ref(live, GROUPS), 5)
    longer = await api.patch(ObjectRef.of(live), {"spec": {"runtime": {"terminationGracePeriodSeconds": 300}}})
    again = await renderer.render(rendering(longer, 8, 2), 3)
    assert again is not None
    assert again.reason is Reason.RENDERED
    template = (await api.read(ref(live, GROUPS)))["spec"]["leaderWorkerTemplate"]
    graces = {template[each]["spec"]["terminationGracePeriodSeconds"] for each in ("leaderTemplate", "workerTemplate")}
    assert graces == {300}
    assert (await api.read_scale(ref(live, GROUPS))).replicas == 5


async def test_a_rollout_of_its_pods_waits_where_it_is_not_released(api: KubernetesCluster, renderer: Renderer) -> None:
    live = await declared(api)
    await renderer.render(rendering(live, 8, 2), 1)
    changed = await api.patch(ObjectRef.of(live), {"spec": {"runtime": {"image": "vllm/vllm-openai:v0.34.0"}}})
    told = await renderer.render(rendering(changed, 8, 2), 1, may_roll=False)

    assert told is not None
    assert told.reason is Reason.ROLLOUT_PENDING
    assert "differs in leaderTemplate.spec.containers[0].image, workerTemplate.spec.containers[0].image" in told.message


@pytest.mark.parametrize(
    ("before", "after", "runs", "words"),
    [
        ((8, 1), (8, 2), PODS, "replicas of 2 servers run as a LeaderWorkerSet"),
        ((8, 2), (8, 1), GROUPS, "replicas of one server run as a Deployment"),
    ],
    ids=["to more servers", "to one server"],
)
async def test_the_other_kind_is_made_when_the_one_that_runs_is_gone(
    cluster: Cluster,
    api: KubernetesCluster,
    renderer: Renderer,
    before: tuple[int, int],
    after: tuple[int, int],
    runs: tuple[str, str],
    words: str,
) -> None:
    live = await declared(api)
    first = rendering(live, *before)
    await renderer.render(first, 2)
    service = await api.read(ObjectRef("v1", "Service", NAMESPACE, live["metadata"]["name"]))
    waits = await renderer.render(rendering(live, *after), 1)
    assert waits is not None
    assert waits.reason is Reason.ROLLOUT_PENDING
    assert (
        f"until the {runs[1]} is deleted, because {words}; to release it: kubectl -n {NAMESPACE} delete"
        in waits.message
    )
    assert (await renderer.states([first]))[first.resource.metadata.uid] == waits.states, (
        "so that it is not asked again"
    )
    assert (await api.read_scale(ref(live, runs))).replicas == 2
    unchanged = await api.read(ObjectRef("v1", "Service", NAMESPACE, live["metadata"]["name"]))
    assert unchanged["spec"] == service["spec"]

    cluster.kubectl("delete", runs[1].lower(), live["metadata"]["name"], "-n", NAMESPACE)
    made = await renderer.render(rendering(live, *after), 1)
    assert made is not None
    assert (made.reason, made.created) == (Reason.RENDERED, True)


async def test_without_the_definition_or_the_right_nothing_is_made(api: KubernetesCluster) -> None:
    live = await declared(api)
    told = await Renderer(api, WriteQueue()).render(rendering(live, 8, 2), 1)

    assert told is not None
    assert (told.reason, told.message) == (
        Reason.WRITE_FAILED, "this cluster has no LeaderWorkerSet; install its controller",
    )  # fmt: skip
