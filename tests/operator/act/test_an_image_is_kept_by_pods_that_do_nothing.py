"""Pods that keep an image on nodes: without a GPU, a label of replicas or anything to do, on nodes of the GPU alone."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from firsttoken_operator.act.manifests import RESOURCE_LABEL, image_keeper, images_of, manifests
from firsttoken_operator.act.pods import Rendering
from firsttoken_operator.act.prepull import keeping_also
from firsttoken_sizing.errors import InvalidInput
from tests.operator.act.test_a_rendered_pod_is_restricted import rendering
from tests.operator.act.test_a_replica_over_servers_is_a_group import group

PRODUCT = "NVIDIA-H100-80GB-HBM3"
BY_PRODUCT = ("nvidia.com/gpu.product", [PRODUCT])


def kept(runtime: dict[str, Any] | None = None, **options: Any) -> Rendering:
    made = rendering({"prePull": True} | (runtime or {}))
    return replace(made, **({"pre_pulls": True, "gpu_products": (PRODUCT,), "node_selector": {}} | options))


def pod(made: Rendering) -> dict[str, Any]:
    found: dict[str, Any] = image_keeper(made)["spec"]["template"]["spec"]
    return found


def places(made: Rendering) -> list[tuple[str, list[str]]]:
    affinity = pod(made)["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    (term,) = affinity["nodeSelectorTerms"]
    assert {each["operator"] for each in term["matchExpressions"]} == {"In"}
    return [(each["key"], each["values"]) for each in term["matchExpressions"]]


def test_without_being_asked_for_there_is_none() -> None:
    kinds = [each["kind"] for each in manifests(replace(kept(), resource=rendering().resource))]

    assert "DaemonSet" not in kinds
    assert [each["kind"] for each in manifests(kept())] == ["DaemonSet", *kinds]


def test_its_pods_run_the_image_and_nothing_of_the_server() -> None:
    made = kept({"authSecret": {"name": "ngc"}, "imagePullSecrets": ["registry"], "runtimeClassName": "nvidia"})
    spec, container = pod(made), pod(made)["containers"][0]

    assert (container["image"], container["command"]) == (made.runtime.image, ["sleep", "infinity"])
    assert container["env"] == [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "void"}], "the image asks for all GPUs"
    assert set(container["resources"]["limits"]) == {"cpu", "memory"}
    assert {"ports", "volumeMounts", "lifecycle", "livenessProbe", "args"}.isdisjoint(container)
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}, "readOnlyRootFilesystem": True,
    }  # fmt: skip
    assert spec["securityContext"]["runAsNonRoot"] is True
    assert spec["automountServiceAccountToken"] is False
    assert spec["imagePullSecrets"] == [{"name": "registry"}]
    assert {"volumes", "runtimeClassName", "nodeSelector"}.isdisjoint(spec)


def test_no_service_monitor_or_budget_takes_it_for_a_replica() -> None:
    keeper, service, budget, monitor, workload = manifests(kept())
    labels = keeper["spec"]["template"]["metadata"]["labels"]

    assert labels == keeper["spec"]["selector"]["matchLabels"]
    for selector in (
        service["spec"]["selector"],
        *(each["spec"]["selector"]["matchLabels"] for each in (budget, monitor, workload)),
    ):
        assert RESOURCE_LABEL in selector
        assert not selector.items() <= labels.items()


@pytest.mark.parametrize(
    ("options", "named"),
    [
        pytest.param({}, [BY_PRODUCT], id="by the GPU's label"),
        pytest.param({"pool_selector": {"pool": "a"}}, [("pool", ["a"])], id="by the pool"),
        pytest.param(
            {"pool_selector": {"pool": "a"}, "node_selector": {"pool": "a"}}, [("pool", ["a"])], id="once"
        ),
        pytest.param(
            {"pool_selector": {"pool": "a"}, "node_selector": {"rack": "7"}},
            [("pool", ["a"]), ("rack", ["7"])],
            id="narrower than the pool",
        ),
        pytest.param(
            {"pool_selector": {"pool": "a"}, "node_selector": {"pool": "b"}},
            [("pool", ["a"]), ("pool", ["b"])],
            id="nowhere outside of the pool",
        ),
        pytest.param(
            {"node_selector": {"kubernetes.io/os": "linux"}},
            [BY_PRODUCT, ("kubernetes.io/os", ["linux"])],
            id="never by the resource alone",
        ),
    ],
)  # fmt: skip
def test_it_is_on_nodes_of_the_gpu_which_a_resource_can_only_narrow(
    options: dict[str, Any], named: list[tuple[str, list[str]]]
) -> None:
    assert places(kept(**options)) == named


def test_its_pods_tolerate_what_those_of_the_server_do() -> None:
    made = kept({"tolerations": [{"key": "team", "operator": "Exists", "effect": "NoSchedule"}]})
    workload = manifests(made)[-1]

    assert pod(made)["tolerations"] == workload["spec"]["template"]["spec"]["tolerations"]


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"pre_pulls": False}, "images may not be kept on nodes here; have the administrator set render.prePull"),
        ({"gpu_products": ()}, "nothing tells nodes with H100-SXM-80GB from others; give its GPUPool a nodeSelector"),
    ],
)
def test_what_cannot_be_kept_is_refused_in_one_sentence(options: dict[str, Any], why: str) -> None:
    with pytest.raises(InvalidInput, match=why) as refused:
        manifests(kept(**options))
    assert refused.value.field == "runtime.prePull"


def test_images_that_run_on_are_kept_beside_the_new_one_once() -> None:
    keeper, running = image_keeper(kept()), "nvcr.io/nim/meta/llama3-8b-instruct:1.0.2"
    both = keeping_also(keeper, [running, running])
    containers = both["spec"]["template"]["spec"]["containers"]

    assert [each["image"] for each in containers] == [kept().runtime.image, running]
    assert containers[1] == containers[0] | {"name": "image-2", "image": running}
    assert keeping_also(keeper, [kept().runtime.image]) == keeper


def test_the_images_of_a_group_are_those_of_its_leader_and_its_workers() -> None:
    made = group()
    workload = manifests(made)[-1]
    sidecar = {"name": "proxy", "image": "proxy:1"}
    workload["spec"]["leaderWorkerTemplate"]["leaderTemplate"]["spec"]["containers"].append(sidecar)

    assert images_of(workload, made.container.name) == [made.runtime.image] * 2
